"""Does to a real store what a step says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw_ctx.contract import Message, Replacement, message_from_wire
from openclaw_ctx.transcript import FileStore, Transcript, rewrite

from .model import Said, Sheet, Step, World
from .on_disk import Found, as_wire, read_file

__all__ = ["Player", "from_lists", "message_of"]

_STAMP = "2025-11-20T23:34:00.000Z"


class Player:
    """
    A store, and the session of it that is open for writing.

    Which line a step means it looks up in the file, by place; the store is asked
    for nothing that the model is compared with.
    """

    def __init__(self, folder: Path, world: World) -> None:
        self.folder = folder
        self.world = world
        self.store = FileStore(folder)
        self.transcript: Transcript | None = None

    def perform(self, step: Step) -> Mapping[str, Any]:
        """Do it; return what the model cannot know of its outcome."""
        done: Mapping[str, Any] | None = getattr(self, f"_{step.kind}")(step)
        return done or {}

    def close(self) -> None:
        """Close the session that is open."""
        if self.transcript is not None:
            transcript, self.transcript = self.transcript, None
            transcript.close()

    def _open(self, step: Step) -> Mapping[str, Any]:
        self.close()
        self.transcript = self.store.open(step.key)
        return {"file": self.transcript.path.name}

    def _close(self, step: Step) -> None:
        self.close()

    def _append(self, step: Step) -> None:
        self._current.append(message_of(step.line))

    def _label(self, step: Step) -> None:
        self._current.append_label(self._ids()[step.line.names], step.line.token)

    def _state(self, step: Step) -> None:
        if step.line.type == "session_info":
            self._current.append_session_info(name=step.line.token)
        else:
            self._current.append_custom("state", {"mark": step.line.token})

    def _note(self, step: Step) -> None:
        self._current.set_note(step.word.encode())

    def _tokens(self, step: Step) -> None:
        self.store.note_tokens(step.key, step.number)

    def _compaction(self, step: Step) -> None:
        kept = None if step.line.names is None else self._ids()[step.line.names]
        self._current.append_compaction(
            summary=step.line.token, first_kept_entry_id=kept, tokens_before=step.line.chars
        )

    def _rewrite(self, step: Step) -> None:
        ids = self._ids()
        replacements = [Replacement(entry_id=ids[at], message=message_of(line)) for at, line in step.replaced.items()]
        result = rewrite(self._current, replacements)
        assert result.changed, result
        assert result.rewritten_entries == len(replacements), result

    def _branch(self, step: Step) -> None:
        self._current.branch(None if step.at is None else self._ids()[step.at])

    def _rotate(self, step: Step) -> Mapping[str, Any]:
        rotation = self.store.rotate(self._current)
        assert rotation.rotated, rotation
        return {**self._made(self._current.path), "file": self._current.path.name}

    def _fork(self, step: Step) -> Mapping[str, Any]:
        path = next(info.path for info in self.store.sessions() if info.key == step.key)
        at = read_file(path).ids[step.at] if step.word else None
        return self._made(self.store.fork(step.key, step.new_key, at=at).path)

    def _create(self, step: Step) -> None:
        ids = [f"{number:08x}" for number in range(len(step.lines))]
        lines = [
            {"type": line.type, "id": own, "parentId": before, "timestamp": _STAMP, **as_wire(line, ids=ids)}
            for line, own, before in zip(step.lines, ids, [None, *ids], strict=False)
        ]
        self.store.create(step.new_key, lines)

    def _archive(self, step: Step) -> None:
        if self.world.opened == step.key:
            self.close()
        self.store.archive(step.key, step.word)

    def _restore(self, step: Step) -> None:
        name = _archives_by_place(self.store, self.world)[step.archive]
        self.store.restore(name, key=None if step.new_key == step.key else step.new_key)

    def _remove(self, step: Step) -> None:
        self.store.remove(_archives_by_place(self.store, self.world)[step.archive])

    @property
    def _current(self) -> Transcript:
        assert self.transcript is not None
        return self.transcript

    def _ids(self) -> list[str]:
        return read_file(self._current.path).ids

    @staticmethod
    def _made(path: Path) -> Mapping[str, Any]:
        return {"made": as_lists(read_file(path))}


def _archives_by_place(store: FileStore, world: World) -> list[str]:
    """Return the name of each archive of the model, by what is in the file."""
    left = [(archive, read_file(store.folder / archive.name).sheet.lines) for archive in store.archives()]
    names = []
    for archived in world.archived:
        wanted = (archived.key, archived.reason, archived.sheet.lines)
        place = next(n for n, (archive, lines) in enumerate(left) if (archive.key, archive.reason, lines) == wanted)
        names.append(left.pop(place)[0].name)
    return names


def message_of(line: Said) -> Message:
    """Return a message as a program would make it."""
    wire = as_wire(line, ids=[])
    return message_from_wire(wire["message"] if line.type == "message" else {"role": "custom", **wire})


def as_lists(found: Found) -> list[list[Any]]:
    """Return the lines of a transcript as JSON has them."""
    return [[line.type, line.token, line.role, line.chars, line.parent, line.names] for line in found.sheet.lines]


def from_lists(lists: list[list[Any]]) -> Sheet:
    """Return what :func:`as_lists` was given."""
    sheet = Sheet([Said(*fields) for fields in lists])
    sheet.reopen()
    return sheet

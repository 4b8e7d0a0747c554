"""What a folder of sessions holds, as a fresh store shows it and as its files say."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import attrs

from openclaw_ctx.contract import Message
from openclaw_ctx.transcript import FileStore

from .model import Said, text_of
from .on_disk import Found, read_file, token_of

__all__ = ["Seen", "SeenArchive", "SeenSession", "look"]


@attrs.frozen(kw_only=True)
class SeenSession:
    """
    A session.

    Attributes:
        lines: The tokens of all entries, in order.
        record: Of the messages of the active branch.
        context: Of those that a model sees.
        altered: Of those that say something else than they should.
    """

    path: Path
    lines: list[str]
    record: list[str]
    context: list[str]
    altered: list[str]
    note: str | None
    messages: int
    compactions: int
    tokens: int | None

    def file(self, *, as_is: bool = False) -> Found:
        """Read its file; see :func:`~.on_disk.read_file`."""
        return read_file(self.path, as_is=as_is)


@attrs.frozen(kw_only=True)
class SeenArchive:
    """What was put aside."""

    name: str
    key: str
    reason: str
    lines: list[Said]


@attrs.frozen(kw_only=True)
class Seen:
    """
    All that there is.

    Attributes:
        strays: Transcripts that the store lists nowhere: those that a rotation left, and what a kill left.
        leftovers: How many files there are of each kind that nobody needs any more.
        problems: What could not be read.
    """

    live: dict[str, SeenSession]
    archived: list[SeenArchive]
    strays: list[list[Said]]
    leftovers: Counter[str]
    problems: list[str]


def look(folder: Path) -> Seen:
    """Return what is in the folder; nothing is changed by it."""
    store = FileStore(folder)
    problems: list[str] = []
    live: dict[str, SeenSession] = {}
    for info in store.sessions():
        transcript = store.read(info.key)
        try:
            note, record, context = transcript.note(), list(transcript.record()), list(transcript.history)
            live[info.key] = SeenSession(
                path=transcript.path,
                lines=[token_of(data) for _, data in transcript.entries()],
                record=_tokens(record),
                context=_tokens(context),
                altered=[token for token, message in zip(_tokens(record), record, strict=True) if _is_altered(message)],
                note=None if note is None else note.decode(),
                messages=info.messages,
                compactions=info.compactions,
                tokens=info.context_tokens,
            )
        finally:
            transcript.close()
    archived = []
    for archive in store.archives():
        found = read_file(folder / archive.name)
        problems += [f"archive {archive.name}: {problem}" for problem in found.problems]
        archived.append(SeenArchive(name=archive.name, key=archive.key, reason=archive.reason, lines=found.sheet.lines))
    store.close()
    known = {session.path.name for session in live.values()} | {archive.name for archive in archived}
    others = [path for path in sorted(folder.iterdir()) if path.name not in known] if folder.is_dir() else []
    strays = [read_file(path).sheet.lines for path in others if path.name.endswith(".jsonl")]
    return Seen(live=live, archived=archived, strays=strays, leftovers=_leftovers(others), problems=problems)


def _leftovers(paths: Iterable[Path]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in paths:
        if path.name.endswith(".tmp"):
            counts["tmp"] += 1
        elif ".torn-" in path.name:
            counts["torn"] += 1
        elif ".corrupt-" in path.name:
            counts["corrupt"] += 1
        elif path.name.endswith(".jsonl") and not path.stat().st_size:
            counts["empty"] += 1
    return counts


def _tokens(messages: Iterable[Message]) -> list[str]:
    return [_token(message) for message in messages]


def _token(message: Message) -> str:
    summary = getattr(message, "summary", None)
    if isinstance(summary, str):
        return summary
    return token_of(message.extra) or token_of({"details": getattr(message, "details", None)})


def _is_altered(message: Message) -> bool:
    return message.text != text_of(_token(message), len(message.text))

"""
What a store of sessions should hold, in plain lists.

Nothing here comes from the package under test: a transcript is a list of lines,
each with the place of its parent, and what a line says is known by its *token*.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

__all__ = ["ANSWERS", "Archived", "Retired", "Said", "Sheet", "Step", "World", "text_of"]

ANSWERS: Final = "~"
"""In the token of a tool's result, before the token of the reply that asked for it."""

_MESSAGES: Final = frozenset({"message", "custom_message"})
# Separators that Python's splitlines splits at and JSONL does not, what JSON escapes, and wide characters.
_FILLER: Final = (
    "said \u2028 and \u2029 then\x85, \x0b\x0c\x1c\x1d\x1e \r\n\t 'so' \\ é 漢字 \U0001f600 \x00 " + '{"type":"x"}\n'
)
_LONG: Final = _FILLER * 64


@attrs.frozen
class Said:
    """
    A line of a transcript.

    Attributes:
        type: As on disk.
        token: What it says; no two lines are given the same, but a rewrite writes a line again.
        role: Of a message.
        chars: How long a message's text is.
        parent: Where in the list its parent stands.
        names: Where the line stands that a label is for, or that a compaction keeps first; ``None``: it keeps none.
    """

    type: str
    token: str
    role: str = ""
    chars: int = 0
    parent: int | None = None
    names: int | None = None

    @property
    def is_message(self) -> bool:
        """Whether it is part of the record."""
        return self.type in _MESSAGES


@attrs.define
class Sheet:
    """
    One transcript.

    Attributes:
        lines: In the order of the file.
        leaf: Where the next line goes on; a reopening moves it to the last line.
        note: What is kept beside it; ``None``: nothing that is sure to be there.
        tokens: What the last prompt cost, where that was said.
        perhaps: The same, where nobody knows whether it was kept before the writer was gone.
    """

    lines: list[Said] = attrs.field(factory=list)
    leaf: int | None = None
    note: str | None = None
    tokens: int | None = None
    perhaps: int | None = None

    def add(self, line: Said) -> None:
        """Write a line behind the leaf."""
        self.lines.append(attrs.evolve(line, parent=self.leaf))
        self.leaf = len(self.lines) - 1

    def rewrite(self, replaced: dict[int, Said]) -> None:
        """Write the active branch again from the first of these lines on, with what is replaced."""
        path = self.path()
        first = min(path.index(at) for at in replaced)
        moved: dict[int | None, int] = {}
        self.leaf = path[first - 1] if first else None
        for at in path[first:]:
            line = replaced.get(at, self.lines[at])
            self.add(attrs.evolve(line, names=moved.get(line.names, line.names)))
            moved[at] = len(self.lines) - 1

    def reopen(self) -> None:
        """Forget what only the memory knew."""
        self.leaf = len(self.lines) - 1 if self.lines else None

    def path(self) -> list[int]:
        """Return the places of the active branch, root first."""
        return list(self._up())[::-1]

    def record(self) -> list[Said]:
        """Return the messages of the active branch."""
        return [self.lines[at] for at in self.path() if self.lines[at].is_message]

    def context(self) -> list[Said]:
        """Return what a model sees: the last compaction, what it kept, and what follows it."""
        path = self.path()
        boundary = next((at for at in reversed(path) if self.lines[at].type == "compaction"), None)
        if boundary is None:
            return self.record()
        names, at = self.lines[boundary].names, path.index(boundary)
        kept = path[path.index(names) : at] if names in path[:at] else []
        seen = [self.lines[at] for at in (*kept, *path[at + 1 :])]
        return [self.lines[boundary], *(line for line in seen if line.is_message)]

    def compactions(self) -> int:
        """Return how many compactions the active branch has."""
        return sum(self.lines[at].type == "compaction" for at in self.path())

    def of_branch(self, end: int) -> "Sheet":
        """Return the branch that ends there as a transcript of its own."""
        path = Sheet(lines=self.lines, leaf=end).path()
        places: dict[int | None, int | None] = {at: place for place, at in enumerate(path)}
        fork = Sheet()
        for at in path:
            line = self.lines[at]
            fork.add(attrs.evolve(line, names=places.get(line.names)))
        return fork

    def _up(self) -> Iterator[int]:
        at = self.leaf
        while at is not None:
            yield at
            at = self.lines[at].parent


@attrs.define
class Archived:
    """A transcript that was put aside."""

    key: str
    reason: str
    sheet: Sheet


@attrs.define
class Retired:
    """A transcript that a rotation left behind; it goes where its successor goes, or stays."""

    key: str
    sheet: Sheet


@attrs.frozen(kw_only=True)
class Step:
    """
    One thing to be done to a store, with all that is needed to do it.

    Attributes:
        kind: What.
        key: To which session.
        new_key: Under which key its outcome goes.
        line: What is appended.
        at: Which line of the transcript it is about.
        replaced: The lines that a rewrite replaces, and what shall stand there.
        lines: Of a session that is made of ready lines.
        archive: Which of the archives, by its place among those that there are.
        word: A reason, a note.
        number: A count of tokens.
    """

    kind: str
    key: str
    new_key: str = ""
    line: Said | None = None
    at: int | None = None
    replaced: Mapping[int, Said] = attrs.field(factory=dict)
    lines: Sequence[Said] = ()
    archive: int = 0
    word: str = ""
    number: int = 0

    def __str__(self) -> str:
        facts = attrs.asdict(self, filter=lambda field, value: field.name != "kind" and value != field.default)
        return f"{self.kind} " + ", ".join(f"{name}={value!r}" for name, value in facts.items() if value)


@attrs.define
class World:
    """
    All that a store holds.

    Attributes:
        live: Sessions by key.
        archived: In the order in which they were put aside.
        retired: Transcripts that a rotation left behind.
        opened: The key of the session that is open for writing.
        file: The name of its file.
        pending: Counts of tokens that are kept at the next closing.
        last: The key of the session that was open last.
        steps: How many were done.
        is_moved: Whether a move was cut off, whose rest is in the index alone.
    """

    live: dict[str, Sheet] = attrs.field(factory=dict)
    archived: list[Archived] = attrs.field(factory=list)
    retired: list[Retired] = attrs.field(factory=list)
    opened: str | None = None
    file: str = ""
    pending: dict[str, int] = attrs.field(factory=dict)
    last: str | None = None
    steps: int = 0
    is_moved: bool = False

    @property
    def sheet(self) -> Sheet:
        """The transcript that is open for writing."""
        assert self.opened is not None
        return self.live[self.opened]

    def close(self) -> None:
        """Close what is open."""
        if self.opened in self.pending:
            self.sheet.tokens = self.pending.pop(self.opened)
        self.fall()

    def fall(self) -> None:
        """Lose what only the memory of the writer knew."""
        if self.opened is not None:
            self.sheet.reopen()
            self.sheet.perhaps = self.pending.pop(self.opened, self.sheet.perhaps)
            self.last, self.opened = self.opened, None

    def take(self, step: Step, made: Sheet | None = None) -> None:  # noqa: C901, PLR0912 -- a case a kind
        """
        Do to the lists what the step does to a store.

        Args:
            step: What was done.
            made: What a rotation or a fork has written: looked at, not foretold; see :func:`~.successor.goes_on`.
        """
        self.steps += 1
        match step.kind:
            case "open":
                self.close()
                self.live.setdefault(step.key, Sheet()).reopen()
                self.opened = step.key
            case "close":
                self.close()
            case "append" | "label" | "state" | "compaction":
                assert step.line is not None
                self.sheet.add(step.line)
            case "rewrite":
                self.sheet.rewrite(step.replaced)
            case "branch":
                self.sheet.leaf = step.at
            case "note":
                self.sheet.note = step.word
            case "tokens":
                self.pending[step.key] = step.number
            case "rotate":
                old = self.sheet
                made = made or old.of_branch(len(old.lines) - 1 if old.leaf is None else old.leaf)
                made.note, made.tokens, made.perhaps = old.note, old.tokens, old.perhaps
                old.reopen()
                self.retired.append(Retired(step.key, old))
                self.live[step.key] = made
            case "fork":
                assert step.at is not None
                self.live[step.new_key] = made or self.live[step.key].of_branch(step.at)
            case "create":
                ready = self.live[step.new_key] = Sheet()
                for line in step.lines:
                    ready.add(line)
            case "archive":
                if self.opened == step.key:
                    self.close()
                gone = self.live.pop(step.key)
                gone.note = gone.tokens = gone.perhaps = None
                self.archived.append(Archived(step.key, step.word, gone))
            case "restore":
                self.live[step.new_key] = self.archived.pop(step.archive).sheet
            case "remove":
                del self.archived[step.archive]
            case _:
                raise AssertionError(step.kind)


def text_of(token: str, chars: int) -> str:
    """Return what a message of this token and length says; one in eight ends with half a surrogate pair."""
    number = sum(token.encode())
    start = number % len(_FILLER)
    text = (_LONG * ((start + chars) // len(_LONG) + 1))[start : start + chars]
    return text[:-1] + "\ud800" if chars > 1 and not number % 8 else text

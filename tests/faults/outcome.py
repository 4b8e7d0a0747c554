"""What came of runs that were killed, and how that is told."""

from collections import Counter
from collections.abc import Sequence

import attrs

__all__ = ["Cut", "Problems", "Run", "summary", "table"]


@attrs.define
class Problems:
    """
    Promises that were broken, each a sentence.

    Attributes:
        lost: What was acknowledged is not there.
        duplicated: It is there twice, or what was to be gone still is.
        wrong: It is there otherwise, or half of what was under way is.
        refused: What should have been done raised.
    """

    lost: list[str] = attrs.field(factory=list)
    duplicated: list[str] = attrs.field(factory=list)
    wrong: list[str] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)

    def all(self) -> list[str]:
        """Return all of them, each with its kind."""
        fields: dict[str, list[str]] = attrs.asdict(self)
        return [f"{kind}: {problem}" for kind, problems in fields.items() for problem in problems]

    def add(self, other: "Problems") -> None:
        """Take over what another has."""
        for name, problems in attrs.asdict(other).items():
            getattr(self, name).extend(problems)


@attrs.frozen(kw_only=True)
class Cut:
    """
    Where a process was killed.

    Attributes:
        operation: In which kind of operation; ``between`` two of them.
        call: At which call; ``any`` where its parent killed it.
        when: Before, in the middle of or after it.
    """

    operation: str
    call: str
    when: str

    def __str__(self) -> str:
        return f"{self.when} {self.call} in {self.operation}"


@attrs.define(kw_only=True)
class Run:
    """
    What came of one run.

    Attributes:
        cuts: Where its processes were killed, one after the other.
        left: Files that nobody needs any more, by their kind.
        unseen: Changes to the disk that were no points at which it could have been killed.
        story: What was done, step by step.
    """

    seed: int
    problems: Problems = attrs.field(factory=Problems)
    cuts: list[Cut] = attrs.field(factory=list)
    left: Counter[str] = attrs.field(factory=Counter)
    unseen: list[str] = attrs.field(factory=list)
    story: list[str] = attrs.field(factory=list)

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept, and every change to the disk was seen."""
        return not self.problems.all() and not self.unseen

    def __str__(self) -> str:
        cuts = ", then ".join(map(str, self.cuts)) or "nowhere"
        return "\n".join((f"run {self.seed}: killed {cuts}", *self.problems.all(), *self.unseen))


def table(runs: Sequence[Run]) -> str:
    """Return how many kills hit each kind of operation, and each call."""
    cuts = [cut for run in runs for cut in run.cuts]
    columns = {
        "operation": Counter(cut.operation for cut in cuts),
        "call": Counter(f"{cut.when} {cut.call}" for cut in cuts),
    }
    return "\n".join(
        f"kills by {name}: " + ", ".join(f"{kind} {times}" for kind, times in sorted(counts.items()))
        for name, counts in columns.items()
    )


def summary(runs: Sequence[Run], seconds: float) -> str:
    """Return the one line that says whether any promise was broken: in how many runs, and what else was seen."""
    facts = {"runs": len(runs), "kills": sum(len(run.cuts) for run in runs)}
    facts |= {name: sum(bool(getattr(run.problems, name)) for run in runs) for name in attrs.fields_dict(Problems)}
    left = sum((run.left for run in runs), Counter[str]())
    facts |= {"unseen writes": sum(bool(run.unseen) for run in runs), "torn": left["torn"]}
    facts |= {"temporary files left": left["tmp"], "transcripts of nobody left": left["strays"]}
    return ", ".join(f"{name} {number}" for name, number in (facts | {"seconds": round(seconds)}).items())

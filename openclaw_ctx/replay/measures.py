"""
What a replay measured: one value per model call, per run, per session file.

Counts of messages are of the record as it stood at that call, so
``kept + left_out + summarised`` grows as the session does.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import attrs

from openclaw_ctx.log import clean_text

from .compactions import Compaction, GivenUp, compaction_as_json, given_up_as_json
from .figures import count, duration, some

__all__ = ["NO_CALLS", "Call", "Replay", "Run", "Turn", "as_json", "group_by_turn", "label"]

NO_CALLS = "the recording holds no reply of a model to anything"
"""Why a replay may make no model call."""

_LIFE = ("bootstrap", "ingest", "ingest_batch", "assemble", "compact", "after_turn", "commit_turn", "maintain")


@attrs.frozen(kw_only=True)
class Call:
    """
    One model call.

    Attributes:
        turn: Counted from 1.
        call: Counted from 1 over the whole session.
        kept: Messages of the record that stood in the prompt; a summary is none.
        left_out: Messages that neither the prompt nor a summary held.
        summarised: Messages that only a summary stood for.
        compactions: Done for this call.
        milliseconds: What each hook took for this call.
        engine: Who answered, which need not be who was asked.
    """

    turn: int
    call: int
    prompt_tokens: int
    budget: int | None
    kept: int
    left_out: int
    summarised: int
    compactions: int
    milliseconds: Mapping[str, float]
    engine: str

    @property
    def over_budget(self) -> bool:
        """Whether the prompt cost more than it may; never without a budget."""
        return self.budget is not None and self.prompt_tokens > self.budget

    @property
    def messages(self) -> int:
        """All messages of the record at that time."""
        return self.kept + self.left_out + self.summarised


@attrs.frozen(kw_only=True)
class Turn:
    """
    The model calls of one turn as one: what is shown where single calls are too many.

    Attributes:
        calls: How many.
        prompt_tokens: Of the largest prompt.
        kept: As the turn's last call had it; so ``left_out`` and ``summarised``.
        compactions: Added up.
        milliseconds: Added up.
        engine: Who answered the last call.
    """

    turn: int
    calls: int
    prompt_tokens: int
    budget: int | None
    kept: int
    left_out: int
    summarised: int
    compactions: int
    milliseconds: Mapping[str, float]
    engine: str
    over_budget: bool


@attrs.frozen(kw_only=True)
class Run:
    """
    One session through one engine within one budget.

    Attributes:
        engine: The one asked for.
        messages: Of the whole session.
        substitution: Why another engine answered; ``None`` where none did.
        repairs: Times that the host mended what the engine had assembled.
        seconds: The whole run, host and all.
        model: Who summarised, where turns were run; ``None`` where prompts were assembled only.
        compacted: Each attempt to compact, those that failed too.
        given_up: Turns of which no prompt fits.
    """

    engine: str
    budget: int | None
    calls: tuple[Call, ...]
    turns: int
    messages: int
    substitution: str | None
    repairs: int
    seconds: float
    model: str | None = None
    compacted: tuple[Compaction, ...] = ()
    given_up: tuple[GivenUp, ...] = ()

    @property
    def compactions(self) -> int:
        """How often the history was compacted."""
        return sum(call.compactions for call in self.calls)

    @property
    def failed_compactions(self) -> int:
        """How often compacting was tried in vain."""
        return sum(not made.compacted for made in self.compacted)

    @property
    def over_budget_calls(self) -> int:
        """How many prompts cost more than they may."""
        return sum(call.over_budget for call in self.calls)

    @property
    def peak_tokens(self) -> int:
        """Tokens of the largest prompt; 0 without a call."""
        return max((call.prompt_tokens for call in self.calls), default=0)

    @property
    def mean_tokens(self) -> float:
        """Tokens of the mean prompt; 0 without a call."""
        return sum(call.prompt_tokens for call in self.calls) / len(self.calls) if self.calls else 0.0

    @property
    def answered_by(self) -> dict[str, int]:
        """Calls by the engine that answered them, in order of appearance."""
        return dict(Counter(call.engine for call in self.calls))

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that ran, in the order of a turn; unknown ones at the end, by name."""
        ran = {hook for call in self.calls for hook in call.milliseconds}
        return (*(hook for hook in _LIFE if hook in ran), *sorted(ran.difference(_LIFE)))

    def percentile(self, hook: str, q: float) -> float | None:
        """
        Return the milliseconds that *q* per cent of the calls of *hook* stayed within.

        By nearest rank, so that the answer was measured. Model calls that did not
        run the hook do not count; ``None`` where none did.
        """
        taken = sorted(call.milliseconds[hook] for call in self.calls if hook in call.milliseconds)
        if not taken:
            return None
        return taken[min(max(math.ceil(q / 100 * len(taken)), 1), len(taken)) - 1]

    @property
    def verdict(self) -> str:
        """One sentence that says how it went, after one on who stood in; foreign text in it is cleaned."""
        return f"{_opening(self)}{'; '.join(_findings(self))}."


@attrs.frozen(kw_only=True)
class Replay:
    """
    One session file through every engine and budget asked for.

    Attributes:
        source: The file's name.
        skipped: What the replay passed over, one sentence each.
    """

    source: str
    format: str
    runs: tuple[Run, ...]
    skipped: tuple[str, ...]


def as_json(replay: Replay) -> dict[str, Any]:
    """
    Return a replay as plain JSON data, the derived numbers among it.

    Foreign text is cleaned, so that printing the JSON is safe. Milliseconds are
    rounded to microseconds.
    """
    return {
        "source": clean_text(replay.source),
        "format": clean_text(replay.format),
        "skipped": [clean_text(sentence) for sentence in replay.skipped],
        "runs": [_run_as_json(run) for run in replay.runs],
    }


def group_by_turn(calls: Sequence[Call]) -> tuple[Turn, ...]:
    """Return the turns of a run; *calls* are in the order of the session."""
    return tuple(_merge(turn, tuple(group)) for turn, group in groupby(calls, key=lambda call: call.turn))


def label(run: Run) -> str:
    """Name a run by the engine asked for and its budget, cleaned."""
    return f"{clean_text(run.engine)} {_at(run)}"


def _at(run: Run) -> str:
    return "without a budget" if run.budget is None else f"at {count(run.budget)}"


def _answered_by(run: Run) -> dict[str, int]:
    answered: dict[str, int] = {}
    for engine, calls in run.answered_by.items():  # two ids may be one once cleaned
        answered[clean_text(engine)] = answered.get(clean_text(engine), 0) + calls
    return answered


def _opening(run: Run) -> str:
    answered = _answered_by(run)
    asked = clean_text(run.engine)
    if run.substitution is None and not answered.keys() - {asked}:
        return f"{label(run)}: "
    reason = "" if run.substitution is None else f", since {clean_text(run.substitution).rstrip('. ')}"
    at = _at(run)
    return f"Asked for {asked}; {_stand_ins(answered, asked)}{reason}. {at[0].upper()}{at[1:]}: "


def _stand_ins(answered: Mapping[str, int], asked: str) -> str:
    calls = sum(answered.values())
    others = {engine: number for engine, number in answered.items() if engine != asked}
    if not others:
        return "another stood in between its calls" if calls else "another stood in"
    if len(others) > 1:
        each = " and ".join(f"{engine} answered {count(number)}" for engine, number in others.items())
        return f"{each} of {some(calls, 'call')}"
    ((engine, number),) = others.items()
    if number < calls:
        return f"{engine} answered {count(number)} of {some(calls, 'call')}"
    return f"{engine} answered " + ("the only call" if calls == 1 else f"all {some(calls, 'call')}")


def _findings(run: Run) -> list[str]:
    if not run.calls:
        return [f"no model calls, since {NO_CALLS}"]
    over, size = run.over_budget_calls, f"{some(len(run.calls), 'call')} in {some(run.turns, 'turn')}"
    if run.budget is None:
        fit = f"largest prompt {some(run.peak_tokens, 'token')}"
    elif over:
        fit = f"{some(over, 'call')} over the budget (worst {count(run.peak_tokens)})"
    else:
        fit = "every prompt within the budget"
    findings = [f"{size}, {fit}", some(run.compactions, "compaction")]
    if run.failed_compactions:
        findings[-1] += f" and {count(run.failed_compactions)} that failed"
    if run.given_up:
        findings.insert(0, f"{some(len(run.given_up), 'turn')} given up")
    if run.repairs:
        findings.append(some(run.repairs, "repair"))
    if (median := run.percentile("assemble", 50)) is not None:
        findings.append(f"assemble {duration(median)} ms median, {duration(run.percentile('assemble', 95))} ms p95")
    return findings


def _merge(turn: int, calls: tuple[Call, ...]) -> Turn:
    last, milliseconds = calls[-1], dict[str, float]()
    for call in calls:
        for hook, taken in call.milliseconds.items():
            milliseconds[hook] = milliseconds.get(hook, 0.0) + taken
    return Turn(
        turn=turn,
        calls=len(calls),
        prompt_tokens=max(call.prompt_tokens for call in calls),
        budget=last.budget,
        kept=last.kept,
        left_out=last.left_out,
        summarised=last.summarised,
        compactions=sum(call.compactions for call in calls),
        milliseconds=milliseconds,
        engine=last.engine,
        over_budget=any(call.over_budget for call in calls),
    )


def _run_as_json(run: Run) -> dict[str, Any]:
    return {
        "engine": clean_text(run.engine),
        "budget": run.budget,
        "model": None if run.model is None else clean_text(run.model),
        "turns": run.turns,
        "messages": run.messages,
        "substitution": None if run.substitution is None else clean_text(run.substitution),
        "repairs": run.repairs,
        "seconds": round(run.seconds, 3),
        "compactions": run.compactions,
        "over_budget_calls": run.over_budget_calls,
        "peak_tokens": run.peak_tokens,
        "mean_tokens": round(run.mean_tokens, 1),
        "answered_by": _answered_by(run),
        "verdict": run.verdict,
        "compacted": [compaction_as_json(made) for made in run.compacted],
        "given_up": [given_up_as_json(turn) for turn in run.given_up],
        "calls": [_call_as_json(call) for call in run.calls],
    }


def _call_as_json(call: Call) -> dict[str, Any]:
    return {
        "turn": call.turn,
        "call": call.call,
        "prompt_tokens": call.prompt_tokens,
        "budget": call.budget,
        "over_budget": call.over_budget,
        "kept": call.kept,
        "left_out": call.left_out,
        "summarised": call.summarised,
        "compactions": call.compactions,
        "milliseconds": {clean_text(hook): round(taken, 3) for hook, taken in call.milliseconds.items()},
        "engine": clean_text(call.engine),
    }

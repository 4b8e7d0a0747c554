"""
A recorded session, run again through an engine.

The recording is fed to a fresh host, message by message, and the engine is
asked for a prompt before each reply of the model. Nothing is asked of a model:
the recorded reply follows, whatever the engine chose. The file is only read.
"""

import contextlib
import difflib
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.assembly import Host, Session, policy_from, quarantine_folder
from openclaw_ctx.config import LoadedSettings
from openclaw_ctx.contract import (
    AssistantMessage,
    CompactionSummaryMessage,
    EntryId,
    Message,
    SystemMessage,
    UserMessage,
)
from openclaw_ctx.errors import EngineFailedError
from openclaw_ctx.host import HookCall, QuarantineMirror, Registry, discover, offers, select
from openclaw_ctx.log import clean_text
from openclaw_ctx.runtime import Prompt
from openclaw_ctx.transcript.importers import ImportedSession

from .measures import Call, Replay, Run

__all__ = ["Progress", "replay_session"]

Progress = Callable[[str, int, int], None]
"""(engine and budget, messages done, messages in all)"""

_COMPACTION_TRIES = 2
# How the guard answers once an engine is barred.
_BARRED: Final = re.compile(r"quarantined during ([\w-]+): ")
_BEFORE_ANY_HOOK: Final = {"resolve": "", "factory": "it could not be built: ", "contract-validation": ""}


async def replay_session(
    session: ImportedSession,
    *,
    source: str,
    settings: LoadedSettings,
    engines: Sequence[str],
    budgets: Sequence[int | None],
    state_dir: Path | None = None,
    progress: Progress | None = None,
) -> Replay:
    """
    Run *session* through every engine at every budget, each with a host and a folder of its own.

    Args:
        session: What an importer read.
        source: Names the recording in the result.
        settings: The configuration; its slot is replaced by each engine in turn.
        engines: Engine ids; one that is not installed is answered for by ``legacy``.
        budgets: Tokens for messages and system prompt together; ``None``: no limit.
        state_dir: Where quarantines are also mirrored while the replay runs, so that another process can see them.
        progress: Told after each message.
    """
    runs = []
    with contextlib.ExitStack() as stack:
        # A signal may end the removal of one run's folder half way; the outer one is removed all the same.
        folder = stack.enter_context(_temporary_folder(None))
        for engine in engines:
            for budget in budgets:
                # A registry of its own: what one budget did to an engine must not show at the next.
                registry = Registry()
                if state_dir is not None:
                    mirror = QuarantineMirror(quarantine_folder(state_dir))
                    registry.quarantine.attach(mirror)
                    stack.callback(mirror.clear, engine.strip())
                within = session, settings, engine, budget
                runs.append(await _run(*within, folder, registry, progress or (lambda *_: None)))
    return Replay(source=source, format=session.format, runs=tuple(runs), skipped=session.skipped)


async def _run(
    session: ImportedSession,
    settings: LoadedSettings,
    engine: str,
    budget: int | None,
    above: str,
    registry: Registry,
    progress: Progress,
) -> Run:
    watch = _Watch()
    began = time.perf_counter()
    with _temporary_folder(above) as folder:
        slotted = attrs.evolve(settings.with_engine(engine), findings=())
        opening = Host.open(slotted, state_dir=folder, registry=registry, observe=watch.saw)
        async with opening as host, host.session("replay") as target:
            player = _Player(target, watch, budget)
            for done, message in enumerate(session.messages, 1):
                await player.play(message)
                progress(f"{engine} {budget or ''}".strip(), done, len(session.messages))
            await player.finish()
            messages = len(target.transcript.record())
    return Run(
        engine=engine,
        budget=budget,
        calls=tuple(player.calls),
        turns=player.turn,
        messages=messages,
        substitution=None if player.substitution is None else _why(player.substitution, slotted, registry),
        repairs=player.repairs,
        seconds=time.perf_counter() - began,
    )


def _temporary_folder(above: str | None) -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="openclaw-ctx-replay-", dir=above, ignore_cleanup_errors=True)


def _why(substitution: str, loaded: LoadedSettings, registry: Registry) -> str:
    """Return why another engine answered, as the end of a sentence for people."""
    policy, found = policy_from(loaded.settings), discover()
    known = {offer.engine_id for offer in offers(policy, registry, found)}
    if policy.asked in known or select(policy, registry, found).outcome != "refused":
        return _BARRED.sub(lambda barred: _BEFORE_ANY_HOOK.get(barred[1], f"{barred[1]} failed: "), substitution, 1)
    near = difflib.get_close_matches(policy.asked.lower(), known, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"no installed distribution offers it ({meant}openclaw-ctx engines lists what is there)"


class _Watch:
    """Adds up the time that hooks take."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def saw(self, call: HookCall) -> None:
        self._seconds[call.operation] = self._seconds.get(call.operation, 0.0) + call.seconds

    def take(self) -> dict[str, float]:
        """Return milliseconds by hook since the last time."""
        seconds, self._seconds = self._seconds, {}
        return {operation: taken * 1000 for operation, taken in seconds.items()}


class _Player:
    """Feeds one session and notes what each model call would have seen."""

    def __init__(self, session: Session, watch: _Watch, budget: int | None) -> None:
        self.calls: list[Call] = []
        self.turn = 0
        self.repairs = 0
        self.substitution: str | None = None
        self._session = session
        self._watch = watch
        self._budget = budget
        self._system_prompt: str | None = None
        self._record: set[EntryId | None] = set()
        self._ended = True

    async def play(self, message: Message) -> None:
        if isinstance(message, SystemMessage) and not self._record:
            self._system_prompt = message.text
            return
        opens_turn = isinstance(message, UserMessage) and not self._ended and self._answered()
        if opens_turn:
            await self._end_turn()
        if self._ended:
            self._ended = False
            self.turn += 1
        if isinstance(message, AssistantMessage) and self._record:
            await self._call()
        appended = await self._session.append(message)
        self._record.add(appended.entry_id)

    async def finish(self) -> None:
        if not self._ended:
            await self._end_turn()

    def _answered(self) -> bool:
        last = self._session.history[-1:]
        return bool(last) and not isinstance(last[0], UserMessage)

    async def _end_turn(self) -> None:
        ended = await self._session.end_turn(budget=self._budget)
        self._note(ended.substitution)
        self._ended = True
        if self.calls:
            # What a turn's end takes belongs to the turn's last call.
            last = self.calls[-1]
            self.calls[-1] = attrs.evolve(last, milliseconds=_added(last.milliseconds, self._watch.take()))

    async def _call(self) -> None:
        compactions = 0
        prompt = await self._assemble()
        for _ in range(_COMPACTION_TRIES):
            if not prompt.over_budget:
                break
            compacted = await self._compact()
            if not compacted:
                break
            compactions += 1
            prompt = await self._assemble()
        kept = sum(message.entry_id in self._record for message in prompt.messages)
        folded = any(isinstance(message, CompactionSummaryMessage) for message in prompt.messages)
        away = len(self._record) - kept
        summarised = min(away, self._session.transcript.summarised_count) if folded else 0
        self.repairs += len(prompt.repairs)
        self.calls.append(
            Call(
                turn=self.turn,
                call=len(self.calls) + 1,
                prompt_tokens=prompt.estimated_tokens,
                budget=self._budget,
                kept=kept,
                left_out=away - summarised,
                summarised=summarised,
                compactions=compactions,
                milliseconds=self._watch.take(),
                engine=prompt.engine,
            )
        )

    async def _assemble(self) -> Prompt:
        prompt = await self._session.assemble(budget=self._budget, system_prompt=self._system_prompt)
        self._note(prompt.substitution)
        return prompt

    async def _compact(self) -> bool:
        """Return whether the context is another now; a failure has made the built-in engine serve."""
        with contextlib.suppress(EngineFailedError):
            compacted = await self._session.compact(budget=self._budget, trigger="budget")
            self._note(compacted.substitution)
            return compacted.result.compacted
        return False

    def _note(self, substitution: str | None) -> None:
        if self.substitution is None and substitution is not None:
            self.substitution = clean_text(substitution)


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in (*first, *second)}

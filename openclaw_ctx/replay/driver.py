"""
A recorded session, run again through an engine.

The recording is fed to a fresh host, message by message, and the engine is
asked for a prompt before each reply of the model; or its turns are run, with
its replies as the model's. Either way the recorded reply follows, whatever the
engine chose; at most summaries are asked of a model. The file is only read.
"""

import contextlib
import difflib
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.assembly import Host, counter_from, policy_from, quarantine_folder
from openclaw_ctx.config import LoadedSettings, Settings
from openclaw_ctx.host import QuarantineMirror, Registry, discover, offers, select
from openclaw_ctx.transcript.importers import ImportedSession

from .ledger import Ledger
from .measures import Replay, Run
from .players import Assembling, Player, Running
from .summaries import EXTRACTIVE, SCRIPTED, Summaries

__all__ = ["LEAST_BUDGET", "Progress", "replay_session", "window_for"]

Progress = Callable[[str, int, int, str], None]
"""(engine and budget, messages done, messages in all, what is being done where that takes long)"""

LEAST_BUDGET: Final = 4_000
"""Tokens that a prompt of a turn may cost at least: the reference system runs no turn in a smaller window."""

_WHOLE_RESERVE_FROM: Final = 8_000
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
    summaries: Summaries | None = None,
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
        summaries: Runs the turns, and says who summarises; ``None``: no turn is run, and
            the host summarises its own way. A turn needs a budget of :data:`LEAST_BUDGET`.
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
                within = session, settings, engine, budget, summaries
                runs.append(await _run(*within, folder, registry, progress or (lambda *_: None)))
    return Replay(source=source, format=session.format, runs=tuple(runs), skipped=session.skipped)


def window_for(budget: int, settings: Settings) -> int:
    """Return how large a window has to be for a prompt to be allowed *budget* tokens of it, beside the reserve."""
    said = settings.agents.defaults.compaction
    reserve = max(said.reserve_tokens, said.reserve_tokens_floor)
    return budget + (reserve if budget >= _WHOLE_RESERVE_FROM else min(reserve, 1))


async def _run(
    session: ImportedSession,
    settings: LoadedSettings,
    engine: str,
    budget: int | None,
    summaries: Summaries | None,
    above: str,
    registry: Registry,
    progress: Progress,
) -> Run:
    began = time.perf_counter()
    asked = summaries or Summaries.extractive()
    ledger = Ledger(budget=budget, summaries=asked, engine=engine)
    slotted = _in_a_copy(settings.with_engine(engine), audited=asked.name != SCRIPTED)
    with _temporary_folder(above) as folder:
        opening = Host.open(
            slotted,
            state_dir=folder,
            registry=registry,
            model=None if asked.complete is None else asked,
            summary_model=None if asked.complete is None else asked,
            observe=ledger.saw,
            before_compaction=ledger.began_behind,
            after_compaction=lambda notice: ledger.ended_behind(notice, target),
        )
        async with opening as host, host.session("replay") as target:

            def told(done: int, doing: str) -> None:
                progress(f"{engine} {budget or ''}".strip(), done, len(session.messages), doing)

            player: Player
            if summaries is None:
                player = Assembling(target, ledger, budget=budget, told=told)
            else:
                window = None if budget is None else window_for(budget, slotted.settings)
                player = Running(
                    target,
                    ledger,
                    budget=budget,
                    told=told,
                    count=counter_from(slotted.settings),
                    context_window=window,
                )
            await player.play(session.messages)
    return Run(
        engine=engine,
        budget=budget,
        model=None if summaries is None else summaries.name,
        calls=tuple(ledger.calls),
        turns=ledger.turn,
        messages=len(ledger.record),
        substitution=None if ledger.substitution is None else _why(ledger.substitution, slotted, registry),
        repairs=ledger.repairs,
        seconds=time.perf_counter() - began,
        compacted=tuple(ledger.compactions),
        given_up=tuple(ledger.given_up),
    )


def _in_a_copy(loaded: LoadedSettings, *, audited: bool) -> LoadedSettings:
    """
    Return the settings without what reaches beyond a copy.

    Nobody takes notes in the workspace, no model is asked that was not named, and
    no cap makes a window smaller than its budget. No audit is passed by a script.
    """
    settings = loaded.settings
    defaults = settings.agents.defaults
    compaction = attrs.evolve(defaults.compaction, model=EXTRACTIVE)
    if not audited:
        compaction = attrs.evolve(compaction, quality_guard=attrs.evolve(compaction.quality_guard, enabled=False))
    plugins = attrs.evolve(settings.plugins, slots=attrs.evolve(settings.plugins.slots, memory=None))
    alone = attrs.evolve(defaults, context_tokens=None, compaction=compaction)
    agents = attrs.evolve(settings.agents, defaults=alone)
    return attrs.evolve(loaded, settings=attrs.evolve(settings, agents=agents, plugins=plugins), findings=())


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

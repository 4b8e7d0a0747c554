"""
What the configuration can say, as frozen values.

The file's keys stay in the reference system's camel case, since people paste
them; each attribute carries its key and its description, and all keys are
listed by going through the classes. Nothing here reads a file.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from openclaw_ctx.contract import EMPTY, JSON, FrozenDict, freeze

from .agents import AgentsSettings
from .providers import ModelsSettings
from .section import (
    COUNT,
    EVERY_KEY,
    LONGEST_SECONDS,
    WAIT,
    WAIT_OR_NEVER,
    WHOLE,
    WHOLE_OR_NULL,
    Must,
    Section,
    as_tuple,
    declare,
)

__all__ = [
    "MEMORIES",
    "CounterName",
    "DeadlineSettings",
    "EntrySettings",
    "PluginSettings",
    "QuarantineSettings",
    "SessionSettings",
    "Settings",
    "SlotPolicy",
    "SlotSettings",
    "TokenSettings",
]

CounterName: TypeAlias = Literal["estimate", "o200k_base", "cl100k_base"]
SlotPolicy: TypeAlias = Literal["fallback", "strict"]

MEMORIES: Final = ("notes",)
"""What may serve ``plugins.slots.memory``."""

_PATIENCE: Final = Must("a number of milliseconds from 0 to 1e12", lambda v: 0 <= v <= LONGEST_SECONDS)
_OBJECT: Final = Must("an object", lambda v: isinstance(v, Mapping))


def _deadline(key: str, seconds: float, what: str) -> Any:
    return declare(key, f"Seconds that {what} may take.", default=seconds, must=WAIT)


def _entries(entries: Mapping[str, "EntrySettings"]) -> FrozenDict:
    return FrozenDict(entries)


def _memory_remark(memory: JSON) -> str | None:
    known = not isinstance(memory, str) or memory in {"none", *MEMORIES}
    return None if known else f"not known here, so nobody remembers; known here: none, {', '.join(MEMORIES)}"


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class EntrySettings(Section):
    """
    What the user says of one engine.

    Attributes:
        enabled: ``None`` where the user has not said.
        config: A frozen JSON object, the engine's own; ``${VAR}`` is filled in,
            so it may hold secrets and is left out of ``repr``.
        unset_variables: ``"path: ${NAME}"`` of each variable in *config* that is
            unset or empty. The string there is as written, so an entry that
            has any must not be used.
    """

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset({"hooks", "llm", "subagent"})
    own_variables: ClassVar[frozenset[str] | None] = frozenset({"config"})

    enabled: bool | None = declare(
        "enabled",
        "false switches the engine off; the slot selects, so true is the same as saying nothing.",
        default=None,
    )
    config: JSON = declare(
        "config",
        "Handed to the engine as it is, ${VAR} filled in from the environment.",
        default=EMPTY,
        converter=freeze,
        must=_OBJECT,
        secret=True,
    )
    unset_variables: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class SlotSettings(Section):
    """
    Who serves.

    Attributes:
        context_engine: ``None`` is the built-in engine.
        memory: ``"notes"``; anything else is nobody.
    """

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset()

    context_engine: str | None = declare("contextEngine", "Id of the engine that serves.", default=None)
    memory: str | None = declare(
        "memory",
        "notes: what is to be remembered is written to dated notes in the workspace; null and none: nobody remembers.",
        default=None,
        remark=_memory_remark,
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class QuarantineSettings(Section):
    """
    When an engine that failed is barred, and for how long.

    Attributes:
        failures: Consecutive ones.
        probation_seconds: ``None`` bars until the engine is registered again; a
            number allows one try after that long, and doubles with each further failure.
    """

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset()

    failures: int = declare("failures", "Consecutive failures until an engine is barred.", default=1, must=COUNT)
    probation_seconds: float | None = declare(
        "probationSeconds",
        "Seconds until a barred engine gets one try, doubling each time it fails; null: none until registered again.",
        default=None,
        must=WAIT_OR_NEVER,
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class PluginSettings(Section):
    """Which engines may serve, and which does."""

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset({"bundledDiscovery", "installs", "load"})

    enabled: bool = declare("enabled", "false leaves only the built-in engine.", default=True)
    allow: tuple[str, ...] = declare(
        "allow",
        "Distributions; where several offer one engine id, the listed one serves.",
        default=(),
        converter=as_tuple,
    )
    deny: tuple[str, ...] = declare(
        "deny", "Engine ids or distributions that never serve; wins over allow.", default=(), converter=as_tuple
    )
    entries: Mapping[str, EntrySettings] = declare(
        "entries", "Settings of single engines, by id.", default=EMPTY, converter=_entries
    )
    slots: SlotSettings = declare("slots", "Who serves.", factory=SlotSettings)
    slot_policy: SlotPolicy = declare(
        "slotPolicy",
        "fallback: the built-in engine stands in for one that cannot answer; strict: the turn fails instead.",
        default="fallback",
    )
    quarantine: QuarantineSettings = declare("quarantine", "What a failure leads to.", factory=QuarantineSettings)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class DeadlineSettings(Section):
    """How long each operation of an engine may take, in seconds."""

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset()

    factory: float = _deadline("factory", 30.0, "building an engine")
    bootstrap: float = _deadline("bootstrap", 30.0, "meeting a session")
    ingest: float = _deadline("ingest", 10.0, "taking in one message")
    ingest_batch: float = _deadline("ingestBatch", 30.0, "taking in a turn or missed history")
    assemble: float = _deadline("assemble", 15.0, "choosing what the model sees")
    after_turn: float = _deadline("afterTurn", 30.0, "taking a finished turn")
    maintain: float = _deadline("maintain", 60.0, "tidying up")
    compact: float = _deadline("compact", 180.0, "a compaction")
    prepare_subagent_spawn: float = _deadline("prepareSubagentSpawn", 15.0, "preparing a subagent")
    on_subagent_ended: float = _deadline("onSubagentEnded", 10.0, "hearing of a subagent's end")
    commit_turn: float = _deadline("commitTurn", 30.0, "committing a turn")
    tools: float = _deadline("tools", 10.0, "listing the engine's tools")
    dispose: float = _deadline("dispose", 10.0, "letting an engine go")
    turn_end: float = _deadline("turnEnd", 90.0, "all work after a turn together")

    def seconds(self) -> dict[str, float]:
        """Return the deadline of each operation, by its name in Python."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class SessionSettings(Section):
    """How transcripts are written, and how much of them is used."""

    foreign_keys: ClassVar[frozenset[str] | None] = EVERY_KEY

    durable: bool = declare(
        "durable", "true survives a power cut: each append waits for the disk (fdatasync).", default=False
    )
    acquire_timeout_seconds: float = declare(
        "writeLock.acquireTimeoutMs",
        "Milliseconds to wait for another writer to let a transcript go.",
        default=10.0,
        must=_PATIENCE,
        per_unit=1000,
    )
    history_limit: int | None = declare(
        "historyLimit",
        "How many turns of the user an engine is shown at most; null and 0: all.",
        default=None,
        must=WHOLE_OR_NULL,
    )
    parent_fork_max_tokens: int = declare(
        "parentForkMaxTokens",
        "Tokens up to which a subagent's session may begin as a fork of its parent's; 0: however many.",
        default=100_000,
        must=WHOLE,
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class TokenSettings(Section):
    """How tokens are counted."""

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset()

    counter: CounterName = declare(
        "counter", "estimate needs nothing; the encodings are exact and need the extra 'exact'.", default="estimate"
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class Settings(Section):
    """The whole configuration; ``Settings()`` is that of an empty file."""

    foreign_keys: ClassVar[frozenset[str] | None] = EVERY_KEY

    plugins: PluginSettings = declare("plugins", "Engines.", factory=PluginSettings)
    deadlines: DeadlineSettings = declare("deadlines", "How long an engine may take.", factory=DeadlineSettings)
    session: SessionSettings = declare("session", "Transcripts.", factory=SessionSettings)
    tokens: TokenSettings = declare("tokens", "Counting.", factory=TokenSettings)
    agents: AgentsSettings = declare(
        "agents", "Turns: their model, what keeps its window from bursting.", factory=AgentsSettings
    )
    models: ModelsSettings = declare("models", "Providers of models.", factory=ModelsSettings)

"""
What the configuration can say, as frozen values.

The file's keys stay in the reference system's camel case, since people paste
them; each attribute carries its key and its description, and
:data:`CONFIG_KEYS` is read off them. Nothing here reads a file.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin

import attrs

from openclaw_ctx.contract import EMPTY, JSON, FrozenDict, freeze

__all__ = [
    "CONFIG_KEYS",
    "EVERY_KEY",
    "ConfigKey",
    "CounterName",
    "DeadlineSettings",
    "EntrySettings",
    "Field",
    "Must",
    "PluginSettings",
    "QuarantineSettings",
    "SessionSettings",
    "Settings",
    "SlotPolicy",
    "SlotSettings",
    "TokenSettings",
    "config_fields",
]

CounterName: TypeAlias = Literal["estimate", "o200k_base", "cl100k_base"]
SlotPolicy: TypeAlias = Literal["fallback", "strict"]

Field: TypeAlias = "attrs.Attribute[Any]"

EVERY_KEY: Final = None
"""As ``foreign_keys``: whatever else stands in the section is somebody else's."""

# Thirty years. A wait of more than threading.TIMEOUT_MAX raises OverflowError, long after the file was read.
_LONGEST_SECONDS: Final = 1e9


@attrs.frozen
class Must:
    """An attrs validator that can say in words what it expects, in the units of the file."""

    expectation: str
    holds: Callable[[Any], bool]

    def __call__(self, _instance: object, attribute: Field, value: object) -> None:
        """
        Do nothing where the value holds.

        Raises:
            ValueError: It does not.
        """
        if not self.holds(value):
            message = f"{attribute.name}: expected {self.expectation}"
            raise ValueError(message)


_WAIT: Final = Must("a number of seconds above 0 and at most 1e9", lambda v: 0 < v <= _LONGEST_SECONDS)
_WAIT_OR_NEVER: Final = Must(
    "a number of seconds above 0 and at most 1e9, or null", lambda v: v is None or 0 < v <= _LONGEST_SECONDS
)
_PATIENCE: Final = Must("a number of milliseconds from 0 to 1e12", lambda v: 0 <= v <= _LONGEST_SECONDS)
_COUNT: Final = Must("a whole number of at least 1", lambda v: v >= 1)
_OBJECT: Final = Must("an object", lambda v: isinstance(v, Mapping))


def _key(
    key: str,
    description: str,
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    must: Must | None = None,
    converter: Callable[[Any], Any] | None = None,
    per_unit: int = 1,
    secret: bool = False,
) -> Any:
    """Declare an attribute read from *key*, whose number in the file is *per_unit* times the attribute's."""
    return attrs.field(
        default=attrs.Factory(factory) if factory else default,
        validator=must,
        converter=converter,
        repr=not secret,
        metadata={"key": key, "description": description, "per_unit": per_unit},
    )


def _deadline(key: str, seconds: float, what: str) -> Any:
    return _key(key, f"Seconds that {what} may take.", default=seconds, must=_WAIT)


def _entries(entries: Mapping[str, "EntrySettings"]) -> FrozenDict:
    return FrozenDict(entries)


@attrs.frozen(kw_only=True)
class EntrySettings:
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

    enabled: bool | None = _key(
        "enabled",
        "false switches the engine off; the slot selects, so true is the same as saying nothing.",
        default=None,
    )
    config: JSON = _key(
        "config",
        "Handed to the engine as it is, ${VAR} filled in from the environment.",
        default=EMPTY,
        converter=freeze,
        must=_OBJECT,
        secret=True,
    )
    unset_variables: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SlotSettings:
    """Who serves; ``None`` is the built-in engine."""

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset({"memory"})

    context_engine: str | None = _key("contextEngine", "Id of the engine that serves.", default=None)


@attrs.frozen(kw_only=True)
class QuarantineSettings:
    """
    When an engine that failed is barred, and for how long.

    Attributes:
        failures: Consecutive ones.
        probation_seconds: ``None`` bars until the engine is registered again; a
            number allows one try after that long, and doubles with each further failure.
    """

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset()

    failures: int = _key("failures", "Consecutive failures until an engine is barred.", default=1, must=_COUNT)
    probation_seconds: float | None = _key(
        "probationSeconds",
        "Seconds until a barred engine gets one try, doubling each time it fails; null: none until registered again.",
        default=None,
        must=_WAIT_OR_NEVER,
    )


@attrs.frozen(kw_only=True)
class PluginSettings:
    """Which engines may serve, and which does."""

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset({"bundledDiscovery", "installs", "load"})

    enabled: bool = _key("enabled", "false leaves only the built-in engine.", default=True)
    allow: tuple[str, ...] = _key(
        "allow", "Distributions; where several offer one engine id, the listed one serves.", default=(), converter=tuple
    )
    deny: tuple[str, ...] = _key(
        "deny", "Engine ids or distributions that never serve; wins over allow.", default=(), converter=tuple
    )
    entries: Mapping[str, EntrySettings] = _key(
        "entries", "Settings of single engines, by id.", default=EMPTY, converter=_entries
    )
    slots: SlotSettings = _key("slots", "Who serves.", factory=SlotSettings)
    slot_policy: SlotPolicy = _key(
        "slotPolicy",
        "fallback: the built-in engine stands in for one that cannot answer; strict: the turn fails instead.",
        default="fallback",
    )
    quarantine: QuarantineSettings = _key("quarantine", "What a failure leads to.", factory=QuarantineSettings)


@attrs.frozen(kw_only=True)
class DeadlineSettings:
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


@attrs.frozen(kw_only=True)
class SessionSettings:
    """How transcripts are written."""

    foreign_keys: ClassVar[frozenset[str] | None] = EVERY_KEY

    durable: bool = _key(
        "durable", "true survives a power cut: each append waits for the disk (fdatasync).", default=False
    )
    acquire_timeout_seconds: float = _key(
        "writeLock.acquireTimeoutMs",
        "Milliseconds to wait for another writer to let a transcript go.",
        default=10.0,
        must=_PATIENCE,
        per_unit=1000,
    )


@attrs.frozen(kw_only=True)
class TokenSettings:
    """How tokens are counted."""

    foreign_keys: ClassVar[frozenset[str] | None] = frozenset()

    counter: CounterName = _key(
        "counter", "estimate needs nothing; the encodings are exact and need the extra 'exact'.", default="estimate"
    )


@attrs.frozen(kw_only=True)
class Settings:
    """The whole configuration; ``Settings()`` is that of an empty file."""

    foreign_keys: ClassVar[frozenset[str] | None] = EVERY_KEY

    plugins: PluginSettings = _key("plugins", "Engines.", factory=PluginSettings)
    deadlines: DeadlineSettings = _key("deadlines", "How long an engine may take.", factory=DeadlineSettings)
    session: SessionSettings = _key("session", "Transcripts.", factory=SessionSettings)
    tokens: TokenSettings = _key("tokens", "Counting.", factory=TokenSettings)


class ConfigKey(NamedTuple):
    """A key of the file, its default in the file's units, and what it is for."""

    key: str
    default: JSON
    description: str


def config_fields(section: type) -> dict[str, Field]:
    """Return the attributes of *section* that come from the file, by key (dotted where it nests)."""
    return {field.metadata["key"]: field for field in attrs.fields(section) if "key" in field.metadata}


def _config_keys(section: type, prefix: str = "") -> Iterator[ConfigKey]:
    for key, field in config_fields(section).items():
        if attrs.has(field.type or object):
            yield from _config_keys(field.type or object, f"{prefix}{key}.")
        elif get_origin(field.type) is Mapping:
            yield from _config_keys(get_args(field.type)[1], f"{prefix}{key}.<id>.")
        else:
            yield ConfigKey(f"{prefix}{key}", _in_file(field), field.metadata["description"])


def _in_file(field: Field) -> JSON:
    per_unit = field.metadata["per_unit"]
    return field.default if per_unit == 1 else field.default * per_unit


CONFIG_KEYS: Final[tuple[ConfigKey, ...]] = tuple(_config_keys(Settings))
"""Every key of ours, in the order of the classes."""

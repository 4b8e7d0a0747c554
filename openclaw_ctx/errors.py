"""
Everything that openclaw-ctx raises on purpose, by whose fault it is.

::

    OpenClawCtxError
    ├── AbortError                      the caller gave up
    ├── ConfigError                     the user's configuration
    ├── RegistryError                   who may register what
    │   ├── EngineIdReservedError
    │   ├── EngineIdTakenError
    │   └── InvalidOwnerError
    ├── EngineError                     an engine, or the choice of one
    │   ├── EngineContractError         its author's: the object is no engine
    │   ├── EngineFailedError           its author's; the cause is attached
    │   ├── EngineLoadError             its import, or a missing extra of it
    │   ├── EngineNotRegisteredError
    │   ├── HostIncompatibleError
    │   └── SubstitutionRefusedError    ``plugins.slotPolicy`` is ``"strict"``
    ├── ModelError                      the provider; knows whether the same request may be tried again
    │   ├── ContextOverflowError        the request is longer than the model takes
    │   ├── ContextWindowTooSmallError  the user's choice of a model
    │   ├── ModelAuthError              the user's key, or the account behind it
    │   ├── ModelRejectedError          the program's request, or a model that is not there
    │   ├── ModelTimeoutError
    │   ├── ModelTransientError
    │   ├── ModelUnavailableError       the embedding program
    │   └── RateLimitedError
    ├── SessionClosedError              the embedding program
    ├── TranscriptError                 a session on disk
    │   ├── EntryNotFoundError
    │   ├── ReadOnlyTranscriptError     the embedding program
    │   ├── SessionBusyError
    │   ├── SessionExistsError
    │   ├── SessionNotFoundError
    │   ├── TranscriptFormatError
    │   └── UnknownFormatError
    └── TurnBlockedError                the user: the turn cannot go on in this session as it is

An error is its fields plus one sentence made from them. A bug in the host
stays a bare exception with its traceback.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs

__all__ = [
    "AbortError",
    "ConfigError",
    "ContextOverflowError",
    "ContextWindowTooSmallError",
    "EngineContractError",
    "EngineError",
    "EngineFailedError",
    "EngineIdReservedError",
    "EngineIdTakenError",
    "EngineLoadError",
    "EngineNotRegisteredError",
    "EntryNotFoundError",
    "HostIncompatibleError",
    "InvalidOwnerError",
    "ModelAuthError",
    "ModelError",
    "ModelRejectedError",
    "ModelTimeoutError",
    "ModelTransientError",
    "ModelUnavailableError",
    "OpenClawCtxError",
    "RateLimitedError",
    "ReadOnlyTranscriptError",
    "RegistryError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionExistsError",
    "SessionNotFoundError",
    "SubstitutionRefusedError",
    "TranscriptError",
    "TranscriptFormatError",
    "TurnBlockedError",
    "UnknownFormatError",
]


class OpenClawCtxError(Exception):
    """The base of every error that this package raises on purpose."""


@attrs.define(eq=False, repr=False, slots=False)
class AbortError(OpenClawCtxError):
    """An abort signal fired with a reason that was no exception of its own."""

    reason: str

    def __str__(self) -> str:
        return f"Aborted: {self.reason}."


@attrs.define(eq=False, repr=False, slots=False)
class ConfigError(OpenClawCtxError):
    """
    The configuration cannot be used; every problem found is listed.

    Each problem opens with the path of the value, such as ``$.plugins.allow``.
    """

    source: str
    problems: Sequence[str]

    def __str__(self) -> str:
        listed = "\n".join(f"  {problem}" for problem in self.problems)
        return f"Configuration {self.source!r} cannot be used:\n{listed}"


class RegistryError(OpenClawCtxError):
    """A registration was refused."""


@attrs.define(eq=False, repr=False, slots=False)
class EngineIdReservedError(RegistryError):
    """An owner other than core asked for the id of the built-in engine."""

    engine_id: str
    owner: str

    def __str__(self) -> str:
        return (
            f"Engine id {self.engine_id!r} belongs to 'core', so {self.owner!r} cannot register it. "
            f"Register the engine under another id."
        )


@attrs.define(eq=False, repr=False, slots=False)
class EngineIdTakenError(RegistryError):
    """Two owners offered an engine under one id, or one owner twice."""

    engine_id: str
    owner: str
    challenger: str

    def __str__(self) -> str:
        if self.owner == self.challenger:
            return (
                f"{self.owner!r} has registered engine id {self.engine_id!r} already. "
                f"Pass refresh=True to replace the registration."
            )
        return (
            f"Engine id {self.engine_id!r} belongs to {self.owner!r}, so {self.challenger!r} cannot register it. "
            f"Uninstall one of the two, or list one under plugins.deny."
        )


@attrs.define(eq=False, repr=False, slots=False)
class InvalidOwnerError(RegistryError):
    """An owner must be a non-blank string."""

    owner: object

    def __str__(self) -> str:
        return f"An engine's owner must be a non-blank string, not {self.owner!r}."


class EngineError(OpenClawCtxError):
    """An engine, or the choice of one, cannot serve."""


@attrs.define(eq=False, repr=False, slots=False)
class EngineContractError(EngineError):
    """A factory returned something that does not keep the contract; every problem is listed."""

    engine_id: str
    problems: Sequence[str]

    def __str__(self) -> str:
        return (
            f'Context engine "{self.engine_id}" factory returned an invalid ContextEngine: {", ".join(self.problems)}. '
            f"The contract, hook by hook: help(openclaw_ctx.EngineSpec)."
        )


@attrs.define(eq=False, repr=False, slots=False)
class EngineFailedError(EngineError):
    """
    An engine raised, hung or answered nonsense, and nothing may stand in for it.

    ``__cause__`` is what the engine raised, where it raised anything.
    """

    engine_id: str
    owner: str
    operation: str
    reason: str

    def __str__(self) -> str:
        return (
            f"Engine {self.engine_id!r} of {self.owner!r} failed during {self.operation!r}: {self.reason}. "
            f"'openclaw-ctx doctor' shows what is quarantined, and "
            f"'openclaw-ctx engines release {self.engine_id}' lifts it."
        )


@attrs.define(eq=False, repr=False, slots=False)
class EngineLoadError(EngineError):
    """
    What an entry point names cannot be imported, or is no factory.

    ``__cause__`` is what the plugin's code raised, where it raised anything.
    """

    engine_id: str
    distribution: str
    problem: str

    def __str__(self) -> str:
        return f"Engine {self.engine_id!r} of distribution {self.distribution!r} cannot be loaded: {self.problem}"


@attrs.define(eq=False, repr=False, slots=False)
class EngineNotRegisteredError(EngineError):
    """Not even the built-in engine is there to answer."""

    engine_id: str

    def __str__(self) -> str:
        return (
            f"Context engine {self.engine_id!r} is not registered. "
            f"A registry handed to a Host needs the built-in engine: use openclaw_ctx.Host's own, or register it."
        )


@attrs.define(eq=False, repr=False, slots=False)
class HostIncompatibleError(EngineError):
    """The host lacks what the engine says that it needs for an operation."""

    engine_id: str
    operation: str
    host_label: str
    missing: Sequence[str]
    required: Sequence[str]
    capabilities: Sequence[str]
    guidance: str | None = None

    def __str__(self) -> str:
        sentence = (
            f'Context engine "{self.engine_id}" cannot run operation "{self.operation}" on {self.host_label}. '
            f"Missing host capabilities: {', '.join(self.missing)}. "
            f"Required capabilities: {', '.join(self.required)}. "
            f"Host capabilities: {', '.join(self.capabilities) or '(none)'}."
        )
        return f"{sentence} {self.guidance}" if self.guidance else sentence


@attrs.define(eq=False, repr=False, slots=False)
class SubstitutionRefusedError(EngineError):
    """The selected engine cannot answer, and the strict policy forbids another to."""

    engine_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"Engine {self.engine_id!r} cannot answer ({self.reason}), and plugins.slotPolicy is 'strict', "
            f"so 'legacy' does not stand in. Mend or release the engine, or set plugins.slotPolicy to 'fallback'."
        )


class ModelError(OpenClawCtxError):
    """
    A model gave no answer.

    Attributes:
        retryable: Whether the same request may be sent again, after a while.
    """

    retryable: ClassVar[bool] = False


@attrs.define(eq=False, repr=False, slots=False)
class ContextOverflowError(ModelError):
    """
    The request is longer than the model takes; a shorter one would do.

    The numbers are read from what the provider said, and ``None`` where it gave none.
    """

    provider: str
    model: str
    said: str
    observed_tokens: int | None = None
    limit: int | None = None

    def __str__(self) -> str:
        observed = "unknown" if self.observed_tokens is None else self.observed_tokens
        limit = "unknown" if self.limit is None else self.limit
        return (
            f"The request is too long for model {self.model!r} of {self.provider!r} "
            f"(tokens {observed}, limit {limit}): {_sentence(self.said)} "
            f"Compact the session, or use a model with a larger window."
        )


@attrs.define(eq=False, repr=False, slots=False)
class ContextWindowTooSmallError(ModelError):
    """
    The model's window leaves no room to work in.

    Attributes:
        source: Where the number comes from: ``argument``, ``modelsConfig``, ``agentContextTokens`` or ``default``.
    """

    tokens: int
    minimum: int
    source: str

    def __str__(self) -> str:
        return (
            f"The model's context window is too small ({self.tokens} tokens; source={self.source}); the minimum is "
            f"{self.minimum}. Use another model, or say how large its window is: "
            f"models.providers.<id>.models[].contextWindow, or the size that a local server was started with."
        )


@attrs.define(eq=False, repr=False, slots=False)
class ModelAuthError(ModelError):
    """The provider does not serve this key: it is missing or wrong, may not do this, or has no credit left."""

    provider: str
    model: str
    said: str

    def __str__(self) -> str:
        return (
            f"{self.provider!r} does not serve model {self.model!r} to this key: {_sentence(self.said)} "
            f"Check the key and the account behind it."
        )


@attrs.define(eq=False, repr=False, slots=False)
class ModelRejectedError(ModelError):
    """The provider understood the request and will not serve it as it stands."""

    provider: str
    model: str
    said: str

    def __str__(self) -> str:
        return f"{self.provider!r} rejected the request to model {self.model!r}: {_sentence(self.said)}"


@attrs.define(eq=False, repr=False, slots=False)
class ModelTimeoutError(ModelError):
    """The provider did not answer in time, or stopped answering."""

    retryable: ClassVar[bool] = True

    provider: str
    model: str
    said: str

    def __str__(self) -> str:
        return f"Model {self.model!r} of {self.provider!r} did not answer in time: {_sentence(self.said)}"


@attrs.define(eq=False, repr=False, slots=False)
class ModelTransientError(ModelError):
    """The provider failed in a way that passes: overloaded, unreachable, broken off, or an answer without sense."""

    retryable: ClassVar[bool] = True

    provider: str
    model: str
    said: str

    def __str__(self) -> str:
        return f"Model {self.model!r} of {self.provider!r} failed for the moment: {_sentence(self.said)}"


@attrs.define(eq=False, repr=False, slots=False)
class ModelUnavailableError(ModelError):
    """A turn was to be run, or an engine asked for a completion, and the host was opened without a model."""

    def __str__(self) -> str:
        return "No model is configured. Open the host with Host.open(config, model=...), or name one for the turn."


@attrs.define(eq=False, repr=False, slots=False)
class RateLimitedError(ModelError):
    """
    Too many requests or tokens for the moment.

    ``retry_after_seconds`` is what the provider asks to wait, and ``None`` where it does not say.
    """

    retryable: ClassVar[bool] = True

    provider: str
    model: str
    said: str
    retry_after_seconds: float | None = None

    def __str__(self) -> str:
        wait = "a while" if self.retry_after_seconds is None else f"{self.retry_after_seconds} s"
        said = _sentence(self.said)
        return f"{self.provider!r} takes no more requests to model {self.model!r} for now: {said} Wait {wait}."


@attrs.define(eq=False, repr=False, slots=False)
class SessionClosedError(OpenClawCtxError):
    """A session, host or transcript was used after it was closed."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is closed. Open it again to go on."


class TranscriptError(OpenClawCtxError):
    """A transcript on disk cannot be read or written."""


@attrs.define(eq=False, repr=False, slots=False)
class EntryNotFoundError(TranscriptError):
    """A transcript has no such entry, or has it on another branch."""

    path: str
    entry_id: str

    def __str__(self) -> str:
        return (
            f"Transcript {self.path!r} has no entry {self.entry_id!r} on the branch that this is about. "
            f"'openclaw-ctx sessions tree' shows what it has."
        )


@attrs.define(eq=False, repr=False, slots=False)
class ReadOnlyTranscriptError(TranscriptError):
    """Something was to be written to a transcript that was opened for reading."""

    path: str

    def __str__(self) -> str:
        return f"Transcript {self.path!r} was opened for reading. Open the session for writing to change it."


@attrs.define(eq=False, repr=False, slots=False)
class SessionBusyError(TranscriptError):
    """Another writer holds the transcript."""

    path: str
    holder: str
    waited_seconds: float

    def __str__(self) -> str:
        return (
            f"Transcript {self.path!r} is being written by {self.holder} "
            f"(waited {self.waited_seconds:g} s). Close that session, or raise session.writeLock.acquireTimeoutMs."
        )


@attrs.define(eq=False, repr=False, slots=False)
class SessionExistsError(TranscriptError):
    """A session was to be made under a key that has one."""

    key: str

    def __str__(self) -> str:
        return f"There is a session {self.key!r} already. Choose another key, or archive that session first."


@attrs.define(eq=False, repr=False, slots=False)
class SessionNotFoundError(TranscriptError):
    """No session, or archive of one, goes by a name; or several do, which are listed."""

    name: str
    where: str
    several: Sequence[str]

    def __str__(self) -> str:
        if self.several:
            return f"{self.name!r} means several sessions in {self.where!r}: {', '.join(map(repr, self.several))}."
        return f"There is no session {self.name!r} in {self.where!r}. 'openclaw-ctx sessions list' shows what there is."


@attrs.define(eq=False, repr=False, slots=False)
class TranscriptFormatError(TranscriptError):
    """A file claims a format that it does not keep."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path!r} cannot be used as a transcript: {self.problem}"


@attrs.define(eq=False, repr=False, slots=False)
class UnknownFormatError(TranscriptError):
    """No importer knows the file."""

    path: str
    known: Sequence[str]

    def __str__(self) -> str:
        return (
            f"{self.path!r} is not a session in a known format ({', '.join(self.known)}). "
            f"If it is one all the same, name its format with --format."
        )


@attrs.define(eq=False, repr=False, slots=False)
class TurnBlockedError(OpenClawCtxError):
    """
    A turn was given up; what was said is in the transcript, and the session is where it was.

    Attributes:
        kind: ``context_overflow``, ``compaction_failure``, ``compaction_loop_persisted`` or ``retry_limit``.
        attempts: How often the context was compacted for this turn.
        said: What the provider, or the compaction, said last.
    """

    session: str
    kind: str
    attempts: int
    said: str

    def __str__(self) -> str:
        opening = _BLOCKED.get(self.kind, f"The turn could not be finished ({self.kind})")
        return (
            f"{opening} (session {self.session!r}, {self.attempts} compactions tried): {_sentence(self.said)} "
            f"Begin anew (/new in a chat, or another session key), fork from an earlier entry, compact with a focus, "
            f"or use a model with a larger window."
        )


_BLOCKED: Final = {
    "context_overflow": "The prompt is too large for the model",
    "compaction_failure": "The prompt is too large for the model, and the context could not be compacted",
    "compaction_loop_persisted": "After a compaction the model repeats the same tool call without end",
    "retry_limit": "The model went on calling tools without coming to an answer",
}


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."

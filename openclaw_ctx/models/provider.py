"""What the providers' clients have in common: one request, one answer, failures in our own words."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeVar

from openclaw_ctx.contract import JSON, AbortSignal
from openclaw_ctx.errors import ModelError, ModelTransientError
from openclaw_ctx.log import mask_secrets

from .client import AnswerEnded, Closing, ModelAnswer, ModelEvent, ModelRequest, TokenUsage, UsageReported
from .failures import failure_from_body, model_error, tried

__all__ = ["AnswerReader", "ProviderModel"]

_T = TypeVar("_T")


class AnswerReader(Protocol):
    """Puts one answer together, out of plain JSON."""

    @property
    def usage(self) -> TokenUsage | None:
        """The provider's count so far."""

    @property
    def ended(self) -> bool:
        """Whether the provider has said that this is all."""

    def read_whole(self, data: Mapping[str, JSON]) -> None:
        """Take a whole answer."""

    def read(self, data: Mapping[str, JSON]) -> Iterator[ModelEvent]:
        """Take a piece of a stream; yield what is new in it."""

    def rest(self) -> Iterator[ModelEvent]:
        """Yield what only the end of a stream makes whole."""

    def answer(self) -> ModelAnswer:
        """Return everything that was read."""


class ProviderModel(Closing):
    """
    A model behind a provider's own package.

    Attributes:
        model: The provider's name of the model, for requests that name none.
        provider: Stands in messages and errors.
        base_url: Where requests go, without a password in it.
    """

    def __init__(self, model: str, *, provider: str, client: Any, failures: tuple[type[BaseException], ...]) -> None:
        self.model = model
        self.provider = provider
        self.base_url = mask_secrets(str(client.base_url)).rstrip("/")
        self._client = client
        self._failures = failures

    async def complete(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> ModelAnswer:
        """Return the answer once it is whole; see :class:`Model`."""
        name = request.model or self.model
        body, reader = self._prepare(request, name)
        whole = await self._tried(lambda: self._create(body, stream=False), name, abort)
        reader.read_whole(self._plain(whole, name))
        if not reader.ended:
            raise self._senseless(name, "it sent what is no answer")
        return reader.answer()

    async def stream(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> AsyncGenerator[ModelEvent]:
        """Return the answer as it comes; see :class:`Model`."""
        name = request.model or self.model
        body, reader = self._prepare(request, name)
        pieces = await self._tried(lambda: self._create(body, stream=True), name, abort)
        usage = None
        async with AsyncExitStack() as stack:
            stack.push_async_callback(pieces.close)
            while (piece := await self._tried(lambda: anext(pieces, None), name, abort)) is not None:
                for event in reader.read(self._plain(piece, name)):
                    yield event
                if reader.usage != usage and reader.usage is not None:
                    usage = reader.usage
                    yield UsageReported(usage)
        if not reader.ended:
            raise self._senseless(name, "the stream ended before the answer did")
        for event in reader.rest():
            yield event
        yield AnswerEnded(reader.answer())

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r} at {self.base_url!r}>"

    def _prepare(self, request: ModelRequest, name: str) -> tuple[dict[str, JSON], AnswerReader]:
        """Return the request's body, and who reads its answer."""
        raise NotImplementedError

    async def _create(self, body: dict[str, JSON], *, stream: bool) -> Any:
        """Send it."""
        raise NotImplementedError

    async def _tried(self, work: Callable[[], Awaitable[_T]], name: str, abort: AbortSignal | None) -> _T:
        return await tried(work, failures=self._failures, provider=self.provider, model=name, abort=abort)

    def _plain(self, found: Any, name: str) -> Mapping[str, JSON]:
        """Return what came as plain JSON; an error may come in the place of an answer."""
        if not hasattr(found, "to_dict"):
            raise self._senseless(name, "it sent what is no answer")
        data: dict[str, JSON] = found.to_dict(mode="json", warnings=False)
        if data.get("error"):
            raise model_error(failure_from_body(data), provider=self.provider, model=name)
        return data

    def _senseless(self, name: str, said: str) -> ModelError:
        return ModelTransientError(self.provider, name, said)

"""Vectors for messages, behind the turns, and for questions, before them."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np

from .embedder import Embedder, EmbedderError, Fault
from .index import HistoryIndex, Vectors

__all__ = ["Embedding"]

_BATCH: Final = 64

_BATCH_CHARACTERS: Final = 8_000
"""Of a batch, which the local model has done in less than a second: what is under way when a process ends is lost."""

_MOST_CHARACTERS: Final = 4_000
"""Of a text: about what is looked at of it."""

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_SUSPECT_FAILURES: Final = 3
"""After so many in a row, texts go one at a time: some endpoints call their server broken over one text."""

_REFUSED_FAILURES: Final = 6
"""After so many in a row, a text alone is held to be the reason, if another one passes."""

_QUESTIONS_KEPT: Final = 32
_QUESTIONS_AT_ONCE: Final = 4
"""More are not begun: whoever is that slow will not be in time for the next one either."""

_HARMLESS: Final = "hello"


_Next: TypeAlias = Literal["again", "pass over", "stop"]


@attrs.define(eq=False)
class _Pace:
    """How many texts go at once, what has failed in a row, and how long one was asked to wait at last."""

    size: int = _BATCH
    failures: int = 0
    asked: float | None = None

    def succeeded(self) -> None:
        self.size = min(_BATCH, self.size * 2)
        self.failures = 0

    def wait_seconds(self) -> float:
        own = _FIRST_WAIT * 2.0 ** min(self.failures - 1, 10)
        return min(_LONGEST_WAIT, own if self.asked is None else max(own, self.asked))


class Embedding:
    """
    What finds by meaning, at work.

    One serves all sessions. An index is touched on the thread of whoever calls, and
    only between two awaits; the embedder does its work elsewhere.
    """

    def __init__(self, embedder: Embedder, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """
        Begin nothing yet.

        Args:
            embedder: Closed with this.
            sleep: Waits after a failure.
        """
        self._embedder = embedder
        self._sleep = sleep
        self._ready = False
        self._reason: str | None = None
        self._filling: set[int] = set()
        self._known: OrderedDict[bytes, Vectors] = OrderedDict()
        self._asked: set[asyncio.Task[Vectors | None]] = set()

    @property
    def name(self) -> str:
        """Return the embedder's name."""
        return self._embedder.name

    @property
    def reason(self) -> str | None:
        """Return why the last text has no vector; ``None``: it has one, or none was asked for yet."""
        return self._reason

    def is_of(self, index: HistoryIndex) -> bool:
        """Return whether a question's vector compares with those of *index*; to be asked once there is one."""
        return index.embedder() == self._embedder.name

    async def fill(self, index: HistoryIndex, *, progress: Callable[[int], None] | None = None) -> None:
        """
        Find vectors for all messages on the branch that have none.

        While one fill of an index runs, another returns at once: the first goes on until
        nothing is missing. May be cancelled at any time; what has a vector keeps it. What
        fails is tried again later and later, at most a minute apart, as long as that may
        help; where it cannot, this returns, and the next fill tries. A text that alone is
        refused gets a vector that is like no other.

        Args:
            index: To be used by nobody else's thread.
            progress: Told how many messages got their vectors, after each batch.

        Raises:
            Exception: Only what the index raises.
        """
        if id(index) in self._filling:
            return
        self._filling.add(id(index))
        try:
            await self._fill(index, progress or (lambda _: None))
        finally:
            self._filling.discard(id(index))

    async def of_query(self, text: str, *, seconds: float) -> Vectors | None:
        """
        Return the vector of a question; ``None`` where it fails, or is not there in *seconds*.

        One that came too late is kept for whoever asks again.
        """
        key = sha256(text.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        if len(self._asked) >= _QUESTIONS_AT_ONCE:
            return None
        task = asyncio.ensure_future(self._ask(key, text))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        # Not wait_for: that would cancel what somebody may ask for again.
        done, _ = await asyncio.wait({task}, timeout=seconds)
        return task.result() if done and not task.cancelled() else None

    async def close(self) -> None:
        """Give up on questions that are open, and close the embedder. Fills are their callers' to cancel, before."""
        for task in tuple(self._asked):
            task.cancel()
        await self._embedder.close()

    async def _ask(self, key: bytes, text: str) -> Vectors | None:
        try:
            vector: Vectors = (await self._embedder.embed([text], urgent=True))[0]
        except Exception as error:  # noqa: BLE001 -- an embedder may be anybody's; words alone find then
            self._reason = _sentence(error)
            return None
        vector.setflags(write=False)
        self._reason = None
        self._known[key] = vector
        while len(self._known) > _QUESTIONS_KEPT:
            self._known.popitem(last=False)
        return vector

    async def _fill(self, index: HistoryIndex, progress: Callable[[int], None]) -> None:
        if not await self._is_ready():
            return
        pace = _Pace()
        while numbers := self._missing(index, pace.size):
            said = index.texts(numbers)
            numbers = numbers[: _bounded(text for _, _, text in said)]
            said = said[: len(numbers)]
            try:
                vectors = await self._vectors([_searched(author, text) for author, _, text in said])
                self._reason = None
            except Exception as error:  # noqa: BLE001 -- an embedder may be anybody's
                after = await self._failed(error, pace, len(numbers))
                if after == "stop":
                    return
                if after == "again":
                    continue
                vectors = self._like_no_other(1)
            pace.succeeded()
            # An index that was begun anew meanwhile has other messages under these numbers.
            if max(numbers) < len(index) and index.texts(numbers) == said:
                index.set_vectors(numbers, vectors)
                progress(len(numbers))
            await asyncio.sleep(0)

    def _missing(self, index: HistoryIndex, limit: int) -> list[int]:
        if index.embedder() != self._embedder.name:
            index.set_embedder(self._embedder.name, self._embedder.dimensions)
        return index.without_vector(limit)

    async def _is_ready(self) -> bool:
        """Embed something, once: a model is loaded then, and an endpoint's dimensions are known."""
        pace = _Pace()
        while not self._ready:
            fault = await self._fault_of_harmless(pace)
            self._ready = fault is None
            if fault in {"input", "setup"}:
                return False
            if fault == "passing":
                pace.failures += 1
                await self._sleep(pace.wait_seconds())
        return True

    async def _failed(self, error: Exception, pace: _Pace, count: int) -> _Next:
        """Return what to do about *count* texts that failed, after the wait that it takes."""
        fault = self._noted(error, pace)
        pace.failures += 1
        if count == 1 and (fault == "input" or pace.failures >= _REFUSED_FAILURES):
            harmless = await self._fault_of_harmless(pace)
            if harmless is None:
                return "pass over"
            fault = "passing" if harmless == "passing" else "setup"
        if fault == "setup":
            return "stop"
        if fault == "input":
            pace.size = count // 2
            return "again"
        if pace.failures >= _SUSPECT_FAILURES:
            pace.size = 1
        await self._sleep(pace.wait_seconds())
        return "again"

    async def _fault_of_harmless(self, pace: _Pace) -> Fault | None:
        try:
            await self._embedder.embed([_HARMLESS])
        except Exception as error:  # noqa: BLE001 -- an embedder may be anybody's
            return self._noted(error, pace)
        return None

    def _noted(self, error: Exception, pace: _Pace) -> Fault:
        self._reason = _sentence(error)
        pace.asked = error.wait_seconds if isinstance(error, EmbedderError) else None
        return error.fault if isinstance(error, EmbedderError) else "input"

    def _like_no_other(self, count: int) -> Vectors:
        return np.zeros((count, self._embedder.dimensions), np.float32)

    async def _vectors(self, texts: Sequence[str]) -> Vectors:
        """Return rows for *texts*; what has no words is like nothing, and is not sent anywhere."""
        vectors = self._like_no_other(len(texts))
        worded = [place for place, text in enumerate(texts) if text.strip()]
        if worded:
            vectors[worded] = await self._embedder.embed([texts[place] for place in worded])
        return vectors


def _bounded(texts: Iterable[str]) -> int:
    """Return how many of *texts* make one batch: at least one, and no more than a short process has time for."""
    room = _BATCH_CHARACTERS
    for count, text in enumerate(texts):
        room -= min(len(text), _MOST_CHARACTERS)
        if room < 0 and count:
            return count
    return _BATCH


def _searched(author: str, text: str) -> str:
    return f"{author}: {text}" if author and text.strip() else text


def _sentence(error: Exception) -> str:
    return error.reason if isinstance(error, EmbedderError) else f"The embedder failed ({type(error).__name__})."

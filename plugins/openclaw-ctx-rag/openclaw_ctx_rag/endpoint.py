"""Any OpenAI-compatible ``/embeddings``."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit, urlunsplit

import attrs
import msgspec
import numpy as np

from .chunks import Chunked
from .embedder import EmbedderError, Fault, unit_rows
from .index import Vectors
from .worker import Worker

__all__ = ["Endpoint"]

_BATCH: Final = 32
_BATCH_CHARACTERS: Final = 60_000
_TRIES: Final = 3
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0
_CONNECT_SECONDS: Final = 10.0
_LARGEST_ANSWER: Final = 64 * 1024 * 1024
_OK: Final = 200
_INPUT: Final = frozenset({400, 413, 422})
_PASSING: Final = frozenset({408, 409, 425, 429})
_SERVER: Final = 500
_NO_NUMBER = re.compile(rb"\b(?:NaN|Infinity|null)\b")


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


@attrs.frozen
class _Came:
    """What an answer was; its body only where it is good."""

    status: int
    body: bytes
    wait_seconds: float | None


class _UnreadError(Exception):
    """An answer was not read to its end."""


class Endpoint:
    """
    Asks an endpoint, in threads of its own: large answers are read off the loop.

    What is urgent has a connection for itself and is asked once; the rest is tried three
    times, as far as that may help. Redirects are not followed: they would take the key along.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        seconds: float = 30.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """
        Connect to nothing yet.

        Args:
            url: The base, up to and with ``/v1``; a query stays.
            model: Its name there.
            api_key: Sent as a bearer token.
            seconds: How long one request may take, from its first byte to the last of the answer.
            sleep: Waits between tries.

        Raises:
            EmbedderError: *url* is none.
        """
        self._url, self._shown, self._host = _address(url)
        self._model = model
        self._key = api_key
        self._seconds = seconds
        self._sleep = sleep
        self._dimensions = 0
        self._client: Any = None
        self._workers = {urgent: Worker(f"openclaw-ctx-rag-endpoint-{urgent}") for urgent in (False, True)}

    @property
    def name(self) -> str:
        """Return model, host and dimensions; a port or a path makes no other vectors."""
        return f"{self._model}@{self._host}/{self._dimensions or '?'}/mean-of-4x150"

    @property
    def dimensions(self) -> int:
        """Return what the first answer said; 0 before it."""
        return self._dimensions

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """Return a row for each text, in as many requests as it takes."""
        if not texts:
            return np.zeros((0, self._dimensions), np.float32)
        chunked = await self._workers[urgent].run(partial(Chunked.of, texts), urgent=urgent)
        rows = [await self._tried(batch, urgent=urgent) for batch in _batches(chunked.chunks)]
        return chunked.mean(np.concatenate(rows))

    async def close(self) -> None:
        """Close the connections; a request that runs has two seconds."""
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        if self._client is not None:
            await asyncio.to_thread(self._client.close)
            self._client = None

    async def _tried(self, batch: list[str], *, urgent: bool) -> Vectors:
        tries = 1 if urgent else _TRIES
        wait = _FIRST_WAIT
        while True:
            tries -= 1
            try:
                return await self._workers[urgent].run(partial(self._ask, batch), urgent=urgent)
            except EmbedderError as error:
                if error.fault != "passing" or tries <= 0:
                    raise
                asked = error.wait_seconds
            await self._sleep(wait if asked is None else asked)
            wait *= 2

    def _ask(self, batch: list[str]) -> Vectors:
        came = self._post(batch)
        if came.status != _OK:
            self._fail(f"answered {came.status}", _fault(came.status), came.wait_seconds)
        try:
            data = msgspec.json.decode(came.body, type=_Answer).data
        except (msgspec.DecodeError, UnicodeDecodeError):
            # No number is what some models make of some texts, and it is written in all of these ways.
            fault: Fault = "input" if _NO_NUMBER.search(came.body) else "passing"
            self._fail("answered with what is no list of vectors", fault)
        places = [place if row.index is None else row.index for place, row in enumerate(data)]
        if sorted(places) != list(range(len(batch))):
            self._fail(f"answered with {len(data)} vectors for {len(batch)} texts, or not one for each")
        if len({len(row.embedding) for row in data}) != 1:
            self._fail("answered with vectors of several lengths")
        rows = [np.asarray(data[places.index(place)].embedding, np.float64) for place in range(len(batch))]
        return self._known(unit_rows(np.stack(rows), len(batch)))

    def _known(self, vectors: Vectors) -> Vectors:
        found = vectors.shape[1]
        if self._dimensions not in {0, found}:
            self._fail(f"answered with {found} dimensions, and before with {self._dimensions}", "setup")
        self._dimensions = found
        return vectors

    def _post(self, batch: list[str]) -> _Came:
        # It belongs to an extra, and takes a moment: the first text imports it, in this thread.
        import httpx  # noqa: PLC0415 -- see above

        until = time.monotonic() + self._seconds
        fault: Fault = "passing"
        try:
            if self._client is None:
                headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
                self._client = httpx.Client(headers=headers, follow_redirects=False)
            limits = httpx.Timeout(self._seconds, connect=min(self._seconds, _CONNECT_SECONDS))
            body = {"model": self._model, "input": batch}
            with self._client.stream("POST", self._url, json=body, timeout=limits) as response:
                asked = _retry_after(response.headers.get("retry-after"))
                whole = _read(response.iter_bytes(), until) if response.status_code == _OK else b""
                return _Came(response.status_code, whole, asked)
        except httpx.TimeoutException:
            said = f"took longer than {self._seconds:g} seconds"
        except httpx.TransportError as error:
            said = f"could not be reached ({type(error).__name__})"
        except _UnreadError as error:
            said = str(error)
        except Exception as error:  # noqa: BLE001 -- a key that is no header, and whatever else a library says of it
            said, fault = f"could not be asked ({type(error).__name__})", "setup"
        # Raised here: the foreign exception, which may hold the key, is neither cause nor context.
        raise self._error(said, fault)

    def _fail(self, said: str, fault: Fault = "passing", wait_seconds: float | None = None) -> NoReturn:
        raise self._error(said, fault, wait_seconds)

    def _error(self, said: str, fault: Fault, wait_seconds: float | None = None) -> EmbedderError:
        return EmbedderError(f"The endpoint {self._shown} {said}.", fault, wait_seconds)


def _address(url: str) -> tuple[str, str, str]:
    """Return where to post, what of it may be shown, and the host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    else:
        if parts.scheme in {"http", "https"} and host:
            path = parts.path.rstrip("/") + "/embeddings"
            shown = f"[{host}]" if ":" in host else host
            shown = f"{shown}:{port}" if port else shown
            return (
                urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")),
                urlunsplit((parts.scheme, shown, path, "", "")),
                host,
            )
    msg = "endpoint_url is no http or https URL."
    raise EmbedderError(msg, "setup")


def _batches(chunks: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for chunk in chunks:
        if batch and (len(batch) == _BATCH or held + len(chunk) > _BATCH_CHARACTERS):
            yield batch
            batch, held = [], 0
        batch.append(chunk)
        held += len(chunk)
    if batch:
        yield batch


def _read(parts: Iterator[bytes], until: float) -> bytes:
    whole = bytearray()
    for part in parts:
        whole += part
        if len(whole) > _LARGEST_ANSWER:
            msg = "answered with more than 64 MB"
            raise _UnreadError(msg)
        if time.monotonic() > until:
            msg = "did not come to the end of its answer in time"
            raise _UnreadError(msg)
    return bytes(whole)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds asked for, at most a minute; a date is as good as nothing asked."""
    if value is None or not re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value, re.ASCII):
        return None
    return min(float(value), _LONGEST_WAIT)


def _fault(status: int) -> Fault:
    if status in _INPUT:
        return "input"
    return "passing" if status in _PASSING or status >= _SERVER else "setup"

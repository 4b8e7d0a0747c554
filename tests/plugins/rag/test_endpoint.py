"""An endpoint: what is sent, what is taken for an answer, and what is said of one that is none."""

import asyncio
import json
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import numpy as np
import pytest

from openclaw_ctx_rag.embedder import EmbedderError
from openclaw_ctx_rag.endpoint import Endpoint

pytest.importorskip("httpx", reason="the extra 'endpoint' is not installed")

KEY = "sk-very-secret"


@attrs.frozen
class _Answer:
    """What the server says to one request."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = attrs.field(factory=dict)
    hangs: bool = False
    drips: bool = False


@attrs.define(eq=False)
class _Server:
    """A server on a thread of its own, which says what it was told to, and then answers well."""

    url: str
    answers: list[_Answer] = attrs.field(factory=list)
    requests: list[dict[str, Any]] = attrs.field(factory=list)
    headers: list[dict[str, str]] = attrs.field(factory=list)
    paths: list[str] = attrs.field(factory=list)
    arrived: threading.Event = attrs.field(factory=threading.Event)
    over: threading.Event = attrs.field(factory=threading.Event)


class _Http(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of who has gone before the end."""


def _vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, float(text.count("a")), 3.0]


def _well(texts: list[str]) -> bytes:
    """Return a good answer, its rows in another order than asked."""
    rows = [{"object": "embedding", "index": place, "embedding": _vector(text)} for place, text in enumerate(texts)]
    return json.dumps({"object": "list", "data": rows[::-1], "model": "m", "usage": {"total_tokens": 1}}).encode()


def _handler(server: Callable[[], _Server]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            said = server()
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said.requests.append(request)
            said.headers.append({name.lower(): value for name, value in self.headers.items()})
            said.paths.append(self.path)
            said.arrived.set()
            answer = said.answers.pop(0) if said.answers else _Answer()
            if answer.hangs:
                said.over.wait(30)
                self.close_connection = True
                return
            body = _well(request["input"]) if answer.body is None else answer.body
            self.send_response(answer.status)
            for name, value in {"content-length": str(len(body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if answer.drips:
                self._drip(body, said)
            else:
                self.wfile.write(body)

        def _drip(self, body: bytes, said: _Server) -> None:
            self.close_connection = True
            try:
                for place in range(len(body)):
                    self.wfile.write(body[place : place + 1])
                    if said.over.wait(0.02):
                        return
            except OSError:  # who listens has gone
                return

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture
def server() -> Iterator[_Server]:
    """Run a server that speaks the wire format."""
    http = _Http(("127.0.0.1", 0), _handler(lambda: made))
    made = _Server(f"http://127.0.0.1:{http.server_port}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.over.set()
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def slept() -> list[float]:
    """Return the waits that were asked for."""
    return []


@pytest.fixture
async def endpoint(server, slept):
    """Return what is tested, which waits in no time."""
    made = _endpoint(server, slept)
    yield made
    await made.close()


def _endpoint(server: _Server, slept: list[float], **options: Any) -> Endpoint:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return Endpoint(server.url, "m", api_key=KEY, sleep=sleep, **options)


def _unit(text: str) -> Any:
    return np.asarray(_vector(text)) / np.linalg.norm(_vector(text))


# -- what works -----------------------------------------------------------------------------------


async def test_rows_stand_in_the_order_of_their_index_at_unit_length(server, endpoint):
    """Whatever the order in which they came."""
    texts = ["a", "banana", "an apple a day"]

    rows = await endpoint.embed(texts)

    assert rows.dtype == np.float32
    assert np.allclose(rows, [_unit(text) for text in texts], atol=1e-6)
    assert server.requests == [{"model": "m", "input": texts}]


async def test_the_key_goes_as_a_bearer_token_to_the_path_below_the_base(server, endpoint):
    """And a question of the base stays."""
    other = Endpoint(f"{server.url}/?api-version=2", "m")

    await endpoint.embed(["a"])
    await other.embed(["a"])
    await other.close()

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in server.headers[1]
    assert server.paths == ["/v1/embeddings", "/v1/embeddings?api-version=2"]


async def test_rows_without_an_index_stand_in_the_order_in_which_they_came(server, endpoint):
    """Some servers leave it out."""
    rows = [{"embedding": _vector(text)} for text in ("a", "bb")]
    server.answers.append(_Answer(body=json.dumps({"data": rows}).encode()))

    assert np.allclose(await endpoint.embed(["a", "bb"]), [_unit("a"), _unit("bb")], atol=1e-6)


async def test_many_texts_go_in_several_requests(server, endpoint):
    """Of 32 texts at most, and their rows stand in order."""
    texts = ["a" * number for number in range(1, 71)]

    rows = await endpoint.embed(texts)

    assert [len(request["input"]) for request in server.requests] == [32, 32, 6]
    assert np.allclose(rows, [_unit(text) for text in texts], atol=1e-6)


async def test_a_long_text_is_the_mean_of_its_first_four_chunks(server, endpoint):
    """So that no text is longer than models take."""
    long = "word " * 5_000

    rows = await endpoint.embed(["a", long])

    (request,) = server.requests
    assert [len(text.split()) for text in request["input"]] == [1, 150, 150, 150, 150]
    assert np.allclose(rows[1], _unit(request["input"][1]), atol=1e-6)


async def test_any_text_can_be_sent(server, endpoint):
    """The empty one as a space, half a surrogate pair as a question mark."""
    await endpoint.embed(["", "x\ud800y"])

    assert server.requests[0]["input"] == [" ", "x?y"]


async def test_no_texts_ask_nobody(server, endpoint):
    """And have no rows."""
    assert (await endpoint.embed([])).shape == (0, 0)
    assert server.requests == []


async def test_the_name_says_model_host_and_dimensions_once_they_are_known(endpoint):
    """A port is another tomorrow, and makes no other vectors."""
    assert endpoint.dimensions == 0

    await endpoint.embed(["a"])

    assert (endpoint.name, endpoint.dimensions) == ("m@127.0.0.1/4/mean-of-4x150", 4)


# -- what does not --------------------------------------------------------------------------------


async def _failure(endpoint: Endpoint, *, urgent: bool = False, texts: tuple[str, ...] = ("a", "bb")) -> EmbedderError:
    """Return how embedding fails, and see that the key is nowhere in it."""
    with pytest.raises(EmbedderError) as caught:
        await endpoint.embed(texts, urgent=urgent)
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert KEY not in repr(caught.value.__context__)
    return caught.value


@pytest.mark.parametrize(
    "status, fault",
    [
        pytest.param(302, "setup", id="a redirect, which would take the key along"),
        pytest.param(400, "input", id="a bad request"),
        pytest.param(401, "setup", id="a wrong key"),
        pytest.param(402, "setup", id="no money"),
        pytest.param(404, "setup", id="no such model"),
        pytest.param(413, "input", id="too large"),
        pytest.param(422, "input", id="not to be processed"),
    ],
)
async def test_what_trying_again_does_not_help_is_not_tried_again(status, fault, server, endpoint, slept):
    """The error names address and status, and nothing that the server said."""
    server.answers.append(_Answer(status, f"no, {KEY}".encode(), {"location": f"{server.url}/elsewhere"}))

    error = await _failure(endpoint)

    assert str(error) == f"The endpoint {server.url}/embeddings answered {status}."
    assert (error.fault, len(server.requests), slept) == (fault, 1, [])


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_passes_is_tried_three_times(status, server, endpoint, slept):
    """Half a second apart, and then one."""
    server.answers.extend([_Answer(status), _Answer(status)])

    assert (await endpoint.embed(["a"])).shape == (1, 4)
    assert (len(server.requests), slept) == (3, [0.5, 1.0])


async def test_after_three_tries_it_fails_in_passing(server, endpoint):
    """And says how long the server asked to be left alone."""
    server.answers.extend([_Answer(429, headers={"retry-after": "7"})] * 3)

    error = await _failure(endpoint)

    assert (error.fault, error.wait_seconds, len(server.requests)) == ("passing", 7, 3)


@pytest.mark.parametrize(
    "asked, waited",
    [
        pytest.param("3", 3, id="seconds"),
        pytest.param("0.25", 0.25, id="parts of a second"),
        pytest.param("86400", 60, id="a day, which is a minute"),
        pytest.param("Fri, 31 Dec 1999 23:59:59 GMT", 0.5, id="a date, which says nothing"),
        pytest.param("-1", 0.5, id="the past, which says nothing"),
        pytest.param("nan", 0.5, id="no number, which says nothing"),
    ],
)
async def test_a_server_that_asks_to_be_left_alone_is(asked, waited, server, endpoint, slept):
    """For at most a minute."""
    server.answers.append(_Answer(429, headers={"retry-after": asked}))

    await endpoint.embed(["a"])

    assert slept == [waited]


async def test_a_question_is_asked_once(server, endpoint, slept):
    """By the time of a second answer nobody would wait any more."""
    server.answers.append(_Answer(503))

    error = await _failure(endpoint, urgent=True)

    assert (error.fault, len(server.requests), slept) == ("passing", 1, [])


def _rows(*embeddings: Any, places: tuple[int, ...] = (0, 1, 2)) -> bytes:
    rows = [{"index": place, "embedding": row} for place, row in zip(places, embeddings, strict=False)]
    return json.dumps({"data": rows}).encode()


@pytest.mark.parametrize(
    "body, fault",
    [
        pytest.param(b"<html>Welcome to the hotel</html>", "passing", id="no JSON"),
        pytest.param(b"\xff\xfe", "passing", id="no text"),
        pytest.param(b"", "passing", id="nothing"),
        pytest.param(b'{"error": "sk-very-secret"}', "passing", id="an error within a success"),
        pytest.param(b'{"data": {}}', "passing", id="no list"),
        pytest.param(_rows([1, 2]), "passing", id="too few"),
        pytest.param(_rows([1, 2], [1, 2], [1, 2]), "passing", id="too many"),
        pytest.param(_rows([1, 2], [1, 2], places=(0, 0)), "passing", id="one twice"),
        pytest.param(_rows([1, 2], [1, 2], places=(1, 2)), "passing", id="one that was not asked for"),
        pytest.param(_rows([1, 2], [1, 2, 3]), "passing", id="several lengths"),
        pytest.param(_rows([], []), "passing", id="no length"),
        pytest.param(_rows([1, 2], ["a", "b"]), "passing", id="no numbers"),
        pytest.param(_rows([1, 2], [1, float("nan")]), "input", id="not a number"),
        pytest.param(_rows([1, 2], [1, float("inf")]), "input", id="no end"),
        pytest.param(_rows([1, 2], [1, None]), "input", id="null"),
        pytest.param(_rows([1, 2], [0, 0]), "input", id="no direction"),
    ],
)
async def test_what_is_no_answer_is_not_taken_for_one(body, fault, server, endpoint):
    """A row that is missing, wrong or another's would be found for the wrong question for ever."""
    server.answers.append(_Answer(body=body))

    error = await _failure(endpoint, urgent=True)

    assert error.fault == fault


async def test_numbers_of_any_size_have_their_direction(server, endpoint):
    """Their squares need not be finite, nor more than nothing."""
    server.answers.append(_Answer(body=_rows([3e300, 4e300], [3e-300, 4e-300])))

    assert np.allclose(await endpoint.embed(["a", "bb"]), [[0.6, 0.8], [0.6, 0.8]])


async def test_vectors_of_another_length_than_before_are_another_models(server, endpoint):
    """Which nobody may mix in."""
    await endpoint.embed(["a"])
    server.answers.append(_Answer(body=_rows([1, 2])))

    error = await _failure(endpoint, texts=("a",))

    assert error.fault == "setup"


@pytest.mark.parametrize(
    "answer", [pytest.param(_Answer(hangs=True), id="hangs"), pytest.param(_Answer(drips=True), id="drips")]
)
async def test_a_server_that_does_not_come_to_an_end_is_left(answer, server, slept):
    """One that says nothing, and one that says a little all the time."""
    server.answers.append(answer)
    endpoint = _endpoint(server, slept, seconds=0.1)

    error = await _failure(endpoint, urgent=True)
    await endpoint.close()

    assert error.fault == "passing"


async def test_a_question_does_not_wait_for_a_batch_that_hangs(server, endpoint):
    """It has a connection for itself."""
    server.answers.append(_Answer(hangs=True))
    batch = asyncio.create_task(endpoint.embed(["a"]))
    await asyncio.to_thread(server.arrived.wait, 30)

    assert (await endpoint.embed(["who"], urgent=True)).shape == (1, 4)

    server.over.set()
    batch.cancel()
    await asyncio.gather(batch, return_exceptions=True)


async def test_a_server_that_is_not_there_is_a_failure_in_passing(slept):
    """It may be started yet."""
    endpoint = Endpoint("http://127.0.0.1:1/v1", "m", api_key=KEY)

    error = await _failure(endpoint, urgent=True)
    await endpoint.close()

    assert str(error) == "The endpoint http://127.0.0.1:1/v1/embeddings could not be reached (ConnectError)."
    assert error.fault == "passing"


async def test_a_key_that_is_no_header_is_named_nowhere(server):
    """The library's own error would hold it."""
    endpoint = Endpoint(server.url, "m", api_key=f"{KEY}\n\u20ac")

    error = await _failure(endpoint)
    await endpoint.close()

    assert error.fault == "setup"


async def test_an_error_shows_neither_password_nor_question_of_the_address():
    """Keys stand there too."""
    endpoint = Endpoint(f"http://me:{KEY}@127.0.0.1:1/v1?key={KEY}", "m")

    error = await _failure(endpoint, urgent=True)
    await endpoint.close()

    assert "http://127.0.0.1:1/v1/embeddings" in str(error)
    assert KEY not in endpoint.name


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://host/v1", "http://", "http://host:port/v1", "http://[/v1"]
)
def test_what_is_no_address_is_refused_at_once(url):
    """Without showing it: a key may have been put into the wrong place."""
    with pytest.raises(EmbedderError, match="no http or https URL"):
        Endpoint(url, "m")


async def test_what_was_closed_asks_nobody_any_more(server, slept):
    """Whoever still asks hears so, and is not taken for cancelled."""
    endpoint = _endpoint(server, slept)
    await endpoint.embed(["a"])
    await endpoint.close()

    with pytest.raises(EmbedderError, match="closed"):
        await endpoint.embed(["b"])
    assert len(server.requests) == 1

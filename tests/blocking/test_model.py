"""A model may be a plain function: it blocks nobody, and answers as an asynchronous one does."""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

import pytest

from openclaw_ctx import Complete, CompletionRequest, CompletionResult, UserMessage
from openclaw_ctx.blocking.model import awaited
from openclaw_ctx.blocking.thread import LoopThread
from tests.assembly.plain import texts
from tests.blocking.hosts import THREAD, asking, opened


class _Asynchronous:
    async def __call__(self, request: CompletionRequest) -> CompletionResult:
        await asyncio.sleep(0)
        return CompletionResult(text=f"{threading.current_thread().name} answers")


async def _asynchronous(request: CompletionRequest) -> CompletionResult:
    return await _Asynchronous()(request)


def _plain(request: CompletionRequest) -> CompletionResult:
    return CompletionResult(text=f"{threading.current_thread().name} answers")


def _returning(model: Complete, request: CompletionRequest) -> Awaitable[CompletionResult]:
    return model(request)


@pytest.mark.parametrize(
    "model,answer",
    [
        pytest.param(_plain, "openclaw-ctx-model answers", id="a plain function, in a thread of its own"),
        pytest.param(_asynchronous, f"{THREAD} answers", id="an async function, on the loop"),
        pytest.param(_Asynchronous(), f"{THREAD} answers", id="an object that is one"),
        pytest.param(
            functools.partial(_returning, _asynchronous), f"{THREAD} answers", id="a plain one that returns one"
        ),
        pytest.param(None, "ModelUnavailableError: No model", id="none"),
    ],
)
def test_a_model_may_be_plain_or_asynchronous(tmp_path, model, answer):
    """What the engine is told is the same; where it runs is not."""
    with opened(tmp_path, "recorder", engines={"recorder": asking()}, model=model) as host, host.session("a") as chat:
        chat.append(UserMessage(content="one"))

        told = chat.assemble().system_prompt

    assert told is not None
    assert told.startswith(answer)


@pytest.mark.parametrize("model", [_asynchronous, _Asynchronous()], ids=["a function", "an object"])
def test_an_asynchronous_model_is_taken_as_it_is(model):
    """No thread is begun for what blocks nobody."""
    assert awaited(model) is model


@pytest.mark.parametrize("error", [ValueError("no credit"), StopIteration("odd")], ids=["an error", "an odd one"])
def test_what_a_plain_model_raises_reaches_who_asked(tmp_path, error):
    """Whatever it is: no call waits for an answer that cannot come."""

    def model(request):
        raise error

    with opened(tmp_path, "recorder", engines={"recorder": asking()}, model=model) as host, host.session("a") as chat:
        chat.append(UserMessage(content="one"))

        told = chat.assemble().system_prompt

    assert told in {"ValueError: no credit", "RuntimeError: coroutine raised StopIteration"}


def test_a_plain_model_that_blocks_holds_up_nobody_else(tmp_path):
    """While it thinks, another thread writes to the same session and assembles in another."""
    asked, go_on = threading.Event(), threading.Event()

    def model(request):
        asked.set()
        assert go_on.wait(60)
        return CompletionResult(text="at last")

    engines = {"recorder": asking()}
    with opened(tmp_path, "recorder", engines=engines, model=model) as host, ThreadPoolExecutor(1) as pool:
        one, other = host.session("one"), host.session("other")
        one.append(UserMessage(content="first"))
        waiting = pool.submit(one.assemble)
        assert asked.wait(60)

        one.append(UserMessage(content="second"))
        other.append(UserMessage(content="third"))

        assert not waiting.done()
        go_on.set()
        assert waiting.result(60).system_prompt == "at last"
        assert (texts(one.history), texts(other.history)) == (["first", "second"], ["third"])


def test_a_plain_model_may_use_the_host(tmp_path):
    """It runs in a thread of its own, so an append from there is as good as from anywhere."""

    def model(request):
        chat.append(UserMessage(content="noted"))
        return CompletionResult(text="done")

    with opened(tmp_path, "recorder", engines={"recorder": asking()}, model=model) as host, host.session("a") as chat:
        chat.append(UserMessage(content="one"))

        assert chat.assemble().system_prompt == "done"
        assert texts(chat.history) == ["one", "noted"]


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_call_takes_its_callers_context_along(tmp_path, kind):
    """Context variables, by which programs trace their requests, are the caller's where its model is asked."""
    request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="nobody's")

    def plain(request):
        return CompletionResult(text=request_id.get())

    async def asynchronous(request):
        return plain(request)

    model = plain if kind == "plain" else asynchronous
    thread = LoopThread()
    request_id.set("mine")

    async def ask() -> str:
        return (await awaited(model)(CompletionRequest(messages=[]))).text

    assert thread.run(ask, "Host") == "mine"
    thread.end()

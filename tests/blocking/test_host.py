"""What the asynchronous host does, by plain calls from any thread."""

import asyncio
import contextlib
import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    CompletionResult,
    ConfigError,
    EngineFailedError,
    EntryNotFoundError,
    FileStore,
    SessionBusyError,
    SessionClosedError,
    UserMessage,
    contract,
)
from openclaw_ctx.blocking.thread import LoopThread
from tests.assembly.plain import engine, texts
from tests.assembly.recording import open_host
from tests.blocking.hosts import THREAD, asking, opened, threads

# -- what it does --------------------------------------------------------------------------------------------------


def test_a_conversation_is_kept_and_asked_for_by_plain_calls(tmp_path):
    """Append, assemble, end the turn, compact; and the next opening, by either kind of host, goes on."""
    with opened(tmp_path) as host, host.session("talk") as chat:
        asked = chat.append(UserMessage(content="one"))
        prompt = chat.assemble(budget=1_000, system_prompt="Be brief.")
        chat.append(AssistantMessage(content="two"))
        ended = chat.end_turn()
        compacted = chat.compact(budget=1_000, force=False)

        assert asked.entry_id is not None
        assert (texts(prompt.messages), prompt.system_prompt, prompt.engine) == (["one"], "Be brief.", "legacy")
        assert (ended.engine, compacted.result.compacted) == ("legacy", False)
        assert texts(chat.history) == texts(chat.transcript.record()) == ["one", "two"]
        session_id = chat.session_id

    async def again() -> tuple[list[str], str]:
        async with open_host(tmp_path, "legacy") as host, host.session("talk") as session:
            return texts(session.history), session.session_id

    assert asyncio.run(again()) == (["one", "two"], session_id)


def test_a_session_is_named_marked_branched_forked_and_rotated_by_plain_calls(tmp_path):
    """Each does to the record what it does with a loop."""
    with opened(tmp_path) as host, host.session("talk") as chat:
        first = chat.append(UserMessage(content="one"))
        chat.append(AssistantMessage(content="two"))
        chat.rename("A talk")
        chat.label(first.entry_id, "the beginning")
        state = chat.append_custom("mine", {"step": 1})
        forked = chat.fork("copy", at=first.entry_id)
        chat.branch(first.entry_id)
        chat.append(AssistantMessage(content="another two"))
        rotation = chat.rotate()

        assert chat.transcript.has_entry(first.entry_id)
        assert not chat.transcript.has_entry(state)
        assert texts(chat.history) == ["one", "another two"]
        assert (rotation.rotated, bool(rotation.reason)) == (False, True), "nothing was compacted"
        with pytest.raises(EntryNotFoundError):
            chat.branch("nowhere")
        with host.session("copy") as copy:
            assert texts(copy.history) == ["one"]
        assert forked.parent == "talk"
        assert {info.key for info in host.store.sessions()} == {"talk", "copy"}


class _Told(FileStore):
    """Knows in which threads it was used."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.users: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or not inspect.ismethod(value):
            return value

        def told(*arguments: Any, **options: Any) -> Any:
            self.users.add(threading.current_thread().name)
            return value(*arguments, **options)

        return told


def test_a_store_is_used_in_the_hosts_thread_alone(tmp_path):
    """By the host's sessions and by whoever asks ``host.store``, in any thread: a store need not bear two at once."""
    store = _Told(tmp_path / "sessions")
    with opened(tmp_path, store=store) as host, ThreadPoolExecutor(2) as pool:
        with host.session("talk") as chat:
            chat.append(UserMessage(content="one"))
            chat.assemble()
            chat.fork("copy")
        keys = pool.submit(lambda: {info.key for info in host.store.sessions()}).result(60)
        archive = host.store.archive("copy", "deleted")
        restored = pool.submit(host.store.restore, archive.name).result(60)
        with contextlib.closing(host.store.read("copy")) as copy:
            found = texts(copy.record())

    assert (keys, restored.key, found) == ({"talk", "copy"}, "copy", ["one"])
    assert store.users == {THREAD}
    with pytest.raises(SessionClosedError):
        host.store.sessions()


def test_what_fails_raises_what_it_raises_with_a_loop(tmp_path):
    """A mistake of the caller's, a session that is open already, a configuration that is none; and it all goes on."""
    config = {"session": {"writeLock": {"acquireTimeoutMs": 0}}}
    with opened(tmp_path, config=config) as host, host.session("talk") as chat:
        with pytest.raises(TypeError, match="append takes a message"):
            chat.append("one")
        with pytest.raises(ValueError, match="a budget is a whole number"):
            chat.assemble(budget=0)
        with pytest.raises(ValueError, match="a session key is a name"):
            host.session(" ")
        with pytest.raises(SessionBusyError):
            host.session("talk")

        chat.append(UserMessage(content="still here"))
        assert texts(chat.history) == ["still here"]
    with pytest.raises(ConfigError):
        opened(tmp_path, config={"plugins": 5})
    assert threads() == []


def test_an_error_that_was_raised_keeps_nothing_of_its_call_alive(tmp_path):
    """No circle of error and frame is left to the garbage collector, each time."""
    gc.collect()
    gc.disable()
    try:
        with opened(tmp_path) as host, host.session("talk") as chat:
            for _ in range(3):
                with pytest.raises(TypeError):
                    chat.append("one")
            assert not [thing for thing in gc.get_objects() if type(thing).__module__ == LoopThread.__module__][1:]
    finally:
        gc.enable()


def test_tools_of_an_engine_are_called_plainly(tmp_path):
    """``tool.call(arguments)`` returns the text, and raises what failed."""

    def recall(arguments):
        if not arguments:
            message = "nothing was asked for"
            raise ValueError(message)
        return f"it was {arguments['q']}"

    tool = contract.EngineTool(name="recall", description="Look it up.", parameters={"type": "object"}, call=recall)
    engines = {"recorder": engine(tools=lambda self: [tool])}
    with opened(tmp_path, "recorder", engines=engines) as host, host.session("talk") as chat:
        (plain,) = chat.tools()

        assert plain.call({"q": "x"}) == "it was x"
        with pytest.raises(EngineFailedError, match="nothing was asked for"):
            plain.call({})
        assert (plain.name, plain.description, plain.parameters) == ("recall", "Look it up.", {"type": "object"})


def test_several_threads_use_one_host(tmp_path):
    """Into one session and into their own: each message is there once, and each thread's are in its order."""
    with opened(tmp_path) as host, host.session("shared") as shared, ThreadPoolExecutor(4) as pool:

        def write(writer: int) -> list[str]:
            with host.session(f"own-{writer}") as own:
                for number in range(20):
                    shared.append(UserMessage(content=f"{writer} {number}"))
                    own.append(UserMessage(content=f"{number}"))
                own.assemble()
                return texts(own.history)

        written = list(pool.map(write, range(4)))
        found = texts(shared.transcript.record())

    assert written == [[str(number) for number in range(20)]] * 4
    for writer in range(4):
        assert [text for text in found if text.startswith(f"{writer} ")] == [f"{writer} {n}" for n in range(20)]
    assert len(found) == 80


# -- where it cannot be called -------------------------------------------------------------------------------------


async def test_where_an_event_loop_runs_it_says_so(tmp_path):
    """Each call would block the loop: the error names the host to use instead, and nothing has happened."""
    with pytest.raises(RuntimeError, match=r"use openclaw_ctx\.Host there"):
        opened(tmp_path)
    host = await asyncio.to_thread(opened, tmp_path)
    chat = await asyncio.to_thread(host.session, "talk")

    for call in (
        lambda: host.session("other"),
        lambda: chat.append(UserMessage(content="one")),
        chat.close,
        host.close,
    ):
        with pytest.raises(RuntimeError, match=r"use openclaw_ctx\.Host there"):
            call()

    assert len(chat.history) == 0
    await asyncio.to_thread(host.close)
    assert threads() == []


def test_a_call_from_the_hosts_own_thread_is_refused(tmp_path):
    """``observe`` is called there, and so is an async model: who waited for the thread in it would wait for ever."""
    caught: list[BaseException] = []

    def try_all() -> None:
        for call in (lambda: chat.append(UserMessage(content="two")), chat.assemble, chat.close, host.close):
            try:
                call()
            except RuntimeError as error:
                caught.append(error)

    async def model(request):
        try_all()
        return CompletionResult(text="done")

    engines = {"recorder": asking()}
    host = opened(tmp_path, "recorder", engines=engines, model=model, observe=lambda call: try_all())
    with host, host.session("talk") as chat:
        chat.append(UserMessage(content="one"))
        prompt = chat.assemble()

        assert prompt.engine == "recorder"
        assert texts(chat.history) == ["one"]
    assert len(caught) >= 8
    assert {"from its own thread" in str(error) for error in caught} == {True}


def test_an_engine_cannot_call_the_host_that_it_serves(tmp_path):
    """Its lane is an event loop too."""
    caught: list[BaseException] = []

    def assemble(self, messages):
        with pytest.raises(RuntimeError, match="an event loop runs") as error:
            chat.append(UserMessage(content="two"))
        caught.append(error.value)
        return AssembleResult(messages=messages)

    engines = {"recorder": engine(assemble=assemble)}
    with opened(tmp_path, "recorder", engines=engines) as host, host.session("talk") as chat:
        chat.append(UserMessage(content="one"))

        assert chat.assemble().engine == "recorder"
    assert len(caught) == 1


# -- closing -------------------------------------------------------------------------------------------------------


def test_what_is_closed_says_so(tmp_path):
    """A session, a host, and a session whose host is closed; closing again does nothing, and the thread has ended."""
    disposed = []
    engines = {"recorder": engine(dispose=lambda self: disposed.append(1))}
    host = opened(tmp_path, "recorder", engines=engines)
    first, second = host.session("first"), host.session("second")
    first.append(UserMessage(content="one"))
    first.assemble()
    first.close()
    first.close()
    with pytest.raises(SessionClosedError, match="'first'"):
        first.append(UserMessage(content="two"))

    host.close()
    host.close()

    assert (disposed, host.closed, threads()) == ([1], True, [])
    second.close()
    for call in (lambda: second.append(UserMessage(content="two")), second.assemble, second.end_turn, second.tools):
        with pytest.raises(SessionClosedError, match="'second'"):
            call()
    with pytest.raises(SessionClosedError, match="Host"):
        host.session("third")
    assert host.selection().engine_id == "recorder"


def test_an_error_in_the_block_closes_and_passes(tmp_path):
    """``with`` closes what it opened, however it is left."""
    with pytest.raises(ZeroDivisionError), opened(tmp_path) as host, host.session("talk"):
        _ = 1 / 0

    assert host.closed
    assert threads() == []


def test_several_threads_may_close_one_host(tmp_path):
    """Each returns when it is closed."""
    host = opened(tmp_path)
    host.session("talk").append(UserMessage(content="one"))
    ready = threading.Barrier(4)

    def close() -> list[threading.Thread]:
        ready.wait(60)
        host.close()
        return threads()

    with ThreadPoolExecutor(4) as pool:
        closed = [pool.submit(close) for _ in range(4)]

        assert [future.result(60) for future in closed] == [[]] * 4


class _Telling:
    """A lock that says when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.awaited = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_who_closes_second_does_not_cut_the_first_one_short(tmp_path):
    """An engine that takes its time to be disposed has it, and both return afterwards."""
    disposing, go_on, disposed = threading.Event(), threading.Event(), []

    def dispose(self):
        disposing.set()
        assert go_on.wait(60)
        disposed.append(1)

    host = opened(tmp_path, "recorder", engines={"recorder": engine(dispose=dispose)})
    chat = host.session("talk")
    chat.append(UserMessage(content="one"))
    chat.assemble()
    host._thread._closing = _Telling()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(host.close)
        assert disposing.wait(60)
        second = pool.submit(host.close)
        assert host._thread._closing.awaited.wait(60)

        go_on.set()

        assert (first.result(60), second.result(60)) == (None, None)
    assert disposed == [1]


def test_who_waits_while_the_host_is_closed_is_told(tmp_path):
    """A thread that waits for another writer to let go, and one whose engine does not answer, both go on."""
    asked = threading.Event()

    async def assemble(self, messages):
        asked.set()
        await asyncio.Event().wait()

    host = opened(tmp_path, "recorder", engines={"recorder": engine(assemble=assemble)})
    chat = host.session("talk")
    chat.append(UserMessage(content="one"))
    with opened(tmp_path) as other, other.session("taken"), ThreadPoolExecutor(2) as pool:
        opening = pool.submit(host.session, "taken")
        assembling = pool.submit(chat.assemble)
        assert asked.wait(60)

        host.close()

        with pytest.raises(SessionClosedError):
            opening.result(60)
        assembling.exception(60)


def test_calls_race_a_close_and_none_hangs(tmp_path):
    """Each either does what it says or says that it is closed; what was acknowledged is there."""
    host = opened(tmp_path)
    chat = host.session("talk")
    ready = threading.Barrier(4)

    def write(writer: int) -> int:
        ready.wait(60)
        for number in range(10_000):
            try:
                chat.append(UserMessage(content=f"{writer} {number}"))
            except SessionClosedError:
                return number
        return 10_000

    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, writer) for writer in range(3)]
        ready.wait(60)
        host.close()
        written = [future.result(60) for future in writing]

    with opened(tmp_path) as again, again.session("talk") as read:
        found = texts(read.transcript.record())
    assert sorted(found) == sorted(f"{writer} {number}" for writer in range(3) for number in range(written[writer]))


def test_a_host_that_is_forgotten_ends_its_thread(tmp_path):
    """As soon as neither it nor a session of it is held: the engine is disposed and the transcript let go."""
    disposed = threading.Event()
    engines = {"recorder": engine(dispose=lambda self: disposed.set())}
    chat = opened(tmp_path, "recorder", engines=engines).session("talk")
    gc.collect()
    chat.append(UserMessage(content="one"))
    chat.assemble()
    (thread,) = threads()

    del chat
    gc.collect()
    thread.join(60)

    assert not thread.is_alive()
    assert disposed.is_set()
    with opened(tmp_path, config={"session": {"writeLock": {"acquireTimeoutMs": 0}}}) as host:
        assert texts(host.session("talk").history) == ["one"]

"""Ctrl-C, exit and fork, each against a real process."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.assembly.plain import texts
from tests.blocking.hosts import opened

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
import asyncio, gc, os, signal, sys, threading
from openclaw_ctx import (AssembleResult, CompletionRequest, CompletionResult, Registry, SessionBusyError, UserMessage,
                          blocking)
from tests.assembly.plain import engine, texts
from tests.blocking.hosts import opened, threads

state = sys.argv[1]

def say(*words):
    print(*words, flush=True)
"""


class Program:
    """A program of its own, begun with a folder to keep its state in."""

    def __init__(self, script: str, state_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), str(state_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])},
        )

    def says(self) -> str:
        """Return the next line that it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def interrupt(self) -> None:
        """Do as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def ends(self) -> list[str]:
        """Return what else it says, once it has ended well and in silence."""
        out, err = self._process.communicate(timeout=120)
        assert (self._process.returncode, err) == (0, "")
        return out.split("\n")[:-1]

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Program]]:
    """Return what begins a program; none is left when the test has ended."""
    begun: list[Program] = []

    def begin(script: str) -> Program:
        begun.append(Program(script, tmp_path))
        return begun[-1]

    yield begin
    for program in begun:
        program.kill()


WAITING = {
    "an engine": """
        async def assemble(self, messages):
            global waits
            if waits:
                waits = False
                say("waiting")
                await asyncio.Event().wait()
            return AssembleResult(messages=messages)
        model = None
    """,
    "a plain model": """
        async def assemble(self, messages):
            if waits:
                await self.services.complete(CompletionRequest(messages=messages))
            return AssembleResult(messages=messages)
        def model(request):
            global waits
            waits = False
            say("waiting")
            threading.Event().wait()
    """,
}


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_ctrl_c_cancels_the_call_and_leaves_the_session_usable(start, waiting):
    """``KeyboardInterrupt`` comes out of the call when the loop has let go of it: the same engine serves the next."""
    script = f"""
        waits = True
        {textwrap.indent(textwrap.dedent(waiting), " " * 8).strip()}
        host = opened(state, "recorder", engines={{"recorder": engine(assemble=assemble)}}, model=model)
        with host, host.session("talk") as chat:
            chat.append(UserMessage(content="one"))
            try:
                chat.assemble()
            except KeyboardInterrupt:
                say("interrupted", chat._session._core._busy.locked(), len(host._thread._waiting))
            chat.append(UserMessage(content="two"))
            say(chat.assemble().engine, texts(chat.history), host.quarantines())
        say(threads())
    """
    program = start(script)
    assert program.says() == "waiting"

    program.interrupt()

    assert program.ends() == ["interrupted False 0", "recorder ['one', 'two'] []", "[]"]


def test_ctrl_c_while_a_session_is_opened_leaves_it_free(start):
    """Whether the wait for the other writer was interrupted or the opening had just succeeded: it can be opened."""
    script = """
        real, ready = blocking.session.LoopThread.run, threading.Event()
        with opened(state) as host, opened(state) as other:
            taken = other.session("taken")
            signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                host.session("taken")
            except KeyboardInterrupt:
                say("interrupted", len(host._thread._waiting))
            taken.close()
            host.session("taken").close()

            post = host._thread._post
            def post_and_strike(callback):
                post(callback)
                if callback.__name__ == "start":
                    call = callback.__self__
                    while not call.finished:
                        pass
                    host._thread._post = post
                    signal.raise_signal(signal.SIGINT)
            host._thread._post = post_and_strike
            try:
                host.session("talk")
            except KeyboardInterrupt:
                say("interrupted", len(host._thread._waiting))
            with host.session("talk") as chat:
                say(len(chat.history))
    """

    assert start(script).ends() == ["interrupted 0", "interrupted 0", "0"]


def test_a_second_ctrl_c_waits_no_longer(start):
    """A loop that stands still, by an async model that blocks, cannot let go of the call: the user can."""
    script = """
        struck = 0

        def strike(*_):
            global struck
            struck += 1
            # Said once this function has been left: a second signal that found it running would be one with the first.
            threading.Timer(0.3, say, ("struck", struck)).start()
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, strike)

        async def model(request):
            say("waiting")
            threading.Event().wait()

        async def assemble(self, messages):
            await self.services.complete(CompletionRequest(messages=messages))

        host = opened(state, "recorder", engines={"recorder": engine(assemble=assemble)}, model=model)
        chat = host.session("talk")
        chat.append(UserMessage(content="one"))
        try:
            chat.assemble()
        except KeyboardInterrupt:
            say("interrupted")
    """
    program = start(script)
    for said in ("waiting", "struck 1"):
        assert program.says() == said
        program.interrupt()

    assert sorted(program.ends()) == ["interrupted", "struck 2"]


def test_ctrl_c_while_closing_closes_all_the_same(start):
    """An engine that takes its time to be disposed is left; sessions are closed, and the thread has ended."""
    script = """
        async def dispose(self):
            say("waiting")
            await asyncio.Event().wait()

        host = opened(state, "recorder", engines={"recorder": engine(dispose=dispose)})
        chat = host.session("talk")
        chat.append(UserMessage(content="one"))
        chat.assemble()
        try:
            host.close()
        except KeyboardInterrupt:
            say("interrupted", host.closed, threads())
        with opened(state, config={"session": {"writeLock": {"acquireTimeoutMs": 0}}}) as host:
            say(texts(host.session("talk").history))
    """
    program = start(script)
    assert program.says() == "waiting"

    program.interrupt()

    assert program.ends() == ["interrupted True []", "['one']"]


FORGOTTEN = {
    "a host and a session": "",
    "a call under way in another thread": """
        waiting = threading.Event()
        async def assemble(self, messages):
            waiting.set()
            await asyncio.Event().wait()
        busy = opened(state, "recorder", engines={"recorder": engine(assemble=assemble)}).session("busy")
        busy.append(UserMessage(content="one"))
        threading.Thread(target=busy.assemble, daemon=True).start()
        waiting.wait()
    """,
    "a plain model that hangs": """
        waiting = threading.Event()
        def model(request):
            waiting.set()
            threading.Event().wait()
        async def assemble(self, messages):
            await self.services.complete(CompletionRequest(messages=messages))
        busy = opened(state, "recorder", engines={"recorder": engine(assemble=assemble)}, model=model).session("busy")
        busy.append(UserMessage(content="one"))
        threading.Thread(target=busy.assemble, daemon=True).start()
        waiting.wait()
    """,
}


@pytest.mark.parametrize("forgotten", FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_program_that_forgets_to_close_ends_all_the_same(start, tmp_path, forgotten):
    """At once and in silence, and what was appended is there."""
    script = f"""
        host = opened(state)
        chat = host.session("talk")
        chat.append(UserMessage(content="one"))
        {textwrap.indent(textwrap.dedent(forgotten), " " * 8).strip()}
        say("end")
    """

    assert start(script).ends() == ["end"]
    with opened(tmp_path) as host, host.session("talk") as chat:
        assert texts(chat.history) == ["one"]


def test_in_a_child_that_was_forked_it_says_so(start):
    """Its thread is the parent's: calls raise, closing and ending touch nothing; the parent goes on, lock and all."""
    script = """
        host = opened(state)
        chat = host.session("talk")
        chat.append(UserMessage(content="one"))
        child = os.fork()
        if child == 0:
            for call in (lambda: chat.append(UserMessage(content="two")), lambda: host.session("other"), chat.assemble):
                try:
                    call()
                except RuntimeError as error:
                    say("child:", error)
            chat.close()
            host.close()
            del chat, host
            gc.collect()
            with opened(state) as own, own.session("mine") as mine:
                mine.append(UserMessage(content="my own"))
                say("child:", texts(mine.history))
            sys.exit(0)
        say("parent:", os.waitpid(child, 0)[1])
        try:
            opened(state, config={"session": {"writeLock": {"acquireTimeoutMs": 0}}}).session("talk")
        except SessionBusyError:
            say("parent: still the one writer")
        chat.append(UserMessage(content="three"))
        say("parent:", texts(chat.history))
        host.close()
    """

    said = start("import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(script)).ends()

    refused = "child: this host was opened before fork(), and its thread is the parent's: open a host in this process"
    assert said[:3] == [refused] * 3
    assert said[3:] == [
        "child: ['my own']",
        "parent: 0",
        "parent: still the one writer",
        "parent: ['one', 'three']",
    ]

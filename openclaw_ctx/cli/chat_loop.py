"""The loop of a chat: a line is a turn, or a command that begins with a slash."""

import asyncio
import contextlib
import functools
import itertools
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import click

from openclaw_ctx.assembly import Host, Session, counter_from
from openclaw_ctx.compaction import MAX_FOCUS_CHARS
from openclaw_ctx.config import Settings
from openclaw_ctx.contract import LEGACY_ENGINE_ID, AbortSignal, AssistantMessage, Message, SessionKey
from openclaw_ctx.errors import AbortError, OpenClawCtxError, SessionNotFoundError
from openclaw_ctx.runtime import TurnResult
from openclaw_ctx.tokens import estimate_text

from .chat_lines import Lines
from .chat_screen import Screen, context_rows
from .compacting import told
from .speech import clean_text, complain, say

__all__ = ["Chat"]

_T = TypeVar("_T")

_EXIT_FAILED: Final = 1
_SIGNALLED: Final = 128
_HELP: Final = """\
/compact [FOCUS]  make the context smaller; the summary keeps what the focus names
/context          what is in the window, by kind
/engine           which context engine answers, and why
/new              put this session aside and begin anew under its key
/fork [KEY]       go on in a copy of this session, which stays as it is
/help             this list
/quit             leave; so does the end of the input
//...              a line that begins with a slash"""


class Chat:
    """
    Runs a chat until whoever types leaves.

    Ctrl-C stops the answer that is coming. Where there is none, the first one says
    so and the second leaves.
    """

    def __init__(
        self,
        host: Host,
        session: Session,
        lines: Lines,
        *,
        settings: Settings,
        window: int,
        system_prompt: str | None,
        max_tokens: int | None,
    ) -> None:
        self._host = host
        self._session = session
        self._lines = lines
        self._count = counter_from(settings)
        self._window = window
        self._system_prompt = system_prompt
        self._max_tokens = max_tokens
        self._screen = Screen()
        self._last: TurnResult | None = None
        self._abort: AbortSignal | None = None
        self._interrupted = False
        self._ended_by: int | None = None
        self._leave = asyncio.Event()
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/compact": self._compact,
            "/context": self._context,
            "/engine": self._engine,
            "/fork": self._fork,
            "/help": self._help,
            "/new": self._new,
        }

    async def run(self) -> int:
        """Return the exit code."""
        with self._listening():
            while (line := await self._next_line()) is not None and line.strip() != "/quit":
                self._interrupted = False
                try:
                    await self._take(line)
                except AbortError:
                    self._screen.end_line()
                    self._screen.note("Stopped.")
                except OpenClawCtxError as error:
                    self._screen.end_line()
                    complain(error)
                    if not self._lines.interactive:
                        return _EXIT_FAILED
                if self._interrupted and not self._lines.interactive:
                    raise click.Abort
        return 0 if self._ended_by is None else _SIGNALLED + self._ended_by

    # -- lines ------------------------------------------------------------------------------------

    async def _next_line(self) -> str | None:
        if self._is_ended():
            return None
        reading = asyncio.ensure_future(self._lines.next())
        leaving = asyncio.ensure_future(self._leave.wait())
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            if not (self._is_ended() or self._lines.interactive):
                raise click.Abort
            return None
        finally:
            reading.cancel()
            leaving.cancel()

    async def _take(self, line: str) -> None:
        text = line.strip()
        if not text:
            return
        if not text.startswith("/") or text.startswith("//"):
            await self._turn(text.removeprefix("/"))
            return
        name, _, rest = text.partition(" ")
        command = self._commands.get(name)
        if command is None:
            complain(f"there is no command {name!r}; /help lists them, and // begins a line with a slash.")
        else:
            await command(rest.strip())

    async def _turn(self, text: str) -> None:
        screen = self._screen
        screen.forget()
        self._last = result = await self._stoppable(
            lambda abort: self._session.run(
                text,
                system_prompt=self._system_prompt,
                max_tokens=self._max_tokens,
                on_event=screen.show,
                abort=abort,
            )
        )
        screen.end_line()
        if screen.asked is not None:
            counted = screen.asked.tokens + self._count(result.message)
            used = result.usage.total if result.usage is not None else 0
            screen.meter(used or counted, screen.asked.window, result.engine)

    # -- commands ---------------------------------------------------------------------------------

    async def _compact(self, focus: str) -> None:
        if len(focus) > MAX_FOCUS_CHARS:
            complain(f"a focus has at most {MAX_FOCUS_CHARS} characters, and this has {len(focus):,}.")
            return
        session = self._session
        done = await self._stoppable(lambda abort: session.compact(focus=focus or None, abort=abort))
        if done.result.compacted:
            self._screen.forget()  # the model will see something else
        come_to = told(done)
        say(f"{come_to[0].upper()}{come_to[1:]}", error=not done.result.ok)

    async def _context(self, _rest: str) -> None:
        asked = self._screen.asked
        window = self._window if asked is None else asked.window
        messages, system_prompt = self._in_window()
        system = 0 if system_prompt is None else estimate_text(system_prompt)
        for row in context_rows(messages, self._count, system_prompt=system, window=window):
            say(row)
        if asked is not None:
            engine, sent = clean_text(asked.prompt.engine), len(asked.prompt.messages)
            say(f"The last request had {sent:,} messages and {asked.tokens:,} tokens; {engine} assembled it.")

    def _in_window(self) -> tuple[Sequence[Message], str | None]:
        """Return what the model saw and said last, and the system prompt; before that, what there is."""
        asked, history = self._screen.asked, self._session.history
        if asked is None:
            return history, self._system_prompt
        prompt = asked.prompt
        if prompt.engine == LEGACY_ENGINE_ID:  # which shows all of it
            return history, prompt.system_prompt
        shown = {message.entry_id for message in prompt.messages}
        answer = [m for m in history[-1:] if isinstance(m, AssistantMessage) and m.entry_id not in shown]
        return (*prompt.messages, *answer), prompt.system_prompt

    async def _engine(self, _rest: str) -> None:
        selection = self._host.selection()
        engine, reason = selection.engine_id, selection.reason
        if self._last is not None:
            engine, reason = self._last.engine, self._last.substitution
        say(f"{clean_text(engine)} answers.")
        if engine != selection.asked:
            why = clean_text(reason or selection.reason or "no reason was given")
            say(f"The slot asks for {clean_text(selection.asked)}: {why}")

    async def _new(self, _rest: str) -> None:
        key = self._session.key
        await self._session.close()
        try:
            archive = self._host.store.archive(key, "reset")
        except SessionNotFoundError:  # nothing was said in it
            say("A new session.")
        else:
            say(f"A new session; the old one was put aside as {clean_text(archive.name)}.")
        finally:
            self._session = await self._host.session(key)
            self._forget()

    async def _fork(self, new_key: str) -> None:
        new_key = new_key or self._free_key()
        await self._session.settle()
        await self._session.fork(new_key)
        forked = await self._host.session(new_key)
        await self._session.close()
        self._session = forked
        say(f"Forked; this goes on as {clean_text(forked.key)}.")

    async def _help(self, _rest: str) -> None:
        say(_HELP)

    def _free_key(self) -> SessionKey:
        taken = {info.key for info in self._host.store.sessions()}
        keys = (SessionKey(f"{self._session.key}-{number}") for number in itertools.count(2))
        return next(key for key in keys if key not in taken)

    def _forget(self) -> None:
        self._screen.forget()
        self._last = None

    # -- Ctrl-C -----------------------------------------------------------------------------------

    async def _stoppable(self, work: Callable[[AbortSignal], Awaitable[_T]]) -> _T:
        self._abort = AbortSignal()
        try:
            return await work(self._abort)
        finally:
            self._abort = None

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Take signals between two steps of the loop: raised within one, an exit would end whatever task that is."""
        loop = asyncio.get_running_loop()
        before: dict[int, Any] = {}
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:
                continue
            heard = self._interrupt if name == "SIGINT" else functools.partial(self._end, number)
            # Not on every platform, and in the main thread alone.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                handler = signal.getsignal(number)
                loop.add_signal_handler(number, heard)
                before[number] = handler
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _is_ended(self) -> bool:
        return self._ended_by is not None

    def _end(self, number: int) -> None:
        self._ended_by = number
        self._leave.set()
        if self._abort is not None:
            self._abort.fire("terminated")

    def _interrupt(self) -> None:
        if self._abort is not None:
            self._interrupted = not self._lines.interactive
            self._abort.fire("interrupted")
        elif self._interrupted or not self._lines.interactive:
            self._leave.set()
        else:
            self._interrupted = True
            say("\nCtrl-C again leaves; so does /quit.", error=True)

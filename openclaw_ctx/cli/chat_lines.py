"""Lines of standard input, one when it is asked for, without blocking the loop."""

import asyncio
import contextlib
import os
import sys
import threading
from typing import Any, Final

import click

__all__ = ["Lines"]

_AT_ONCE: Final = 65_536
_PROMPT: Final = "> "


class Lines:
    """
    Reads standard input in a thread.

    The thread is none that the program waits for at its end: a person who leaves
    has no line to type. It reads the file descriptor, since a thread that ends
    inside Python's own buffer takes the interpreter with it.
    """

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty()
        self._edits = self.interactive and sys.stdout.isatty()
        self._rest = b""
        self._ended = False
        self._modes = _terminal_modes()
        if self._edits:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401, PLC0415 -- input() edits its line once this is there, on some platforms

    async def next(self) -> str | None:
        """Return the next line without its end; ``None`` behind the last one."""
        loop = asyncio.get_running_loop()
        read: asyncio.Future[str | None] = loop.create_future()

        def answer(line: str | None, error: BaseException | None) -> None:
            if read.done():
                return
            if error is None:
                read.set_result(line)
            else:
                read.set_exception(error)

        def work() -> None:
            line, problem = None, None
            try:
                line = self._typed() if self._edits else self._piped()
            except EOFError:
                pass
            except Exception as error:  # noqa: BLE001 -- whatever it is, it belongs to who waits for the line
                problem = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(answer, line, problem)

        threading.Thread(target=work, name="openclaw-ctx-lines", daemon=True).start()
        return await read

    def close(self) -> None:
        """Give the terminal back as it was: a line may be half typed."""
        if self._modes is not None:
            import termios  # noqa: PLC0415 -- there are no modes where there is no such module

            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._modes)

    def _typed(self) -> str:
        return input(_PROMPT)

    def _piped(self) -> str | None:
        if self.interactive:
            click.echo(_PROMPT, nl=False, file=sys.stderr)
        while b"\n" not in self._rest and not self._ended:
            data = os.read(sys.stdin.fileno(), _AT_ONCE)
            self._ended = not data
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        if not line and self._ended and not self._rest:
            return None
        return line.removesuffix(b"\r").decode("utf-8", "replace")


def _terminal_modes() -> Any:
    """Return how the terminal is set, for :meth:`Lines.close`; ``None`` where there is none."""
    if not sys.stdin.isatty():
        return None
    try:
        import termios  # noqa: PLC0415 -- not on every platform
    except ImportError:
        return None
    return termios.tcgetattr(sys.stdin.fileno())

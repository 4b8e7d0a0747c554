"""
The command ``openclaw-ctx``.

Exit codes: 0 all is well; 1 something was found wrong, or failed; 2 the command
line or the configuration cannot be used; 3 a file is no session that is known;
129 its terminal was closed; 130 interrupted; 143 terminated.
"""

import contextlib
import io
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Final

import click

from .lazy import LazyGroup

__all__ = ["cli", "main"]

_COMMANDS: Final = {
    "chat": ("openclaw_ctx.cli.chat", "Chat with a model, in a session that is kept."),
    "doctor": ("openclaw_ctx.cli.doctor", "Check configuration, slot, quarantines and plugin metadata."),
    "engines": ("openclaw_ctx.cli.engines", "List the installed engines, and release quarantined ones."),
    "replay": ("openclaw_ctx.cli.replay", "Run recorded sessions through one or several engines."),
    "sessions": ("openclaw_ctx.cli.sessions", "List, read, check, move and put aside sessions."),
}

_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2
_EXIT_NO_SESSION: Final = 3
_EXIT_INTERRUPTED: Final = 130
_LONGEST_MESSAGE: Final = 2_000
_FINALISERS: Final = frozenset({"__del__", "_remove"})  # of objects, and of entries in weak collections
_AGAIN_SECONDS: Final = 0.02


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: Any) -> None:
    if wanted and not ctx.resilient_parsing:
        import importlib.metadata  # noqa: PLC0415 -- as dear as the rest of the start

        click.echo(f"openclaw-ctx {importlib.metadata.version('openclaw-ctx')}")
        ctx.exit()


@click.group(cls=LazyGroup, modules=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """
    Run, compare and check context engines for language-model agents.

    \b
    Example:
      openclaw-ctx replay session.jsonl -e legacy -e window -b 8000 -b 32000

    Exit codes: 0 all is well, 1 something is wrong, 2 usage or configuration,
    3 no session in a known format, 129 its terminal was closed,
    130 interrupted, 143 terminated.
    """  # noqa: D301 -- click keeps the lines below a real backspace


def main() -> None:
    """Run the command; never show a traceback for what a person can mend."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape: no replay ends on a name in Chinese.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _terminate)
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # under nohup it is to be ignored
            signal.signal(hangup, _terminate)
    try:
        code = cli.main(standalone_mode=False, prog_name="openclaw-ctx")
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(_EXIT_INTERRUPTED)
    except click.ClickException as error:
        # Some of click's sentences quote an argument as it was typed; the gate is imported with the failure.
        from openclaw_ctx.log import clean_text  # noqa: PLC0415

        error.message = clean_text(error.message, limit=_LONGEST_MESSAGE)  # type: ignore[misc]  # click keeps no other
        error.show(file=sys.stderr)  # click would take a stream of its own, in UTF-8 whatever the terminal takes
        sys.exit(error.exit_code)
    except Exception as error:
        # The errors are imported with the failure too: they are classes by the dozen.
        code = _explain(error)
        if code is None:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception) -> int | None:
    """Say what a person can mend and return the exit code; ``None`` for a bug."""
    from openclaw_ctx.errors import ConfigError, OpenClawCtxError, UnknownFormatError  # noqa: PLC0415 -- as above

    from .speech import complain  # noqa: PLC0415 -- as above

    if not isinstance(error, OpenClawCtxError | OSError):
        return None
    if isinstance(error, OSError) and error.filename is None:  # whatever else is written has a name
        complain(f"standard output cannot be written: {error.strerror or error}.")
        # What is left in its buffer would be tried again at exit, and complained of in Python's words.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        complain(error)
    if isinstance(error, UnknownFormatError):
        return _EXIT_NO_SESSION
    return _EXIT_USAGE if isinstance(error, ConfigError) else _EXIT_FAILED


def _terminate(number: int, frame: FrameType | None) -> None:
    """
    Exit like any other, so that whoever made a temporary folder takes it away.

    What a finaliser raises is printed and forgotten, so in one the signal is
    sent again, for a moment when it is heard.
    """
    while frame is not None:
        if frame.f_code.co_name in _FINALISERS:
            again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    sys.exit(128 + number)

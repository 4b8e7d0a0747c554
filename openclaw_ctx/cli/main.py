"""
The command ``openclaw-ctx``.

Exit codes: 0 all is well; 1 something was found wrong, or failed; 2 the command
line or the configuration cannot be used; 3 a file is no session that is known;
130 interrupted.
"""

import contextlib
import importlib
import importlib.metadata
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from openclaw_ctx.errors import ConfigError, OpenClawCtxError, UnknownFormatError

__all__ = ["cli", "main"]

# Each command lives in a module of its name and is imported when it is asked for.
_COMMANDS: Final[Mapping[str, str]] = {
    "doctor": "Check configuration, slot, quarantines and plugin metadata.",
    "engines": "List the installed engines, and release quarantined ones.",
    "replay": "Run recorded sessions through one or several engines.",
}

_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2
_EXIT_NO_SESSION: Final = 3
_EXIT_INTERRUPTED: Final = 130


class _Commands(click.Group):
    """Commands that are imported when they are asked for: ``--version`` and ``--help`` load none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"openclaw_ctx.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: Any) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"openclaw-ctx {importlib.metadata.version('openclaw-ctx')}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Say which.")
def cli() -> None:
    r"""
    Run, compare and check context engines for language-model agents.

    \b
    Example:
      openclaw-ctx replay session.jsonl --engine legacy --engine window --budget 8000

    Exit codes: 0 all is well, 1 something is wrong, 2 usage or configuration,
    3 no session in a known format, 130 interrupted.
    """


def main() -> None:
    """Run the command; never show a traceback for what a person can mend."""
    if hasattr(signal, "SIGPIPE"):
        # `openclaw-ctx engines | head` ends as other commands do.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = cli.main(standalone_mode=False, prog_name="openclaw-ctx")
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(_EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(_EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except UnknownFormatError as error:
        sys.exit(_complain(error, _EXIT_NO_SESSION))
    except ConfigError as error:
        sys.exit(_complain(error, _EXIT_USAGE))
    except (OpenClawCtxError, OSError) as error:
        sys.exit(_complain(error, _EXIT_FAILED))
    sys.exit(code if isinstance(code, int) else os.EX_OK if hasattr(os, "EX_OK") else 0)


def _complain(error: Exception, code: int) -> int:
    # Other people's text is in it, a line at a time; the gate is imported with the failure.
    from openclaw_ctx.log import clean_text  # noqa: PLC0415

    lines = [clean_text(line, limit=2_000) for line in str(error).split("\n")]
    click.echo("Error: " + "\n".join(lines), err=True)
    return code

"""A group of commands that are imported when they are asked for."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click

__all__ = ["LazyGroup"]

_EXIT_USAGE = 2


class LazyGroup(click.Group):
    """
    Commands by name, each the ``command`` of a module: ``--help`` of the group loads none of them.

    Args:
        modules: By a command's name, its module and what it does, in a sentence.
    """

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them; where there are none, show the help, which is a usage error."""
        if not args and not ctx.resilient_parsing:
            # click raises the help as an error's message, and messages are printed on one line.
            click.echo(ctx.get_help(), file=sys.stderr)
            ctx.exit(_EXIT_USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's
        """Return the names, in their order."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's
        """Import a command."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = importlib.import_module(self._modules[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's
        """List them with what they do."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in self._modules.items()])

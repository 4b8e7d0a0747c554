"""What a chat shows: the answer as it comes, and beside it what happens, dimly."""

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from openclaw_ctx.contract import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.models import TextDelta
from openclaw_ctx.runtime import Compacting, MessageAppended, ModelAsked, ModelRetried, ToolStarted, TurnEvent

from .speech import clean_text, say

__all__ = ["Screen", "context_rows", "plain"]

# Line breaks and tabs stay: answers have lines. A carriage return would write over what stands there.
_UNSURE: Final = re.compile(r"[^ -~\n\t]")
_KINDS: Final[Sequence[tuple[str, tuple[type[Message], ...]]]] = (
    ("system", (SystemMessage,)),
    ("user", (UserMessage,)),
    ("assistant", (AssistantMessage,)),
    ("tool results", (ToolResultMessage,)),
    ("summaries", (CompactionSummaryMessage, BranchSummaryMessage)),
)
_OTHER: Final = "other"


class Screen:
    """
    Shows a turn's events.

    On a terminal an answer is shown as it comes. Elsewhere it is written once it
    is in the transcript: what a failed request has said before it was asked again
    is no part of it, and cannot be taken back out of a pipe.
    """

    def __init__(self) -> None:
        self._streams = sys.stdout.isatty()
        self._notes = sys.stderr.isatty()
        self._at_start = True
        self._has_streamed = False
        self.asked: ModelAsked | None = None

    def show(self, event: TurnEvent) -> None:
        """Show what has happened, where it is to be seen."""
        match event:
            case TextDelta(text=text) if self._streams:
                self._has_streamed = True
                self._write(text)
            case ModelAsked():
                self.asked = event
                self._has_streamed = False
                self.end_line()
            case MessageAppended(message=AssistantMessage() as message):
                if not self._has_streamed:
                    self._write(message.text)
                self.end_line()
            case ModelRetried(reason=reason, seconds=seconds):
                self.note(f"It is asked again in {seconds:.0f} s: {clean_text(reason)}")
            case Compacting(trigger=trigger, tokens=tokens):
                self.note(f"Compacting {tokens:,} tokens ({clean_text(trigger)}).")
            case ToolStarted(call=call):
                self.note(f"Tool {clean_text(call.name)} runs.")
            case _:
                pass

    def forget(self) -> None:
        """Forget the request that was made last."""
        self.asked = None

    def meter(self, tokens: int, window: int, engine: str) -> None:
        """Show how full the window is."""
        self.note(f"{tokens:,} / {window:,} tokens · {clean_text(engine)}")

    def note(self, text: str) -> None:
        """Show a clean line beside the conversation, on a terminal only."""
        if self._notes:
            self.end_line()
            say(text if os.environ.get("NO_COLOR") else click.style(text, dim=True), error=True)

    def end_line(self) -> None:
        """Begin a new line, where one is begun."""
        if not self._at_start:
            click.echo(file=sys.stdout)
            self._at_start = True

    def _write(self, text: str) -> None:
        if shown := plain(text):
            click.echo(shown, nl=False, file=sys.stdout)
            self._at_start = shown.endswith("\n")


def plain(text: str) -> str:
    """Return a foreign text with its lines, and whatever else would move a terminal's cursor written out."""
    return _UNSURE.sub(_written_out, text.replace("\r", ""))


def _written_out(found: re.Match[str]) -> str:
    return _clean_character(found[0])


@functools.lru_cache(maxsize=4_096)
def _clean_character(character: str) -> str:
    return clean_text(character)


def context_rows(
    messages: Sequence[Message], count: Callable[[Message], int], *, system_prompt: int, window: int
) -> Iterator[str]:
    """Yield a table of what is in the window: messages and tokens of each kind, and of all; clean lines."""
    amounts = {kind: [0, 0] for kind, _ in _KINDS} | {_OTHER: [0, 0]}
    if system_prompt:
        amounts["system"] = [1, system_prompt]
    for message in messages:
        amount = amounts[_kind(message)]
        amount[0] += 1
        amount[1] += count(message)
    yield f"{'KIND':<14}{'COUNT':>8}{'TOKENS':>12}"
    for kind, (number, tokens) in amounts.items():
        if number or kind != _OTHER:
            yield f"{kind:<14}{number:>8,}{tokens:>12,}"
    number, tokens = (sum(amount[at] for amount in amounts.values()) for at in (0, 1))
    yield f"{'all':<14}{number:>8,}{tokens:>12,}  of {window:,}"


def _kind(message: Message) -> str:
    return next((kind for kind, classes in _KINDS if isinstance(message, classes)), _OTHER)

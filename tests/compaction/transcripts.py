"""Transcripts that tests of compaction share."""

from typing import Any

from openclaw_ctx import AssistantMessage, ToolCallBlock, ToolResultMessage, UserMessage
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript import Transcript

__all__ = ["fill", "on_disk", "total"]


def fill(transcript: Transcript, turns: int, words: int = 120) -> None:
    """Append turns with a tool call each, about four tokens for three words."""
    for number in range(turns):
        transcript.append(UserMessage(content=f"question {number}: " + "please " * words))
        call = ToolCallBlock(id=f"c{number}", name="read", arguments={"path": f"/src/file_{number}.py"})
        transcript.append(AssistantMessage(content=(call,)))
        transcript.append(ToolResultMessage(tool_call_id=f"c{number}", content="line\n" * words))
        transcript.append(AssistantMessage(content=f"answer {number}: " + "certainly " * words))


def total(transcript: Transcript) -> int:
    """Return what the context costs."""
    return estimate_tokens.total(transcript.history)


def on_disk(transcript: Transcript) -> list[dict[str, Any]]:
    """Return every line as it is written, without the header."""
    return [data for _, data in transcript.entries()]

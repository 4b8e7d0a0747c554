"""Transcripts as another program leaves them."""

from pathlib import Path

from openclaw_ctx import (
    AssistantMessage,
    SessionKey,
    UserMessage,
)
from openclaw_ctx.transcript import Transcript, safe_name

__all__ = ["transcript_path", "write_transcript"]


def transcript_path(state_dir: Path, key: str = "talk") -> Path:
    """Return where a session is kept."""
    return state_dir / "sessions" / f"{safe_name(SessionKey(key))}.jsonl"


def write_transcript(state_dir: Path, *texts: str) -> None:
    """Write a session as another program would, before any engine meets it."""
    transcript = Transcript.open(transcript_path(state_dir))
    for number, text in enumerate(texts):
        kind = AssistantMessage if number % 2 else UserMessage
        transcript.append(kind(content=text))
    transcript.close()

"""
Conversations with questions, each with the turns that answer it, from files in two published forms.

LoCoMo: a JSON list of conversations between two people, each with its questions.
LongMemEval: a JSON list of questions, each with a history of its own.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from openclaw_ctx import AssistantMessage, TextBlock, UserMessage

__all__ = ["Conversation", "Question", "Turn", "read_labelled"]

_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"D\d+:\d+")
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_LONGMEMEVAL_TIME = "%Y/%m/%d (%a) %H:%M"


@attrs.frozen(kw_only=True)
class Turn:
    """What one side said. ``ends``: whether it is the last one of a sitting."""

    message: UserMessage | AssistantMessage
    ends: bool

    @property
    def text(self) -> str:
        """What is searched for in a prompt."""
        return self.message.text


@attrs.frozen(kw_only=True)
class Question:
    """A question, and the places of the turns that answer it."""

    text: str
    category: str
    evidence: frozenset[int]


@attrs.frozen(kw_only=True)
class Conversation:
    """Turns from the first to the last, and what is asked about them."""

    name: str
    turns: Sequence[Turn]
    questions: Sequence[Question]


def read_labelled(path: Path) -> list[Conversation]:
    """
    Return the conversations of a file. Questions without a turn that answers them are left out.

    Raises:
        OSError: It cannot be read.
        ValueError: It has neither form.
    """
    items = json.loads(path.read_text(encoding="utf-8"))
    try:
        if items[0].keys() >= {"conversation", "qa"}:
            return [_locomo(number, item) for number, item in enumerate(items, 1)]
        if items[0].keys() >= {"question", "haystack_sessions"}:
            return [_longmemeval(number, item) for number, item in enumerate(items, 1)]
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        problem = f"is neither in LoCoMo's form nor in LongMemEval's: {type(error).__name__}: {error}"
        raise ValueError(problem) from error
    problem = "is neither in LoCoMo's form nor in LongMemEval's"
    raise ValueError(problem)


def _locomo(number: int, item: Mapping[str, Any]) -> Conversation:
    said = item["conversation"]
    first = said["speaker_a"]
    sessions = sorted(int(found[1]) for name in said if (found := _SESSION.fullmatch(name)))
    turns: list[Turn] = []
    places: dict[str, int] = {}
    for session in sessions:
        at = _milliseconds(said[f"session_{session}_date_time"], _LOCOMO_TIME)
        spoken = said[f"session_{session}"]
        for turn in spoken:
            places[turn["dia_id"]] = len(turns)
            caption = turn.get("blip_caption")
            text = f"{turn['speaker']}: {turn['text']}" + (f" [shares a picture: {caption}]" if caption else "")
            turns.append(Turn(message=_message(text, is_user=turn["speaker"] == first, at=at), ends=turn is spoken[-1]))
    questions = (
        Question(
            text=asked["question"],
            category=str(asked["category"]),
            # Some labels hold two turns in one string, some one that is not there.
            evidence=frozenset(places[it] for it in _TURN_ID.findall(" ".join(asked["evidence"])) if it in places),
        )
        for asked in item["qa"]
    )
    name = str(item.get("sample_id", number))
    return Conversation(name=name, turns=turns, questions=[asked for asked in questions if asked.evidence])


def _longmemeval(number: int, item: Mapping[str, Any]) -> Conversation:
    turns: list[Turn] = []
    evidence: set[int] = set()
    # The file has them in no order.
    dated = sorted((_milliseconds(date, _LONGMEMEVAL_TIME), place) for place, date in enumerate(item["haystack_dates"]))
    for at, place in dated:
        for turn in (session := item["haystack_sessions"][place]):
            if turn.get("has_answer"):
                evidence.add(len(turns))
            message = _message(turn["content"], is_user=turn["role"] == "user", at=at)
            turns.append(Turn(message=message, ends=turn is session[-1]))
    asked = Question(text=item["question"], category=str(item["question_type"]), evidence=frozenset(evidence))
    return Conversation(
        name=str(item.get("question_id", number)), turns=turns, questions=[asked] if asked.evidence else []
    )


def _message(text: str, *, is_user: bool, at: float) -> UserMessage | AssistantMessage:
    if is_user:
        return UserMessage(content=text, timestamp=at)
    return AssistantMessage(content=(TextBlock(text=text),), stop_reason="stop", timestamp=at)


def _milliseconds(date: str, form: str) -> float:
    return datetime.strptime(date, form).replace(tzinfo=UTC).timestamp() * 1_000

"""
Sessions of Gemini CLI: JSONL or one JSON document under ``~/.gemini/tmp``.

A file of lines is a log: a message that is written again replaces itself,
``$set`` changes what is known about the session, ``$rewindTo`` takes back a
message and all after it. A rewrite of the whole conversation, as a compaction
makes, adds what is new in it; what it dropped stays, since a replay wants the
raw history. The results of a reply's tools stand in the reply.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
    EntryId,
    Message,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import TranscriptFormatError

from .blocks import arguments_of, text_or_none
from .calls import CallLedger
from .document import read_document
from .parts import Part, answer_of, block_of_part, parts_of
from .records import Notes, load, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "gemini"

_HEADER = ("sessionId", "projectHash")
_SPEAKERS = ("user", "gemini")
_FOR_PEOPLE = ("info", "error", "warning")


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether a line or the document has the marks of this format."""
    return any(_is_ours(data) for data in peek(head)) or _is_ours(read_document(head)[0])


def read(path: Path) -> ImportedSession:
    """Return the conversation in a file, without what was taken back."""
    about, messages, notes = _session(path)
    if not _is_ours(about) and not any(_is_message(data) for _number, data in messages):
        raise TranscriptFormatError(str(path), "it holds no Gemini CLI session.")
    reader = _Reader(notes)
    for number, data in messages:
        reader.add(number, data)
    directories = about.get("directories")
    return ImportedSession(
        format=NAME,
        messages=tuple(reader.messages),
        session_id=text_or_none(about.get("sessionId")),
        cwd=text_or_none(directories[0]) if isinstance(directories, list) and directories else None,
        skipped=notes.sentences(),
    )


def _is_ours(data: JSON) -> bool:
    if not isinstance(data, dict):
        return False
    return _is_message(data, "gemini") or all(isinstance(data.get(key), str) for key in _HEADER)


def _is_message(data: JSON, *kinds: str) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or "content" not in data:
        return False
    return data.get("type") in (kinds or _SPEAKERS)


def _session(path: Path) -> tuple[Part, list[tuple[int, JSON]], Notes]:
    text = load(path)
    # No line of a document that was printed over several opens with its brace.
    value, problem, lost = (None, None, False) if b"\n{" in text.strip() else read_document(text)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        records, notes = read_records(path)
        log = _Log(notes)
        for record in records:
            log.add(record.line, record.data)
        return log.about, list(log.messages.values()), notes
    notes = Notes("message")
    if problem:
        notes.add(0, problem)
    messages = value["messages"]
    # What was given up belonged to the last message, unless something came after the list.
    if lost and messages and next(reversed(value)) == "messages":
        messages = messages[:-1]
    return value, list(enumerate(messages, 1)), notes


class _Log:
    """What a file of lines says, once all of them are read."""

    def __init__(self, notes: Notes) -> None:
        self.about: Part = {}
        self.messages: dict[str, tuple[int, JSON]] = {}
        self._notes = notes

    def add(self, line: int, data: Part) -> None:
        if isinstance(data.get("$rewindTo"), str):
            self._rewind(line, data["$rewindTo"])
        elif "type" in data or isinstance(data.get("id"), str):
            self._put(line, data)
        elif isinstance(data.get("$set"), dict):
            self._set(line, data["$set"])
        elif isinstance(data.get("sessionId"), str):
            self._set(line, data)
        else:
            self._notes.add(line, "neither a message nor a change of the session")

    def _put(self, line: int, data: JSON) -> None:
        message_id = data.get("id") if isinstance(data, dict) else None
        key = message_id if isinstance(message_id, str) else f"line{line}-{len(self.messages)}"
        first_line = self.messages[key][0] if key in self.messages else line
        self.messages[key] = (first_line, data)

    def _set(self, line: int, patch: Part) -> None:
        self.about.update({key: patch[key] for key in patch if key != "messages"})
        rewritten = patch.get("messages")
        if not isinstance(rewritten, list) or not rewritten:
            return
        ids = {item["id"] for item in rewritten if isinstance(item, dict) and isinstance(item.get("id"), str)}
        if not self.messages.keys() <= ids:
            self._notes.add(line, "a recorded rewrite of the conversation, of which what it dropped stays")
        for item in rewritten:
            self._put(line, item)

    def _rewind(self, line: int, message_id: str) -> None:
        ids = list(self.messages)
        # An unknown message takes back everything, as in the program that wrote it.
        taken_back = ids[ids.index(message_id) :] if message_id in self.messages else ids
        for key in taken_back:
            del self.messages[key]
        if taken_back:
            self._notes.add(line, f"{len(taken_back)} messages were taken back")


class _Reader:
    """Collects the messages of records that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Message] = []
        self._notes = notes
        self._calls = CallLedger()
        self._answered: set[str] = set()
        self._seen: set[str] = set()

    def add(self, number: int, data: JSON) -> None:
        kind = data.get("type") if isinstance(data, dict) else None
        if kind in _FOR_PEOPLE:
            return
        if not isinstance(data, dict) or kind not in _SPEAKERS:
            self._notes.add(number, "no type that a message has")
            return
        place = f"{self._notes.unit}{number}"
        if kind == "gemini":
            self._add_reply(data, place)
        else:
            self._add_input(number, data, place)

    def _add_reply(self, data: Part, place: str) -> None:
        calls = data.get("toolCalls")
        made = [call for call in (calls if isinstance(calls, list) else []) if isinstance(call, dict)]
        said = [part for part in parts_of(data.get("content")) if part.get("text") != ""]
        blocks: list[Block] = [*_thoughts(data.get("thoughts"))]
        blocks += [block_of_part(part, self._calls, place=f"{place}-{index}") for index, part in enumerate(said)]
        ids = {block.id for block in blocks if isinstance(block, ToolCallBlock)}
        answers: list[ToolResultMessage] = []
        for index, call in enumerate(made, len(said)):
            block = self._call(call, place=f"{place}-{index}")
            if block.id not in ids:
                blocks.append(block)
            answers.extend(self._answer(call, block))
        reply = AssistantMessage(
            entry_id=self._entry_id(data),
            timestamp=milliseconds(data.get("timestamp")),
            content=tuple(blocks),
            model=text_or_none(data.get("model")),
            usage=data.get("tokens") or None,
        )
        self.messages += [reply, *answers]

    def _call(self, call: Part, *, place: str) -> ToolCallBlock:
        name = text_or_none(call.get("name")) or "unknown"
        call_id = self._calls.open(call.get("id"), name, place=place)
        return ToolCallBlock(id=call_id, name=name, arguments=arguments_of(call.get("args")))

    def _answer(self, call: Part, block: ToolCallBlock) -> Iterator[ToolResultMessage]:
        if call.get("result") is None:
            return
        mine = _of_call(parts_of(call["result"]), call.get("id"))
        response = next((part["functionResponse"] for part in mine if "functionResponse" in part), None)
        beside = [part for part in mine if "functionResponse" not in part]
        if isinstance(response, dict):
            content, is_error = answer_of(response, beside)
        else:
            content, is_error = tuple(block_of_part(part, CallLedger(), place="") for part in beside), None
        if is_error is None and isinstance(call.get("status"), str):
            is_error = call["status"] != "success"
        yield self._result(block.id, content, is_error=is_error, timestamp=call.get("timestamp"))

    def _result(
        self, call_id: JSON, content: str | tuple[Block, ...], *, is_error: bool | None, timestamp: JSON
    ) -> ToolResultMessage:
        known, name = self._calls.close(call_id, place=f"answer{len(self.messages)}")
        self._answered.add(known)
        return ToolResultMessage(
            timestamp=milliseconds(timestamp), content=content, tool_call_id=known, tool_name=name, is_error=is_error
        )

    def _add_input(self, number: int, data: Part, place: str) -> None:
        parts = parts_of(data.get("content"))
        answers = [part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)]
        said = [part for part in parts if not isinstance(part.get("functionResponse"), dict)]
        for answer in answers:
            if text_or_none(answer.get("id")) not in self._answered:  # a rewrite repeats what stands in the reply
                content, is_error = answer_of(answer)
                result = self._result(answer.get("id"), content, is_error=is_error, timestamp=data.get("timestamp"))
                self.messages.append(result)
        if said:
            self._calls.abandon()
            message = UserMessage(
                entry_id=self._entry_id(data),
                timestamp=milliseconds(data.get("timestamp")),
                content=tuple(block_of_part(part, CallLedger(), place=place) for part in said),
            )
            self.messages.append(message)
        elif not answers:
            self._notes.add(number, "its message is empty")

    def _entry_id(self, data: Part) -> EntryId | None:
        message_id = text_or_none(data.get("id"))
        if not message_id or message_id in self._seen:
            return None
        self._seen.add(message_id)
        return EntryId(message_id)


def _thoughts(thoughts: JSON) -> Iterator[ThinkingBlock]:
    for thought in thoughts if isinstance(thoughts, list) else ():
        if isinstance(thought, dict):
            subject, description = text_or_none(thought.get("subject")), text_or_none(thought.get("description"))
            said = [f"**{subject}**" if subject else None, description]  # the model wrote it so
            if any(said):
                yield ThinkingBlock(thinking="\n".join(filter(None, said)))


def _of_call(parts: Sequence[Part], call_id: JSON) -> list[Part]:
    # After a rewrite a call's result is all that was answered at once; what follows an answer belongs to it.
    mine, kept = True, []
    for part in parts:
        response = part.get("functionResponse")
        if isinstance(response, dict):
            mine = response.get("id") in (call_id, None)
        if mine:
            kept.append(part)
    return kept

"""Sessions of Copilot, Gemini CLI and Qwen Code as messages of the contract."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx.contract import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UserMessage,
)
from openclaw_ctx.transcript import pairs_are_whole
from openclaw_ctx.transcript.importers import ImportedSession, import_session

Lines = list[dict[str, Any]]
DATA_URL = "data:image/png;base64,aGk="
PICTURE = ImageBlock(data="aGk=", mime_type="image/png")


@pytest.fixture(name="save")
def _save(tmp_path: Path):
    """Return a function that writes a file: bytes as they are, a list as lines, anything else as one document."""

    def save(content: object) -> Path:
        path = tmp_path / "session"
        records = content if isinstance(content, list) else [content]
        lines = b"".join(json.dumps(record).encode() + b"\n" for record in records if not isinstance(record, bytes))
        path.write_bytes(content if isinstance(content, bytes) else lines)
        return path

    return save


def kinds(session: ImportedSession) -> list[str]:
    """Return the role of every message."""
    return [message.role for message in session.messages]


def texts(session: ImportedSession) -> list[str]:
    """Return the text of every message."""
    return [message.text for message in session.messages]


def happened(kind: str, **data: Any) -> dict[str, Any]:
    """Return an event of Copilot."""
    return {"type": kind, "data": data, "timestamp": "2026-01-01T00:00:00Z", "id": f"{kind}-{len(str(data))}"}


class TestCopilot:
    """Copilot CLI."""

    def test_messages_and_ends_of_tool_runs_are_the_conversation(self, save) -> None:
        """The model is told the transformed text; a failed run gives its error; a subagent is left out."""
        request = {"toolCallId": "t1", "name": "bash", "arguments": {"command": "ls"}}
        path = save(
            [
                happened("session.start", sessionId="s1", context={"cwd": "/project"}),
                happened("session.model_change", newModel="gpt"),
                happened("system.message", content="rules"),
                happened(
                    "user.message",
                    content="go",
                    transformedContent="now: go",
                    attachments=[{"mimeType": "image/png", "data": "aGk="}],
                ),
                happened("assistant.message", content="", reasoningText="hm", toolRequests=[request], outputTokens=3),
                happened("tool.execution_start", toolCallId="t1", toolName="bash"),
                happened("assistant.message", content="aside", parentToolCallId="t1"),
                happened("tool.execution_complete", toolCallId="t1", success=False, error={"message": "denied"}),
                happened("tool.execution_start", toolCallId="t9", toolName="bash"),
                happened("assistant.reasoning", content="so"),
                happened("assistant.message", content="done", toolRequests=[]),
                happened("session.truncation", droppedTokens=1),
            ]
        )

        session = import_session(path)

        system, user, reply, result, done = session.messages
        assert (system.text, user.content) == ("rules", (TextBlock(text="now: go"), PICTURE))
        assert reply.content == (
            ThinkingBlock(thinking="hm"),
            ToolCallBlock(id="t1", name="bash", arguments={"command": "ls"}),
        )
        assert (reply.model, reply.usage, reply.timestamp) == ("gpt", {"outputTokens": 3}, 1767225600000)
        assert (result.text, result.tool_name, result.is_error) == ("denied", "bash", True)
        assert done.content == (ThinkingBlock(thinking="so"), TextBlock(text="done"))
        assert (session.session_id, session.cwd) == ("s1", "/project")
        assert session.skipped == ("line 7: a subagent's event", "line 9: a tool run that no message asked for")

    def test_a_stopped_reply_says_so(self, save) -> None:
        """A call that was never run waits for nothing."""
        reply = happened("assistant.message", content="", toolRequests=[{"toolCallId": "t1", "name": "bash"}])

        session = import_session(
            save([happened("user.message", content="go"), reply, happened("abort", reason="user")])
        )

        assert session.messages[1].stop_reason == "aborted"
        assert pairs_are_whole(session.messages)


GEMINI_META = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}


def answered(call_id: str, response: object) -> dict[str, Any]:
    """Return a part of the Gemini API that answers a call."""
    return {"functionResponse": {"id": call_id, "name": "look", "response": response}}


def gemini(message_id: str, kind: str = "user", content: object = "", **more: Any) -> dict[str, Any]:
    """Return a message of Gemini CLI."""
    return {"id": message_id, "type": kind, "content": content, "timestamp": "2026-01-01T00:00:00Z", **more}


PICTURE_PART = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
# After a rewrite each call holds all answers.
ANSWERS = [answered("t1", {"output": "seen"}), PICTURE_PART, answered("t2", {"error": "no"})]
GEMINI: Lines = [
    gemini("u1", content=[{"text": "go"}, PICTURE_PART]),
    gemini(
        "g1",
        "gemini",
        content=[{"functionCall": {"id": "t1", "name": "look", "args": {"a": 1}}}],
        thoughts=[{"subject": "Plan", "description": "look first"}],
        tokens={"total": 9},
        model="flash",
        toolCalls=[
            {"id": "t1", "name": "look", "args": {"a": 1}, "status": "success", "result": ANSWERS},
            {"id": "t2", "name": "look", "args": {}, "status": "error", "result": ANSWERS},
        ],
    ),
    gemini("u2", content=[answered("t1", {"output": "seen"})]),
    gemini("i1", "info", content="for people"),
    gemini("g2", "gemini", content="done"),
]


class TestGemini:
    """Gemini CLI."""

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param([GEMINI_META, *GEMINI], id="lines"),
            pytest.param([GEMINI_META, {"$set": {"messages": GEMINI}}], id="lines that set all messages at once"),
            pytest.param({**GEMINI_META, "messages": GEMINI}, id="a document"),
        ],
    )
    def test_a_reply_and_the_results_in_it_are_told_apart(self, save, content: object) -> None:
        """Each answer is given once, to its own call, however often it was recorded."""
        session = import_session(save(content))

        user, reply, seen, error, done = session.messages
        assert user.content == (TextBlock(text="go"), PICTURE)
        assert reply.content == (
            ThinkingBlock(thinking="**Plan**\nlook first"),
            ToolCallBlock(id="t1", name="look", arguments={"a": 1}),
            ToolCallBlock(id="t2", name="look", arguments={}),
        )
        assert (reply.entry_id, reply.model, reply.usage) == ("g1", "flash", {"total": 9})
        assert (seen.content, seen.is_error) == ((TextBlock(text="seen"), PICTURE), False)
        assert (error.text, error.is_error, error.tool_name) == ("no", True, "look")
        assert (done.text, session.session_id) == ("done", "s1")
        assert pairs_are_whole(session.messages)

    def test_a_message_that_is_written_again_replaces_itself(self, save) -> None:
        """A reply grows by its tool calls; its place stays."""
        first = gemini("g1", "gemini", "ok", toolCalls=[{"id": "t1", "name": "look"}])
        grown = {**first, "toolCalls": [{"id": "t1", "name": "look", "result": [answered("t1", {"output": "x"})]}]}

        session = import_session(
            save([GEMINI_META, gemini("u1", content="go"), first, gemini("u2", content="on"), grown])
        )

        assert texts(session) == ["go", "ok", "x", "on"]

    def test_of_a_document_that_was_cut_off_the_whole_messages_stay(self, save) -> None:
        """A message that lost its end is not passed on as if it were one."""
        session = import_session(save(json.dumps({**GEMINI_META, "messages": GEMINI}).encode()[:-60]))

        assert kinds(session) == ["user", "assistant", "toolResult", "toolResult"]
        assert session.skipped == ("file: cut off at the end of the file",)

    def test_what_was_taken_back_is_gone_and_what_a_rewrite_dropped_is_not(self, save) -> None:
        """Both are told; a user's decision counts, a compaction's does not."""
        turns = [gemini("u1", content="one"), gemini("u2", content="two"), gemini("u3", content="three")]
        rewrite = {"$set": {"messages": [gemini("c1", content="short")]}}

        session = import_session(save([GEMINI_META, *turns, {"$rewindTo": "u2"}, rewrite, {"$set": {"summary": "s"}}]))

        assert texts(session) == ["one", "short"]
        assert session.skipped == (
            "line 5: 2 messages were taken back",
            "line 6: a recorded rewrite of the conversation, of which what it dropped stays",
        )


def qwen(kind: str, *parts: object, **more: Any) -> dict[str, Any]:
    """Return a line of Qwen Code."""
    line = {"uuid": f"{kind}-{len(str(parts))}", "parentUuid": None, "sessionId": "s1", "cwd": "/project", "type": kind}
    return {**line, "message": {"role": "user", "parts": list(parts)}, **more}


class TestQwen:
    """Qwen Code."""

    def test_every_part_has_its_place_in_the_contract(self, save) -> None:
        """Thoughts with their signature, calls, answers with a picture beside them; telemetry is state."""
        thought = {"text": "hm", "thought": True, "thoughtSignature": "sig"}
        call = {"functionCall": {"name": "look", "args": {"a": 1}}, "thoughtSignature": "sig2"}
        answer = {"functionResponse": {"name": "look", "response": {"output": "seen"}}}
        picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
        path = save(
            [
                qwen("system", subtype="ui_telemetry", message=None),
                qwen("user", {"text": "go"}),
                qwen("assistant", thought, {"text": "ok", "thought": False}, call, model="m", usageMetadata={"n": 1}),
                qwen("tool_result", answer, picture, toolCallResult={"status": "success"}),
                qwen("user", {"text": "note"}, subtype="notification"),
                qwen("user", {"text": "wait"}, subtype="mid_turn_user_message"),
                qwen("system", subtype="chat_compression"),
            ]
        )

        session = import_session(path)

        user, reply, result, note, wait = session.messages
        assert isinstance(user, UserMessage)
        assert reply.content == (
            ThinkingBlock(thinking="hm", signature="sig"),
            TextBlock(text="ok"),
            ToolCallBlock(id="line3-2", name="look", arguments={"a": 1}, extra={"thoughtSignature": "sig2"}),
        )
        assert (reply.model, reply.usage) == ("m", {"n": 1})
        assert (result.content, result.tool_call_id) == ((TextBlock(text="seen"), PICTURE), "line3-2")
        assert (result.is_error, note.role, note.custom_type, wait.role) == (False, "custom", "notification", "user")
        assert (session.session_id, session.cwd) == ("s1", "/project")
        assert session.skipped == ("line 7: a recorded compaction's summary",)

    def test_malformed_lines_are_told_and_the_rest_is_read(self, save) -> None:
        """A line without parts and one without anything cost one line each."""
        path = save(
            [qwen("user", {"text": "one"}), qwen("user", message="x"), {}, qwen("user", 7), qwen("user", "two")]
        )

        session = import_session(path)

        assert texts(session) == ["one", "two"]
        assert session.skipped == (
            "line 2: its message has no parts",
            "line 3: no type that a message has",
            "line 4: 1 parts are no objects",
            "line 4: its message is empty",
        )

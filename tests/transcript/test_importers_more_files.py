"""Recorded files of Codex, SWE-agent, Kimi Code, Copilot, Gemini CLI and Qwen Code, whole and damaged."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    message_from_wire,
    message_to_wire,
)
from openclaw_ctx.errors import OpenClawCtxError, UnknownFormatError
from openclaw_ctx.transcript import pairs_are_whole
from openclaw_ctx.transcript.importers import FORMATS, import_session
from openclaw_ctx.transcript.importers.records import HEAD_BYTES, load

MORE = ("codex", "copilot", "gemini", "kimi", "qwen", "swe-agent")

# The importer of each recorded file, and how many model calls it holds.
RECORDED = {
    "agentsessions__Fixtures_codex_052_raw.jsonl": ("codex", 0),
    "agentsessions__codex_large.jsonl": ("codex", 7),
    "cctools__codex_session.jsonl": ("codex", 4),
    "agentsessions__aaaabbbb-1111-2222-3333-ccccddddeeee_events.jsonl": ("copilot", 2),
    "agentsessions__copilot_large.jsonl": ("copilot", 4),
    "agentsessions__gemini_jsonl_v040.jsonl": ("gemini", 2),
    "agentsessions__kimi_assistant_tools.jsonl": ("kimi", 22),
    "agentsessions__kimi_subagent_agent-0.jsonl": ("kimi", 3),
    "agentsessions__qwen_019f0000-0000-7000-8000-000000000001.jsonl": ("qwen", 2),
    "agentsessions__qwen_system_telemetry.jsonl": ("qwen", 1),
}
UNREAD = ("antigravity", "cursor", "droid", "grok")

# Its recorder gave one id to several calls, so pairs are whole by position only.
REPEATED_IDS = "function_calling_replace"


@pytest.fixture(name="save")
def _save(tmp_path: Path):
    """Return a function that writes bytes to a file."""

    def save(content: bytes) -> Path:
        path = tmp_path / "session"
        path.write_bytes(content)
        return path

    return save


def recorded(folder: Path) -> list[Path]:
    """Return the recorded files of these formats."""
    return [*(folder / name for name in RECORDED), *sorted(folder.glob("sweagent__*.traj"))]


def answers_follow_calls(messages: Sequence[Message]) -> bool:
    """Tell whether every result stands behind the reply that made its call, and every call but a last one has one."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [block.id for block in message.content if isinstance(block, ToolCallBlock)]
    return not waiting


class TestRecordedFiles:
    """Real sessions."""

    def test_no_recorded_file_is_claimed_by_two_importers(self, recorded_transcripts: Path) -> None:
        """Whoever is asked first, the answer is the same; formats without an importer are nobody's."""
        claims = {
            path.name: [
                name for name, importer in FORMATS.items() if importer.sniff(load(path, limit=HEAD_BYTES), path)
            ]
            for path in sorted(recorded_transcripts.glob("*__*"))
        }

        unread = {name for name in claims if any(word in name for word in UNREAD)}
        assert len(unread) == len(UNREAD)
        assert {name: claimed for name, claimed in claims.items() if len(claimed) != (name not in unread)} == {}

    def test_files_of_formats_without_an_importer_are_refused(self, recorded_transcripts: Path) -> None:
        """They look like those of others, and are read as none of them."""
        for word in UNREAD:
            (path,) = recorded_transcripts.glob(f"*_{word}_*")
            with pytest.raises(UnknownFormatError):
                import_session(path)

    @pytest.mark.parametrize("name", RECORDED)
    def test_every_model_call_is_one_reply(self, recorded_transcripts: Path, name: str) -> None:
        """The replies are as many as the calls that were recorded."""
        session = import_session(recorded_transcripts / name)

        replies = sum(isinstance(message, AssistantMessage) for message in session.messages)
        assert (session.format, replies) == RECORDED[name]

    def test_a_trajectory_is_as_long_as_its_history(self, recorded_transcripts: Path) -> None:
        """Nothing in these histories is left out, and they open with the system prompt."""
        for path in recorded_transcripts.glob("sweagent__*.traj"):
            session = import_session(path)

            assert session.format == "swe-agent"
            assert len(session.messages) == len(json.loads(path.read_bytes())["history"])
            assert session.messages[0].role == "system"

    def test_results_follow_their_calls(self, recorded_transcripts: Path) -> None:
        """No provider would refuse these histories, but for ids that were used again."""
        for path in recorded(recorded_transcripts):
            messages = import_session(path).messages

            assert answers_follow_calls(messages), path.name
            assert pairs_are_whole(messages) is (REPEATED_IDS not in path.name), path.name

    def test_two_replies_never_stand_beside_each_other(self, recorded_transcripts: Path) -> None:
        """Between two model calls something was given to the model."""
        for path in recorded(recorded_transcripts):
            messages = import_session(path).messages

            beside = [
                (a, b)
                for a, b in pairwise(messages)
                if isinstance(a, AssistantMessage) and isinstance(b, AssistantMessage)
            ]
            assert beside == [], path.name
            assert not messages or any(isinstance(m, UserMessage) for m in messages) or "telemetry" in path.name

    def test_what_was_imported_survives_the_wire(self, recorded_transcripts: Path) -> None:
        """A transcript that takes the messages gives back the same, and no two have one id."""
        for path in recorded(recorded_transcripts):
            messages = import_session(path).messages

            wire = [json.loads(json.dumps(message_to_wire(message))) for message in messages]
            again = [message_from_wire(data, entry_id=m.entry_id) for data, m in zip(wire, messages, strict=True)]
            ids = [message.entry_id for message in messages if message.entry_id]
            assert again == list(messages), path.name
            assert len(ids) == len(set(ids)), path.name


TEXT = {"type": "text", "text": "x"}
CALL = {"functionCall": {"id": "t", "name": "n", "args": {}}}
ANSWER = {"functionResponse": {"id": "t", "name": "n", "response": {"output": "x"}}}
SEEDS: dict[str, Any] = {
    "codex": [
        {"type": "session_meta", "payload": {"id": "s", "base_instructions": {"text": "x"}}},
        {"type": "turn_context", "payload": {"model": "m"}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [TEXT]}},
        {"type": "response_item", "payload": {"type": "reasoning", "summary": [TEXT], "content": None}},
        {"type": "response_item", "payload": {"type": "tool_call", "function": {"name": "n"}, "arguments": {}}},
        {"type": "response_item", "payload": {"type": "custom_tool_call", "name": "n", "input": "", "call_id": "c"}},
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": [TEXT]}},
        {"type": "response_item", "payload": {"type": "tool_result", "result": {"success": True, "content": "x"}}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": {"n": 1}}}},
        {"type": "event_msg", "payload": {"type": "turn_aborted"}},
    ],
    "copilot": [
        {"type": "session.start", "id": "e1", "data": {"sessionId": "s", "context": {"cwd": "/"}}},
        {
            "type": "user.message",
            "id": "e2",
            "data": {"content": "x", "attachments": [{"mimeType": "image/a", "data": ""}]},
        },
        {"type": "assistant.message", "data": {"content": "x", "toolRequests": [{"toolCallId": "t", "name": "n"}]}},
        {"type": "tool.execution_start", "data": {"toolCallId": "t", "toolName": "n"}},
        {"type": "tool.execution_complete", "data": {"toolCallId": "t", "success": True, "result": {"content": "x"}}},
        {"type": "abort", "data": {}},
    ],
    "gemini": [
        {"sessionId": "s", "projectHash": "h", "directories": ["/"]},
        {"id": "a", "type": "user", "content": [TEXT, ANSWER]},
        {
            "id": "b",
            "type": "gemini",
            "content": [CALL],
            "thoughts": [{"subject": "x", "description": "y"}],
            "toolCalls": [{"id": "t", "name": "n", "args": {}, "status": "success", "result": [ANSWER, TEXT]}],
        },
        {"$set": {"messages": [{"id": "c", "type": "user", "content": "x"}]}},
        {"$rewindTo": "b"},
    ],
    "kimi": [
        {"type": "metadata", "protocol_version": "1", "created_at": 1},
        {"type": "config.update", "systemPrompt": "x"},
        {"type": "context.append_message", "message": {"role": "user", "content": [TEXT], "origin": {"kind": "user"}}},
        {"type": "context.append_loop_event", "event": {"type": "step.begin", "uuid": "s"}},
        {"type": "llm.request", "kind": "loop", "provider": "p", "model": "m"},
        {"type": "context.append_loop_event", "event": {"type": "content.part", "stepUuid": "s", "part": TEXT}},
        {
            "type": "context.append_loop_event",
            "event": {"type": "tool.call", "toolCallId": "t", "name": "n", "args": {}},
        },
        {
            "type": "context.append_loop_event",
            "event": {"type": "tool.result", "toolCallId": "t", "result": {"output": [TEXT]}},
        },
        {
            "type": "context.append_message",
            "message": {"role": "assistant", "content": "x", "toolCalls": [{"name": "n"}]},
        },
        {"type": "context.append_loop_event", "event": {"type": "step.end", "uuid": "s", "finishReason": "end_turn"}},
    ],
    "qwen": [
        {"uuid": "a", "parentUuid": None, "sessionId": "s", "type": "user", "message": {"parts": [TEXT, ANSWER]}},
        {"uuid": "b", "parentUuid": "a", "sessionId": "s", "type": "assistant", "message": {"parts": [CALL]}},
        {
            "uuid": "c",
            "parentUuid": "b",
            "sessionId": "s",
            "type": "tool_result",
            "message": {"parts": [ANSWER, TEXT]},
            "toolCallResult": {"status": "success"},
        },
    ],
    "swe-agent": {
        "environment": "e",
        "trajectory": [
            {"action": "r", "observation": "o", "response": "r", "query": [{"role": "user", "content": "x"}]},
            {"action": "a", "observation": "o", "tool_calls": [{"id": "t", "function": {"name": "n"}}]},
        ],
        "history": [
            {"role": "system", "content": "x", "agent": "main"},
            {"role": "user", "content": [TEXT], "agent": "main", "is_demo": True},
            {
                "role": "assistant",
                "content": "x",
                "tool_calls": [{"id": "t", "function": {"name": "n", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "x", "tool_call_ids": ["t"]},
        ],
    },
}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner)
)
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to every value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def written(content: Any) -> bytes:
    """Return a list as lines, anything else as one document."""
    records = content if isinstance(content, list) else [content]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def check(path: Path) -> None:
    """Import in every way; whatever comes back survives the wire, and only the package's own errors come out."""
    for name in ("auto", *MORE):
        try:
            session = import_session(path, format=name)
        except OpenClawCtxError:
            continue
        json.dumps([message_to_wire(message) for message in session.messages])


@pytest.mark.parametrize("name", MORE)
def test_a_format_is_known_by_the_start_of_a_file(save, name: str) -> None:
    """A first text that fills what a sniffer sees hides nothing, nor does a document on a single line."""
    long = (
        written(SEEDS[name])
        .replace(b'"x"', b'"' + b"x" * HEAD_BYTES + b'"')
        .replace(b'"r"', b'"' + b"r" * HEAD_BYTES + b'"')
    )

    session = import_session(save(long))

    assert session.format == name


class TestNeverATraceback:
    """Fuzz."""

    def test_the_seeds_are_what_their_importers_read(self, save) -> None:
        """Without that the mutations below would prove nothing."""
        for name, seed in SEEDS.items():
            session = import_session(save(written(seed)))

            assert (session.format, bool(session.messages)) == (name, True)

    @FUZZ
    @given(data=st.data(), name=st.sampled_from(MORE))
    def test_when_any_value_in_a_session_is_another(self, save, data: st.DataObject, name: str) -> None:
        """No field is trusted to be of its type, or to be there."""
        content = json.loads(json.dumps(SEEDS[name]))
        *parents, key = data.draw(st.sampled_from(places(content)[1:]))
        holder = content
        for step in parents:
            holder = holder[step]
        if data.draw(st.booleans()):
            holder[key] = data.draw(JSON_VALUES)
        else:
            del holder[key]

        check(save(written(content)))
        check(save(json.dumps({"sessionId": "s", "projectHash": "h", "messages": content}).encode()))

    @FUZZ
    @given(data=st.data(), name=st.sampled_from(MORE))
    def test_when_a_piece_of_a_file_is_overwritten(self, save, data: st.DataObject, name: str) -> None:
        """A torn, doubled or scribbled file is a session or one of our errors."""
        whole = written(SEEDS[name])
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
        piece = data.draw(st.sampled_from([b"", b"\0" * 9, b"\n", b'"', b"}", b"]", b"[", b"\xff", whole]))

        check(save(whole[:first] + piece + whole[last:]))

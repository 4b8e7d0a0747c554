"""Sessions of Codex, SWE-agent and Kimi Code as messages of the contract."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx.contract import (
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
)
from openclaw_ctx.errors import TranscriptFormatError, UnknownFormatError
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


def item(kind: str, **payload: Any) -> dict[str, Any]:
    """Return a response item of a Codex rollout."""
    return {"type": "response_item", "timestamp": "2026-01-01T00:00:00Z", "payload": {"type": kind, **payload}}


def said(role: str, text: str) -> dict[str, Any]:
    """Return a message of a Codex rollout."""
    return item(
        "message", role=role, content=[{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
    )


def event(kind: str, **payload: Any) -> dict[str, Any]:
    """Return an event of a Codex rollout."""
    return {"type": "event_msg", "payload": {"type": kind, **payload}}


CODEX_META = {
    "type": "session_meta",
    "payload": {"id": "s1", "cwd": "/project", "model_provider": "openai", "base_instructions": {"text": "be brief"}},
}


class TestCodex:
    """Codex."""

    def test_everything_between_two_inputs_is_one_reply(self, save) -> None:
        """Thoughts, text and calls of one model call are one message, and the events beside them double nothing."""
        usage = {"input_tokens": 5, "output_tokens": 2}
        path = save(
            [
                CODEX_META,
                {"type": "turn_context", "payload": {"model": "gpt"}},
                event("user_message", message="go"),
                item("message", role="user", content=[{"type": "input_image", "image_url": DATA_URL}]),
                item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="sig"),
                event("agent_reasoning", text="hm"),
                event("agent_message", message="looking"),
                said("assistant", "looking"),
                item("function_call", name="look", arguments='{"a": 1}', call_id="c1"),
                item("custom_tool_call", name="apply_patch", input='{"not": "parsed"}', call_id="c2"),
                item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["ls"]}),
                item("function_call_output", call_id="c3", output="files"),
                item("custom_tool_call_output", call_id="c2", output=[{"type": "input_image", "image_url": DATA_URL}]),
                item("function_call_output", call_id="c1", output={"content": "no", "success": False}),
                event("token_count", info={"last_token_usage": usage}),
                event("token_count", info={"last_token_usage": {"input_tokens": 99}}),
                said("assistant", "done"),
            ]
        )

        session = import_session(path)

        system, user, reply, files, patched, looked, done = session.messages
        assert (system, user.content) == (SystemMessage(content="be brief"), (PICTURE,))
        assert reply.content == (
            ThinkingBlock(thinking="hm", signature="sig"),
            TextBlock(text="looking"),
            ToolCallBlock(id="c1", name="look", arguments={"a": 1}),
            ToolCallBlock(id="c2", name="apply_patch", arguments='{"not": "parsed"}'),
            ToolCallBlock(id="c3", name="local_shell", arguments={"type": "exec", "command": ["ls"]}),
        )
        assert (reply.model, reply.provider, reply.usage, reply.timestamp) == ("gpt", "openai", usage, 1767225600000)
        assert (files.text, files.tool_name, patched.content) == ("files", "local_shell", (PICTURE,))
        assert (looked.text, looked.is_error, done.usage) == ("no", True, None)
        assert pairs_are_whole(session.messages)
        assert (session.session_id, session.cwd, session.skipped) == ("s1", "/project", ())

    def test_calls_and_results_without_ids_are_paired_by_their_order(self, save) -> None:
        """The older words for a call and its result are understood."""
        path = save(
            [
                {"type": "request_item", "payload": said("user", "go")["payload"]},
                item("tool_call", function={"name": "run"}, arguments={"command": "ls"}),
                item("tool_call", function={"name": "read"}, parameters='{"path": "a"}'),
                item("tool_result", name="run", result={"stdout": "x"}),
                item("tool_result", result="y"),
            ]
        )

        session = import_session(path)

        assert [call.arguments for call in session.messages[1].tool_calls] == [{"command": "ls"}, {"path": "a"}]
        assert [(m.tool_name, m.text) for m in session.messages[2:]] == [("run", '{"stdout":"x"}'), ("read", "y")]
        assert pairs_are_whole(session.messages)

    def test_what_codex_puts_in_itself_opens_no_turn(self, save) -> None:
        """Its fragments are a program's messages; a user who quotes one stays a user."""
        fragment = "<environment_context>\n<cwd>/a</cwd>\n</environment_context>"
        path = save(
            [
                {"type": "session_meta", "payload": {"id": "s1", "instructions": "house rules"}},
                said("user", "# AGENTS.md instructions for /a\n<INSTRUCTIONS>house rules</INSTRUCTIONS>"),
                said("user", fragment),
                said("user", f"what is {fragment}?"),
            ]
        )

        session = import_session(path)

        assert kinds(session) == ["custom", "custom", "user"]
        assert [m.custom_type for m in session.messages[:2]] == ["user_instructions", "environment_context"]

    def test_a_rollout_without_envelopes_is_read(self, save) -> None:
        """The first versions wrote the items bare, between marks of state."""
        bare = [said("user", "go")["payload"], {"record_type": "state"}, said("assistant", "ok")["payload"]]
        path = save([{"id": "s0", "timestamp": "2025-07-01T00:00:00Z", "instructions": None}, *bare])

        session = import_session(path)

        assert (session.format, session.session_id, texts(session), session.skipped) == (
            "codex",
            "s0",
            ["go", "ok"],
            (),
        )

    def test_a_stopped_turn_and_a_compaction_end_the_reply(self, save) -> None:
        """What was cut off says so, a summary is told and passed over, and a provider's tool is kept as it is."""
        path = save(
            [
                said("user", "go"),
                item("web_search_call", action={"query": "q"}),
                {"type": "compacted", "payload": {"message": "short"}},
                item("function_call", name="look", arguments="{}", call_id="c1"),
                event("turn_aborted", reason="interrupted"),
                said("user", "again"),
            ]
        )

        session = import_session(path)

        _go, searched, cut, _again = session.messages
        assert searched.content == (UnknownBlock(data={"type": "web_search_call", "action": {"query": "q"}}),)
        assert cut.stop_reason == "aborted"
        assert session.skipped == ("line 3: a recorded compaction's summary",)


HISTORY: Lines = [
    {"role": "system", "content": "be an engineer", "agent": "main"},
    {"role": "user", "content": "a demonstration", "agent": "main", "is_demo": True},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}], "agent": "main"},
    {
        "role": "assistant",
        "content": "I look.",
        "thought": "I look.",
        "action": "ls",
        "agent": "main",
        "tool_calls": [{"id": "t1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "sig"}],
    },
    {"role": "tool", "content": "files", "agent": "main", "tool_call_ids": ["t1"]},
]
STEPS: Lines = [
    {"action": "ls\n", "thought": "I look.", "response": "I look.\n```\nls\n```", "observation": "files"},
    {"action": "submit\n", "thought": "Done.", "observation": ""},
]


class TestSweAgent:
    """SWE-agent."""

    def test_the_history_is_read_without_its_demonstration(self, save) -> None:
        """A demonstration is of another session; a recorded call and its observation are a pair."""
        session = import_session(save({"environment": "main", "trajectory": STEPS, "history": HISTORY, "info": {}}))

        system, user, reply, result = session.messages
        assert (system, user.content) == (SystemMessage(content="be an engineer"), (PICTURE,))
        assert reply.content == (
            ThinkingBlock(thinking="hm", signature="sig"),
            TextBlock(text="I look."),
            ToolCallBlock(id="t1", name="bash", arguments={"command": "ls"}),
        )
        assert result == ToolResultMessage(content="files", tool_call_id="t1", tool_name="bash")
        assert session.skipped == ("message 2: a demonstration, which is of another session",)

    def test_without_a_history_the_steps_are_the_conversation(self, save) -> None:
        """A model without tools is answered by the user; a kept query brings the prompts back."""
        asked = [{**STEPS[0], "query": [{"role": "system", "content": "rules"}]}, STEPS[1]]

        plain = import_session(save({"environment": "main", "trajectory": STEPS, "info": {}}))
        with_query = import_session(save({"environment": "main", "trajectory": asked}))

        assert kinds(plain) == ["assistant", "user", "assistant"]
        assert texts(plain) == ["I look.\n```\nls\n```", "files", "Done.\nsubmit\n"]
        assert kinds(with_query) == ["system", "assistant", "user", "assistant"]
        assert plain.skipped == ("file: no history, so what the steps say is taken",)

    def test_of_a_file_that_was_cut_off_the_whole_messages_stay(self, save) -> None:
        """A message that lost its end is not passed on as if it were one, wherever the cut fell."""
        whole = json.dumps({"environment": "main", "trajectory": STEPS, "history": HISTORY})
        in_history, in_steps = whole[:-40], whole[: whole.index("Done.")]

        session = import_session(save(in_history.encode()))
        shorter = import_session(save(in_steps.encode()))

        assert kinds(session) == ["system", "user", "assistant"]
        assert kinds(shorter) == ["assistant", "user"]
        assert "file: cut off at the end of the file" in session.skipped


def step(kind: str, **event: Any) -> dict[str, Any]:
    """Return a loop event of Kimi Code."""
    return {"type": "context.append_loop_event", "event": {"type": kind, **event}, "time": 1000}


def put_in(text: str, **origin: Any) -> dict[str, Any]:
    """Return a message that Kimi Code appended."""
    message = {"role": "user", "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": origin}
    return {"type": "context.append_message", "message": message, "time": 900}


KIMI_META = {"type": "metadata", "protocol_version": "1.4", "created_at": 1}


class TestKimi:
    """Kimi Code."""

    def test_a_step_is_one_reply_and_its_results_stand_behind_it(self, save) -> None:
        """A call that comes after the first result belongs to the reply; what was put in meanwhile waits."""
        path = save(
            [
                KIMI_META,
                {"type": "config.update", "systemPrompt": "be kind", "cwd": "/project", "time": 1},
                {"type": "turn.prompt", "input": [{"type": "text", "text": "go"}], "time": 899},
                put_in("go", kind="user"),
                step("step.begin", uuid="never answered"),
                step("step.begin", uuid="s1"),
                {"type": "llm.request", "kind": "loop", "provider": "kimi", "model": "k2", "time": 1},
                step("content.part", stepUuid="s1", part={"type": "think", "think": "hm"}),
                step("content.part", stepUuid="s1", part={"type": "text", "text": "ok"}),
                step("tool.call", stepUuid="s1", toolCallId="t1", name="Bash", args={"command": "ls"}),
                put_in("reminder", kind="injection", variant="plan_mode"),
                step("tool.result", toolCallId="t1", result={"output": "files", "note": "end of file"}),
                step("tool.call", stepUuid="s1", toolCallId="t2", name="See", args={}),
                step(
                    "tool.result",
                    toolCallId="t2",
                    result={"output": [{"type": "image_url", "imageUrl": {"url": DATA_URL}}]},
                ),
                step("step.end", uuid="s1", finishReason="tool_use", usage={"output": 3}),
            ]
        )

        session = import_session(path)

        system, user, reply, files, seen, reminder = session.messages
        assert system == SystemMessage(content="be kind", timestamp=1)
        assert (user.text, user.timestamp) == ("go", 900)
        assert reply == AssistantMessage(
            entry_id="s1",
            timestamp=1000,
            content=(
                ThinkingBlock(thinking="hm"),
                TextBlock(text="ok"),
                ToolCallBlock(id="t1", name="Bash", arguments={"command": "ls"}),
                ToolCallBlock(id="t2", name="See", arguments={}),
            ),
            provider="kimi",
            model="k2",
            usage={"output": 3},
            stop_reason="toolUse",
        )
        assert (files.text, seen.content, seen.tool_name) == ("files\nend of file", (PICTURE,), "See")
        assert reminder == CustomMessage(content=(TextBlock(text="reminder"),), timestamp=900, custom_type="plan_mode")
        assert (session.cwd, session.skipped) == ("/project", ())

    def test_a_compaction_an_undo_and_a_new_prompt_are_told(self, save) -> None:
        """The raw history stays, under its first prompt."""
        path = save(
            [
                {"type": "config.update", "systemPrompt": "first"},
                put_in("go", kind="user"),
                {"type": "context.apply_compaction", "summary": "s", "compactedCount": 1},
                put_in("s", kind="compaction_summary"),
                {"type": "config.update", "systemPrompt": "first"},
                {"type": "config.update", "systemPrompt": "second"},
                {"type": "context.undo", "count": 1},
            ]
        )

        session = import_session(path)

        assert texts(session) == ["first", "go"]
        assert session.skipped == (
            "line 3: a recorded compaction's summary",
            "line 4: a recorded compaction's summary",
            "line 6: another system prompt",
            "line 7: messages were taken back here, and are still there",
        )

    def test_the_wire_of_the_older_program_is_not_claimed(self, save) -> None:
        """Kimi CLI opens its files alike, and writes none of the lines that follow."""
        older = [{"type": "metadata", "protocol_version": "1.1"}, {"timestamp": 1, "message": {"type": "TurnBegin"}}]

        with pytest.raises(UnknownFormatError):
            import_session(save(older))

    def test_whole_messages_of_a_model_and_a_tool_are_read(self, save) -> None:
        """A fork copies the conversation in this form."""
        calls = [{"type": "function", "id": "t1", "function": {"name": "Bash", "arguments": '{"a": 1}'}}]
        reply = {"role": "assistant", "content": [{"type": "text", "text": "ok"}], "toolCalls": calls}
        result = {"role": "tool", "content": [{"type": "text", "text": "x"}], "toolCallId": "t1", "isError": True}
        records = [{"type": "context.append_message", "message": message} for message in (reply, result)]

        session = import_session(save([KIMI_META, put_in("go", kind="user"), *records]))

        assert session.messages[1].tool_calls == (ToolCallBlock(id="t1", name="Bash", arguments={"a": 1}),)
        assert (session.messages[2].tool_name, session.messages[2].is_error) == ("Bash", True)


@pytest.mark.parametrize("name", ["codex", "copilot", "gemini", "kimi", "qwen", "swe-agent"])
def test_a_format_that_is_asked_for_refuses_a_file_that_holds_none_of_it(save, name: str) -> None:
    """One sentence, and never an empty session."""
    with pytest.raises(TranscriptFormatError, match="it holds no"):
        import_session(save([{"type": "summary", "leafUuid": "u"}, {"role": "user", "content": "hi"}]), format=name)

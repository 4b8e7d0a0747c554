"""Sessions of each known format as messages of the contract."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx.contract import (
    AssistantMessage,
    BranchSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UserMessage,
)
from openclaw_ctx.errors import UnknownFormatError
from openclaw_ctx.transcript.importers import ImportedSession, import_session

Lines = list[dict[str, Any]]


@pytest.fixture(name="save")
def _save(tmp_path: Path):
    """Return a function that writes a file: bytes as they are, a list as lines, anything else as one document."""

    def save(content: object, name: str = "session.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else as_lines(content))
        return path

    return save


def as_lines(content: object) -> bytes:
    """Return JSON lines."""
    records = content if isinstance(content, list) else [content]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def pi_entry(entry_id: str, parent: str | None, text: str, **entry: Any) -> dict[str, Any]:
    """Return a pi line that holds a user message."""
    message = {"role": "user", "content": text, "timestamp": 1}
    return {"type": "message", "id": entry_id, "parentId": parent, "message": message, **entry}


PI_HEADER = {"type": "session", "version": 3, "id": "s1", "cwd": "/project", "timestamp": "2026-01-01T00:00:00Z"}


def claude(kind: str, content: object, **more: Any) -> dict[str, Any]:
    """Return a Claude Code line."""
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {"type": kind, "message": message, "sessionId": "c1", "cwd": "/project", "isSidechain": False, **more}


def texts(session: ImportedSession) -> list[str]:
    """Return the text of every message."""
    return [message.text for message in session.messages]


class TestPi:
    """OpenClaw and pi."""

    def test_the_branch_that_ends_at_the_last_line_is_taken(self, save) -> None:
        """A branch that was left is no part of the session."""
        left = pi_entry("b", "a", "left")
        path = save(
            [PI_HEADER, pi_entry("a", None, "root"), left, pi_entry("c", "a", "taken"), pi_entry("d", "c", "on")]
        )

        session = import_session(path)

        assert texts(session) == ["root", "taken", "on"]
        assert [message.entry_id for message in session.messages] == ["a", "c", "d"]
        assert (session.format, session.session_id, session.cwd, session.skipped) == ("pi", "s1", "/project", ())

    def test_version_1_is_read_in_the_order_of_the_file(self, save) -> None:
        """Entries without ids are one branch, and their messages have no entry id."""
        entries = [{"type": "message", "message": {"role": "user", "content": text}} for text in ("one", "two")]

        session = import_session(save([{"type": "session", "id": "s1"}, *entries]))

        assert texts(session) == ["one", "two"]
        assert [message.entry_id for message in session.messages] == [None, None]

    def test_only_what_a_model_sees_becomes_a_message(self, save) -> None:
        """Custom messages and branch summaries do; compactions, state and empty summaries do not."""
        hook = {"role": "hookMessage", "customType": "hook", "content": "from a hook"}
        entries: Lines = [
            {"type": "model_change", "modelId": "m"},
            {"type": "message", "message": {"role": "user", "content": "before"}},
            {"type": "compaction", "summary": "short", "firstKeptEntryId": "e1", "tokensBefore": 9},
            {"type": "custom", "customType": "state", "data": {}},
            {"type": "custom_message", "customType": "note", "content": "seen", "display": False},
            {"type": "branch_summary", "summary": "", "fromId": "e0"},
            {"type": "branch_summary", "summary": "what was tried", "fromId": "e0"},
            {"type": "label", "targetId": "e1"},
            {"type": "message", "message": hook, "timestamp": "2026-01-01T00:00:00Z"},
        ]
        chain = [{**entry, "id": f"e{n}", "parentId": f"e{n - 1}" if n else None} for n, entry in enumerate(entries)]

        session = import_session(save([PI_HEADER, *chain]))

        assert [type(message) for message in session.messages] == [
            UserMessage,
            CustomMessage,
            BranchSummaryMessage,
            CustomMessage,
        ]
        assert texts(session) == ["before", "seen", "what was tried", "from a hook"]
        assert session.messages[3].timestamp == 1767225600000

    @pytest.mark.parametrize(
        "parent,expected,note",
        [
            pytest.param("gone", ["leaf"], "line 3: its parent cannot be found", id="a parent that is not there"),
            pytest.param("b", ["leaf"], "line 3: its parent cannot be found", id="a line that is its own parent"),
            pytest.param("call-1", ["root", "leaf"], "line 3: its parent is a tool call", id="a tool call as parent"),
        ],
    )
    def test_a_broken_parent_ends_the_branch_and_is_told(
        self, save, parent: str, expected: list[str], note: str
    ) -> None:
        """The walk never fails or hangs; a tool call's id is taken for the message that holds it."""
        content = [
            {"type": "text", "text": "root"},
            {"type": "toolCall", "id": "call-1", "name": "ls", "arguments": {}},
        ]
        root = pi_entry("a", None, "", message={"role": "assistant", "content": content})

        session = import_session(save([PI_HEADER, root, pi_entry("b", parent, "leaf")]))

        assert texts(session) == expected
        assert session.skipped[0].startswith(note)


class TestClaudeCode:
    """Claude Code."""

    def test_every_block_has_its_place_in_the_contract(self, save) -> None:
        """Text, thinking with its signature, calls, results with the tool's name, and pictures."""
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
        call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [picture], "is_error": True}
        usage = {"input_tokens": 3, "output_tokens": 4}
        answer = {"model": "claude", "usage": usage, "stop_reason": "tool_use"}
        path = save(
            [
                {"type": "summary", "summary": "s", "leafUuid": "u9"},
                claude("user", "hello", uuid="u1", timestamp="2025-06-14T11:00:00"),
                claude("assistant", [thought, {"type": "text", "text": "ok"}, call], uuid="u2", message=answer),
                claude("user", [{"type": "text", "text": "also"}, result], uuid="u3"),
            ]
        )

        session = import_session(path)

        user, reply, answered, also = session.messages
        assert user == UserMessage(entry_id="u1", timestamp=1749898800000, content="hello")
        assert isinstance(reply, AssistantMessage)
        assert reply.content == (
            ThinkingBlock(thinking="hm", signature="sig"),
            TextBlock(text="ok"),
            ToolCallBlock(id="t1", name="Read", arguments={"path": "a"}),
        )
        assert (reply.model, reply.usage, reply.stop_reason) == ("claude", usage, "toolUse")
        assert isinstance(answered, ToolResultMessage)
        assert (answered.tool_call_id, answered.tool_name, answered.is_error) == ("t1", "Read", True)
        assert answered.content == (ImageBlock(data="aGk=", mime_type="image/png"),)
        assert (also.text, also.entry_id) == ("also", None)
        assert (session.session_id, session.cwd, session.skipped) == ("c1", "/project", ())

    def test_a_time_without_a_zone_is_utc_wherever_it_is_read(self, save, monkeypatch) -> None:
        """The reader's own zone changes nothing."""
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        try:
            session = import_session(save([claude("user", "hello", timestamp="2025-06-14T11:00:00")]))
        finally:
            monkeypatch.undo()
            time.tzset()

        assert session.messages[0].timestamp == 1749898800000

    def test_the_pieces_of_one_reply_are_one_message(self, save) -> None:
        """A model call is one row, however many lines it was written in; a result ends it."""

        def piece(text: str, reply: str, tokens: int) -> dict[str, Any]:
            message = {"id": reply, "usage": {"output_tokens": tokens}}
            return claude("assistant", [{"type": "text", "text": text}], message=message)

        path = save(
            [
                claude("user", "go"),
                piece("a", "r1", 1),
                {"type": "progress", "isSidechain": False, "parentUuid": None},
                piece("b", "r1", 2),
                piece("c", "r2", 1),
                claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]),
                piece("d", "r2", 1),
            ]
        )

        session = import_session(path)

        assert texts(session) == ["go", "a\nb", "c", "x", "d"]
        assert session.messages[1].usage == {"output_tokens": 2}

    def test_calls_and_results_without_ids_are_paired_by_their_order(self, save) -> None:
        """Every call gets an id of its own, and an unanswered one is not answered after the user spoke."""
        calls = [{"type": "tool_use", "name": name, "input": {}} for name in ("A", "B")]
        results = [{"type": "tool_result", "content": text} for text in ("of a", "of b")]
        late = [{"type": "tool_use", "name": "C", "input": {}}]
        path = save(
            [
                *(claude("user", "go"), claude("assistant", calls), claude("user", results)),
                *(claude("assistant", late), claude("user", "stop"), claude("assistant", calls)),
                claude("user", results[:1]),
            ]
        )

        session = import_session(path)

        answered = [(m.tool_name, m.text) for m in session.messages if isinstance(m, ToolResultMessage)]
        ids = [call.id for m in session.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
        assert answered == [("A", "of a"), ("B", "of b"), ("A", "of a")]
        assert len(set(ids)) == 5
        assert [m.tool_call_id for m in session.messages if isinstance(m, ToolResultMessage)] == [
            ids[0],
            ids[1],
            ids[3],
        ]

    def test_a_subagents_lines_are_left_out_unless_the_file_is_its_own(self, save) -> None:
        """One conversation comes out of a file."""
        aside = [claude("user", "search", isSidechain=True), claude("assistant", "found", isSidechain=True)]

        mixed = import_session(save([claude("user", "main"), *aside], "mixed.jsonl"))
        alone = import_session(save(aside, "alone.jsonl"))

        assert (texts(mixed), mixed.skipped) == (["main"], ("line 2: a subagent's line, and 1 more",))
        assert (texts(alone), alone.skipped) == (["search", "found"], ())

    def test_malformed_lines_are_told_and_the_rest_is_read(self, save) -> None:
        """A key with a typing error, a bare string and an unknown shape cost one line each."""
        misspelt = {**claude("user", ""), "message": {"role": "user", "contenst": []}}
        path = save(
            [
                *(claude("user", "one"), misspelt, {**misspelt, "message": "error"}, "massive error", {"silly": 1}),
                *(claude("user", ["wow"]), claude("user", "sum", isCompactSummary=True), claude("user", "two")),
            ]
        )

        session = import_session(path)

        assert texts(session) == ["one", "two"]
        assert session.skipped == (
            "line 2: its message has no content",
            "line 3: its message is not an object",
            "line 4: not a JSON object",
            "line 5: no type",
            "line 6: 1 content items are no objects",
            "line 6: its message is empty",
            "line 7: a recorded compaction's summary",
        )


def call(arguments: object, **more: Any) -> dict[str, Any]:
    """Return a tool call of the chat-completions form."""
    return {"type": "function", "function": {"name": "look", "arguments": arguments}, **more}


CHAT: Lines = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}]},
    {"role": "assistant", "content": None, "tool_calls": [call('{"a": 1}', id="t1"), call("{broken", id="t2")]},
    {"role": "tool", "tool_call_id": "t1", "content": "seen"},
    {"role": "tool", "tool_call_id": "t2", "name": "other", "content": "not"},
    {"role": "assistant", "content": "done", "usage": {"total_tokens": 7}, "finish_reason": "stop"},
]


class TestChatCompletions:
    """Chat completions and tau-bench."""

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(json.dumps(CHAT, indent=1).encode(), id="a list"),
            pytest.param(json.dumps({"model": "m", "messages": CHAT}).encode(), id="a request"),
            pytest.param(json.dumps({"task_id": 0, "reward": 1, "info": {}, "traj": CHAT}).encode(), id="tau-bench"),
            pytest.param(
                json.dumps({"task_id": 0, "reward": 1, "info": {"task": "x" * 70000}, "traj": CHAT}).encode(), id="long"
            ),
            pytest.param(as_lines(CHAT), id="lines"),
        ],
    )
    def test_a_list_of_messages_is_read_wherever_it_stands(self, save, content: bytes) -> None:
        """Alone, in a request, in a trajectory, behind a long task, or one message a line."""
        session = import_session(save(content))

        system, user, reply, seen, other, done = session.messages
        assert system == SystemMessage(content="be kind")
        assert user.content == (TextBlock(text="see"), UnknownBlock(data=CHAT[1]["content"][1]))
        assert reply.content == (
            ToolCallBlock(id="t1", name="look", arguments={"a": 1}),
            ToolCallBlock(id="t2", name="look", arguments="{broken"),
        )
        assert seen == ToolResultMessage(content="seen", tool_call_id="t1", tool_name="look")
        assert other.tool_name == "other"
        assert (done.text, done.usage, done.stop_reason) == ("done", {"total_tokens": 7}, "stop")
        assert (session.format, session.skipped) == ("chat-completions", ())

    def test_a_picture_that_came_along_is_a_picture(self, save) -> None:
        """One that is written out in its address, as in every other format; what lies elsewhere is kept as it is."""
        parts = [
            {"type": "image_url", "image_url": {"url": url}} for url in ("data:image/png;base64,aGk=", "https://x/y")
        ]

        (message,) = import_session(save(as_lines([{"role": "user", "content": parts}]))).messages

        assert message.content == (ImageBlock(data="aGk=", mime_type="image/png"), UnknownBlock(data=parts[1]))

    def test_the_older_words_are_understood(self, save) -> None:
        """A function call and its result pair without ids; a developer speaks as the system."""
        messages = [
            {"role": "developer", "content": "rules"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "function_call": {"name": "look", "arguments": '{"a": 1}'}},
            {"role": "function", "name": "look", "content": "seen"},
        ]

        session = import_session(save(json.dumps(messages).encode()))

        rules, _user, reply, result = session.messages
        assert isinstance(rules, SystemMessage)
        assert [(c.name, c.arguments) for c in reply.tool_calls] == [("look", {"a": 1})]
        assert result.tool_call_id == reply.tool_calls[0].id

    @pytest.mark.parametrize(
        "cut,kept",
        [pytest.param(-20, 5, id="inside the last message"), pytest.param(-1, 6, id="before the closing bracket")],
    )
    def test_of_a_list_that_was_cut_off_the_whole_messages_stay(self, save, cut: int, kept: int) -> None:
        """A message that lost its end is not passed on as if it were one."""
        session = import_session(save(json.dumps(CHAT).encode()[:cut]))

        assert len(session.messages) == kept
        assert session.skipped == ("file: cut off at the end of the file",)

    @pytest.mark.parametrize(
        "messages",
        [
            pytest.param(
                [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
                ],
                id="Anthropic messages",
            ),
            pytest.param([{"type": "message", "role": "user", "content": "hi"}], id="Responses items"),
        ],
    )
    def test_lists_of_other_apis_are_not_claimed(self, save, messages: Lines) -> None:
        """They look alike until a tool is called; read as this they would lose the calls."""
        with pytest.raises(UnknownFormatError):
            import_session(save(json.dumps(messages).encode()))

"""A session in forms for others: what it holds, byte for byte, and a page that nothing in it can break out of."""

import itertools
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from openclaw_ctx.contract import (
    AssistantMessage,
    SessionKey,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import MemoryStore, Transcript, decode_json
from openclaw_ctx.transcript.export import conversation, export, plain_json
from tests.transcript.sessions import HEADER, as_bytes, chain, line, say, texts

HOSTILE = "a\x1b[31m\u202e\x9b\r\n# Forged"


def _of_file(path: Path, form: str) -> bytes:
    with closing(Transcript.read(path)) as transcript:
        return b"".join(export(transcript, form))


def _page(*messages: Any, name: str = "talk") -> str:
    with closing(MemoryStore().open(SessionKey(name))) as transcript:
        for message in messages:
            transcript.append(message)
        return b"".join(export(transcript, "markdown")).decode()


def _tokens(page: str) -> list[Token]:
    """Return what a reader of Markdown finds, block by block and, within them, piece by piece."""
    blocks = MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)
    return [token for block in blocks for token in (block, *(block.children or ()))]


def _headings(page: str) -> list[str]:
    tokens = _tokens(page)
    return [after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"]


def _code(page: str) -> list[str]:
    return [token.content for token in _tokens(page) if token.type == "fence"]


# -- jsonl -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(as_bytes([HEADER, *chain("a", "b")]), id="as-we-write-it"),
        pytest.param(json.dumps(HEADER, indent=None, separators=(" , ", " : ")).encode() + b"\n", id="header-alone"),
        pytest.param(
            b'{ "type":"session","version":3,"id":"s-1","cwd":"\\u65c5" }\n'
            b'{"type" : "message","id":"e1","message":{"role":"user","content":"\\ud800 \xe2\x80\xa8"}}\n'
            b'{"type":"message","id":"e2","parentId":null,"message":{"role":"user","content":"another root"}}\n'
            b'{"type":"of somebody","id":"e3","parentId":"e1","n":1e999}\n',
            id="spelled-otherwise-with-branches-and-unknown-lines",
        ),
        pytest.param(as_bytes([HEADER, *chain("a", "b")]).replace(b"\n", b"\r\n"), id="with-crlf"),
    ],
)
def test_a_healthy_file_comes_out_byte_for_byte(content, tmp_path):
    """However its lines are spelled, and on whatever branch they are."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(content)

    assert _of_file(path, "jsonl") == content


def test_a_recorded_session_comes_out_byte_for_byte(recorded_transcripts):
    """One of a thousand lines, of another program."""
    path = recorded_transcripts / "pi__large-session.jsonl"

    assert _of_file(path, "jsonl") == path.read_bytes()


def test_a_damaged_file_comes_out_as_what_can_be_read(tmp_path):
    """No half of a line, and a header where it had none; who reads it is told by the transcript's warnings."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(as_bytes([line("e1", None, "a"), b"{half", line("e2", "e1", "b")]) + b'{"type":"mess')

    first, *rest = _of_file(path, "jsonl").split(b"\n")[:-1]

    assert decode_json(first)["type"] == "session"
    assert rest == [json.dumps(line("e1", None, "a")).encode(), json.dumps(line("e2", "e1", "b")).encode()]


# -- json ------------------------------------------------------------------------------------------


def test_json_is_json_for_every_reader(tmp_path):
    """No number that JSON has not, no raw surrogate, and no control or direction mark that a terminal would obey."""
    path = tmp_path / "session.jsonl"
    odd = b'{"type":"message","id":"e1","parentId":null,"message":{"role":"user","content":"%s","n":NaN}}\n'
    path.write_bytes(as_bytes([HEADER]) + odd % b"\\udc80 \xe2\x80\xae\xc2\x9b")

    data = _of_file(path, "json").decode("ascii")

    (message,) = json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert message == {"role": "user", "content": "\udc80 \u202e\x9b", "n": None}


def test_an_empty_session_is_an_empty_array(tmp_path):
    """And a page with its title."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(as_bytes([HEADER]))

    assert json.loads(_of_file(path, "json")) == []
    assert _of_file(path, "markdown") == b"# s-1\n"


def test_what_nests_too_deeply_is_said_to():
    """A thousand arrays within each other stop no reader."""
    deep: Any = "bottom"
    for _ in range(1_000):
        deep = [deep]

    assert "(nested too deeply)" in json.dumps(plain_json(deep))


# -- the conversation ------------------------------------------------------------------------------


def test_a_summary_stands_where_its_compaction_does(tmp_path):
    """What it stands for comes before it, and is not lost; the end may be had alone."""
    path = tmp_path / "session.jsonl"
    with closing(Transcript.open(path)) as transcript:
        kept = [transcript.append(say(text)).entry_id for text in ("a", "b")][-1]
        transcript.append_compaction(summary="a, summarised", first_kept_entry_id=kept, tokens_before=10)
        transcript.append(say("c"))

        assert texts(conversation(transcript)) == ["a", "b", "a, summarised", "c"]
        assert texts(conversation(transcript, last=2)) == ["a, summarised", "c"]
        assert texts(conversation(transcript, last=9)) == ["a", "b", "a, summarised", "c"]


# -- markdown --------------------------------------------------------------------------------------

_PIECES = [
    "```", "````", "~~~", "    ```", "  ~~~", "```py", "- ```", "> ```", "`", "``", "`<i>`", "\\`", "\\",
    "<b onload=x>", "<!--", "-->", "<script>", "<pre>", "</pre>", "<http://a.b>", "&lt;", "&#60;b>",
    "# h", "## h", "- # h", "> # h", "1. ## h", "---", "===", "> ---", "* * *", "***",
    "![p](http://x/p)", "\\![p](x)", "!", "[p]", "[a]: b", '[a](b "`") ', "|", "| a | `b |",
    "a", " ", "\t", "\n", "\n", "\n\n",
]  # fmt: skip
_NASTY = st.lists(st.sampled_from(_PIECES), max_size=9).map("".join)


@given(st.lists(_NASTY, min_size=1, max_size=3))
def test_a_message_stays_in_its_section_whatever_it_says(said: list[str]):
    """The page's headings are its own, in order; there is no HTML and no picture in it."""
    page = _page(*(UserMessage(content=text) for text in said))

    tokens = _tokens(page)

    assert _headings(page) == ["talk", *["User"] * len(said)]
    assert {token.type for token in tokens} & {"html_block", "html_inline", "image"} == set()


@given(_NASTY)
def test_a_tools_output_stands_in_one_fence_as_it_is(output: str):
    """Whatever fences are in it, it closes none."""
    page = _page(ToolResultMessage(tool_call_id="c", tool_name="run", content=output), say("after"))

    assert _headings(page) == ["talk", "Result of run", "User"]
    assert _code(page) == [output.strip("\n") + "\n" if output.strip("\n") else "\n"]


def test_a_message_keeps_its_form():
    """Lists, links, emphasis and code are what they were; code in backticks keeps its angle brackets."""
    page = _page(
        say("**Use** `List<int>` or [this](http://a.b):\n\nno `Map<k, v>`\n\n- one\n\n```py\nif a < b:\n# c\n```")
    )

    kinds = {token.type for token in _tokens(page)}
    code = [token.content for token in _tokens(page) if token.type == "code_inline"]

    assert {"strong_open", "link_open", "list_item_open"} <= kinds
    assert _code(page) == ["if a < b:\n# c\n"]
    assert code == ["List&lt;int>", "Map<k, v>"], "beside a link nobody can be sure, so there it is written out"


def test_names_of_sessions_and_tools_are_one_line_of_text():
    """Neither controls nor line breaks nor marks of Markdown act in a heading."""
    reply = AssistantMessage(
        content=(TextBlock(text="ok"), ToolCallBlock(id="c", name=HOSTILE, arguments={"a": HOSTILE}))
    )
    result = ToolResultMessage(tool_call_id="c", tool_name=HOSTILE, content=HOSTILE)

    page = _page(reply, result, name=f"[x](y) <b> {HOSTILE}")

    assert len(_headings(page)) == 3
    assert {token.type for token in _tokens(page)} & {"html_inline", "link_open"} == set()
    assert all(piece.isprintable() for piece in page.split("\n"))


def test_a_recorded_session_is_a_page_of_its_messages(recorded_transcripts):
    """One heading a message, whatever code and Markdown was talked about."""
    path = recorded_transcripts / "pi__large-session.jsonl"
    with closing(Transcript.read(path)) as transcript:
        count = len(transcript.record())

    assert len(_headings(_of_file(path, "markdown").decode())) == count + 1

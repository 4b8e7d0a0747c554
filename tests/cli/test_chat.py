"""``chat``: lines in, answers out, all of it in a session; against a provider on this machine."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.cli.chat_screen import context_rows, plain
from openclaw_ctx.compaction import MAX_FOCUS_CHARS
from openclaw_ctx.contract import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    SessionKey,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import SECRET, Run, Terminal
from tests.models.provider import CutStream, Hang, Provider, Reply, Stream, chunks, openai_error, running

MAIN = SessionKey("agent:main:main")
Chat: TypeAlias = Callable[..., Awaitable[subprocess.CompletedProcess[str]]]


@pytest.fixture(name="provider")
async def _provider() -> AsyncIterator[Provider]:
    """Return a provider that runs."""
    async with running() as found:
        yield found


@pytest.fixture(name="arguments")
def _arguments(provider: Provider, environment: dict[str, str]) -> list[str]:
    """Return the command line of a chat with the provider, whose environment has no key of anybody's."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        environment.pop(name, None)
    return ["chat", "--model", "openai/gpt-test", "--base-url", f"{provider.url}/v1"]


@pytest.fixture(name="chat")
def _chat(arguments: list[str], environment: dict[str, str], tmp_path: Path) -> Chat:
    """Return what pipes lines into a chat in a process of its own, while the provider answers here."""

    async def chat(*lines: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "openclaw_ctx", *arguments, *more],
            input="".join(f"{line}\n" for line in lines),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    return chat


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the sessions of the chats."""
    return FileStore(sessions_folder(tmp_path / "state"))


def _answer(text: str) -> Stream:
    return Stream(chunks({"role": "assistant", "content": text[:3]}, {"content": text[3:]}))


def _said(store: FileStore, key: SessionKey = MAIN) -> list[str]:
    transcript = store.read(key)
    said = [getattr(message, "text", "") for message in transcript.history]
    transcript.close()
    return said


# -- turns -----------------------------------------------------------------------------------------


async def test_each_line_of_a_pipe_is_a_turn(chat: Chat, provider: Provider, store: FileStore):
    """Answers alone on stdout, a line each; the second request holds the first turn, and the session has all."""
    provider.will(_answer("Four."), _answer("Eight."))

    done = await chat("Two and two?", "", "Twice that?", more=("--system", "Be brief."))

    assert (done.returncode, done.stdout, done.stderr) == (0, "Four.\nEight.\n", "")
    roles = [message["role"] for message in provider.requests[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert _said(store) == ["Two and two?", "Four.", "Twice that?", "Eight."]


async def test_a_session_goes_on_where_it_was_left(chat: Chat, provider: Provider, store: FileStore):
    """Under the same key; the last line needs no end."""
    provider.will(_answer("One."), _answer("Two."))

    await chat("first", more=("--session", "kitchen"))
    await chat("second", more=("--session", "kitchen"))

    assert len(provider.requests[1].body["messages"]) == 3
    assert _said(store, SessionKey("kitchen")) == ["first", "One.", "second", "Two."]


async def test_an_answer_keeps_its_lines_and_moves_no_cursor(chat: Chat, provider: Provider):
    """Escape sequences, also over several pieces of the stream, are written out."""
    provider.will(Stream(chunks({"content": "a\tb\r\n\x1b"}, {"content": "[31mred\u202e\nend"})))

    done = await chat("Colours?")

    assert done.stdout == "a\tb\n\\x1b[31mred\\u202e\nend\n"


async def test_a_line_that_begins_with_two_slashes_is_said_with_one(chat: Chat, provider: Provider, store: FileStore):
    """So that a path can be asked about."""
    provider.will(_answer("Users."))

    await chat("//etc/passwd holds?")

    assert _said(store)[0] == "/etc/passwd holds?"


# -- what fails ------------------------------------------------------------------------------------


async def test_a_model_that_fails_ends_a_pipe_with_1(chat: Chat, provider: Provider, store: FileStore):
    """One sentence, the lines behind it are not sent, and what was said is kept."""
    provider.will(Reply(openai_error(f"Incorrect API key provided: {SECRET}", code="invalid_api_key"), 401))

    done = await chat("Hello?", "Still there?")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
    assert len(provider.requests) == 1
    assert _said(store) == ["Hello?"]


async def test_what_a_failed_request_has_said_is_not_in_a_pipe(chat: Chat, provider: Provider):
    """The stream breaks off, the model is asked again, and the output has one answer."""
    provider.will(CutStream(chunks({"content": "Fo"}, finish=None)[:1]), _answer("Four."))

    done = await chat("Two and two?")

    assert (done.returncode, done.stdout) == (0, "Four.\n")
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    "arguments,named",
    [
        pytest.param((), "--model", id="no-model"),
        pytest.param(("--model", "gpt"), "provider/model", id="a-name-without-a-provider"),
        pytest.param(("--model", "nobody/gpt"), "baseUrl", id="a-provider-that-nobody-knows"),
        pytest.param(("--model", "openai/gpt"), "OPENAI_API_KEY", id="no-key"),
        pytest.param(("--model", "ollama/x", "--session", " "), "--session", id="a-blank-key"),
        pytest.param(("--model", "ollama/x", "--engine", ""), "engine", id="a-blank-engine"),
    ],
)
def test_what_cannot_be_asked_is_exit_2(run: Run, arguments, named, monkeypatch):
    """Said before a line is read."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    done = run("chat", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr


def test_a_provider_whose_variable_is_unset_is_not_asked(run: Run, configure, monkeypatch):
    """Its key would be the text that names the variable."""
    monkeypatch.delenv("ACME_KEY", raising=False)
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${ACME_KEY}"}
    configure(
        json.dumps({"models": {"providers": {"acme": provider}}, "agents": {"defaults": {"model": "acme/small"}}})
    )

    done = run("chat")

    assert done.returncode == 2
    assert "ACME_KEY" in done.stderr


async def test_the_configuration_names_the_model_and_where_it_is(
    provider: Provider, environment: dict[str, str], configure, tmp_path: Path
):
    """Address, key, and the most tokens of an answer."""
    acme = {"baseUrl": f"{provider.url}/v1", "apiKey": "k-123", "models": [{"id": "small", "maxTokens": 77}]}
    configure(json.dumps({"models": {"providers": {"acme": acme}}, "agents": {"defaults": {"model": "acme/small"}}}))
    provider.will(_answer("Hello."))

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "openclaw_ctx", "chat"],
        input="Hi", cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=60,
    )  # fmt: skip

    (request,) = provider.requests
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert request.headers["authorization"] == "Bearer k-123"
    assert request.body["model"] == "small"
    assert 77 in {request.body.get("max_tokens"), request.body.get("max_completion_tokens")}


# -- commands --------------------------------------------------------------------------------------


async def test_context_counts_what_is_in_the_window_by_kind(chat: Chat, provider: Provider):
    """And says what the last request had."""
    provider.will(_answer("Four."))

    done = await chat("Two and two?", "/context", more=("--context-window", "50k"))

    rows = {line[:14].strip(): line[14:].split() for line in done.stdout.splitlines()[1:]}
    assert rows["user"][0] == rows["assistant"][0] == "1"
    assert rows["summaries"] == ["0", "0"]
    assert rows["all"][0] == "2"
    assert rows["all"][2:] == ["of", "50,000"]
    assert done.stdout.splitlines()[-1].startswith("The last request had 1 messages and ")


async def test_context_knows_the_window_before_anything_is_asked(chat: Chat):
    """Which is what was said of the model, and no default."""
    done = await chat("/context", more=("--context-window", "50k"))

    assert done.stdout.splitlines()[-1].split()[-2:] == ["of", "50,000"]


async def test_context_counts_what_the_engine_shows(chat: Chat, provider: Provider, store: FileStore):
    """And not what it leaves out: the table is of the window."""
    with closing(store.open(MAIN)) as transcript:
        for number in range(40):
            transcript.append(UserMessage(content=f"{number} " + "word " * 800))
            transcript.append(AssistantMessage(content="Yes.", stop_reason="stop"))
    provider.will(_answer("Four."))

    done = await chat("Two and two?", "/context", more=("--context-window", "16k", "--engine", "window"))

    rows = {line[:14].strip(): line[14:].split() for line in done.stdout.splitlines()[1:]}
    assert 0 < int(rows["user"][0]) < 40
    assert int(rows["all"][1].replace(",", "")) < 16_000


async def test_compact_says_what_it_came_to_and_the_chat_goes_on(chat: Chat, provider: Provider):
    """Also where there is nothing to compact; a focus that is too long is refused."""
    provider.will(_answer("Four."), _answer("Eight."))

    done = await chat("Two and two?", "/compact", f"/compact {'x' * (MAX_FOCUS_CHARS + 1)}", "Twice that?")

    said = done.stdout.splitlines()
    assert (done.returncode, said[0], said[-1]) == (0, "Four.", "Eight.")
    assert "compacted" in done.stdout + done.stderr
    assert "at most 800 characters" in done.stderr


async def test_engine_says_who_answers_and_why_it_is_not_the_slots(chat: Chat):
    """An engine that is not there is named with the reason; before any turn."""
    done = await chat("/engine", more=("--engine", "nowhere"))

    first, second = done.stdout.splitlines()
    assert first == "legacy answers."
    assert second.startswith("The slot asks for nowhere: ")


async def test_new_puts_the_session_aside_and_begins_anew(chat: Chat, provider: Provider, store: FileStore):
    """The key is the same; nothing is lost."""
    provider.will(_answer("Four."), _answer("Hello."))

    done = await chat("Two and two?", "/new", "Hi", "/new", "/new")

    assert done.returncode == 0
    assert len(provider.requests[1].body["messages"]) == 1
    assert [archive.reason for archive in store.archives()] == ["reset", "reset"]


async def test_fork_goes_on_in_a_copy(chat: Chat, provider: Provider, store: FileStore):
    """The session stays as it is; a copy without a name gets a free one, a name that is taken is refused."""
    provider.will(_answer("One."), _answer("Two."), _answer("Three."))

    done = await chat("first", "/fork", "second", "/fork side", "third")

    assert done.returncode == 0
    assert _said(store) == ["first", "One."]
    assert _said(store, SessionKey("agent:main:main-2")) == ["first", "One.", "second", "Two."]
    assert len(_said(store, SessionKey("side"))) == 6


async def test_help_lists_the_commands_and_quit_leaves(chat: Chat, provider: Provider):
    """What stands behind /quit is not sent; an unknown command is named and sends nothing."""
    done = await chat("/help", "/nonsense", "/quit", "more")

    assert done.returncode == 0
    names = ("/compact", "/context", "/engine", "/new", "/fork", "/help", "/quit")
    assert all(f"\n{name}" in f"\n{done.stdout}" for name in names)
    assert "'/nonsense'" in done.stderr
    assert provider.requests == []


# -- on a terminal ---------------------------------------------------------------------------------


async def test_a_terminal_shows_the_answer_as_it_comes_and_ctrl_c_stops_it(
    arguments: list[str], provider: Provider, terminal: Callable[..., Terminal], store: FileStore
):
    """The session keeps what had been said, the next turn has a meter, and Ctrl-C twice leaves with 0."""
    provider.will(Hang(chunks({"content": "Once upon"}, finish=None)[:1]), _answer("Four."))
    shown = terminal(*arguments)

    def type_in(text: bytes) -> None:
        os.write(shown._master, text)

    def talk() -> int:
        shown.read_until(b"> ")
        type_in(b"A story?\n")
        shown.read_until(b"Once upon")
        shown.process.send_signal(signal.SIGINT)
        shown.read_until(b"Stopped.")
        type_in(b"Two and two?\n")
        shown.read_until(b" / 200,000 tokens")
        shown.read_until(b"legacy")
        shown.process.send_signal(signal.SIGINT)
        shown.read_until(b"again leaves")
        return shown.end(signal.SIGINT)

    code = await asyncio.to_thread(talk)

    assert code == 0, shown.shown
    assert b"Four." in shown.shown
    assert _said(store) == ["A story?", "Once upon", "Two and two?", "Four."]


@pytest.mark.parametrize(
    "number,code", [pytest.param(signal.SIGINT, 130, id="interrupted"), pytest.param(signal.SIGTERM, 143, id="ended")]
)
async def test_a_pipe_that_is_waited_for_can_be_left(
    arguments: list[str], provider: Provider, environment: dict[str, str], store: FileStore, number, code
):
    """The thread that reads it keeps nobody; what was said is kept."""
    provider.will(_answer("Four."))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openclaw_ctx", *arguments),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"Two and two?\n")
    first = await process.stdout.readline()

    process.send_signal(number)
    _, complaints = await asyncio.wait_for(process.communicate(), 60)

    assert (first, process.returncode) == (b"Four.\n", code), complaints
    assert b"Traceback" not in complaints
    assert b"Fatal" not in complaints
    assert _said(store) == ["Two and two?", "Four."]


async def test_an_empty_session_can_be_forked_or_says_why_not(chat: Chat):
    """No traceback either way."""
    done = await chat("/fork side")

    assert "Traceback" not in done.stderr
    assert done.stdout or done.stderr.startswith("Error: ")


# -- what is shown ---------------------------------------------------------------------------------


def test_a_text_keeps_nothing_that_moves_a_cursor():
    """But its lines and tabs."""
    shown = plain("é 日本 \U0001f600\n\t\x1b[2J\x9b\u2028\u202e\ud800\r\x08")

    assert shown == "é 日本 \U0001f600\n\t\\x1b[2J\\x9b\\u2028\\u202e\\ud800\\x08"


def test_the_table_of_the_context_counts_every_message_once():
    """Every kind has its row, and what is none of them stands under other."""
    messages = [
        CompactionSummaryMessage(summary="so far"),
        UserMessage(content="u"),
        AssistantMessage(content="a"),
        ToolResultMessage(tool_call_id="1", tool_name="t", content="r"),
        CustomMessage(custom_type="x", content="c"),
    ]

    rows = list(context_rows(messages, lambda _: 1_000, system_prompt=7, window=9_000))

    assert [row.split()[-2:] for row in rows[1:-1]] == [["1", "7"], *[["1", "1,000"]] * 5]
    assert rows[-1].split() == ["all", "6", "5,007", "of", "9,000"]


def test_a_focus_is_as_long_as_the_reference_systems():
    """800 code points."""
    assert MAX_FOCUS_CHARS == 800

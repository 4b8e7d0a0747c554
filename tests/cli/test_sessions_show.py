"""``sessions show``: a conversation as a person reads it, and whole as JSON."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from rich.cells import cell_len

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    ImageBlock,
    Message,
    SessionKey,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, SECRET, Run
from tests.transcript.sessions import HEADER, as_bytes, chain, line, say

KITCHEN = SessionKey("kitchen")
NOON = 1_763_640_000_000  # 2025-11-20, 12:00 UTC


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use."""
    return FileStore(sessions_folder(tmp_path / "state"))


def _keep(store: FileStore, *messages: Message, name: str | None = None) -> None:
    with closing(store.open(KITCHEN)) as transcript:
        for message in messages:
            transcript.append(message)
        if name is not None:
            transcript.append_session_info(name=name)


def _file(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(as_bytes([HEADER, *lines]))
    return path


def test_facts_come_first_and_then_the_messages(run: Run, store: FileStore):
    """Who speaks and when, in UTC; a call with its arguments, and of a result the beginning."""
    called = ToolCallBlock(id="c", name="read", arguments={"path": "bread.md"})
    _keep(
        store,
        UserMessage(content="And with rye?\n\nToday.\n", timestamp=NOON),
        AssistantMessage(content=(ThinkingBlock(thinking="hm"), TextBlock(text="Let me look."), called)),
        ToolResultMessage(tool_call_id="c", tool_name="read", content="\n".join(map(str, range(1, 9)))),
        name="Bread",
    )

    done = run("sessions", "show", "kitchen")

    facts, _, said = done.stdout.partition("\n\n")
    labels = dict(fact.split(": ", 1) for fact in facts.split("\n"))
    assert list(labels) == ["session", "name", "session id", "started", "file", "messages"]
    assert (labels["session"].strip(), labels["name"].strip(), labels["messages"].strip()) == ("kitchen", "Bread", "3")
    assert labels["started"].endswith("Z")
    assert said == (
        "── user  2025-11-20T12:00:00Z\n  And with rye?\n\n  Today.\n\n"
        "── assistant\n  [thinking, 2 characters]\n  Let me look.\n"
        '  → read {"path": "bread.md"}\n\n'
        "── read result\n  1\n  2\n  3\n  4\n  5\n  6\n  … 2 more lines\n"
    )


def test_other_kinds_of_messages_say_what_they_are(run: Run, store: FileStore):
    """Pictures, commands, programs' own messages, errors, and roles that nobody knows."""
    _keep(
        store,
        UserMessage(content=(ImageBlock(data="AAAA", mime_type="image/png"),)),
        AssistantMessage(content="", error_message="overloaded"),
        BashExecutionMessage(command="ls", output="a\r\nb"),
        CustomMessage(custom_type="weather", content="rain", timestamp=NOON),
        UnknownMessage(data={"role": "oracle", "content": "soon"}),
    )

    shown = run("sessions", "show", "kitchen").stdout

    for said in (
        "── user\n  [image/png]\n",
        "── assistant\n  ! overloaded\n",
        "── command\n  $ ls\n  a\n  b\n",
        "── weather  2025-11-20T12:00:00Z\n  rain\n",
        '── oracle\n  {"role": "oracle", "content": "soon"}\n',
    ):
        assert said in shown


def test_the_end_is_shown_and_all_of_it_where_that_is_asked_for(run: Run, store: FileStore):
    """How many of how many is said; a summary stands where the compaction did."""
    with closing(store.open(KITCHEN)) as transcript:
        kept = [transcript.append(say(f"m{number}")).entry_id for number in range(9)][-1]
        transcript.append_compaction(summary="so far", first_kept_entry_id=kept, tokens_before=1)
        transcript.append(say("new"))

    end = run("sessions", "show", "kitchen", "-n", "2").stdout
    more = run("sessions", "show", "kitchen", "-n", "5").stdout
    everything = run("sessions", "show", "kitchen", "--all").stdout

    assert "messages:   the last 2 of 10\n" in end
    assert [row[2:] for row in end.split("\n") if row.startswith("  ")] == ["m8", "new"]
    assert [row[2:] for row in more.split("\n") if row.startswith("  ")] == ["m6", "m7", "m8", "so far", "new"]
    assert everything.index("  m8\n") < everything.index("── summary of what came before\n  so far\n")
    assert "messages:   10\n" in everything


def test_json_holds_the_messages_whole(run: Run, store: FileStore):
    """As they are on disk, however long, and with the facts."""
    _keep(store, say("x" * 5_000), say("b"), name="Bread")

    data = json.loads(run("sessions", "show", "kitchen", "--json", "-n", "2").stdout)

    messages = data.pop("messages")
    assert list(data) == ["session", "session_id", "format", "name", "started_at", "path", "skipped"]
    assert (data["session"], data["format"], data["name"], data["skipped"]) == ("kitchen", "openclaw-ctx", "Bread", [])
    assert [message["content"] for message in messages] == ["x" * 5_000, "b"]


def test_json_is_json_for_every_reader(run: Run, tmp_path: Path):
    """Lone surrogates are escapes, and numbers that JSON has not are null."""
    path = _file(tmp_path, line("e1", None, "\udc80 \x1b[31m", n=float("nan")))

    shown = run("sessions", "show", path, "--json").stdout

    (message,) = json.loads(shown, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["messages"]
    assert shown.isascii()
    assert (message["content"], message["n"]) == ("\udc80 \x1b[31m", None)


def test_nothing_of_a_message_reaches_the_terminal_raw(run: Run, store: FileStore):
    """No control, no direction mark, no secret, and no line that looks like one of ours."""
    call = ToolCallBlock(id="c", name=HOSTILE, arguments={HOSTILE: HOSTILE})
    forged = f"{HOSTILE}\n── assistant\nError: forged\napi_key={SECRET}"
    _keep(
        store,
        say(forged),
        AssistantMessage(content=(TextBlock(text=forged), call), error_message=HOSTILE),
        ToolResultMessage(tool_call_id="c", tool_name=HOSTILE, content=forged),
        BashExecutionMessage(command=HOSTILE, output=HOSTILE),
        CustomMessage(custom_type=HOSTILE, content=HOSTILE),
        UnknownMessage(data={"role": HOSTILE}),
        name=HOSTILE,
    )

    shown = run("sessions", "show", "kitchen").stdout

    assert all(row.isprintable() for row in shown.split("\n"))
    assert SECRET not in shown
    assert sum(row.startswith("── assistant") for row in shown.split("\n")) == 1
    assert not any(row.startswith("Error") for row in shown.split("\n"))


def test_a_damaged_file_says_what_was_passed_over(run: Run, tmp_path: Path):
    """And shows the rest."""
    path = _file(tmp_path, line("e1", None, "a"), b"{half", line("e2", "e1", "b"))

    done = run("sessions", "show", path)

    assert "skipped:    line 3: not JSON, passed over (5 bytes)\n" in done.stdout
    assert done.returncode == 0


def test_every_recorded_file_is_shown_or_is_of_no_known_format(run: Run, recorded_transcripts: Path):
    """With its importer's name; and never a traceback."""
    codes = {path.name: run("sessions", "show", path, "-n", "3").returncode for path in recorded_transcripts.iterdir()}

    assert set(codes.values()) == {0, 3}
    assert sum(code == 3 for code in codes.values()) == 5
    codex = run("sessions", "show", recorded_transcripts / "cctools__codex_session.jsonl")
    assert "\nformat:     codex\n" in codex.stdout


@pytest.mark.parametrize(
    "name, code",
    [
        pytest.param("nobody", 1, id="unknown-key"),
        pytest.param("nowhere/session.jsonl", 1, id="no-such-file"),
        pytest.param("./empty.jsonl", 3, id="a-file-of-no-format"),
        pytest.param("./", 1, id="a-folder"),
    ],
)
def test_what_is_no_session_is_one_sentence(name, code, run: Run, tmp_path: Path):
    """On stderr, and nothing on stdout."""
    (tmp_path / "empty.jsonl").touch()

    done = run("sessions", "show", name)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ")


def test_a_session_goes_by_the_beginning_of_its_id(run: Run, store: FileStore):
    """Or by its file's name, where no such file is in this folder."""
    info = store.create(KITCHEN, chain("a"), header={"id": "abcdef-1"})

    for name in ("abcd", info.path.name):
        assert run("sessions", "show", name).stdout.startswith("session:    kitchen\n")


def test_a_key_may_look_like_a_path_that_no_system_has(run: Run, store: FileStore):
    """Too long, or with a NUL."""
    for key in ("feed/" + "x" * 5_000, "feed/\0"):
        store.create(SessionKey(key), chain("a"))

        assert run("sessions", "show", key).returncode == 0


def test_lines_fit_a_terminal_and_nothing_of_a_text_is_lost(terminal, store: FileStore):
    """Wide characters take two columns; words are kept whole where there are spaces."""
    long = "one two " * 40 + "面包" * 60
    call = ToolCallBlock(id="c", name="read", arguments={"path": "x" * 200})
    _keep(store, say(long), AssistantMessage(content=(call,)))

    process = terminal("sessions", "show", "kitchen", NO_COLOR="1")
    process.end()

    shown = process.shown.decode().split("\r\n")
    said = shown[shown.index("── user") + 1 : shown.index("── assistant") - 1]
    assert max(map(cell_len, said)) <= 80
    assert all(row.startswith("  ") for row in said)
    assert "".join(said).replace(" ", "") == long.replace(" ", "")
    assert cell_len(next(row for row in shown if "→" in row)) <= 80


def test_colours_are_for_terminals_that_want_them(terminal, store: FileStore):
    """Not under NO_COLOR."""
    _keep(store, say("a"))
    coloured, plain = terminal("sessions", "show", "kitchen"), terminal("sessions", "show", "kitchen", NO_COLOR="1")

    for process in (coloured, plain):
        process.end()

    assert b"\x1b[" in coloured.shown
    assert b"\x1b" not in plain.shown


def test_the_end_of_a_long_file_is_read_alone(run: Run, tmp_path: Path):
    """Where a compaction lies between: what stands before it need not even be readable."""
    before = [line(f"e{n}", f"e{n - 1}" if n else None, "x" * 1_000) for n in range(3_000)]
    boundary = {"type": "compaction", "id": "c", "parentId": "e2999", "summary": "s", "firstKeptEntryId": "c"}
    end = [line(f"f{n}", f"f{n - 1}" if n else "c", f"m{n}") for n in range(30)]
    path = _file(tmp_path, b"{unreadable", *before, {**boundary, "timestamp": "2025-11-20T23:34:00Z"}, *end)

    short, long = run("sessions", "show", path, "-n", "5"), run("sessions", "show", path, "-n", "40")

    assert "messages:   the last 5; --all prints all\n" in short.stdout
    assert "skipped" not in short.stdout, "the first lines were not read"
    assert short.stdout.endswith("  m29\n")
    assert "messages:   the last 39 of 3,030\n" in long.stdout
    assert "skipped" in long.stdout

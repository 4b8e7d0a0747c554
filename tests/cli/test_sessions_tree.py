"""``sessions tree``: every entry once, the active branch straight down, and no depth that a screen has not."""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.cli.sessions.branches import Branches, plan_branches
from openclaw_ctx.contract import AssistantMessage, EntryId, SessionKey, TextBlock, ToolCallBlock, ToolResultMessage
from openclaw_ctx.transcript import Entry, FileStore
from openclaw_ctx.transcript.tree import walk
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import HEADER, as_bytes, line, say

KITCHEN = SessionKey("kitchen")


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use."""
    return FileStore(sessions_folder(tmp_path / "state"))


def _file(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(as_bytes([HEADER, *lines]))
    return path


def _drawn(run: Run, path: Path, *options: str) -> list[str]:
    done = run("sessions", "tree", path, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _entry(entry_id: str, parent_id: str | None) -> Entry:
    return Entry(type="message", id=EntryId(entry_id), parent_id=None if parent_id is None else EntryId(parent_id))


def _steps(entries: Sequence[Entry]) -> tuple[Branches, list[Any]]:
    branches = plan_branches(entries, walk(entries, entries[-1].id))
    return branches, list(branches.steps(is_told=[False] * len(entries)))


# -- the plan --------------------------------------------------------------------------------------

_IDS = st.sampled_from("abcdefgh")
_ENTRIES = st.lists(st.builds(_entry, _IDS, st.none() | _IDS), min_size=1, max_size=12)


@given(_ENTRIES)
def test_every_entry_is_drawn_once(entries: list[Entry]):
    """Whatever ids are used twice, whatever parents are missing, stand behind or go in rings."""
    _, steps = _steps(entries)

    drawn = [at for step in steps for at in (step.folded or (step.at,))]

    assert sorted(drawn) == list(range(len(entries)))


@given(_ENTRIES)
def test_the_active_branch_goes_straight_down(entries: list[Entry]):
    """In the first column, in its order: the branch that the transcript is read as, which ends at its last line."""
    branches, steps = _steps(entries)

    straight = [at for step in steps if not step.depth for at in (step.folded or (step.at,))]
    places = {id(entry): at for at, entry in enumerate(entries)}
    path = [places[id(entry)] for entry in walk(entries, entries[-1].id)]

    assert straight[: len(path)] == path
    assert branches.active == set(path)
    assert path[-1] == len(entries) - 1


@given(st.lists(st.integers(0, 30), max_size=60))
def test_no_tree_is_deeper_than_its_size_allows(parents: list[int]):
    """The longest way goes straight on, so n entries have no more than log2(n) + 1 branches to their left."""
    entries = [_entry("0", None), *(_entry(str(n), str(min(p, n - 1))) for n, p in enumerate(parents, 1))]

    _, steps = _steps(entries)

    assert max(step.depth for step in steps) <= math.log2(len(entries)) + 1


def test_a_fork_at_every_step_needs_two_columns():
    """The long way of a ladder goes straight on, even where a short one was written last and is the active branch."""
    entries = [_entry(f"m{n}", f"m{n - 1}" if n else None) for n in range(1_000)]
    entries += [_entry(f"s{n}", f"m{n}") for n in reversed(range(1_000))]

    _, steps = _steps(entries)

    assert max(step.depth for step in steps) == 2


def test_a_hundred_thousand_entries_in_a_chain_are_three_lines():
    """Without recursion."""
    entries = [_entry(str(n), str(n - 1) if n else None) for n in range(100_000)]

    _, steps = _steps(entries)

    assert [len(step.folded) for step in steps] == [0, 99_998, 0]


# -- the drawing -----------------------------------------------------------------------------------


def test_a_fork_is_drawn_before_what_came_instead(run: Run, store: FileStore):
    """Filled dots down to where the session is; hollow ones to the right; labels, names and summaries are named."""
    with closing(store.open(KITCHEN)) as transcript:
        fork = transcript.append(say("How do I bake bread?")).entry_id
        for text in ("white", "w1", "w2", "w3"):
            transcript.append(say(text))
        transcript.branch(fork)
        rye = transcript.append(say("rye")).entry_id
        transcript.append_label(rye, "good")
        transcript.append_session_info(name="Bread")
        transcript.append_compaction(summary="rye it is", first_kept_entry_id=None, tokens_before=1)
        transcript.append(say("and now?"))

    shown = run("sessions", "tree", "kitchen").stdout.splitlines()

    plain = [" ".join(word for word in row.split() if not _is_id(word)) for row in shown]
    assert plain == [
        "● user How do I bake bread?",
        "├─○ user white",
        "│ ⋮ 2 entries, 2 of the user's",
        "│ ○ user w3",
        "● user [good] rye",
        "● label good",
        "● name Bread",
        "● compaction rye it is",
        "● user (here) and now?",
    ]


def _is_id(word: str) -> bool:
    return len(word) == 8 and set(word) <= set("0123456789abcdef")


def test_a_new_beginning_is_a_tree_beside_the_other(run: Run, tmp_path: Path):
    """The one that the session is on comes last."""
    path = _file(tmp_path, line("a1", None, "first try"), line("a2", "a1", "more"), line("b1", None, "second try"))

    assert _drawn(run, path) == [
        "┌─○ a1 user       first try",
        "│ ○ a2 user       more",
        "● b1 user       (here) second try",
    ]


def test_all_of_it_is_drawn_where_that_is_asked_for(run: Run, tmp_path: Path):
    """An entry a line."""
    path = _file(tmp_path, *(line(f"e{n}", f"e{n - 1}" if n else None, f"m{n}") for n in range(9)))

    assert len(_drawn(run, path)) == 3
    assert [row.split()[1] for row in _drawn(run, path, "--all")] == [f"e{n}" for n in range(9)]


def test_a_message_without_words_is_told_by_its_tools(run: Run, store: FileStore):
    """What it calls, and whose result it is."""
    call = ToolCallBlock(id="c", name="read", arguments={})
    with closing(store.open(KITCHEN)) as transcript:
        transcript.append(AssistantMessage(content=(TextBlock(text=" "), call)))
        transcript.append(ToolResultMessage(tool_call_id="c", tool_name="read", content="bread\n\n  salt"))

    shown = run("sessions", "tree", "kitchen").stdout

    assert "assistant  calls read\n" in shown
    assert "result     (here) read: bread salt\n" in shown


def test_an_empty_session_says_so(run: Run, tmp_path: Path):
    """In JSON too."""
    path = _file(tmp_path)

    assert _drawn(run, path) == ["There is nothing in it yet."]
    assert json.loads("".join(_drawn(run, path, "--json"))) == {"leaf": None, "entries": []}


def test_json_names_every_entry_and_where_it_hangs(run: Run, store: FileStore):
    """In the order of the file; ``active`` for what is on the active branch."""
    with closing(store.open(KITCHEN)) as transcript:
        root = transcript.append(say("a")).entry_id
        aside = transcript.append(say("b")).entry_id
        transcript.branch(root)
        leaf = transcript.append_label(aside, "left")

    data = json.loads(run("sessions", "tree", "kitchen", "--json").stdout)

    assert data["leaf"] == leaf
    assert data["entries"] == [
        {"id": root, "parent": None, "type": "message", "role": "user", "active": True, "label": None},
        {"id": aside, "parent": root, "type": "message", "role": "user", "active": False, "label": "left"},
        {"id": leaf, "parent": root, "type": "label", "role": None, "active": True, "label": None},
    ]


def test_nothing_foreign_reaches_the_terminal_raw(run: Run, tmp_path: Path):
    """Ids, roles, types, texts, labels, names, tools; lone surrogates as escapes, in text and JSON."""
    odd = "\ud800" + HOSTILE
    path = _file(
        tmp_path,
        line(odd, None, odd, role=odd),
        {"type": odd, "id": "e2", "parentId": odd},
        {"type": "label", "id": "e3", "parentId": "e2", "targetId": odd, "label": odd},
        {"type": "session_info", "id": "e4", "parentId": "e3", "name": odd},
        line("e5", "e4", "", role="assistant", content=[{"type": "toolCall", "name": odd, "id": "c"}]),
        line("e6", "e5", odd, role="toolResult", toolName=odd),
    )

    shown = "\n".join(_drawn(run, path, "--all"))
    data = "\n".join(_drawn(run, path, "--json"))

    assert len(shown.split("\n")) == 6
    assert all(row.isprintable() for row in shown.split("\n"))
    assert data.isascii()
    assert len(json.loads(data)["entries"]) == 6
    assert "\x1b" not in json.dumps(json.loads(data), ensure_ascii=False)


def test_the_beginning_of_a_secret_is_not_shown(run: Run, tmp_path: Path):
    """A text is cut between words, before it is looked at for secrets."""
    secret = "sk-live-" + "A1b2" * 10
    path = _file(tmp_path, line("e1", None, "x" * 70 + f" {secret} and more"), line("e2", "e1", f"{secret} more"))

    shown = "\n".join(_drawn(run, path))

    assert "sk-live" not in shown


@pytest.mark.parametrize("encoding, bar", [("utf-8", "├─○"), ("ascii", "|-o")])
def test_a_terminal_without_the_signs_gets_others(encoding, bar, spawn: Run, tmp_path: Path):
    """And dots for what is cut."""
    path = _file(tmp_path, line("e1", None, "long " * 40), line("e2", "e1", "面"), line("e3", "e1", "c"))

    shown = spawn("sessions", "tree", path, PYTHONIOENCODING=encoding).stdout

    assert shown.splitlines()[1].startswith(bar)
    assert "\\u2026" not in shown


def test_a_line_fits_a_terminal(terminal, tmp_path: Path):
    """With long ids, labels, roles and wide characters."""
    long = "面包" * 60
    path = _file(
        tmp_path,
        line("0123456789" * 4, None, long),
        line("e2", "0123456789" * 4, "one two " * 40, role="r" * 40),
        {"type": "label", "id": "e3", "parentId": "e2", "targetId": "e2", "label": long},
    )

    process = terminal("sessions", "tree", path, NO_COLOR="1")
    process.end()

    rows = process.shown.decode().split("\r\n")[:-1]
    assert len(rows) == 3
    assert max(map(cell_len, rows)) <= 80
    assert rows[0].endswith("…")


def test_a_damaged_file_is_drawn_with_a_warning(run: Run, tmp_path: Path):
    """On stderr: what was passed over is not in the drawing."""
    path = _file(tmp_path, line("e1", None, "a"), b"{half", line("e2", "e1", "b"))

    done = run("sessions", "tree", path)

    assert done.stderr == "Warning: line 3: not JSON, passed over (5 bytes)\n"
    assert [row.split()[1] for row in done.stdout.splitlines()] == ["e1", "e2"]


def test_a_pipe_that_closes_early_ends_it_quietly(environment, tmp_path: Path):
    """``sessions tree --all | head -1``: one line, and no traceback."""
    path = _file(tmp_path, *(line(f"e{n}", f"e{n - 1}" if n else None, "x" * 60) for n in range(5_000)))
    command = [sys.executable, "-m", "openclaw_ctx", "sessions", "tree", str(path), "--all"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert first.decode().startswith("● e0")
    assert complaint == b""
    assert process.returncode in {0, 1}


def test_a_recorded_session_of_a_thousand_entries_fits_a_screen(run: Run, recorded_transcripts: Path):
    """Nothing branches there."""
    rows = _drawn(run, recorded_transcripts / "pi__large-session.jsonl")

    assert len(rows) == 3
    assert rows[1] == "⋮ 1,016 entries, 87 of the user's"

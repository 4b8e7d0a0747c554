"""``sessions archive`` and ``restore``: a session put aside, and brought back, and nothing lost in between."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import chain, texts

KITCHEN = SessionKey("kitchen")


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use, with a session of two messages."""
    store = FileStore(sessions_folder(tmp_path / "state"))
    store.create(KITCHEN, chain("a", "b"), header={"id": "0123abcd-1"})
    return store


def _said(store: FileStore, key: str) -> list[str]:
    with closing(store.read(SessionKey(key))) as transcript:
        return texts(transcript.record())


def test_what_was_put_aside_comes_back_by_its_key(run: Run, store: FileStore):
    """Where one archive has it; every byte is the same."""
    before = next(store.folder.glob("*.jsonl")).read_bytes()

    aside = run("sessions", "archive", "kitchen", "--reason", "reset")
    gone = store.sessions()
    back = run("sessions", "restore", "kitchen")

    (archive,) = aside.stdout.splitlines()
    assert archive.startswith("kitchen was put aside as kitchen-")
    assert ".jsonl.reset." in archive
    assert gone == []
    assert (back.stdout, back.returncode) == ("kitchen is back, with 2 messages.\n", 0)
    assert next(store.folder.glob("*.jsonl")).read_bytes() == before
    assert store.archives() == []


def test_json_says_what_became_of_it(run: Run, store: FileStore):
    """The name of the archive, and the key and file that it is back as."""
    aside = json.loads(run("sessions", "archive", "0123", "--json").stdout)
    back = json.loads(run("sessions", "restore", aside["archive"], "--key", "old", "--json").stdout)

    assert (aside["key"], aside["reason"]) == ("kitchen", "deleted")
    assert back == {
        "archive": aside["archive"],
        "key": "old",
        "messages": 2,
        "path": str(next(store.folder.glob("old-*.jsonl"))),
    }


def test_a_key_that_is_taken_again_is_kept_and_another_may_be_named(run: Run, store: FileStore):
    """The archive stays until it is back."""
    run("sessions", "archive", "kitchen")
    store.create(KITCHEN, chain("new"))

    refused = run("sessions", "restore", "kitchen")
    kept = len(store.archives())
    renamed = run("sessions", "restore", "kitchen", "--key", "kitchen-before")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "There is a session 'kitchen' already." in refused.stderr
    assert (kept, renamed.returncode) == (1, 0)
    assert (_said(store, "kitchen"), _said(store, "kitchen-before")) == (["new"], ["a", "b"])


def test_of_several_archives_of_a_key_one_must_be_named(run: Run, store: FileStore):
    """They are listed, a line each, the newest last."""
    run("sessions", "archive", "kitchen")
    store.create(KITCHEN, chain("later"))
    run("sessions", "archive", "kitchen")
    names = [archive.name for archive in store.archives()]

    refused = run("sessions", "restore", "kitchen")
    restored = run("sessions", "restore", names[-1])

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: 2 archives were put aside as 'kitchen'; say which")
    assert [row.strip() for row in refused.stderr.splitlines()[1:]] == names
    assert restored.returncode == 0
    assert _said(store, "kitchen") == ["later"]


def test_a_session_that_is_being_written_stays(run: Run, store: FileStore):
    """Who holds it is said."""
    with closing(store.open(KITCHEN)):
        refused = run("sessions", "archive", "kitchen")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is being written by" in refused.stderr
    assert _said(store, "kitchen") == ["a", "b"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(("archive", "nobody"), "There is no session 'nobody'", id="archive-of-nobody"),
        pytest.param(("restore", "nobody"), "There is no archive 'nobody'", id="restore-of-nobody"),
        pytest.param(("restore", "../x.jsonl.reset.2026-01-01T00-00-00.000Z"), "There is no archive", id="elsewhere"),
    ],
)
def test_what_is_not_there_is_a_sentence_and_exit_1(arguments, sentence, run: Run, store: FileStore):
    """It says how to see what there is."""
    done = run("sessions", *arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {sentence}")
    assert "openclaw-ctx sessions list" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("archive", "kitchen", "--reason", "boredom"), id="a-reason-that-is-none"),
        pytest.param(("restore", "kitchen", "--key", " "), id="a-blank-key"),
    ],
)
def test_what_cannot_be_meant_is_exit_2(arguments, run: Run, store: FileStore):
    """Before anything is done."""
    done = run("sessions", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert _said(store, "kitchen") == ["a", "b"]


def test_a_folder_that_is_not_there_is_not_made(run: Run, tmp_path: Path):
    """Nothing can be in it."""
    for command in ("archive", "restore"):
        assert run("sessions", command, "kitchen").returncode == 1

    assert not (tmp_path / "state").exists()


def test_no_key_reaches_the_terminal_raw(run: Run, store: FileStore):
    """Put aside, brought back under another, taken, and not there."""
    store.create(SessionKey(HOSTILE), chain("a"))

    done = [
        run("sessions", "archive", HOSTILE),
        run("sessions", "restore", HOSTILE, "--key", f"2{HOSTILE}"),
        run("sessions", "archive", f"2{HOSTILE}", "--json"),
        run("sessions", "restore", f"2{HOSTILE}", "--json"),
        run("sessions", "restore", HOSTILE),
    ]

    assert [one.returncode for one in done] == [0, 0, 0, 0, 1]
    assert all(row.isprintable() for one in done for row in (one.stdout + one.stderr).split("\n"))


def test_a_session_that_was_rotated_comes_back_by_its_key(run: Run, store: FileStore):
    """The transcript that it went on from was put aside with it, and is not what is meant."""
    with closing(store.open(KITCHEN)) as transcript:
        transcript.append_compaction(summary="so far", first_kept_entry_id=transcript.leaf_id, tokens_before=9)
        assert store.rotate(transcript).rotated
    run("sessions", "archive", "kitchen")

    back = run("sessions", "restore", "kitchen")

    assert back.returncode == 0
    with closing(store.read(KITCHEN)) as transcript:
        assert texts(transcript.history) == ["so far", "b"]


def test_a_torn_tail_is_still_one_under_another_key(run: Run, store: FileStore):
    """Every byte behind the header is as it was: the next append cuts the tail off, after a copy."""
    path = store.glance()[0].path
    with path.open("ab") as file:
        file.write(b'{"type":"mess')
    run("sessions", "archive", "kitchen")
    run("sessions", "restore", "kitchen", "--key", "old")

    checked = run("sessions", "verify", "old", "--json")

    codes = [finding["code"] for finding in json.loads(checked.stdout)["checked"][0]["findings"]]
    assert "tail-torn" in codes
    assert "line-unparsable" not in codes


@pytest.mark.parametrize("name", ["kitc", "kit", "hen", "lighthouse", "0123"])
def test_a_session_goes_by_the_beginning_of_its_key_or_what_stands_behind_a_colon(
    run: Run, store: FileStore, name: str
):
    """As long as that is one session's; the end of a word is none."""
    store.create(SessionKey("import:lighthouse"), chain("x"))

    shown = run("sessions", "show", name)

    assert shown.returncode == (1 if name in {"kit", "hen"} else 0)

"""A folder of sessions is looked after: its index is held against the transcripts, and what is old goes in steps."""

import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from openclaw_ctx.contract import SessionKey
from openclaw_ctx.errors import SessionBusyError, SessionNotFoundError
from openclaw_ctx.transcript import FileStore, SessionInfo
from openclaw_ctx.transcript.paths import safe_name
from openclaw_ctx.transcript.stores.retention import Retention, Step
from openclaw_ctx.transcript.stores.upkeep import carry_out, plan_prune, verify_index
from tests.transcript.sessions import HEADER, as_bytes, chain, line, say

KITCHEN, GARDEN, CELLAR = SessionKey("kitchen"), SessionKey("garden"), SessionKey("cellar")
NOW = datetime.now(UTC)
MONTH = Retention(prune_after=timedelta(days=30))


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return a store of three sessions with two messages each, all of them in the index."""
    store = FileStore(tmp_path / "sessions")
    for key in (KITCHEN, GARDEN, CELLAR):
        store.create(key, chain("one", "two"))
    return store


def path_of(store: FileStore, key: str = KITCHEN) -> Path:
    """Return where a session begins."""
    return store.folder / f"{safe_name(key)}.jsonl"


def age(path: Path, **ago: float) -> None:
    """Let a file have been written a while ago."""
    then = time.time() - timedelta(**ago).total_seconds()
    os.utime(path, (then, then))


def rotate(store: FileStore, key: SessionKey = KITCHEN) -> Path:
    """Compact and rotate a session, and return the transcript that it left."""
    transcript = store.open(key)
    left = transcript.path
    last = transcript.append(say("three")).entry_id
    transcript.append_compaction(summary="so far", first_kept_entry_id=last, tokens_before=9)
    assert store.rotate(transcript).rotated
    transcript.close()
    return left


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def did(steps: list[Step]) -> list[tuple[str, str]]:
    """Return what the steps do to what."""
    return [(step.action, step.name) for step in steps]


# -- the index -------------------------------------------------------------------------------------


def test_an_index_that_agrees_has_no_findings(store: FileStore):
    """Of sessions that were made, gone on with, rotated or archived."""
    rotate(store, KITCHEN)
    store.archive(GARDEN, "reset")

    assert verify_index(store) == []


def _entry(**facts: Any) -> Callable[[dict], None]:
    return lambda index: index[KITCHEN].update(facts)


def _delete(index: dict) -> None:
    del index[KITCHEN]


def _share(index: dict) -> None:
    index[KITCHEN]["sessionFile"] = index[GARDEN]["sessionFile"]


def _no_object(index: dict) -> None:
    index[KITCHEN] = 7


def _swap(index: dict) -> None:
    index[KITCHEN], index[GARDEN] = index[GARDEN], index[KITCHEN]


@pytest.mark.parametrize(
    "damage, found",
    [
        pytest.param(_entry(sessionFile="gone.jsonl"), {"index-dangling"}, id="no-such-transcript"),
        pytest.param(_entry(sessionFile="../x.jsonl"), {"index-problem"}, id="leads-out-of-the-folder"),
        pytest.param(_entry(sessionId="another"), {"index-id"}, id="another-session-id"),
        pytest.param(_entry(messages=7), {"index-count"}, id="more-messages-than-there-are"),
        pytest.param(_entry(compactionCount=1), {"index-count"}, id="a-compaction-that-never-was"),
        pytest.param(_entry(messages="two"), {"index-problem"}, id="a-count-that-is-no-number"),
        pytest.param(_share, {"index-shared", "index-id", "index-key"}, id="one-transcript-for-two"),
        pytest.param(_swap, {"index-key"}, id="each-has-the-other-ones"),
        pytest.param(_delete, {"index-lacks"}, id="a-session-it-does-not-know"),
        pytest.param(_no_object, {"index-problem", "index-lacks"}, id="an-entry-that-is-no-object"),
    ],
)
def test_what_a_damaged_index_says_is_found(damage: Callable[[dict], None], found: set[str], store: FileStore):
    """Each damage by its code; wrong about a transcript that is there is an error. Nothing is written."""
    index = store.folder / "sessions.json"
    data = json.loads(index.read_bytes())
    damage(data)
    index.write_text(json.dumps(data))
    before = snapshot(store.folder)

    findings = verify_index(store)

    errors = {"index-id", "index-count", "index-shared", "index-key"}
    assert {one.code for one in findings} == found
    assert {one.code for one in findings if one.level == "error"} == found & errors
    assert all("kitchen" in one.text or "garden" in one.text for one in findings)
    assert snapshot(store.folder) == before


def test_a_session_whose_entry_names_no_file_is_still_there_and_nothing_to_remove(store: FileStore):
    """Opening it goes on in its first transcript, so the list shows that and pruning does not take it for a rest."""
    index = store.folder / "sessions.json"
    data = json.loads(index.read_bytes())
    data[KITCHEN]["sessionFile"] = "gone.jsonl"
    index.write_text(json.dumps(data))
    age(path_of(store), days=40)

    steps = plan_prune(store, MONTH, now=NOW)

    assert did(steps) == [("archive", KITCHEN)]
    assert KITCHEN in [info.key for info in store.sessions()]


def test_an_index_that_is_none_is_a_warning_and_the_transcripts_are_asked(store: FileStore):
    """It is made again when something is written next."""
    (store.folder / "sessions.json").write_bytes(b"[")

    (finding,) = verify_index(store)

    assert (finding.level, finding.code) == ("warning", "index-problem")
    assert len(store.glance()) == 3


def test_a_session_that_goes_on_is_no_finding(store: FileStore):
    """Neither what it has more than the index says, nor a last line that is being written."""
    with path_of(store).open("ab") as file:
        file.write(as_bytes([line("e3", "e2", "three")]) + b'{"type":"mess')

    assert verify_index(store) == []


class _Overtaken(FileStore):
    """A store whose sessions are gone on with right after one has looked at them."""

    def glance(self) -> Sequence[SessionInfo]:
        infos = super().glance()
        for info in infos:
            with info.path.open("ab") as file:
                file.write(as_bytes([line("e3", "e2", "three")]))
        return infos


def test_a_session_that_goes_on_while_it_is_counted_is_no_finding(store: FileStore):
    """The index was right when it was read."""
    assert verify_index(_Overtaken(store.folder)) == []


def test_a_glance_writes_nothing_and_finds_what_a_list_finds(store: FileStore):
    """Where the index was lost too; counts are not made for it."""
    (store.folder / "sessions.json").unlink()
    before = snapshot(store.folder)

    glanced = store.glance()

    assert snapshot(store.folder) == before
    assert {(info.key, info.size) for info in glanced} == {(info.key, info.size) for info in store.sessions()}


# -- the plan --------------------------------------------------------------------------------------


def test_a_plan_writes_nothing(store: FileStore):
    """Byte for byte, where locks have to be asked and sessions were never counted too."""
    age(path_of(store), days=40)
    path_of(store, "foreign").write_bytes(as_bytes([HEADER | {"sessionKey": "foreign"}, *chain("one")]))
    path_of(store, "foreign").with_suffix(".jsonl.lock").write_text('{"pid": 999999999}')
    age(path_of(store, "foreign"), days=50)
    before = snapshot(store.folder)

    steps = plan_prune(store, MONTH, now=NOW)

    assert did(steps) == [("archive", "foreign"), ("archive", KITCHEN)]
    assert snapshot(store.folder) == before


def test_of_a_folder_that_is_not_there_nothing_is_planned_and_none_is_made(tmp_path: Path):
    """Nor does the check of its index make one."""
    store = FileStore(tmp_path / "nowhere")

    assert (plan_prune(store, MONTH, now=NOW), verify_index(store)) == ([], [])
    assert not store.folder.exists()


def test_sessions_that_are_written_stay_and_others_go_in_their_place(store: FileStore):
    """The next oldest may be written too, and is asked as well."""
    for days, key in ((3, KITCHEN), (2, GARDEN), (1, CELLAR)):
        age(path_of(store, key), days=days)
    one = Retention(max_entries=2)
    kitchen, garden = store.open(KITCHEN), store.open(GARDEN)

    steps = plan_prune(store, one, now=NOW)
    kitchen.close()
    later = plan_prune(store, one, now=NOW)
    garden.close()

    assert did(steps) == [("archive", CELLAR)]
    assert did(later) == [("archive", KITCHEN)]


def test_what_a_rotation_left_goes_when_it_is_old_and_its_session_stays(store: FileStore):
    """While the session is written it stays too; then it is removed, and the session is what it was."""
    left = rotate(store)
    age(left, days=40)
    with_writer = store.open(KITCHEN)
    busy = plan_prune(store, MONTH, now=NOW)
    with_writer.close()

    (step,) = plan_prune(store, MONTH, now=NOW)
    carry_out(store, step)

    assert busy == []
    assert (step.action, step.name) == ("remove-superseded", left.name)
    assert not left.exists()
    with_writer = store.open(KITCHEN)
    assert [message.text for message in with_writer.history][-1] == "three"
    with_writer.close()


def test_a_copy_that_somebody_put_there_is_a_session_and_never_what_a_rotation_left(store: FileStore):
    """It bears the other's key; it is put aside, so that it can be brought back, and not removed for good."""
    copy = store.folder / "copy.jsonl"
    copy.write_bytes(path_of(store).read_bytes())
    age(copy, days=40)

    steps = plan_prune(store, MONTH, now=NOW)

    assert did(steps) == [("archive", "copy")]


def test_leftovers_go_after_an_hour_and_what_may_be_needed_stays(store: FileStore):
    """Files that were cut off, and notes of sessions that are gone; never a lock, a young file, a folder or a link."""
    store.archive(GARDEN, "reset")
    names = {
        "x.jsonl.0123abcd.tmp": True,
        "sessions.json.0123abcd.tmp": True,
        f"{path_of(store, 'gone').name}.handover": True,
        f"{path_of(store, KITCHEN).name}.handover": False,
        f"{path_of(store, GARDEN).name}.handover": False,
        f"{path_of(store, 'gone').name}.writer": False,
        "notes.tmp": False,
    }
    for name in names:
        (store.folder / name).write_bytes(b"x")
        age(store.folder / name, hours=2)
    (store.folder / "young.0123abcd.tmp").write_bytes(b"x")
    (store.folder / "folder.0123abcd.tmp").mkdir()
    (store.folder / "link.0123abcd.tmp").symlink_to(path_of(store))

    steps = plan_prune(store, MONTH, now=NOW)
    for step in steps:
        carry_out(store, step)

    assert {step.name for step in steps} == {name for name, goes in names.items() if goes}
    assert {step.action for step in steps} == {"remove-leftover"}
    assert all((store.folder / name).exists() is not goes for name, goes in names.items())
    assert len(store.glance()) == 2


def test_a_note_of_a_session_that_begins_is_no_leftover(store: FileStore):
    """Its transcript is empty yet, so that no list has it."""
    transcript = store.open(SessionKey("new"))
    transcript.set_note(b"x")
    note = store.folder / f"{path_of(store, 'new').name}.handover"
    age(note, hours=2)
    age(transcript.path, hours=2)

    steps = plan_prune(store, MONTH, now=NOW)
    transcript.close()

    assert note.exists()
    assert steps == []


# -- carrying it out -------------------------------------------------------------------------------


def test_a_session_is_put_aside_first_and_removed_only_later(store: FileStore):
    """A month later the archive goes; carried out, nothing is left to do."""
    age(path_of(store), days=40)
    for step in plan_prune(store, MONTH, now=NOW):
        carry_out(store, step)
    (archive,) = store.archives()

    again = plan_prune(store, MONTH, now=NOW)
    later = plan_prune(store, attrs.evolve(MONTH, prune_after=timedelta(days=60)), now=NOW + timedelta(days=59))
    last = plan_prune(store, MONTH, now=NOW + timedelta(days=29, hours=25))

    assert archive.key == KITCHEN
    assert (again, later) == ([], [])
    assert did(last)[0] == ("remove-archive", archive.name)


def test_where_the_disk_is_full_a_session_goes_for_good(store: FileStore):
    """The oldest first, until there is room enough."""
    age(path_of(store), days=3)
    total = sum(info.size for info in store.glance())
    (step,) = plan_prune(store, Retention(max_disk_bytes=total - 1), now=NOW)

    carry_out(store, step)

    assert (step.action, step.name) == ("remove-session", KITCHEN)
    assert (store.archives(), len(store.glance())) == ([], 2)


@pytest.mark.parametrize("is_gone", [pytest.param(False, id="written-since"), pytest.param(True, id="gone-since")])
@pytest.mark.parametrize("is_rotated", [pytest.param(False, id="a-session"), pytest.param(True, id="what-it-left")])
def test_a_step_is_not_done_to_what_has_changed_since_it_was_planned(
    is_gone: bool,  # noqa: FBT001 -- pytest passes by name
    is_rotated: bool,  # noqa: FBT001 -- as above
    store: FileStore,
):
    """Somebody thought about the plan for an hour, and the session was gone on with meanwhile."""
    path = rotate(store) if is_rotated else path_of(store)
    age(path, days=40)
    (step,) = plan_prune(store, MONTH, now=NOW)
    if is_gone:
        path.unlink()
    else:
        with path.open("ab") as file:
            file.write(as_bytes([line("e8", "e2", "later")]))

    with pytest.raises((SessionBusyError, SessionNotFoundError)):
        carry_out(store, step)

    assert path.exists() is not is_gone
    assert store.archives() == []


def test_a_step_leads_to_nothing_outside_the_folder(store: FileStore, tmp_path: Path):
    """Whatever a name says."""
    outside = tmp_path / "outside.0123abcd.tmp"
    outside.write_bytes(b"x")

    carry_out(store, Step(action="remove-leftover", name="../outside.0123abcd.tmp", size=1, why=""))
    with pytest.raises(SessionNotFoundError):
        carry_out(store, Step(action="remove-archive", name="../outside.0123abcd.tmp", size=1, why=""))

    assert outside.exists()

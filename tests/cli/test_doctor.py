"""``doctor``: whatever keeps the selected engine from answering, from any process, changing nothing."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclaw_ctx import AssistantMessage, Host, Registry, UserMessage
from openclaw_ctx.cli.main import cli
from tests.cli.conftest import SECRET, Run

MOODY = "{plugins: {slots: {contextEngine: 'moody'}}}"


def _texts(data: dict, about: str) -> list[str]:
    return [finding["text"] for finding in data["findings"] if finding["about"] == about]


def test_a_healthy_installation_is_exit_0(run: Run, configure):
    """Nothing found, and what is selected is said."""
    path = configure("{plugins: {slots: {contextEngine: 'fine'}}}")

    done = run("doctor")

    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["Configuration", str(path)]
    assert lines[2].startswith("Context engine  fine (contract ")
    assert lines[3:] == ["Nothing found wrong."]


def test_another_process_sees_a_living_quarantine(living, run: Run, configure):
    """B27: engine, operation, cleaned reason and process, and that legacy is in effect, while the process lives."""
    configure(MOODY)
    agent = living("moody")

    done, as_json = run("doctor"), run("doctor", "--json")
    data = json.loads(as_json.stdout)
    agent.close()
    after = json.loads(run("doctor", "--json").stdout)

    assert agent.answered_by == ["legacy"]
    assert (done.returncode, as_json.returncode) == (1, 1)
    (row,) = data["quarantines"]
    assert (row["engine"], row["owner"], row["operation"]) == ("moody", "plugin:acme-engines", "bootstrap")
    assert (row["pid"], row["verified"]) == (agent.process.pid, True)
    assert "provider said no" in row["reason"]
    assert (data["slot"], data["engine"], data["owner"]) == ("moody", "legacy", "core")
    assert data["reason"].startswith(f"quarantined in process {agent.process.pid} during bootstrap: ")
    (text,) = _texts(data, "quarantine")
    for part in ("moody of plugin:acme-engines", "during bootstrap", "provider said no", "legacy answers there",
                 f"process {agent.process.pid}", "openclaw-ctx engines release moody"):  # fmt: skip
        assert part in text
        assert part in done.stdout
    assert "legacy in place of moody" in done.stdout
    assert (after["quarantines"], after["engine"]) == ([], "moody"), "the row died with its process"
    assert (after["owner"], after["reason"]) == ("plugin:acme-engines", None)


def test_no_secret_and_no_control_character_of_an_engine_is_shown(living, run: Run, configure):
    """B62, B64, B65: what the engine's error held is masked and escaped, in text and in JSON, one line a finding."""
    configure(MOODY.replace("}}}", "}, entries: {moody: {config: {apiKey: '" + SECRET + "'}}}}}"))
    agent = living("moody")

    done, as_json = run("doctor"), run("doctor", "--json")
    stored = [path.read_text() for path in Path(agent.state).rglob("*") if path.is_file()]

    assert agent.answered_by == ["legacy"]
    for text in (done.stdout, done.stderr, as_json.stdout, as_json.stderr, *stored):
        assert SECRET not in text
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "\\x1b" in done.stdout
    assert len([line for line in done.stdout.splitlines() if "quarantine" in line]) == 1
    assert not any(line.startswith("Error: forged") for line in done.stdout.splitlines())


def test_an_engine_that_a_replay_bars_is_seen_while_the_replay_runs(terminal, run: Run, lighthouse):
    """B27: each run of a replay has a registry of its own, and its quarantines show all the same."""
    replay = terminal("replay", lighthouse, "-e", "leaky", "-e", "stuck")
    replay.read_until(b"stuck now")

    data = json.loads(run("doctor", "--json").stdout)

    assert [(row["engine"], row["operation"], row["pid"]) for row in data["quarantines"]] == [
        ("leaky", "assemble", replay.process.pid)
    ]


async def test_doctor_in_the_same_process_sees_it_too(site: Path, monkeypatch, tmp_path, configure, environment):
    """B27: asked within the process that barred the engine, the answer is the same."""
    config = configure(MOODY)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("OPENCLAW_CTX_STATE_DIR", str(tmp_path / "state"))
    opening = Host.open(config, state_dir=tmp_path / "state", registry=Registry(), engine_path=[str(site)])

    async with opening as host, host.session("here") as session:
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble()
        await session.append(AssistantMessage(content="hi"))
        shown = CliRunner().invoke(cli, ["doctor", "--json", "--config", str(config)], standalone_mode=False)

    data = json.loads(shown.stdout)
    assert shown.return_value == 1
    assert prompt.engine == "legacy"
    assert [(row["engine"], row["operation"], row["pid"]) for row in data["quarantines"]] == [
        ("moody", "bootstrap", os.getpid())
    ]
    assert data["engine"] == "legacy"


def test_a_record_that_cannot_be_verified_is_shown_as_such(living, run: Run, configure, tmp_path):
    """B27: without the start time of its process a row may be stale: shown, and not believed."""
    configure(MOODY)
    agent = living("moody")
    (path,) = (tmp_path / "state" / "quarantine").glob("*.json")
    row = json.loads(path.read_text())
    row["processStartTime"] = None
    path.write_text(json.dumps(row))

    done = run("doctor")
    data = json.loads(run("doctor", "--json").stdout)

    assert done.returncode == 1
    assert [row["verified"] for row in data["quarantines"]] == [False]
    assert "cannot be verified" in _texts(data, "quarantine")[0]
    assert "warning quarantine: moody" in done.stdout
    assert data["engine"] == "moody", "nobody is known to have barred it"
    assert agent.process.poll() is None


def test_damaged_metadata_is_shown_with_its_path_and_hides_nobody(run: Run, tmp_path, monkeypatch):
    """B51: an empty folder beside a good one, a distribution without a name, and a garbled list of entry points."""
    damaged = tmp_path / "damaged"
    (damaged / "acme_engines-0.9.dist-info").mkdir(parents=True)
    nameless = damaged / "nameless-1.0.dist-info"
    nameless.mkdir()
    (nameless / "METADATA").write_text("Metadata-Version: 2.1\nVersion: 1.0\n")
    (nameless / "entry_points.txt").write_text("[openclaw_ctx.engines]\nx = y:z\n")
    garbled = damaged / "garbled-1.0.dist-info"
    garbled.mkdir()
    (garbled / "METADATA").write_text("Metadata-Version: 2.1\nName: garbled\nVersion: 1.0\n")
    (garbled / "entry_points.txt").write_text("[openclaw_ctx.engines]\na = m:f\na = m:g\n%% garbage\n")
    monkeypatch.syspath_prepend(damaged)

    done, listed = run("doctor"), run("engines")

    assert done.returncode == 1
    for place in ("acme_engines-0.9.dist-info", "nameless-1.0.dist-info", "garbled-1.0.dist-info"):
        assert str(damaged / place) in done.stdout
    assert "plugin:acme-engines" in listed.stdout
    assert "with broken metadata; openclaw-ctx doctor names them." in listed.stdout


@pytest.mark.parametrize(
    "text, problem",
    [
        pytest.param("{plugins: [}", "line 1, column 12", id="no-json5"),
        pytest.param("{plugins: {slots: {contextEngine: 5}}}", "$.plugins.slots.contextEngine", id="wrong-type"),
        pytest.param("", "the file is empty", id="empty"),
    ],
)
def test_a_configuration_with_errors_is_reported_not_fatal(text, problem, run: Run, configure):
    """Doctor runs where nothing else does: exit 1, the file and the problem, and that no host opens with it."""
    path = configure(text)

    done = run("doctor")
    data = json.loads(run("doctor", "--json").stdout)

    assert done.returncode == 1
    assert problem in done.stdout
    assert str(path) in done.stdout.splitlines()[0]
    assert "nobody answers" in done.stdout
    assert data["engine"] is None
    assert data["config"] == str(path)
    assert done.stderr == ""


def test_a_missing_configuration_that_was_named_is_reported(run: Run, tmp_path):
    """The path that the option names, and that it is not there."""
    done = run("doctor", "--config", tmp_path / "gone.json")

    assert done.returncode == 1
    assert f"{tmp_path / 'gone.json'} (not there)" in done.stdout.splitlines()[0]


def test_an_unset_variable_of_another_engine_stops_nothing(run: Run, configure):
    """B59: a finding with path and name; the selected engine serves."""
    configure("{plugins: {slots: {contextEngine: 'fine'}, entries: {other: {config: {key: '${ACME_NOPE}'}}}}}")

    data = json.loads(run("doctor", "--json").stdout)

    (text,) = _texts(data, "config")
    assert "ACME_NOPE" in text
    assert "plugins.entries.other" in text
    assert data["engine"] == "fine"


@pytest.mark.parametrize(
    "config, engine, words",
    [
        pytest.param("slots: {contextEngine: 'nope'}", "legacy", "legacy answers", id="missing"),
        pytest.param("slots: {contextEngine: 'nope'}, slotPolicy: 'strict'", None, "nobody answers", id="strict"),
        pytest.param(
            "slots: {contextEngine: 'fine'}, deny: ['fine']", "legacy", "is switched off, legacy answers", id="denied"
        ),
    ],
)
def test_a_slot_that_cannot_be_served_names_who_answers(config, engine, words, run: Run, configure):
    """What the slot asks for, why it cannot be had, and what a turn gets instead under the policy."""
    configure(f"{{plugins: {{{config}}}}}")

    done = run("doctor", "--json")
    data = json.loads(done.stdout)

    assert done.returncode == 1
    assert data["engine"] == engine
    assert words in _texts(data, "slot")[0]


@pytest.mark.parametrize(
    "slot, advice",
    [
        pytest.param("contextEngine: 'fien'}", "Did you mean 'fine'? Install the distribution", id="mistyped"),
        pytest.param("contextEngine: 'fine'}, deny: ['fine']", "Change that key to have it", id="switched-off"),
    ],
)
def test_a_slot_that_cannot_be_served_says_what_to_do(slot, advice, run: Run, configure):
    """After the reason comes the remedy."""
    configure(f"{{plugins: {{slots: {{{slot}}}}}")

    (text,) = _texts(json.loads(run("doctor", "--json").stdout), "slot")

    assert f". {advice}" in text


def test_an_entry_that_no_engine_has_is_a_warning(run: Run, configure):
    """With the name that is near, where one is; settings of an engine that is there are none."""
    configure("{plugins: {entries: {fine: {}, moddy: {config: {}}, elsewhere: {}}}}")

    done = run("doctor")
    texts = _texts(json.loads(run("doctor", "--json").stdout), "entries")

    assert done.returncode == 1
    assert texts == [
        "plugins.entries.moddy is of no installed engine, nor of legacy; did you mean 'moody'?",
        "plugins.entries.elsewhere is of no installed engine, nor of legacy; a program may register it itself",
    ]


@pytest.mark.parametrize(
    "file, state, verb",
    [
        pytest.param("way", "way/state", "made", id="a-file-above"),
        pytest.param("state", "state", "written", id="a-file-in-its-place"),
        pytest.param("state/sessions", "state", "written", id="a-file-in-a-folder's-place"),
    ],
)
def test_a_state_folder_that_cannot_be_had_is_found(file, state, verb, run: Run, tmp_path, monkeypatch):
    """A file in the way is named before a session is lost to it, and nothing is created to find out."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    monkeypatch.setenv("OPENCLAW_CTX_STATE_DIR", str(tmp_path / state))
    before = sorted(tmp_path.rglob("*"))

    done = run("doctor", "--json")

    (text,) = _texts(json.loads(done.stdout), "state")
    assert done.returncode == 1
    assert f"cannot be {verb}: {tmp_path / file} is no folder" in text
    assert "OPENCLAW_CTX_STATE_DIR" in text
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.access("/proc", os.W_OK) or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_state_folder_in_a_folder_of_others_is_found(run: Run, tmp_path, monkeypatch):
    """Who may not write above it could not make it."""
    above = tmp_path / "above"
    above.mkdir(mode=0o500)
    monkeypatch.setenv("OPENCLAW_CTX_STATE_DIR", str(above / "state"))

    done = run("doctor", "--json")

    assert done.returncode == 1
    assert "does not let this user write" in _texts(json.loads(done.stdout), "state")[0]


def test_doctor_changes_nothing(run: Run, tmp_path, configure):
    """No folder is made, no file is touched."""
    path = configure(MOODY)
    before = path.stat().st_mtime_ns

    run("doctor")

    assert not (tmp_path / "state").exists()
    assert path.stat().st_mtime_ns == before


def test_colours_are_for_terminals_that_want_them(terminal, spawn: Run, configure):
    """On a terminal yes, in a pipe no, and never against NO_COLOR."""
    configure("{plugins: {slots: {contextEngine: 'nope'}}}")
    coloured, plain = terminal("doctor"), terminal("doctor", NO_COLOR="1")

    assert (coloured.end(), plain.end()) == (1, 1)

    assert b"\x1b[31m" in coloured.shown
    assert b"\x1b" not in plain.shown
    assert "\x1b" not in spawn("doctor").stdout

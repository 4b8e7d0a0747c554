"""``engines``: who is installed, who is selected, who is refused and why, and how to release one."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import SECRET, Run


def _statuses(data: dict) -> dict[str, str]:
    return {row["engine"]: row["status"] for row in data["engines"]}


def test_every_installed_engine_is_listed_with_its_owner(run: Run):
    """Built in and installed ones; the selected one is marked; nothing else is on stdout."""
    done = run("engines")

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].split() == ["ENGINE", "OWNER", "STATUS"]
    assert any(line.split() == ["*", "legacy", "core", "selected"] for line in lines)
    for name in ("fine", "leaky", "moody", "stuck"):
        assert any(line.split() == [name, "plugin:acme-engines", "available"] for line in lines)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "config, engine, selected, status",
    [
        pytest.param("{plugins: {slots: {contextEngine: 'fine'}}}", "fine", True, "selected", id="selected"),
        pytest.param(
            "{plugins: {slots: {contextEngine: 'fine'}, deny: ['fine']}}",
            "fine",
            False,
            "refused: 'fine' is in plugins.deny",
            id="denied",
        ),
        pytest.param(
            "{plugins: {slots: {contextEngine: 'fine'}, deny: ['acme-engines']}}",
            "moody",
            False,
            "refused: its distribution 'acme-engines' is in plugins.deny",
            id="distribution-denied",
        ),
        pytest.param(
            "{plugins: {entries: {fine: {enabled: false}}}}",
            "fine",
            False,
            "refused: plugins.entries.fine.enabled is false",
            id="switched-off",
        ),
        pytest.param("{plugins: {enabled: false}}", "fine", False, "refused: plugins.enabled is false", id="all-off"),
    ],
)
def test_an_engine_is_selected_or_refused_with_the_key_that_says_so(config, engine, selected, status, run, configure):
    """Each row says what the configuration makes of it."""
    configure(config)

    data = json.loads(run("engines", "--json").stdout)

    (row,) = [row for row in data["engines"] if row["engine"] == engine]
    assert (row["selected"], row["status"]) == (selected, status)
    assert data["selected"] == (engine if selected else "legacy")


def test_a_slot_that_cannot_be_served_says_who_answers_and_why(run: Run, configure):
    """Asked for, not there: legacy; under the strict policy nobody."""
    configure("{plugins: {slots: {contextEngine: 'nope'}}}")
    lenient = run("engines")
    configure("{plugins: {slots: {contextEngine: 'nope'}, slotPolicy: 'strict'}}")
    strict = run("engines")

    asked, advice = lenient.stdout.splitlines()[-2:]
    assert asked == "The slot asks for nope; legacy answers: context engine 'nope' is not registered."
    assert advice.startswith("Install the distribution that offers it (pip install ...), or name another engine in ")
    assert re.search(r"^\* legacy +core +answers in place", lenient.stdout, re.MULTILINE)
    assert "nobody answers, since plugins.slotPolicy is 'strict'" in strict.stdout
    assert "\n* " not in strict.stdout
    data = json.loads(run("engines", "--json").stdout)
    assert (data["selected"], [row for row in data["engines"] if row["selected"]]) == (None, [])
    assert (lenient.returncode, strict.returncode) == (0, 0)


def test_a_mistyped_slot_is_told_the_name_that_is_near(run: Run, configure):
    """And where to write it."""
    configure("{plugins: {slots: {contextEngine: 'Fien'}}}")

    assert "Did you mean 'fine'? " in run("engines").stdout
    assert json.loads(run("engines", "--json").stdout)["advice"].endswith("openclaw-ctx engines lists what there is.")


def test_an_engine_that_is_switched_off_says_which_key_to_change(run: Run, configure):
    """The reason names the key, and the next line says what to do with it."""
    configure("{plugins: {slots: {contextEngine: 'fine'}, deny: ['fine']}}")

    assert run("engines").stdout.endswith(
        "'fine' is in plugins.deny.\n"
        "Change that key to have it, or name another engine in plugins.slots.contextEngine.\n"
    )


def test_the_star_is_not_on_an_engine_that_a_living_process_has_barred(living, run: Run, configure):
    """Another mark is, with what it means and how to lift it; the star comes back with the release."""
    configure("{plugins: {slots: {contextEngine: 'moody'}}}")
    agent = living("moody")

    barred = run("engines").stdout
    run("engines", "release", "moody")
    released = run("engines").stdout

    assert re.search(r"^! moody .* quarantined in process", barred, re.MULTILINE)
    assert not re.search(r"^\*", barred, re.MULTILINE)
    assert f"! is selected, but barred in process {agent.process.pid}: legacy answers there." in barred
    assert barred.endswith("openclaw-ctx engines release moody\n")
    assert re.search(r"^\* moody .* selected$", released, re.MULTILINE)


def test_listing_imports_and_builds_nothing_and_the_turn_uses_the_engine(spawn: Run, tmp_path, configure, lighthouse):
    """B26: neither ``engines`` nor ``doctor`` imports an engine or bars one; the real turn then has it."""
    configure("{plugins: {slots: {contextEngine: 'fine'}}}")
    witness = tmp_path / "witness"

    listed = spawn("engines", "--json", ACME_WITNESS=str(witness))
    checked = spawn("doctor", "--json", ACME_WITNESS=str(witness))
    assert not witness.exists()
    replayed = spawn("replay", lighthouse, "--json", ACME_WITNESS=str(witness))

    assert _statuses(json.loads(listed.stdout))["fine"] == "selected"
    assert json.loads(checked.stdout)["quarantines"] == []
    assert not (tmp_path / "state").exists()
    assert witness.read_text() == "imported"
    assert list(json.loads(replayed.stdout)["replays"][0]["runs"][0]["answered_by"]) == ["fine"]


def test_two_distributions_with_one_id_are_both_named(run: Run, site, tmp_path, configure, monkeypatch):
    """Neither serves until one is denied or allowed, and the list says so of both."""
    rival = tmp_path / "rival"
    shutil.copytree(site, rival)
    (info,) = rival.glob("*.dist-info")
    renamed = info.rename(rival / "rival_engines-1.0.dist-info")
    metadata = renamed / "METADATA"
    metadata.write_text(metadata.read_text().replace("Name: acme-engines", "Name: rival-engines"))
    configure("{plugins: {slots: {contextEngine: 'fine'}}}")
    monkeypatch.syspath_prepend(rival)

    data, shown = json.loads(run("engines", "--json").stdout), run("engines").stdout
    configure("{plugins: {slots: {contextEngine: 'fine'}, deny: ['rival-engines']}}")
    settled = json.loads(run("engines", "--json").stdout)

    statuses = {row["owner"]: row["status"] for row in data["engines"] if row["engine"] == "fine"}
    assert set(statuses) == {"plugin:acme-engines", "plugin:rival-engines"}
    assert all("'acme-engines' and 'rival-engines'" in status for status in statuses.values())
    assert (data["selected"], settled["selected"]) == ("legacy", "fine")
    assert "list one of them in plugins.deny or plugins.allow" in shown
    assert "moody is offered by acme-engines and rival-engines: list one of them in plugins.deny, or" in shown
    assert "is offered by" not in run("engines").stdout, "one of the two is denied"


def test_a_configuration_that_cannot_be_used_is_exit_2(run: Run, configure):
    """One complaint that names the file and the place, and nothing on stdout."""
    path = configure("{plugins: {slots: {contextEngine: 5}}}")

    done = run("engines")

    assert done.returncode == 2
    assert done.stdout == ""
    assert str(path) in done.stderr
    assert "$.plugins.slots.contextEngine" in done.stderr


def test_releasing_an_engine_that_is_not_barred_is_exit_1(run: Run, tmp_path: Path):
    """It says so, and makes no folder."""
    plain, as_json = run("engines", "release", "fine"), run("engines", "--json", "release", "fine")

    assert (plain.returncode, as_json.returncode) == (1, 1)
    assert plain.stdout == "fine is not quarantined in any live process.\n"
    assert json.loads(as_json.stdout) == {"engine": "fine", "released": []}
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("before", [pytest.param(True, id="of-the-group"), pytest.param(False, id="of-the-command")])
def test_release_lifts_the_quarantine_in_the_living_process(before, living, run: Run, tmp_path, monkeypatch):
    """The process that barred the engine tries it at its next turn; the state folder may be named on either side."""
    agent = living("leaky")
    assert agent.answered_by == ["legacy"]
    state = ("--state-dir", tmp_path / "state")

    listed = _statuses(json.loads(run("engines", "--json").stdout))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("OPENCLAW_CTX_STATE_DIR", str(tmp_path / "elsewhere"))
        released = run("engines", *(state if before else ()), "release", "leaky", *(() if before else state))
    gone = _statuses(json.loads(run("engines", "--json").stdout))
    agent.turn()
    again = _statuses(json.loads(run("engines", "--json").stdout))

    assert listed["leaky"].startswith(f"quarantined in process {agent.process.pid} during assemble: ")
    assert released.returncode == 0
    assert released.stdout.startswith(f"Released leaky in process {agent.process.pid} (was: ")
    assert gone["leaky"] == "available"
    assert again["leaky"].startswith("quarantined in process"), "it was tried again, and failed again"
    assert SECRET not in released.stdout + released.stderr + listed["leaky"]

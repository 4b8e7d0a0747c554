"""The schema classes say everything about the keys, and are safe to make by hand."""

import math
import pickle
from typing import Any

import attrs
import pytest

from openclaw_ctx.config import (
    CONFIG_KEYS,
    DeadlineSettings,
    EntrySettings,
    ModelsSettings,
    PluginSettings,
    ProviderModelSettings,
    ProviderSettings,
    QuarantineSettings,
    SessionSettings,
    Settings,
    settings_from,
)
from openclaw_ctx.errors import ConfigError


def _file_of(keys: dict[str, Any]) -> dict[str, Any]:
    """Return the nested object that dotted keys stand for."""
    data: dict[str, Any] = {}
    for key, value in keys.items():
        *outer, last = key.replace("<id>", "window").split(".")
        section = data
        for step in outer:
            listed = step.removesuffix("[]")
            section = section.setdefault(listed, {} if listed == step else [{}])
            section = section if listed == step else section[0]
        section[last] = value
    return data


def test_a_file_of_every_documented_key_at_its_default_is_the_empty_file() -> None:
    """No documented key is unknown, and each documented default is what the code uses, in the file's units."""
    data = _file_of({key.key: key.default for key in CONFIG_KEYS})

    loaded = settings_from(data)

    assert loaded.findings == (
        (
            "$.models.providers.window.models[0].id: missing, so this model is passed over; "
            "write the provider's name of the model"
        ),
    )
    assert loaded.settings.plugins.entries == {"window": EntrySettings()}
    assert loaded.settings.models.providers == {"window": ProviderSettings(models=[ProviderModelSettings()])}
    bare = attrs.evolve(
        loaded.settings, plugins=attrs.evolve(loaded.settings.plugins, entries={}), models=ModelsSettings()
    )
    assert bare == Settings()


@pytest.mark.parametrize("key", [pytest.param(key.key, id=key.key) for key in CONFIG_KEYS])
def test_every_documented_key_is_read(key: str) -> None:
    """An impossible value under a documented key is refused by its path: nothing is documented and ignored."""
    impossible = object()

    with pytest.raises(ConfigError) as caught:
        settings_from(_file_of({key: impossible}))

    path = key.replace("<id>", "window").replace("[]", "[0]")
    assert [problem for problem in caught.value.problems if not problem.startswith(f"$.{path}:")] == []


def test_every_key_has_a_sentence() -> None:
    """The reference page is printed from these descriptions."""
    assert [key.key for key in CONFIG_KEYS if not key.description.strip()] == []
    assert len({key.key for key in CONFIG_KEYS}) == len(CONFIG_KEYS)


def test_the_documented_deadlines_are_the_ones_agreed_on() -> None:
    """Operators rely on these numbers."""
    assert DeadlineSettings().seconds() == {
        "factory": 30,
        "bootstrap": 30,
        "ingest": 10,
        "ingest_batch": 30,
        "assemble": 15,
        "after_turn": 30,
        "maintain": 60,
        "compact": 180,
        "prepare_subagent_spawn": 15,
        "on_subagent_ended": 10,
        "commit_turn": 30,
        "tools": 10,
        "dispose": 10,
        "turn_end": 90,
    }


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0, id="zero"),
        pytest.param(-1, id="negative"),
        pytest.param(math.inf, id="endless"),
        pytest.param(math.nan, id="not-a-number"),
        pytest.param(1e10, id="longer-than-a-thread-can-wait"),
    ],
)
def test_a_deadline_that_no_clock_can_keep_is_refused(seconds: float) -> None:
    """A program that makes its settings by hand is checked like a file."""
    with pytest.raises(ValueError, match="assemble: expected a number of seconds"):
        DeadlineSettings(assemble=seconds)


def test_zero_failures_until_barred_is_refused() -> None:
    """An engine cannot be barred for having done nothing."""
    with pytest.raises(ValueError, match="failures: expected a whole number of at least 1"):
        QuarantineSettings(failures=0)


def test_not_waiting_for_the_write_lock_is_allowed() -> None:
    """Zero means: say at once that the session is busy."""
    assert SessionSettings(acquire_timeout_seconds=0).acquire_timeout_seconds == 0


def test_what_the_caller_keeps_cannot_change_the_settings() -> None:
    """Settings are values: entries and their config are frozen copies."""
    config = {"depth": {"limit": 3}}
    entries = {"window": EntrySettings(config=config)}
    allow = ["window"]

    settings = PluginSettings(entries=entries, allow=allow)
    config["depth"]["limit"] = 4
    entries.clear()
    allow.append("other")

    assert settings.entries["window"].config == {"depth": {"limit": 3}}
    assert settings.allow == ("window",)
    with pytest.raises(TypeError, match="cannot be changed"):
        settings.entries["window"].config["depth"]["limit"] = 5
    with pytest.raises(TypeError, match="cannot be changed"):
        settings.entries["other"] = EntrySettings()


def test_settings_survive_pickling_and_hashing() -> None:
    """An engine may live in another process."""
    settings = settings_from(
        {
            "plugins": {"entries": {"window": {"config": {"a": [1]}}}, "slots": {"contextEngine": "window"}},
            "models": {"providers": {"acme": {"models": [{"id": "m", "contextWindow": 8}]}}},
        }
    ).settings

    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 -- what this test wrote

    assert copy == settings
    assert hash(copy) == hash(settings)


def test_sections_are_values() -> None:
    """Equal where class and content are, shown with their class, and not to be changed."""
    one, other = QuarantineSettings(failures=2), QuarantineSettings(failures=3)

    assert one == QuarantineSettings(failures=2)
    assert one != other
    assert one != (2, None)
    assert len({one, other, QuarantineSettings(failures=2)}) == 2
    assert repr(one) == "QuarantineSettings(failures=2, probation_seconds=None)"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.failures = 4  # type: ignore[misc]  # that is what is tested

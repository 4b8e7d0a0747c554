"""``${VAR}``: filled in from the environment, and never shown."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.config import EntrySettings, LoadedSettings, settings_from
from openclaw_ctx.errors import ConfigError
from openclaw_ctx.log import clean_text

SECRET = "sk-live-0123456789"  # noqa: S105 -- an example


def _entries(config: Any, **environ: str) -> LoadedSettings:
    return settings_from({"plugins": {"entries": {"x": {"config": config}}}}, environ=environ)


def _config(config: Any, **environ: str) -> Any:
    return _entries(config, **environ).settings.plugins.entries["x"].config


def test_a_variable_is_filled_in_wherever_a_string_stands() -> None:
    """Nested objects, lists and the middle of a text alike; keys and numbers stay."""
    config = {"key": "${KEY}", "deep": [{"url": "https://${HOST}:${PORT}/v1//x"}, 3, None], "${KEY}": True}

    filled = _config(config, KEY=SECRET, HOST="localhost", PORT="8080")

    assert filled == {"key": SECRET, "deep": [{"url": "https://localhost:8080/v1//x"}, 3, None], "${KEY}": True}


@pytest.mark.parametrize(
    "text, filled",
    [
        pytest.param("$${KEY}", "${KEY}", id="two-dollars-escape"),
        pytest.param("$$${KEY}", "$${KEY}", id="a-dollar-before-an-escape"),
        pytest.param("${lower}", "${lower}", id="lower-case-is-a-template's"),
        pytest.param("$KEY $5 ${} ${KEY", "$KEY $5 ${} ${KEY", id="no-braces-no-variable"),
        pytest.param("${KEY}${KEY}", f"{SECRET}{SECRET}", id="twice"),
        pytest.param("${NESTED}", "${KEY}", id="a-value-is-not-filled-in-again"),
    ],
)
def test_only_a_whole_upper_case_reference_is_filled_in(text: str, filled: str) -> None:
    """What merely looks alike is left as written."""
    assert _config({"a": text}, KEY=SECRET, NESTED="${KEY}") == {"a": filled}


@pytest.mark.parametrize(
    "environ, why",
    [pytest.param({}, "not set", id="unset"), pytest.param({"NOPE": ""}, "empty", id="set-but-empty")],
)
def test_an_unset_variable_switches_off_only_its_entry(environ: dict[str, str], why: str) -> None:
    """B59: a variable that one entry lacks is a finding with path and name; every other entry is whole."""
    loaded = settings_from(
        {
            "plugins": {
                "slots": {"contextEngine": "good"},
                "entries": {"other": {"config": {"key": "${NOPE}"}}, "good": {"config": {"key": "${KEY}"}}},
            }
        },
        environ={"KEY": SECRET, **environ},
    )

    entries = loaded.settings.plugins.entries
    assert loaded.findings == (
        f"$.plugins.entries.other.config.key: ${{NOPE}} is {why} in the environment, so this entry is off",
    )
    assert entries["other"].unset_variables == ("$.plugins.entries.other.config.key: ${NOPE}",)
    assert entries["other"].config == {"key": "${NOPE}"}
    assert entries["good"] == EntrySettings(config={"key": SECRET})


def test_a_string_that_lacks_a_variable_stays_as_written() -> None:
    """B59: nothing half filled in, each lacking variable named once, its neighbours filled in."""
    loaded = _entries({"list": ["${KEY}-${NOPE}-$${X}-${NOPE}-${GONE}", "${KEY}"]}, KEY=SECRET)

    entry = loaded.settings.plugins.entries["x"]
    assert entry.config == {"list": ["${KEY}-${NOPE}-$${X}-${NOPE}-${GONE}", SECRET]}
    assert entry.unset_variables == (
        "$.plugins.entries.x.config.list[0]: ${NOPE}",
        "$.plugins.entries.x.config.list[0]: ${GONE}",
    )


def test_the_same_variable_may_be_lacking_in_two_entries() -> None:
    """B59: each entry knows what it lacks itself."""
    loaded = settings_from(
        {"plugins": {"entries": {"a": {"config": {"k": "${NOPE}"}}, "b": {"config": {"k": "${NOPE}"}}}}}, environ={}
    )

    assert {key: entry.unset_variables for key, entry in loaded.settings.plugins.entries.items()} == {
        "a": ("$.plugins.entries.a.config.k: ${NOPE}",),
        "b": ("$.plugins.entries.b.config.k: ${NOPE}",),
    }


def test_the_file_cannot_say_which_variables_are_unset() -> None:
    """What the reader finds out is not a key."""
    loaded = settings_from({"plugins": {"entries": {"x": {"unset_variables": ["a"], "unsetVariables": ["b"]}}}})

    assert loaded.settings.plugins.entries["x"] == EntrySettings()
    assert len(loaded.findings) == 2


def test_our_own_keys_are_filled_in_too() -> None:
    """Ids and choices may come from the environment."""
    settings = settings_from(
        {"plugins": {"allow": ["${ENGINE}"], "slots": {"contextEngine": "${ENGINE}"}}, "tokens": {"counter": "${C}"}},
        environ={"ENGINE": "window", "C": "cl100k_base"},
    ).settings

    assert settings.plugins.allow == ("window",)
    assert settings.plugins.slots.context_engine == "window"
    assert settings.tokens.counter == "cl100k_base"


def test_an_unset_variable_outside_an_entrys_config_is_a_problem() -> None:
    """There is no entry to switch off: the key has no value, and each is said once."""
    data = {
        "plugins": {"allow": ["${NOPE}"], "entries": {"x": {"enabled": "${NOPE}"}}},
        "tokens": {"counter": "${NOPE}"},
    }

    with pytest.raises(ConfigError) as caught:
        settings_from(data, environ={})

    assert list(caught.value.problems) == [
        "$.plugins.allow[0]: ${NOPE} is not set in the environment",
        "$.plugins.entries.x.enabled: ${NOPE} is not set in the environment",
        "$.tokens.counter: ${NOPE} is not set in the environment",
    ]


def test_a_wrong_value_from_the_environment_is_shown_as_written() -> None:
    """The message names the variable, not what it holds."""
    with pytest.raises(ConfigError) as caught:
        settings_from({"tokens": {"counter": "${KEY}"}, "deadlines": {"ingest": "${KEY}"}}, environ={"KEY": SECRET})

    assert list(caught.value.problems) == [
        '$.deadlines.ingest: expected a number, not "${KEY}"',
        '$.tokens.counter: expected one of "estimate", "o200k_base", "cl100k_base", not "${KEY}"',
    ]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


TEXTS = st.lists(st.sampled_from(["${KEY}", "$${KEY}", "${NOPE}", "x", "$", "{", "\n"]), max_size=4).map("".join)
CONFIGS = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(TEXTS, CONFIGS, max_size=3))
def test_a_secret_never_shows(config: dict[str, Any]) -> None:
    """Wherever the variable stands in an entry, neither findings nor ``repr`` hold its value."""
    loaded = _entries(config, KEY=SECRET)

    assert SECRET not in repr(loaded)
    assert SECRET not in "".join(loaded.findings)


@given(CONFIGS, st.sampled_from(["enabled", "allow", "entries", "slots", "slotPolicy", "quarantine"]))
def test_a_secret_in_the_wrong_place_never_shows(value: Any, key: str) -> None:
    """A value of the wrong kind is described from what the user wrote."""
    try:
        said = settings_from({"plugins": {key: value}, "deadlines": {"tools": value}}, environ={"KEY": SECRET}).findings
    except ConfigError as error:
        said = tuple(error.problems)

    assert SECRET not in "".join(said)


@given(st.text(alphabet="${}ABa_1 \n", max_size=20))
def test_escaping_every_reference_gives_the_text_back(text: str) -> None:
    """Every text can be written: two dollars for one before a reference."""
    escaped = re.sub(r"\$\{[A-Z_][A-Z0-9_]*\}", r"$\g<0>", text)

    assert _config({"a": escaped}, A="1", B="2") == {"a": text}


def test_what_a_variable_stood_for_is_masked_wherever_it_turns_up() -> None:
    """An engine's error may quote its configuration, and the secret's shape may say nothing."""
    _entries({"dsn": "db://${WORDS}/x"}, WORDS="correct-horse-battery")

    assert clean_text("cannot reach db://correct-horse-battery/x") == "cannot reach db://[masked]/x"

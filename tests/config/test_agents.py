"""What the file says of turns: defaults, bounds, spellings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.config import CONFIG_KEYS, AgentDefaults, CompactionSettings, settings_from
from openclaw_ctx.errors import ConfigError


def _defaults(**said: Any) -> AgentDefaults:
    return settings_from({"agents": {"defaults": said}}, environ={}).settings.agents.defaults


def _problems(**said: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _defaults(**said)
    return list(caught.value.problems)


def test_the_defaults_are_the_ones_agreed_on() -> None:
    """The reference system's, key by key, so that a pasted file means what it meant."""
    prefix = "agents.defaults."

    assert {key.key.removeprefix(prefix): key.default for key in CONFIG_KEYS if key.key.startswith(prefix)} == {
        "model.primary": None,
        "contextTokens": None,
        "contextLimits.toolResultMaxChars": None,
        "compaction.enabled": True,
        "compaction.mode": "default",
        "compaction.model": None,
        "compaction.reserveTokens": 16_384,
        "compaction.reserveTokensFloor": 20_000,
        "compaction.keepRecentTokens": 20_000,
        "compaction.maxHistoryShare": 0.5,
        "compaction.recentTurnsPreserve": 3,
        "compaction.identifierPolicy": "strict",
        "compaction.identifierInstructions": None,
        "compaction.qualityGuard.enabled": None,
        "compaction.qualityGuard.maxRetries": 1,
        "compaction.timeoutSeconds": None,
        "compaction.midTurnPrecheck.enabled": False,
        "compaction.maxActiveTranscriptBytes": None,
        "compaction.truncateAfterCompaction": False,
        "compaction.postCompactionSections": (),
        "compaction.customInstructions": None,
        "compaction.memoryFlush.enabled": True,
        "compaction.memoryFlush.softThresholdTokens": 4_000,
        "compaction.memoryFlush.forceFlushTranscriptBytes": 2_097_152,
        "compaction.memoryFlush.prompt": None,
        "compaction.memoryFlush.systemPrompt": None,
        "contextPruning.mode": "off",
        "contextPruning.ttl": 300,
        "contextPruning.keepLastAssistants": 3,
        "contextPruning.softTrimRatio": 0.3,
        "contextPruning.hardClearRatio": 0.5,
        "contextPruning.minPrunableToolChars": 50_000,
        "contextPruning.softTrim.maxChars": 4_000,
        "contextPruning.softTrim.headChars": 1_500,
        "contextPruning.softTrim.tailChars": 1_500,
        "contextPruning.hardClear.enabled": True,
        "contextPruning.hardClear.placeholder": "[Old tool result content cleared]",
        "contextPruning.tools.allow": (),
        "contextPruning.tools.deny": (),
    }


def test_a_session_may_be_bounded() -> None:
    """Turns shown, and tokens up to which a subagent's session is a fork; nothing and 100,000 by default."""
    default = settings_from({}).settings.session
    bounded = settings_from({"session": {"historyLimit": 40, "parentForkMaxTokens": 0}}).settings.session

    assert (default.history_limit, default.parent_fork_max_tokens) == (None, 100_000)
    assert (bounded.history_limit, bounded.parent_fork_max_tokens) == (40, 0)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("openrouter/z-ai/glm-4", id="a-text"),
        pytest.param({"primary": "openrouter/z-ai/glm-4", "fallbacks": ["a/b"]}, id="an-object"),
    ],
)
def test_a_model_may_be_a_name_or_an_object(said: Any) -> None:
    """People paste both."""
    assert _defaults(model=said).model.primary == "openrouter/z-ai/glm-4"


@pytest.mark.parametrize(
    "said, path",
    [
        pytest.param("gpt-5", "$.agents.defaults.model", id="a-text"),
        pytest.param({"primary": "gpt-5"}, "$.agents.defaults.model.primary", id="an-object"),
    ],
)
def test_a_model_without_a_provider_is_refused_where_it_stands(said: Any, path: str) -> None:
    """The path is that of the user's file, in either form."""
    assert _problems(model=said) == [
        f'{path}: expected "provider/model", such as "openai/gpt-5-mini", or null, not "gpt-5"'
    ]


def test_a_model_whose_variable_is_unset_is_named_once() -> None:
    """Not a second time for being no model's name."""
    assert _problems(model="${NOPE}") == ["$.agents.defaults.model: ${NOPE} is not set in the environment"]


def test_a_models_name_may_come_from_the_environment() -> None:
    """In its short form, too."""
    loaded = settings_from({"agents": {"defaults": {"model": "${WHICH}"}}}, environ={"WHICH": "a/b"})

    assert loaded.settings.agents.defaults.model.primary == "a/b"


@pytest.mark.parametrize("model", ["extractive", "openai/gpt-5-mini", None])
def test_who_summarises_is_a_model_or_none(model: str | None) -> None:
    """The summariser that needs no model has a name without a slash."""
    assert _defaults(compaction={"model": model}).compaction.model == model


_EXPECTED = [
    ("compaction", "maxHistoryShare", 0.09, "a number from 0.1 to 0.9"),
    ("compaction", "maxHistoryShare", 0.91, "a number from 0.1 to 0.9"),
    ("compaction", "recentTurnsPreserve", 13, "a whole number from 0 to 12"),
    ("compaction", "recentTurnsPreserve", -1, "a whole number from 0 to 12"),
    ("compaction", "qualityGuard.maxRetries", 4, "a whole number from 0 to 3"),
    ("compaction", "reserveTokens", -1, "a whole number of at least 0"),
    ("compaction", "reserveTokensFloor", -1, "a whole number of at least 0"),
    ("compaction", "keepRecentTokens", 0, "a whole number of at least 1"),
    ("compaction", "timeoutSeconds", 0, "a number of seconds above 0 and at most 1e9, or null"),
    ("compaction", "mode", "safe", 'one of "default", "safeguard"'),
    ("compaction", "identifierPolicy", "lax", 'one of "strict", "off", "custom"'),
    ("compaction", "model", "big", '"provider/model", such as "openai/gpt-5-mini", "extractive" or null'),
    ("compaction", "postCompactionSections", "Rules", "a list"),
    ("compaction", "maxActiveTranscriptBytes", "20 mib",
     'bytes of at least 0, as a whole number or a text such as "20mb", or null'),
    ("compaction", "memoryFlush.softThresholdTokens", -1, "a whole number of at least 0"),
    ("contextPruning", "mode", "adaptive", 'one of "off", "cache-ttl"'),
    ("contextPruning", "ttl", "5", 'a duration such as "5m", "1h" or "300s", or a number of seconds from 0 to 1e9'),
    ("contextPruning", "ttl", -1, 'a duration such as "5m", "1h" or "300s", or a number of seconds from 0 to 1e9'),
    ("contextPruning", "softTrimRatio", 1.5, "a number from 0 to 1"),
    ("contextPruning", "hardClearRatio", -0.1, "a number from 0 to 1"),
    ("contextPruning", "keepLastAssistants", -1, "a whole number of at least 0"),
    ("contextPruning", "tools.deny", [3], "a string"),
]  # fmt: skip


@pytest.mark.parametrize(
    "section, key, value, expected", [pytest.param(*row, id=f"{row[1]}-{row[2]}") for row in _EXPECTED]
)
def test_a_value_out_of_bounds_is_refused_by_its_path_with_the_bounds(
    section: str, key: str, value: Any, expected: str
) -> None:
    """In the words and units of the file."""
    said: Any = value
    for step in reversed(key.split(".")):
        said = {step: said}

    (problem,) = _problems(**{section: said})

    assert problem.startswith(f"$.agents.defaults.{section}.{key}")
    assert f": expected {expected}, not " in problem


@pytest.mark.parametrize(
    "ttl, seconds",
    [
        pytest.param("5m", 300, id="minutes"),
        pytest.param("1h", 3_600, id="an-hour"),
        pytest.param("300s", 300, id="seconds"),
        pytest.param("1h30m", 5_400, id="two-units"),
        pytest.param("1.5 H", 5_400, id="a-fraction"),
        pytest.param("500ms", 0.5, id="milliseconds"),
        pytest.param("0s", 0, id="nothing"),
        pytest.param(90, 90, id="a-plain-number-is-seconds"),
    ],
)
def test_a_duration_is_a_text_or_seconds(ttl: Any, seconds: float) -> None:
    """As people write it."""
    assert _defaults(contextPruning={"ttl": ttl}).context_pruning.ttl == seconds


@pytest.mark.parametrize(
    "size, in_bytes",
    [
        pytest.param("20mb", 20 * 1024**2, id="a-text"),
        pytest.param("1.5k", 1_536, id="a-fraction"),
        pytest.param(4_096, 4_096, id="a-plain-number-is-bytes"),
        pytest.param(0, 0, id="off"),
        pytest.param(None, None, id="null"),
    ],
)
def test_a_size_is_a_text_or_bytes(size: Any, in_bytes: int | None) -> None:
    """A kilobyte is 1024 bytes."""
    compaction = _defaults(compaction={"maxActiveTranscriptBytes": size}).compaction

    assert compaction.max_active_transcript_bytes == in_bytes


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_the_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int) -> None:
    """However many there are."""
    pruning = _defaults(contextPruning={"ttl": f"{hours}h{minutes}m{seconds}s"}).context_pruning

    assert pruning.ttl == hours * 3_600 + minutes * 60 + seconds


@given(st.text(alphabet="0123456789.smh -", max_size=6))
def test_any_text_is_a_duration_or_a_problem_at_its_path(text: str) -> None:
    """Never a crash."""
    try:
        ttl = _defaults(contextPruning={"ttl": text}).context_pruning.ttl
    except ConfigError as error:
        (problem,) = error.problems
        assert problem.startswith("$.agents.defaults.contextPruning.ttl: expected a duration")
    else:
        assert 0 <= ttl <= 1e9


def test_settings_made_by_hand_keep_the_bounds_too() -> None:
    """A program is checked like a file."""
    with pytest.raises(ValueError, match=r"max_history_share: expected a number from 0\.1 to 0\.9"):
        CompactionSettings(max_history_share=1.0)


@pytest.mark.parametrize("memory", [None, "none", "notes"])
def test_a_known_memory_is_no_finding(memory: str | None) -> None:
    """What can serve, and nobody."""
    loaded = settings_from({"plugins": {"slots": {"memory": memory}}})

    assert loaded.settings.plugins.slots.memory == memory
    assert loaded.findings == ()


def test_an_unknown_memory_is_a_finding() -> None:
    """The reference system's own plugins stand there in its files, and keep nobody from using one."""
    loaded = settings_from({"plugins": {"slots": {"memory": "memory-core"}}})

    assert loaded.findings == ("$.plugins.slots.memory: not known here, so nobody remembers; known here: none, notes",)

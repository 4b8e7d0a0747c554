"""An object in, settings or every problem out."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.config import CONFIG_KEYS, QuarantineSettings, Settings, settings_from
from openclaw_ctx.errors import ConfigError

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["${HOME}", "${NOPE}", "$${NOPE}", "strict", "legacy"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
OUR_WORDS = sorted({step for key in CONFIG_KEYS for step in key.key.split(".")})
NEARLY_OURS = st.recursive(
    JSON_VALUES,
    lambda inner: st.dictionaries(st.sampled_from([*OUR_WORDS, "x", "$include", "memory"]), inner, max_size=4),
    max_leaves=12,
)
SECTIONS = st.dictionaries(
    st.sampled_from(["plugins", "deadlines", "session", "tokens", "agents", "models"]), NEARLY_OURS, max_size=4
)


def _problems(data: Any, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings_from(data, environ=environ)
    return list(caught.value.problems)


def _findings(data: Any, **environ: str) -> list[str]:
    return list(settings_from(data, environ=environ).findings)


def test_an_empty_object_is_the_defaults() -> None:
    """A configuration is optional, key by key."""
    loaded = settings_from({})

    assert loaded.settings == Settings()
    assert (loaded.path, loaded.exists, loaded.findings) == (None, False, ())


def test_every_section_is_read() -> None:
    """Camel case in, snake case and seconds out."""
    settings = settings_from(
        {
            "plugins": {
                "enabled": False,
                "allow": ["window"],
                "deny": ["rag", "lossless"],
                "entries": {"window": {"enabled": True, "config": {"maxTurns": 4}}, "rag": {}},
                "slots": {"contextEngine": "window"},
                "slotPolicy": "strict",
                "quarantine": {"failures": 3, "probationSeconds": 60},
            },
            "deadlines": {"ingestBatch": 5, "turnEnd": 0.5},
            "session": {"durable": True, "writeLock": {"acquireTimeoutMs": 1500}},
            "tokens": {"counter": "o200k_base"},
        }
    ).settings

    assert settings.plugins.enabled is False
    assert settings.plugins.allow == ("window",)
    assert settings.plugins.deny == ("rag", "lossless")
    assert settings.plugins.entries["window"].enabled is True
    assert settings.plugins.entries["window"].config == {"maxTurns": 4}
    assert settings.plugins.entries["rag"].enabled is None
    assert settings.plugins.slots.context_engine == "window"
    assert settings.plugins.slot_policy == "strict"
    assert settings.plugins.quarantine == QuarantineSettings(failures=3, probation_seconds=60)
    assert settings.deadlines.seconds()["ingest_batch"] == 5
    assert settings.deadlines.turn_end == 0.5
    assert settings.session.durable is True
    assert settings.session.acquire_timeout_seconds == 1.5
    assert settings.tokens.counter == "o200k_base"


@pytest.mark.parametrize(
    "data, problem",
    [
        pytest.param(
            {"plugins": {"allow": ["a", 3]}}, "$.plugins.allow[1]: expected a string, not 3", id="a-number-in-a-list"
        ),
        pytest.param(
            {"plugins": {"deny": "abc"}},
            '$.plugins.deny: expected a list, not "abc"',
            id="a-string-is-no-list-of-letters",
        ),
        pytest.param(
            {"plugins": {"enabled": 1}}, "$.plugins.enabled: expected true or false, not 1", id="one-is-not-true"
        ),
        pytest.param(
            {"deadlines": {"ingest": True}}, "$.deadlines.ingest: expected a number, not true", id="true-is-not-one"
        ),
        pytest.param(
            {"deadlines": {"ingest": "1"}}, '$.deadlines.ingest: expected a number, not "1"', id="a-number-in-quotes"
        ),
        pytest.param(
            {"deadlines": {"ingest": 0}},
            "$.deadlines.ingest: expected a number of seconds above 0 and at most 1e9, not 0",
            id="no-time-at-all",
        ),
        pytest.param(
            {"deadlines": {"afterTurn": float("inf")}},
            "$.deadlines.afterTurn: expected a finite number, not Infinity",
            id="no-deadline-at-all",
        ),
        pytest.param(
            {"deadlines": {"compact": 10**5000}},
            "$.deadlines.compact: expected a finite number, not a number of many digits",
            id="more-digits-than-python-prints",
        ),
        pytest.param(
            {"plugins": {"quarantine": {"failures": 1.0}}},
            "$.plugins.quarantine.failures: expected a whole number, not 1.0",
            id="a-fraction-of-a-failure",
        ),
        pytest.param(
            {"plugins": {"quarantine": {"failures": True}}},
            "$.plugins.quarantine.failures: expected a whole number, not true",
            id="a-switch-is-no-count",
        ),
        pytest.param(
            {"plugins": {"quarantine": {"failures": 0}}},
            "$.plugins.quarantine.failures: expected a whole number of at least 1, not 0",
            id="barred-for-nothing",
        ),
        pytest.param(
            {"plugins": {"slotPolicy": "fallbak"}},
            '$.plugins.slotPolicy: expected one of "fallback", "strict", not "fallbak"',
            id="a-mistyped-choice",
        ),
        pytest.param(
            {"session": {"writeLock": {"acquireTimeoutMs": -5}}},
            "$.session.writeLock.acquireTimeoutMs: expected a number of milliseconds from 0 to 1e12, not -5",
            id="the-file's-own-units",
        ),
        pytest.param(
            {"session": {"writeLock": 5}}, "$.session.writeLock: expected an object, not 5", id="a-number-that-nests"
        ),
        pytest.param({"tokens": None}, "$.tokens: expected an object, not null", id="a-section-of-null"),
        pytest.param({"plugins": {"entries": []}}, "$.plugins.entries: expected an object, not a list", id="entries"),
        pytest.param(
            {"plugins": {"entries": {"window": True}}},
            "$.plugins.entries.window: expected an object, not true",
            id="an-entry-that-is-a-switch",
        ),
        pytest.param(
            {"plugins": {"entries": {"a\nb": {"enabled": 0}}}},
            '$.plugins.entries["a\\nb"].enabled: expected true or false, not 0',
            id="a-line-break-in-an-id-stays-on-its-line",
        ),
        pytest.param(
            {"plugins": {"entries": {"x": {"config": {1: 2}}}}},
            "$.plugins.entries.x.config: expected strings as keys, not 1",
            id="a-mapping-that-is-no-json",
        ),
        pytest.param(
            {"plugins": {"entries": {"x": {"config": {"when": b"now"}}}}},
            "$.plugins.entries.x.config.when: expected JSON, not a bytes",
            id="a-value-that-is-no-json",
        ),
        pytest.param([], "$: expected an object, not a list", id="no-object-at-all"),
    ],
)
def test_a_wrong_value_is_named_by_its_path_and_what_belongs_there(data: Any, problem: str) -> None:
    """Nothing is coerced: a value of the wrong kind is a problem, said in one line."""
    assert _problems(data) == [problem]


def test_all_problems_are_raised_at_once() -> None:
    """Mending a file takes one round, not one for each mistake."""
    problems = _problems(
        {
            "plugins": {"allow": [1, "fine", 2], "slots": {"contextEngine": 3}, "slotPolicy": "${NOPE}"},
            "deadlines": {"ingest": "x", "dispose": -1},
            "session": {"durable": "yes", "writeLock": []},
        }
    )

    assert sorted(problem.partition(":")[0] for problem in problems) == [
        "$.deadlines.dispose",
        "$.deadlines.ingest",
        "$.plugins.allow[0]",
        "$.plugins.allow[2]",
        "$.plugins.slotPolicy",
        "$.plugins.slots.contextEngine",
        "$.session.durable",
        "$.session.writeLock",
    ]


def test_a_key_pasted_where_an_entry_belongs_is_not_repeated() -> None:
    """B65: what stands under plugins.entries may be a secret, also where it is of the wrong kind."""
    problems = _problems(
        {"plugins": {"entries": {"a": "sk-12345", "b": {"config": "sk-12345", "enabled": "sk-12345"}}}}
    )

    assert len(problems) == 3
    assert "sk-12345" not in "".join(problems)


def test_a_pasted_configuration_of_the_reference_system_loads_without_a_word() -> None:
    """Sections and keys that are not ours are somebody else's, not mistakes."""
    loaded = settings_from(
        {
            "meta": {"lastTouchedVersion": "2026.5.2"},
            "agents": {
                "defaults": {
                    "model": {"primary": "anthropic/claude-opus-4-6", "fallbacks": ["openai/gpt-5"]},
                    "compaction": {
                        "mode": "safeguard",
                        "notifyUser": True,
                        "memoryFlush": {"model": "ollama/qwen3:8b"},
                    },
                    "contextPruning": {"mode": "cache-ttl", "ttl": "1h"},
                    "contextTokens": 1,
                    "workspace": "${NOPE}",
                },
                "list": [{"id": "main"}],
            },
            "gateway": {"port": 18789, "auth": {"token": "${GATEWAY_TOKEN}"}},
            "channels": {"telegram": {"botToken": "${NOPE}"}},
            "models": {
                "mode": "merge",
                "providers": {"x": {"headers": {"X-Key": "${NOPE}"}, "models": [{"id": "m", "cost": {"input": 0.1}}]}},
            },
            "session": {"scope": "per-sender", "writeLock": {"staleMs": 1, "maxHoldMs": 2}, "maintenance": 5},
            "plugins": {
                "load": {"paths": ["${NOPE}/plugins"]},
                "installs": {"lossless": {"source": "npm"}},
                "slots": {"memory": "none", "contextEngine": "lossless"},
                "entries": {
                    "lossless": {
                        "enabled": True,
                        "hooks": {"allowConversationAccess": True},
                        "subagent": {"allowedModels": ["*"]},
                        "llm": {"allowModelOverride": True},
                        "config": {"freshTailCount": 32},
                    }
                },
            },
        },
        environ={},
    )

    assert loaded.findings == ()
    assert loaded.settings.plugins.slots.context_engine == "lossless"
    assert loaded.settings.plugins.entries["lossless"].config == {"freshTailCount": 32}


@pytest.mark.parametrize(
    "data, finding",
    [
        pytest.param(
            {"plugins": {"alow": ["x"]}}, "$.plugins.alow: unknown key, ignored; did you mean 'allow'?", id="plugins"
        ),
        pytest.param(
            {"plugins": {"slots": {"contextengine": "x"}}},
            "$.plugins.slots.contextengine: unknown key, ignored; did you mean 'contextEngine'?",
            id="slots",
        ),
        pytest.param(
            {"plugins": {"quarantine": {"probation_seconds": 1}}},
            "$.plugins.quarantine.probation_seconds: unknown key, ignored; did you mean 'probationSeconds'?",
            id="quarantine",
        ),
        pytest.param(
            {"plugins": {"entries": {"x": {"cofnig": {}}}}},
            "$.plugins.entries.x.cofnig: unknown key, ignored; did you mean 'config'?",
            id="an-entry",
        ),
        pytest.param(
            {"deadlines": {"ASSEMBLE": 1}},
            "$.deadlines.ASSEMBLE: unknown key, ignored; did you mean 'assemble'?",
            id="deadlines",
        ),
        pytest.param(
            {"tokens": {"tokenizer": "x"}}, "$.tokens.tokenizer: unknown key, ignored; known here: counter", id="tokens"
        ),
        pytest.param(
            {"$include": "./other.json5"},
            "$.$include: no other file is read; write its keys here",
            id="a-file-that-is-not-read",
        ),
    ],
)
def test_an_unknown_key_among_ours_is_a_finding_with_the_nearest_key(data: Any, finding: str) -> None:
    """A mistyped key is said, and stops nobody."""
    assert _findings(data) == [finding]


@given(st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4) | SECTIONS)
def test_any_object_gives_settings_or_a_config_error(data: dict[str, Any]) -> None:
    """Whatever stands in the file, the user gets an answer made for people, one line each."""
    try:
        lines = settings_from(data, environ={"HOME": "/root"}).findings
    except ConfigError as error:
        lines = tuple(error.problems)
        assert lines

    for line in lines:
        assert line.startswith("$")
        assert line.isprintable()


def test_an_object_that_holds_itself_is_refused() -> None:
    """A program may hand over what no file can say."""
    knot: dict[str, Any] = {}
    knot["again"] = knot

    (problem,) = _problems({"plugins": {"entries": {"x": {"config": knot}}}})

    assert problem.startswith("$.plugins.entries.x.config.again.again")
    assert problem.endswith(": nested deeper than 100 levels")


@given(
    st.dictionaries(
        st.sampled_from([key.key.partition(".")[2] for key in CONFIG_KEYS if key.key.startswith("deadlines.")]),
        st.floats(min_value=0, max_value=1e9, exclude_min=True) | st.integers(1, 3),
    )
)
def test_the_deadlines_in_the_file_are_the_deadlines_kept(deadlines: dict[str, float]) -> None:
    """Each key sets its own operation, to the very number, and no other."""
    defaults = Settings().deadlines.seconds()

    kept = settings_from({"deadlines": deadlines}).settings.deadlines.seconds()

    snake = {"".join(f"_{c.lower()}" if c in string.ascii_uppercase else c for c in k): v for k, v in deadlines.items()}
    assert kept == defaults | snake

"""Events reach whatever the program has set up, and never raw."""

import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from openclaw_ctx.log import configure_console, get_logger

FORGED = "lost\n2026-01-01 INFO all is well\x1b[2K\u2028\u202eevil\x9b1m"
SHOWN = r"lost\n2026-01-01 INFO all is well\x1b[2K\u2028\u202eevil\x9b1m"


@pytest.fixture(autouse=True)
def _fresh_structlog():
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


class _Trap:
    """Counts how often it is read."""

    reads = 0

    def __str__(self) -> str:
        self.reads += 1
        return FORGED


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")


def _is_one_line(text: str) -> bool:
    return text.endswith("\n") and text[:-1].isprintable()


def _bare_values(_logger, _name, fields):
    """Print the values as they are."""
    return " ".join(map(str, fields.values()))


RENDERERS = [
    pytest.param(structlog.processors.JSONRenderer(), id="json"),
    pytest.param(structlog.processors.JSONRenderer(ensure_ascii=False), id="json-unescaped"),
    pytest.param(structlog.processors.KeyValueRenderer(), id="key-value"),
    pytest.param(structlog.processors.LogfmtRenderer(), id="logfmt"),
    pytest.param(structlog.dev.ConsoleRenderer(colors=False), id="console"),
    pytest.param(_bare_values, id="bare-values"),
]


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"reason": FORGED}, id="text"),
        pytest.param({"engine": f"lossless{FORGED}"}, id="engine-id"),
        pytest.param({"reason": ValueError(FORGED)}, id="exception"),
        pytest.param({"config": {FORGED: [FORGED, {"a": FORGED}]}}, id="data"),
        pytest.param({"members": [ValueError(FORGED), _Trap()]}, id="objects-in-data"),
        pytest.param({"thing": _Trap()}, id="object"),
        pytest.param({f"name{FORGED}": 1}, id="field-name"),
    ],
)
def test_a_record_is_one_line_whatever_renders_it(renderer, fields):
    """B64: a forged line, an ANSI code, U+2028, an override and a C1 byte are escaped before any processor."""
    out = io.StringIO()
    structlog.configure(processors=[renderer], logger_factory=structlog.WriteLoggerFactory(out))

    get_logger().warning("engine.quarantined", **fields)

    assert _is_one_line(out.getvalue())
    assert "engine.quarantined" in out.getvalue()


def test_raw_tracebacks_cannot_be_asked_for():
    """Names on which processors act are renamed, and an exception becomes one clean line."""
    out = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, structlog.dev.ConsoleRenderer(colors=False)],
        logger_factory=structlog.WriteLoggerFactory(out),
    )

    get_logger().error("turn.lost", exc_info=ValueError(FORGED), stack=FORGED, exception=FORGED, event=FORGED)

    assert _is_one_line(out.getvalue())
    assert "exc_info_='ValueError: lost" in out.getvalue()


def test_secrets_in_fields_are_masked():
    """B65: in text, under a telling name, in an exception and deep in data."""
    with structlog.testing.capture_logs() as events:
        structlog.configure(**structlog.get_config())
        get_logger().warning(
            "model.failed",
            reason=ValueError("Authorization: Bearer abc123"),
            api_key="abc123",
            config={"entries": [{"apiKey": "abc123"}]},
            text="token=abc123",
            tokens=512,
        )

    assert "abc123" not in repr(events)
    assert events[0]["tokens"] == 512
    assert events[0]["reason"] == "ValueError: Authorization: Bearer [masked]"
    assert events[0]["api_key"] == "[masked]"


def test_plain_values_keep_their_types():
    """Machines that read JSON logs get numbers as numbers."""
    with structlog.testing.capture_logs() as events:
        structlog.configure(**structlog.get_config())
        get_logger().warning("history.folded", tokens=7, seconds=0.5, forced=True, engine=None, sizes=(1, 2))

    assert events == [
        {
            "event": "history.folded",
            "log_level": "warning",
            "tokens": 7,
            "seconds": 0.5,
            "forced": True,
            "engine": None,
            "sizes": [1, 2],
        }
    ]


def test_a_number_too_long_to_print_is_no_fault():
    """An engine may answer any integer; logging it does not raise."""
    out = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.WriteLoggerFactory(out)
    )

    get_logger().warning("budget.exceeded", tokens=10**5000)

    assert "cannot be read" in json.loads(out.getvalue())["tokens"]


def test_without_structlog_set_up_events_go_to_the_standard_library(caplog):
    """A program that uses ``logging`` alone finds the events there, under the package's name, as one line."""
    get_logger().warning("engine.quarantined", engine=f"x{FORGED}", operation="assemble", text='say "hi"', none="")

    (record,) = caplog.records
    assert record.name == "openclaw_ctx"
    assert record.levelno == logging.WARNING
    assert record.funcName == "test_without_structlog_set_up_events_go_to_the_standard_library"
    assert record.getMessage() == (
        rf'engine.quarantined engine="x{SHOWN}" operation=assemble text="say \"hi\"" none=""'
    )


@pytest.mark.parametrize("level", ["debug", "info"])
def test_a_disabled_level_reads_no_field(level, caplog):
    """What is not emitted costs no cleaning: standard library, and structlog with a filter or on top of it."""
    trap = _Trap()

    getattr(get_logger(), level)("engine.selected", thing=trap)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    getattr(get_logger(), level)("engine.selected", thing=trap)
    structlog.configure(wrapper_class=structlog.stdlib.BoundLogger, logger_factory=structlog.stdlib.LoggerFactory())
    getattr(get_logger(), level)("engine.selected", thing=trap)

    assert trap.reads == 0
    assert not caplog.records


def test_structlog_on_top_of_the_standard_library_gets_the_events(caplog):
    """The commonest set-up of larger programs works, under the logger's own name."""
    structlog.configure(
        processors=[structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )

    get_logger("openclaw_ctx.host").error("turn.lost", engine="x")

    assert [(record.name, record.message, record.engine) for record in caplog.records] == [
        ("openclaw_ctx.host", "turn.lost", "x")
    ]


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_bound_logger_that_wraps_any_attribute_gets_each_event_once(level):
    """The generic bound logger of structlog makes log calls of all attributes: asking for the level must not log."""
    out = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        wrapper_class=structlog.BoundLogger,
        logger_factory=structlog.WriteLoggerFactory(out),
    )

    getattr(get_logger(), level)("turn.ended", tokens=3)

    assert [json.loads(line) for line in out.getvalue().splitlines()] == [{"event": "turn.ended", "tokens": 3}]


def test_asking_a_bound_logger_for_its_level_runs_no_processor():
    """A program's processors see each event once, and nothing else."""
    seen = []
    structlog.configure(
        processors=[lambda _logger, name, _fields: seen.append(name) or "line"],
        wrapper_class=structlog.BoundLogger,
        logger_factory=structlog.WriteLoggerFactory(io.StringIO()),
    )

    get_logger().warning("turn.ended", tokens=3)

    assert seen == ["warning"]


async def test_an_asynchronous_bound_logger_gets_the_events_at_once():
    """No coroutine is left unawaited where a program chose structlog's asynchronous logger."""
    out = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        wrapper_class=structlog.stdlib.AsyncBoundLogger,
        logger_factory=structlog.WriteLoggerFactory(out),
    )

    get_logger().warning("turn.ended", tokens=3)

    assert json.loads(out.getvalue()) == {"event": "turn.ended", "tokens": 3}


def test_importing_and_logging_import_no_structlog():
    """The start of the command stays cheap; a program that has not chosen structlog never pays for it."""
    done = _run(
        "import sys\n"
        "from openclaw_ctx.log import get_logger\n"
        "log = get_logger()\n"
        "assert 'structlog' not in sys.modules and 'logging' not in sys.modules, 'at import'\n"
        "log.info('engine.selected', engine='x')\n"
        "log.warning('engine.quarantined', engine='x')\n"
        "assert 'structlog' not in sys.modules, 'at an event'\n"
    )

    assert done.stderr == "engine.quarantined engine=x\n"


def test_nothing_is_set_up_and_warnings_reach_stderr():
    """The library adds no handler, and never writes to stdout."""
    done = _run(
        "import logging, structlog\n"
        "from openclaw_ctx.log import get_logger\n"
        "get_logger().info('engine.selected', engine='x')\n"
        "get_logger().warning('engine.quarantined', reason='a\\nb')\n"
        "assert not logging.getLogger('openclaw_ctx').handlers and not logging.root.handlers\n"
        "assert not structlog.is_configured()\n"
    )

    assert done.stdout == ""
    assert done.stderr == "engine.quarantined reason=a\\nb\n"


def test_the_console_writes_json_lines_to_stderr(capsys):
    """A surface asked for JSON gets one object a line, and only from warnings on."""
    configure_console(json=True)

    get_logger().info("engine.selected", engine="x")
    get_logger().warning("engine.quarantined", engine="x", reason=FORGED)

    out, err = capsys.readouterr()
    assert out == ""
    written = json.loads(err)
    assert (written["event"], written["level"], written["reason"]) == ("engine.quarantined", "warning", SHOWN)


@pytest.mark.parametrize(
    "terminal,no_color,coloured",
    [
        pytest.param(True, "", True, id="a-terminal"),
        pytest.param(True, "1", False, id="a-terminal-without-colours"),
        pytest.param(False, "", False, id="a-pipe"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="colours on Windows need another package")
def test_the_console_is_coloured_only_where_that_is_wanted(terminal, no_color, coloured, monkeypatch):
    """Escape codes are written to a terminal alone, and never against NO_COLOR."""
    stderr = io.StringIO()
    stderr.isatty = lambda: terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")

    configure_console(verbose=True)
    get_logger().debug("turn.planned", reason=FORGED)

    assert "turn.planned" in stderr.getvalue()
    assert "\x1b[2K" not in stderr.getvalue()
    assert ("\x1b" in stderr.getvalue()) is coloured
    assert stderr.getvalue().count("\n") == 1


def test_a_program_without_stderr_writes_nowhere(monkeypatch, capsys):
    """Windowed programs have no stderr; their events do not fall back to stdout."""
    configure_console()
    monkeypatch.setattr(sys, "stderr", None)

    get_logger().warning("engine.quarantined", engine="x")

    assert capsys.readouterr().out == ""

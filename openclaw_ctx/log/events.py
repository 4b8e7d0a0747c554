"""
Log events: a name and clean fields, handed to whatever the program has set up.

The library configures nothing. Only a surface, the command, calls
``configure_console``.
"""

import functools
import io
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import attrs

from .clean import clean_text, describe_error, text_of
from .mask import MASK, walk
from .names import names_secret

__all__ = ["Logger", "configure_console", "get_logger"]

# The numbers of the standard library, which is not imported for them: it is off the start-up path.
_DEBUG, _INFO, _WARNING, _ERROR = 10, 20, 30, 40
_LEVEL_NAMES = {_DEBUG: "debug", _INFO: "info", _WARNING: "warning", _ERROR: "error"}
# structlog's processors act on these names, some by printing a raw traceback or a second line.
_TAKEN = frozenset({"event", "exc_info", "exception", "level", "logger", "stack", "stack_info", "timestamp"})
_NO_NAME = re.compile(r"[^\w.\-]")
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64
_FRAMES_TO_CALLER = 4


@attrs.frozen(eq=False)
class Logger:
    """
    Emits events as ``noun.past_participle`` with their facts as fields.

    Every field passes the gate of ``clean_text`` before any processor sees it,
    so no configuration can bring foreign text raw to a terminal. A program
    that has configured structlog gets the events there; else they go to the
    standard library's logger of this name, whose warnings reach stderr even
    if nobody has set up anything. A disabled level costs no cleaning.
    """

    name: str

    def debug(self, event: str, /, **fields: object) -> None:
        """Say what a decision was made from."""
        self._emit(_DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Say that a state changed."""
        self._emit(_INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Say that we went on with less."""
        self._emit(_WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Say that a turn was lost."""
        self._emit(_ERROR, event, fields)

    def _emit(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        # A program that has configured structlog has imported it: there is no need to do so here.
        structlog = sys.modules.get("structlog")
        is_configured = getattr(structlog, "is_configured", None)
        if structlog is not None and is_configured is not None and is_configured():
            _emit_structured(structlog.get_logger(self.name), level, event, fields)
        else:
            _emit_line(_standard_logger(self.name), level, event, fields)


def get_logger(name: str = "openclaw_ctx") -> Logger:
    """Return the logger of *name*. Costs nothing: no logging library is imported before the first event."""
    return Logger(name)


def configure_console(*, verbose: bool = False, json: bool = False) -> None:
    """
    Send events to stderr, for the whole process. For programs, never for a library.

    Args:
        verbose: Also what is not a warning or an error.
        json: One JSON object a line, else columns for eyes, in colour only
            on a terminal and while ``NO_COLOR`` is empty.
    """
    import structlog  # noqa: PLC0415 -- off the start-up path: most commands log nothing

    renderer = structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=_wants_colours())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_DEBUG if verbose else _WARNING),
        # Looked up at each event, since stderr may be redirected; never stdout, which is structlog's default.
        logger_factory=lambda *_names: structlog.WriteLogger(sys.stderr or _Nowhere()),
        cache_logger_on_first_use=False,
    )


class _Nowhere(io.StringIO):
    """Stands for stderr where a program has none."""

    def write(self, text: str, /) -> int:
        """Drop it."""
        return len(text)


def _wants_colours() -> bool:
    if os.name == "nt" or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stderr is not None and sys.stderr.isatty()


@functools.cache
def _standard_logger(name: str) -> Any:
    import logging  # noqa: PLC0415 -- off the start-up path

    return logging.getLogger(name)


def _emit_structured(logger: Any, level: int, event: str, fields: Mapping[str, object]) -> None:
    bound = logger.bind()
    if hasattr(type(bound), "sync_bl"):  # structlog's asynchronous logger would return a coroutine
        bound = bound.sync_bl
    if _is_enabled(bound, level):
        getattr(bound, _LEVEL_NAMES[level])(clean_text(event), **_gate(fields))


def _is_enabled(bound: Any, level: int) -> bool:
    # Asked of the class: some bound loggers turn any attribute into a method that logs.
    ask = getattr(type(bound), "is_enabled_for", None) or getattr(type(bound), "isEnabledFor", None)
    try:
        return ask is None or bool(ask(bound, level))
    except AttributeError:  # structlog's stdlib logger around something that is not of the standard library
        return True


def _emit_line(logger: Any, level: int, event: str, fields: Mapping[str, object]) -> None:
    if logger.isEnabledFor(level):
        shown = (f"{name}={_in_line(value)}" for name, value in _gate(fields).items())
        logger.log(level, "%s", " ".join((clean_text(event), *shown)), stacklevel=_FRAMES_TO_CALLER)


def _in_line(value: object) -> str:
    text = str(value)
    if not isinstance(value, str) or not (set(' "=') & set(text) or not text):
        return text
    return '"' + text.replace('"', r"\"") + '"'


def _gate(fields: Mapping[str, object]) -> dict[str, Any]:
    gated: dict[str, Any] = {}
    for name, value in fields.items():
        shown = f"{name}_" if name in _TAKEN else _NO_NAME.sub("_", clean_text(name))
        gated[shown] = MASK if names_secret(name) and value is not None else walk(value, _gate_leaf)
    return gated


def _gate_leaf(value: object) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if isinstance(value, int) and kind is int:
        # Python refuses to print integers of thousands of digits.
        return value if _SMALLEST_INT <= value < _LARGEST_INT else clean_text(text_of(value))
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, BaseException):
        return describe_error(value)
    return clean_text(text_of(value))

"""
Find, read and check the configuration file.

JSON5, UTF-8. Everything that is wrong is said at once, each with its path or
with line and column; what is merely odd is a finding and stops nobody.
"""

import codecs
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx.contract import JSON
from openclaw_ctx.errors import ConfigError

from .place import CONFIG_VARIABLE, config_path
from .schema import Settings

__all__ = ["LoadedSettings", "load_settings", "settings_from"]

_MAX_DEPTH: Final = 100
_MAX_BYTES: Final = 8 * 1024 * 1024
_WITHOUT_WAITING: Final[int] = getattr(os, "O_NONBLOCK", 0)  # else the opening of a FIFO waits for who writes into it
_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it opens with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# What the decoder says: "Expected b'comma' or U+007d near 10, found U+0062", "Unclosed b'string' starting near 4".
_SAYING: Final = re.compile(r"(?P<what>.*?)(?: starting)? near (?P<near>\d+)(?:, found U\+(?P<found>[0-9a-fA-F]+))?")
_CODE_POINT: Final = re.compile(r"U\+([0-9a-fA-F]+)")
_NAME: Final = re.compile(r"b'([^']*)'")
_WORDS: Final = {
    "Unclosed b'NumericLiteral'": "this number cannot be read",
    "b'JSON5Value'": "a value",
    "b'IdentifierStart'": "a key",
    "b'colon'": "':'",
    "b'comma'": "','",
}


@attrs.frozen(kw_only=True)
class LoadedSettings:
    """
    Settings, and where they come from.

    Attributes:
        path: The file that was looked for; ``None`` for settings from a mapping.
        exists: Whether it was there. Where it was not, the settings are the defaults.
        findings: Warnings; each opens with a path and holds no secret.
    """

    settings: Settings
    path: Path | None = None
    exists: bool = False
    findings: tuple[str, ...] = ()

    def with_engine(self, engine: str) -> "LoadedSettings":
        """Return the same with *engine* in the slot."""
        plugins = self.settings.plugins
        slotted = attrs.evolve(plugins, slots=attrs.evolve(plugins.slots, context_engine=engine))
        return attrs.evolve(self, settings=attrs.evolve(self.settings, plugins=slotted))


def settings_from(
    data: Mapping[str, Any], *, source: str = "<dict>", environ: Mapping[str, str] | None = None
) -> LoadedSettings:
    """
    Return the settings in *data*, the content of a configuration file.

    Args:
        data: JSON values, keys in camel case. Not kept, not changed.
        source: Names the configuration in an error.
        environ: Fills in ``${VAR}``; the process's own by default.

    Raises:
        ConfigError: With every problem, not just the first.
    """
    from .structure import structure  # noqa: PLC0415 -- mostly there is no file

    structured = structure(data, os.environ if environ is None else environ)
    if structured.settings is None:
        raise ConfigError(source, structured.problems)
    return LoadedSettings(settings=structured.settings, findings=structured.findings)


def load_settings(path: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> LoadedSettings:
    """
    Return the settings of a file: *path*, else ``OPENCLAW_CTX_CONFIG``, else the user's own.

    Only a missing file that was named by *path* is an error. One that the
    environment names is a finding: the variable outlives the file.

    Raises:
        ConfigError: The file cannot be read, is not JSON5, or has problems.
    """
    named = environ.get(CONFIG_VARIABLE)
    where = config_path(path, environ=environ)
    content, problem = _read(where)
    if problem is not None:
        raise ConfigError(str(where), [problem])
    if content is None:
        if path is not None:
            raise ConfigError(str(where), ["$: there is no such file"])
        findings = (f"$: {CONFIG_VARIABLE} names {str(where)!r}, which is not there",) if named else ()
        return LoadedSettings(settings=Settings(), path=where, findings=findings)
    data, problem = _decode(content)
    if problem is not None:
        raise ConfigError(str(where), [problem])
    return attrs.evolve(settings_from(data, source=str(where), environ=environ), path=where, exists=True)


def _read(path: Path) -> tuple[bytes | None, str | None]:
    """Return the bytes, or neither where there is no file, or why they cannot be had."""
    try:
        # The builtin, since a path's own open takes no opener.
        with open(path, "rb", opener=_open_without_waiting) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return None, "$: cannot be read: it is not a regular file"
            if state.st_size > _MAX_BYTES:
                return None, f"$: cannot be read: it has {state.st_size} bytes, and {_MAX_BYTES} are the most"
            return file.read(), None
    except FileNotFoundError:
        return None, None
    except OSError as exc:
        return None, f"$: cannot be read: {exc.strerror or type(exc).__name__}"
    except ValueError:  # a NUL in the path
        return None, "$: cannot be read: not a path"


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _WITHOUT_WAITING)


def _decode(content: bytes) -> tuple[JSON, str | None]:
    """
    Return what JSON5 *content* stands for, or the one thing that is wrong with it.

    The decoder's exceptions hold all that was read so far, secrets too, so none
    of them may become the cause or context of another.
    """
    import pyjson5  # noqa: PLC0415 -- 34 ms: off the start-up path

    encoding = next((name for bom, name in _BOMS if content.startswith(bom)), None)
    if encoding is not None:
        return None, f"$: line 1, column 1: this is {encoding}; save the file as UTF-8"
    # A mark of UTF-8 is white space to JSON5, and some editors always write it.
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as exc:
        before = content[: exc.start].decode()
        wrong = content[exc.start]
        return None, f"$: {_position(before, len(before))}: byte 0x{wrong:02x} is not UTF-8; save the file as UTF-8"
    try:
        return pyjson5.decode(text, _MAX_DEPTH), None
    except pyjson5.Json5DecoderException as exc:
        return None, f"$: {_syntax_problem(text, str(exc.args[0]))}"


def _syntax_problem(text: str, saying: str) -> str:
    """Return the decoder's *saying* with line and column for an offset, and words for code points."""
    if not text.strip():
        return "line 1, column 1: the file is empty; an empty configuration is {}"
    match = _SAYING.fullmatch(saying)
    if match is None:
        return f"line 1, column 1: not JSON5: {saying}"
    offset = max(int(match["near"]) - 1, 0)
    what = match["what"]
    extra = _CODE_POINT.search(what) if what.startswith("Extra data") else None
    if extra is not None:
        found = _character(extra)
        offset = max(text.find(found, offset + 1), offset)
        return f"{_position(text, offset)}: expected the end of the file, found {found!a}"
    for word, plain in _WORDS.items():
        what = what.replace(word, plain)
    what = _NAME.sub(r"\1", _CODE_POINT.sub(lambda code: ascii(_character(code)), what))
    what = what[:1].lower() + what[1:]
    if match["found"] is None:
        return f"{_position(text, offset)}: {what}"
    # The offset is that of the token; the character that does not fit comes at it or after it.
    found = chr(int(match["found"], 16))
    offset = max(text.find(found, offset), offset)
    return f"{_position(text, offset)}: {what}, found {found!a}"


def _character(code_point: re.Match[str]) -> str:
    return chr(int(code_point[1], 16))


def _position(text: str, offset: int) -> str:
    line_start = text.rfind("\n", 0, offset) + 1
    return f"line {text.count(chr(10), 0, offset) + 1}, column {offset - line_start + 1}"

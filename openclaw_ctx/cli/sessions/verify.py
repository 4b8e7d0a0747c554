"""``openclaw-ctx sessions verify``: does a session hold what it should?"""

import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, complain, say, say_json
from openclaw_ctx.contract import Message, SessionKey
from openclaw_ctx.errors import OpenClawCtxError, TranscriptFormatError, UnknownFormatError
from openclaw_ctx.transcript import FileStore, SessionInfo, lines_of
from openclaw_ctx.transcript.checks.verify import Finding, verify_file, verify_messages
from openclaw_ctx.transcript.importers import import_session
from openclaw_ctx.transcript.stores.store import find_session
from openclaw_ctx.transcript.stores.upkeep import verify_index

from .progress import progress
from .sources import OWN_FORMAT, is_own, means_file, store_in
from .times import print_table

__all__ = ["command"]

_EXIT_WRONG, _EXIT_NO_SESSION = 1, 3
_INDEX = "(index)"
# What the check of a file finds of calls and results: of an import they are checked before they are lines.
_OF_PAIRS = ("call-", "result-", "turn-")
_RIGHT = frozenset({"ENTRIES", "MESSAGES", "ERRORS", "WARNINGS"})


@attrs.frozen(kw_only=True)
class _Checked:
    name: str
    format: str
    entries: int
    messages: int
    findings: Sequence[Finding]
    unnamed: int = 0
    unit: str = "line"  # what the findings' numbers count

    def count(self, level: str) -> int:
        return sum(finding.level == level for finding in self.findings)


@click.command("verify")
@click.argument("names", metavar="[KEY|FILE]...", nargs=-1)
@json_option
@state_option
def command(names: tuple[str, ...], as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    Check sessions or files, line by line; without a name, all sessions and the index. Nothing is changed.

    A file of another program is imported to a folder that is removed again, read
    back, and compared message by message.

    \b
    Examples:
      openclaw-ctx sessions verify
      openclaw-ctx sessions verify kitchen old/*.jsonl

    Exit codes: 0 nothing wrong, though there may be warnings; 1 something is
    wrong; 2 usage; 3 a file is no session that is known.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    store = store_in(state_dir)
    sessions = store.glance()
    checked: list[_Checked] = []
    problems: list[str] = []
    code = 0
    for name in names or [info.key for info in sessions]:
        is_file = bool(names) and means_file(name)
        try:
            with progress(name, quiet=as_json):
                checked.append(_check_file(name) if is_file else _check_session(name, sessions, store))
        except (OpenClawCtxError, OSError) as error:
            problems.append(complain(error))
            is_none = is_file and isinstance(error, UnknownFormatError | TranscriptFormatError)
            code = max(code, _EXIT_NO_SESSION if is_none else _EXIT_WRONG)
    if not names and store.folder.is_dir():
        with progress(_INDEX, quiet=as_json):
            found = verify_index(store)
        checked.append(_Checked(name=_INDEX, format="index", entries=len(sessions), messages=0, findings=found))
    if as_json:
        say_json({"checked": [_as_json(one) for one in checked], "errors": problems})
    elif checked:
        _print(checked)
    elif not problems:
        say(f"There are no sessions in {clean_text(str(store.folder))}.")
    return max(code, _EXIT_WRONG if any(one.count("error") for one in checked) else 0)


def _check_session(name: str, sessions: Sequence[SessionInfo], store: FileStore) -> _Checked:
    key = find_session(sessions, name, where=str(store.folder))
    return _check_own(name, next(info.path for info in sessions if info.key == key))


def _check_file(name: str) -> _Checked:
    path = Path(os.path.realpath(name))  # a store follows no links; whoever names one means what it leads to
    return _check_own(name, path) if is_own(path) else _check_foreign(name, path)


def _check_own(name: str, path: Path) -> _Checked:
    found = verify_file(path)
    return _Checked(
        name=name,
        format=OWN_FORMAT,
        entries=found.entries,
        messages=found.messages,
        findings=found.findings,
        unnamed=found.unnamed,
    )


def _check_foreign(name: str, path: Path) -> _Checked:
    """Import a file, write it, read it back, and say where the two differ."""
    imported = import_session(path)
    findings = [Finding(level="warning", line=None, code="skipped", text=text) for text in imported.skipped]
    findings += verify_messages(imported.messages)
    key = SessionKey("verified")
    with tempfile.TemporaryDirectory(prefix="openclaw-ctx-verify-") as folder:
        store = FileStore(Path(folder))
        info = store.create(key, lines_of(imported.messages), header={"id": imported.session_id})
        with closing(store.read(key)) as transcript:
            findings += _differences(imported.messages, transcript.record())
        findings += [one for one in verify_file(info.path).findings if not one.code.startswith(_OF_PAIRS)]
    return _Checked(
        name=name,
        format=imported.format,
        entries=len(imported.messages),
        messages=len(imported.messages),
        findings=findings,
        unit="message",
    )


def _differences(given: Sequence[Message], read: Sequence[Message]) -> list[Finding]:
    found = []
    if len(given) != len(read):
        text = f"{len(given)} messages were imported, and {len(read)} are read back."
        found.append(Finding(level="error", line=None, code="import-count", text=text))
    for number, (one, other) in enumerate(zip(given, read, strict=False), 1):
        if attrs.evolve(one, entry_id=None) != attrs.evolve(other, entry_id=None):
            text = "The message is read back otherwise than it was imported."
            found.append(Finding(level="error", line=number, code="import-differs", text=text))
    return found


def _print(checked: Sequence[_Checked]) -> None:
    rows = [
        (
            clean_text(one.name),
            one.format,
            f"{one.entries:,}",
            f"{one.messages:,}",
            str(one.count("error")),
            str(one.count("warning")),
        )
        for one in checked
    ]
    heads = ("SESSION", "FORMAT", "ENTRIES", "MESSAGES", "ERRORS", "WARNINGS")
    print_table(heads, rows, right=_RIGHT, widest=60)
    for one in checked:
        if one.findings:
            say(f"\n{clean_text(one.name)}")
        for finding in one.findings:
            where = "" if finding.line is None else f"{one.unit} {finding.line}: "
            say(f"  {finding.level}: {where}{clean_text(finding.text)} [{finding.code}]")
        if one.unnamed:
            say(f"  and {one.unnamed:,} more")


def _as_json(one: _Checked) -> dict[str, Any]:
    return {
        "session": clean_text(one.name),
        "format": one.format,
        "entries": one.entries,
        "messages": one.messages,
        "findings": [
            {"level": found.level, "line": found.line, "code": found.code, "text": clean_text(found.text)}
            for found in one.findings
        ],
        "unnamed": one.unnamed,
    }

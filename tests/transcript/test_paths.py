"""File names from keys: no two keys share a file, and none gets out of its folder."""

import os
import re
import stat
import sys
from itertools import combinations
from pathlib import Path

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.transcript import make_private_folder, safe_name

TRICKY = [
    "",
    " ",
    "a",
    "A",
    "a.",
    "a ",
    "name",
    "name.",
    "name..",
    "CON",
    "con",
    "con.txt",
    "NUL",
    "..",
    ".",
    "../x",
    "..\\x",
    "/etc/passwd",
    "C:\\x",
    "x" * 300,
    "x" * 301,
    "agent:main:main",
    "agent:main-main",
    "agent/main/main",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "İ",
    "漢字",
    "漢",
    "\ud800",
    "\udfff",
    "\U0001f600",
    "\x00",
    "a\x00",
    "a\nb",
    "a\u202eb",
    "-",
    "--rf",
    "~",
    "a:b",
    "a|b",
    "a*b",
    "%41",
]
KEYS = st.sampled_from(TRICKY) | st.text(max_size=5) | st.text(alphabet="aA.-:\ud800", max_size=3)


@settings(deadline=None)
@given(st.lists(KEYS, max_size=6))
def test_no_two_keys_share_a_name(keys: list[str]) -> None:
    """Keys that differ in case, dots, accents or length have different names, also where case is folded."""
    for one, other in [*combinations(keys, 2), *combinations(TRICKY, 2)]:
        assert (safe_name(one).casefold() == safe_name(other).casefold()) == (one == other)


@settings(deadline=None)
@given(KEYS)
def test_a_name_is_plain_and_short(key: str) -> None:
    """Lower-case letters, digits and single hyphens; room for extensions within any file system's limit."""
    name = safe_name(key)

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
    assert len(name) <= 57
    assert safe_name(key) == name


def test_a_name_is_readable() -> None:
    """People find their session by it, and it is the same on every machine."""
    assert safe_name("agent:main:Telegram-42") == "agent-main-telegram-42-962c53301e4c4b19"


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
@pytest.mark.parametrize(
    "umask", [0o000, 0o022, 0o077, 0o777], ids=["open-to-all", "usual", "strict", "nothing-for-anybody"]
)
def test_a_folder_and_its_missing_parents_are_private(tmp_path: Path, umask: int) -> None:
    """Whatever the umask; a folder that was there keeps its mode."""
    (tmp_path / "there").mkdir(mode=0o755)
    (tmp_path / "there").chmod(0o755)
    before = os.umask(umask)
    try:
        made = make_private_folder(tmp_path / "there" / "a" / "b" / "c")
        again = make_private_folder(made)
    finally:
        os.umask(before)

    assert made == again == tmp_path / "there" / "a" / "b" / "c"
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (made, made.parent, made.parent.parent)]
    assert modes == [0o700] * 3
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o755


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_a_folder_that_everybody_may_write_into_is_warned_of_once(tmp_path: Path) -> None:
    """Its mode stays, since it is not ours to change; a folder of ours, or a sticky one as /tmp is, is no news."""
    for name, mode in {"open": 0o777, "sticky": 0o1777, "private": 0o700, "readable": 0o755}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)

    with structlog.testing.capture_logs() as events:
        for folder in sorted(tmp_path.iterdir()):
            make_private_folder(folder)
            make_private_folder(folder)
            make_private_folder(folder / "below")

    path = str(tmp_path / "open")
    assert events == [{"event": "folder.exposed", "log_level": "warning", "path": path, "mode": "0777"}]
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o777


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """The operating system's own error, with the path."""
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OSError, match="file"):
        make_private_folder(tmp_path / "file" / "folder")

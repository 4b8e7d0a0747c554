"""File names from session keys: the only place where a key becomes part of a path."""

import hashlib
import os
import re
from pathlib import Path
from typing import Final

__all__ = ["make_private_folder", "safe_name"]

_SLUG_CHARS: Final = 40
_UNSAFE = re.compile(r"[^a-z0-9]+")


def safe_name(key: str) -> str:
    """
    Return a file name for any key: readable, stable, and no two keys alike.

    A slug for people and 64 bits of the key's hash. Lower case throughout and
    never a reserved word, so that it holds on file systems that fold case.
    """
    slug = _UNSAFE.sub("-", key.lower())[:_SLUG_CHARS].strip("-") or "key"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug}-{digest}"


def make_private_folder(folder: Path) -> Path:
    """Make *folder* and its parents where they are missing, readable by this user alone; return it."""
    if not folder.is_dir():
        if not folder.parent.is_dir():
            make_private_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)
        os.chmod(folder, 0o700)  # noqa: PTH101 -- mkdir's mode passes the umask
    return folder

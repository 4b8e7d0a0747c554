"""Sessions by key: what a store promises, and the ones that keep it."""

from .base import StoreBase
from .file_store import FileStore
from .memory_store import MemoryStore
from .store import Archive, ArchiveReason, Rotation, SessionInfo, SessionStore
from .whole_file import header_of

__all__ = [
    "Archive",
    "ArchiveReason",
    "FileStore",
    "MemoryStore",
    "Rotation",
    "SessionInfo",
    "SessionStore",
    "StoreBase",
    "header_of",
]

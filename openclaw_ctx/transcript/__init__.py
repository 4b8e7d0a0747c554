"""What a session is on disk, and how to read other programs' sessions."""

from .entry import Entry, decode_json, encode_json
from .header import iso_time, new_session_id
from .history import History
from .lines import Line, lines_as_read, lines_of
from .lock import WriterLock
from .pairing import CUT_OFF, PairRepair, pairs_are_whole, repair_pairs
from .paths import make_private_folder, replace_file, safe_name
from .repair import Repair, repair_message, repair_messages
from .rewrite import rewrite
from .stores.file_store import FileStore
from .stores.memory_store import MemoryStore
from .stores.store import Archive, ArchiveReason, Rotation, SessionInfo, SessionStore
from .stores.whole_file import header_of
from .transcript import Transcript
from .tree import parents_of

__all__ = [
    "CUT_OFF",
    "Archive",
    "ArchiveReason",
    "Entry",
    "FileStore",
    "History",
    "Line",
    "MemoryStore",
    "PairRepair",
    "Repair",
    "Rotation",
    "SessionInfo",
    "SessionStore",
    "Transcript",
    "WriterLock",
    "decode_json",
    "encode_json",
    "header_of",
    "iso_time",
    "lines_as_read",
    "lines_of",
    "make_private_folder",
    "new_session_id",
    "pairs_are_whole",
    "parents_of",
    "repair_message",
    "repair_messages",
    "repair_pairs",
    "replace_file",
    "rewrite",
    "safe_name",
]

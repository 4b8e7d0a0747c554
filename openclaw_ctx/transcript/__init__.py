"""What a session is on disk, and how to read other programs' sessions."""

from .entry import Entry, decode_json, encode_json
from .file_store import Transcript, new_session_id
from .history import History
from .lock import WriterLock
from .pairing import PairRepair, pairs_are_whole, repair_pairs
from .paths import make_private_folder, replace_file, safe_name
from .rewrite import rewrite

__all__ = [
    "Entry",
    "History",
    "PairRepair",
    "Transcript",
    "WriterLock",
    "decode_json",
    "encode_json",
    "make_private_folder",
    "new_session_id",
    "pairs_are_whole",
    "repair_pairs",
    "replace_file",
    "rewrite",
    "safe_name",
]

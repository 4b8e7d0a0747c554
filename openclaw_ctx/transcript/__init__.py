"""What a session is on disk, and how to read other programs' sessions."""

from .entry import Entry, decode_json, encode_json
from .history import History
from .lock import WriterLock
from .pairing import PairRepair, pairs_are_whole, repair_pairs
from .paths import make_private_folder, replace_file, safe_name
from .repair import Repair, repair_message, repair_messages
from .rewrite import rewrite
from .transcript import Transcript, new_session_id

__all__ = [
    "Entry",
    "History",
    "PairRepair",
    "Repair",
    "Transcript",
    "WriterLock",
    "decode_json",
    "encode_json",
    "make_private_folder",
    "new_session_id",
    "pairs_are_whole",
    "repair_message",
    "repair_messages",
    "repair_pairs",
    "replace_file",
    "rewrite",
    "safe_name",
]

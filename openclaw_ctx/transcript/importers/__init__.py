"""Recorded sessions of other programs, as messages of the contract."""

from .formats import ENTRY_POINT_GROUP, FORMATS, import_session
from .session import ImportedSession, Importer

__all__ = ["ENTRY_POINT_GROUP", "FORMATS", "ImportedSession", "Importer", "import_session"]

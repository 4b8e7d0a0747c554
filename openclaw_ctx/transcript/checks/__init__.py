"""What is wrong with a session file, and a copy of it without that."""

from .mend import Mended, mend_file
from .verify import CODES, Finding, Verification, verify_file, verify_messages

__all__ = ["CODES", "Finding", "Mended", "Verification", "mend_file", "verify_file", "verify_messages"]

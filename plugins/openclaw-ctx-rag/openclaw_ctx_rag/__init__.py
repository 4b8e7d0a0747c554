"""
A context engine that brings back the part of the history that matters for the question.

Every message is indexed as it is ingested; a prompt holds the newest turns, and
before them what was found for the incoming question, in the order in which it
was said.
"""

from .config import RagConfig
from .engine import RagEngine

__all__ = ["RagConfig", "RagEngine"]

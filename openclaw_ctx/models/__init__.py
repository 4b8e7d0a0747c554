"""Who writes a summary. For now without any model; providers come with the runtime."""

from .extractive import HEADING, summarize_extractively

__all__ = ["HEADING", "summarize_extractively"]

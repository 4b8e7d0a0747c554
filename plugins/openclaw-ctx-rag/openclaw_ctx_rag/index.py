"""
What an index of one session must do, whatever keeps it.

A message has a *number*: its position in the order of the conversation, from 0.
Numbers are given once; what left the branch keeps its number and is not found.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from .documents import Document

__all__ = ["ROLES", "Facts", "Filter", "HistoryIndex", "Hit", "IndexDamagedError", "Vectors"]

ROLES: Final = ("user", "assistant", "tool", "other")
"""By the number that stands for them."""

Vectors: TypeAlias = NDArray[np.float32]
"""Rows of unit length: (messages, dimensions)."""


class IndexDamagedError(RuntimeError):
    """A file is no index, or no whole one, or one of another format: it is made anew from the transcript."""


@attrs.frozen(kw_only=True)
class Hit:
    """A message that was found, and how well it fits; scores of one search compare with each other only."""

    number: int
    score: float


@attrs.frozen(kw_only=True)
class Filter:
    """Bounds a search: milliseconds since the epoch, from *since* to before *until*; a role."""

    since: float | None = None
    until: float | None = None
    role: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class Facts:
    """
    What is known of every message, by number; not to be written to.

    Attributes:
        tokens: What it costs in a prompt.
        group: The number of the first message of its tool group, or its own.
        timestamp: Milliseconds since the epoch; 0: unknown.
        role: By its number in :data:`ROLES`.
        active: Whether it is on the branch.
        digest: Equal where the texts are.
    """

    tokens: NDArray[np.uint32]
    group: NDArray[np.uint32]
    timestamp: NDArray[np.float64]
    role: NDArray[np.uint8]
    active: NDArray[np.bool_]
    digest: NDArray[np.uint64]


class HistoryIndex(Protocol):
    """One session's index. Used from one thread at a time."""

    def __len__(self) -> int:
        """Return how many messages there are, on all branches."""

    def newest(self) -> str | None:
        """Return the entry id of the newest message on the branch."""

    def add(self, documents: Sequence[Document]) -> int:
        """Append messages, all or none; those that are there already are passed over. Return how many were new."""

    def number_of(self, entry_id: str) -> int | None:
        """Return the number of an entry."""

    def entry_ids(self) -> list[str]:
        """Return the entry ids, by number."""

    def set_active(self, numbers: Sequence[int] | NDArray[Any], *, active: bool) -> None:
        """Say which messages are on the branch: others are neither found nor counted."""

    def facts(self) -> Facts:
        """Return what is known of every message."""

    def search(
        self,
        query: str,
        *,
        vector: Vectors | None = None,
        limit: int = 2_048,
        only: Filter | None = None,
        by_cost: bool = True,
    ) -> list[Hit]:
        """
        Return the messages that fit *query* best, the best first.

        Args:
            query: Any text.
            vector: The query's, one row without its axis; ``None``: by words alone.
            limit: At most so many.
            only: Nothing else is found.
            by_cost: Whether a dear message must fit better than a cheap one.
        """

    def find_literal(self, text: str, *, limit: int, only: Filter | None = None) -> list[int]:
        """Return the newest messages that hold *text* as it stands."""

    def read(self, numbers: Sequence[int]) -> list[tuple[str, bytes]]:
        """Return entry id and JSON of the messages of these numbers."""

    def texts(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """Return author, date and text of these numbers."""

    def without_vector(self, limit: int) -> list[int]:
        """Return messages on the branch that have no vector yet, the oldest first."""

    def set_vectors(self, numbers: Sequence[int], vectors: Vectors) -> None:
        """Keep the vectors of these numbers."""

    def embedder(self) -> str | None:
        """Return whose vectors these are."""

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Say whose vectors will come; those of another are dropped."""

    def note(self) -> str | None:
        """Return what was kept by :meth:`set_note`."""

    def set_note(self, text: str) -> None:
        """Keep a text of the caller's with the index."""

    def tidy(self, seconds: float) -> bool:
        """Put in order what quick writing has left, for about so long; return whether more is to do."""

    def rebuild(self) -> None:
        """Forget everything."""

    def close(self) -> None:
        """Let go of the file."""

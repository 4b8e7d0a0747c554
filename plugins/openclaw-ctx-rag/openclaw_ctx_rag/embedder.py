"""What turns text into vectors must do, and what a vector must be."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import attrs
import numpy as np
from numpy.typing import ArrayLike

from .index import Vectors

__all__ = ["Embedder", "EmbedderError", "Fault", "as_unicode", "unit_rows"]

Fault: TypeAlias = Literal["passing", "input", "setup"]
"""
Why texts have no vectors: ``passing`` (the same may work later), ``input`` (one of these texts
is not taken), ``setup`` (nothing works until somebody changes something).
"""


@attrs.define(eq=False)
class EmbedderError(RuntimeError):
    """
    Texts have no vectors.

    Attributes:
        reason: One sentence; without secrets and without foreign text.
        fault: What may help.
        wait_seconds: How long the other side asked to be left alone.
    """

    reason: str
    fault: Fault = "passing"
    wait_seconds: float | None = None

    def __str__(self) -> str:
        return self.reason


class Embedder(Protocol):
    """Turns texts into vectors. Not bound to an event loop, which it never holds up."""

    @property
    def name(self) -> str:
        """
        Return what the vectors are: those of equal names compare with each other.

        May be known in full only when a first vector is there.
        """

    @property
    def dimensions(self) -> int:
        """Return how long a vector is; 0 while that is not known, which it is once a first vector is there."""

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """
        Return a vector for every text, in their order: finite rows of unit length.

        Any text has one, the empty text too.

        Args:
            texts: Any number.
            urgent: Somebody waits: goes before what is not urgent, and is not tried again.

        Raises:
            EmbedderError: There is none for one of them, and so for none.
        """

    async def close(self) -> None:
        """Let go of what is held; what is still asked for is cancelled."""


def as_unicode(text: str) -> str:
    """Return a text that can be encoded: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def unit_rows(rows: ArrayLike, count: int) -> Vectors:
    """
    Return *count* rows at unit length.

    Raises:
        EmbedderError: They are not as many, not numbers, not finite, or one has no direction.
    """
    try:
        vectors = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = "The vectors are not rows of numbers of one length."
        raise EmbedderError(msg) from None
    if vectors.ndim != 2 or vectors.shape[0] != count or vectors.shape[1] == 0:  # noqa: PLR2004 -- rows and columns
        msg = f"{count} vectors were asked for, and what came has the shape {vectors.shape}."
        raise EmbedderError(msg)
    if not np.isfinite(vectors).all():
        msg = "A vector holds what is no finite number."
        raise EmbedderError(msg, "input")
    # By the largest part first: the square of a large finite number is not finite.
    vectors = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not lengths.all():
        msg = "A vector has no direction."
        raise EmbedderError(msg, "input")
    units: Vectors = (vectors / lengths).astype(np.float32)
    return units

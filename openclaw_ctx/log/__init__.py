"""What may be shown of foreign text, and how events are logged."""

from .clean import (
    clean_text,
    describe_error,
    trace_error,
)
from .events import (
    Logger,
    configure_console,
    get_logger,
)
from .mask import (
    mask_data,
    mask_secrets,
    remember_secret,
)

__all__ = [
    "Logger",
    "clean_text",
    "configure_console",
    "describe_error",
    "get_logger",
    "mask_data",
    "mask_secrets",
    "remember_secret",
    "trace_error",
]

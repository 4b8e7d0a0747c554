"""The providers' own packages, which are extras, and the keys that they want."""

import importlib
import importlib.util
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from openclaw_ctx.errors import ModelAuthError
from openclaw_ctx.log import remember_secret

__all__ = ["find_key", "http_failures", "load_package", "timeouts"]

_NONE_NEEDED: Final = "none"
_CONNECT_SECONDS: Final = 10.0


def load_package(name: str) -> ModuleType:
    """
    Import a provider's package, whose name is that of its extra.

    Raises:
        ImportError: It is not installed; the message says how to get it.
    """
    if importlib.util.find_spec(name) is None:
        message = f"This model needs the extra {name!r}: pip install 'openclaw-ctx[{name}]'."
        raise ImportError(message, name=name)
    return importlib.import_module(name)


def http_failures(sdk: Any) -> tuple[type[BaseException], ...]:
    """Return what the HTTP library below *sdk* raises, which is what a stream that is cut may come as."""
    # Its name has changed, and may again; whose client the package's own is built on tells it.
    bases = (base.__module__.partition(".")[0] for base in sdk.DefaultAsyncHttpxClient.__mro__)
    library = importlib.import_module(next(name for name in bases if name.startswith("httpx")))
    return (library.RequestError, library.StreamError)


def timeouts(sdk: Any, seconds: float) -> Any:
    """Return the package's form of a wait for each byte; for a connection nobody waits long."""
    return sdk.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))


def find_key(given: str | None, variables: Sequence[str], *, keyless: bool, provider: str, model: str) -> str:
    """
    Return the key to send, and mask it from now on wherever foreign text holds it.

    Args:
        given: The caller's.
        variables: Where the environment may have it, first come, first served.
        keyless: Whether the endpoint may need none.
        provider: Named in the error.
        model: Named in the error.

    Raises:
        ModelAuthError: There is none, and one is needed.
    """
    key = given if given is not None else next((os.environ[name] for name in variables if os.environ.get(name)), None)
    if key is None and not keyless:
        said = f"no key was given: pass api_key, or set {' or '.join(variables)}"
        raise ModelAuthError(provider, model, said)
    if key:
        remember_secret(key)
    return key or _NONE_NEEDED

"""An engine's own configuration, structured by the class that its author declared."""

from typing import Any

from openclaw_ctx.contract import JSON, thaw
from openclaw_ctx.errors import ConfigError

from .structure import ExpectedError, make_strict

__all__ = ["structure_engine_config"]


def structure_engine_config(config: JSON, config_class: type, *, engine_id: str) -> Any:
    """
    Return ``plugins.entries.<id>.config`` as an instance of *config_class*, an attrs class.

    Keys are the class's field names; a key that it does not have is a problem.

    Raises:
        ConfigError: With every problem. Values are not quoted: they may be secrets.
    """
    from cattrs import BaseValidationError, Converter, transform_error  # noqa: PLC0415 -- 23 ms: off the start-up path

    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    make_strict(converter)
    path = f"$.plugins.entries.{engine_id}.config"
    try:
        return converter.structure(thaw(config), config_class)
    except BaseValidationError as error:
        raise ConfigError(path, transform_error(error, path, format_exception=_expectation)) from None


def _expectation(error: BaseException, _kind: type | None) -> str:
    if isinstance(error, ExpectedError):
        return f"expected {error}"
    if isinstance(error, KeyError):
        return f"required key {error.args[0]!r} is missing"
    # cattrs names the extra keys, attrs' validators what they wanted; neither quotes more than that.
    return str(error) if type(error).__name__ == "ForbiddenExtraKeysError" else type(error).__name__

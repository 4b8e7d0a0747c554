"""What every test here begins with."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def _plain_logging() -> None:
    """Events go to the standard library's logger, as in a program that has set up nothing; an earlier test may have."""
    structlog.reset_defaults()

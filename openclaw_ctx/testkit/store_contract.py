"""
Every promise of a store of sessions, as tests for whoever writes one.

::

    from openclaw_ctx.testkit import StoreContract


    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path / "sessions.db")

        def reopen(self, store):
            return MyStore(store.path)

Each test opens what it needs of an empty store, and closes it again.
"""

import pytest

# Else a promise that is broken would say that it is, and not with which values.
pytest.register_assert_rewrite(
    "openclaw_ctx.testkit.session_promises",
    "openclaw_ctx.testkit.succession_promises",
    "openclaw_ctx.testkit.transcript_promises",
)

from .session_promises import SessionPromises  # noqa: E402 -- as above
from .succession_promises import SuccessionPromises  # noqa: E402 -- as above

__all__ = ["StoreContract"]


class StoreContract(SessionPromises, SuccessionPromises):
    """
    Inherit, and give a fixture ``store`` that returns an empty store of yours.

    Override ``reopen`` where what is stored outlives the store object: it returns
    another store over the same data.
    """

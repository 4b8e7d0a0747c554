"""Interim: identifiers in messages."""
# ruff: noqa: ARG001, D103 -- the simplest that does, until the thorough one takes its place

from collections.abc import Sequence

from openclaw_ctx.contract import Message


def find_identifiers(messages: Sequence[Message]) -> tuple[str, ...]:
    return ()

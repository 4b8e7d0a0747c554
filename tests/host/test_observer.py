"""Who watches the calls cannot end one."""

import logging

from openclaw_ctx.host import HookCall
from tests.host.guarded import HISTORY, Plain, call, guard_of, records_of


async def test_an_observer_that_raises_ends_no_turn(caplog):
    """The call's answer is the engine's; the observer is told of every call, and its failure is logged once."""
    told: list[HookCall] = []

    def observe(hook: HookCall) -> None:
        told.append(hook)
        message = "the dashboard is gone"
        raise RuntimeError(message)

    guard = guard_of(Plain, observe=observe)
    with caplog.at_level(logging.WARNING):
        answers = [await call(guard, "assemble") for _ in range(3)]
    await guard.close()

    assert [answer.value.messages for answer in answers] == [HISTORY] * 3
    assert {answer.serving.engine_id for answer in answers} == {"engine"}
    assert len(told) == 3
    assert records_of(guard) == []
    assert [record.message.split()[0] for record in caplog.records] == ["observer.failed"]
    assert "the dashboard is gone" in caplog.text

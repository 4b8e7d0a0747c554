"""Subagents by plain calls."""

import pytest

from openclaw_ctx import AssembleResult, CompactResult, EngineInfo, IngestResult, ScriptedModel, blocking, hookimpl
from tests.blocking.hosts import opened


class Listener:
    """Keeps how subagents ended."""

    info = EngineInfo(id="listener", name="Listener")

    def __init__(self, ended):
        self.ended = ended

    @hookimpl
    def ingest(self):
        """Take it."""
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        """Show it."""
        return AssembleResult(messages=messages, estimated_tokens=1)

    @hookimpl
    def compact(self):
        """Keep it."""
        return CompactResult(ok=True, compacted=False, reason="nothing to do")

    @hookimpl
    def on_subagent_ended(self, child_session_key, reason):
        """Note it."""
        self.ended.append((child_session_key, reason))


def family(folder, ended, script=()):
    """Open a host whose engine keeps how subagents ended."""
    return opened(folder, "listener", engines={"listener": lambda _: Listener(ended)}, model=ScriptedModel(script))


def test_a_child_does_its_part_and_ends_with_its_block(tmp_path):
    """``completed``, or ``released`` where the block fails; it is a session, whose parent is as it was."""
    ended = []
    with family(tmp_path, ended, ["yes", "part done"]) as host, host.session("agent:main:main") as chat:
        chat.run("hello")
        with chat.spawn(context_mode="fork") as child:
            assert isinstance(child, blocking.Session)
            assert (child.parent_key, child.context_mode, child.note) == (chat.key, "fork", None)
            assert child.run("do it").text == "part done"
        with pytest.raises(KeyError), chat.spawn() as dropped:
            raise KeyError
        assert len(chat.history) == 2

    assert sorted(ended) == sorted([(child.key, "completed"), (dropped.key, "released")])


def test_a_child_outlives_no_host_and_may_be_ended_again(tmp_path):
    """Closing what is closed does nothing."""
    ended = []
    with family(tmp_path, ended) as host:
        child = host.session("agent:main:main").spawn(ttl_seconds=600)
    child.end("deleted")
    child.close()

    assert ended == [(child.key, "released")]

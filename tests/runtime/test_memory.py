"""What a memory is asked with."""

from pathlib import Path

from openclaw_ctx.contract import SessionId, SessionKey
from openclaw_ctx.runtime.memory import Memory, MemoryFacts
from openclaw_ctx.runtime.notes import NotesMemory


def test_a_run_that_says_no_more_has_no_tools_and_wants_sources_as_they_come():
    """Only the session and its workspace have to be named."""
    facts = MemoryFacts(session_key=SessionKey("k"), session_id=SessionId("s"), workspace_dir=Path("w"))

    assert (facts.available_tools, facts.citations_mode) == (frozenset(), None)


async def test_the_built_in_keeps_the_protocol(tmp_path):
    """It serves wherever a memory is taken; the type checker reads this too."""
    memory: Memory = NotesMemory(tmp_path)
    facts = MemoryFacts(session_key=SessionKey("k"), session_id=SessionId("s"), workspace_dir=tmp_path)

    assert await memory.prompt_sections(facts) == ()
    assert [tool.name for tool in memory.tools(facts)] == ["memory_append"]

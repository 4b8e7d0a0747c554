"""What a memory is asked with, and that the built-in one keeps the protocol."""

from openclaw_ctx.contract import SessionId, SessionKey
from openclaw_ctx.runtime.memory import Memory, MemoryFacts
from openclaw_ctx.runtime.notes import NotesMemory


async def test_the_built_in_keeps_the_protocol(tmp_path):
    """It serves wherever a memory is taken: nothing to say before the first note, and one tool to write it with."""
    memory: Memory = NotesMemory(tmp_path)
    facts = MemoryFacts(
        session_key=SessionKey("k"),
        session_id=SessionId("s"),
        workspace_dir=tmp_path,
        available_tools=frozenset(),
        citations_mode=None,
    )

    assert await memory.prompt_sections(facts) == ()
    assert [tool.name for tool in memory.tools(facts)] == ["memory_append"]

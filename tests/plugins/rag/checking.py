"""What a session's index holds, and what it should; turns as a tool-using agent has them."""

from pathlib import Path

from openclaw_ctx import (
    AssistantMessage,
    Message,
    Prompt,
    Session,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import pairs_are_whole
from openclaw_ctx_rag.documents import is_searched
from openclaw_ctx_rag.sqlite_index import SqliteIndex
from tests.plugins.rag.talks import MAY, host_with_rag

__all__ = ["FILLER", "asked", "call", "indexed", "long_talk", "result", "say", "searched"]

FILLER = [(f"What of topic number {n}?", f"Topic {n} is as usual, nothing to tell of it today.") for n in range(40)]


def call(*numbers: int, text: str = "I look.", **arguments: str) -> AssistantMessage:
    """Return an assistant message that calls a tool once for each number."""
    calls = [ToolCallBlock(id=f"c{n}", name="read_file", arguments=arguments or {"path": f"m{n}.py"}) for n in numbers]
    return AssistantMessage(content=(TextBlock(text=text), *calls), timestamp=MAY, stop_reason="toolUse")


def result(number: int, text: str) -> ToolResultMessage:
    """Return what the tool gave back."""
    return ToolResultMessage(tool_call_id=f"c{number}", tool_name="read_file", content=text, timestamp=MAY)


async def say(session: Session, *messages: Message) -> list[Message]:
    """Append messages and hand them over as a turn."""
    said = [await session.append(message) for message in messages]
    await session.end_turn()
    return said


async def long_talk(folder: Path, number: int) -> None:
    """Write a session of *number* messages that the engine has never met."""
    async with host_with_rag(folder) as host, host.session("talk") as session:
        for n in range(number // 2):
            await session.append(UserMessage(content=f"question {n} word{n % 97}", timestamp=MAY + n))
            answer = f"answer {n} other{n % 89}"
            await session.append(AssistantMessage(content=answer, timestamp=MAY + n, stop_reason="stop"))


def indexed(folder: Path) -> list[str]:
    """Return the entry ids that the only index in *folder* holds on the branch, in its order."""
    (path,) = folder.rglob("session-*.sqlite")
    index = SqliteIndex.open(path)
    try:
        active = index.facts().active
        return [entry_id for number, entry_id in enumerate(index.entry_ids()) if active[number]]
    finally:
        index.close()


def searched(session: Session) -> list[str]:
    """Return the entry ids of what is to be found on the session's branch, in the order of the conversation."""
    return [str(message.entry_id) for message in session.transcript.record() if is_searched(message)]


async def asked(session: Session, prompt: str, *, budget: int) -> Prompt:
    """Return a prompt of the engine's own that costs no more than it may and needed no mending."""
    made = await session.assemble(budget=budget, prompt=prompt)
    assert made.substitution is None
    assert made.engine == "rag"
    assert made.repairs == ()
    assert pairs_are_whole(made.messages)
    assert made.estimated_tokens <= budget
    return made

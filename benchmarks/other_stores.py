"""Sessions in what others keep them in: a database, and a file that is written anew."""

import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from openclaw_ctx import Transcript

from .history import as_langchain, as_openai_item, conversation
from .measure import NOT_INSTALLED, Row, Sample, import_peer, in_turn, seconds_each
from .sessions_on_disk import appending, write_transcript

__all__ = ["beside_others"]

_KEY = "conversation"
_DATABASE = "OpenAI Agents SDK SQLiteSession, to dicts"
_FILE = "LangChain, a JSON file as FileChatMessageHistory writes it"
_BATCH = 50


async def beside_others(folder: Path, *, messages: int, rounds: int) -> AsyncIterator[Row]:
    """Yield what a reload and an append take in a session of so many messages; appends to a database are the host's."""
    path = folder / "reload.jsonl"
    write_transcript(path, messages)

    async def ours() -> float:
        began = time.perf_counter()
        transcript = Transcript.open(path)
        history = list(transcript.history)
        seconds = seconds_each(began)
        assert len(history) == messages  # noqa: S101 -- else it would be fast for nothing
        transcript.close()
        return seconds

    agents, langchain = import_peer("agents"), import_peer("langchain_core.messages")
    sides: dict[str, Sample] = {"ours": ours}
    if agents is not None:
        sides["database"] = await _database(agents, folder / "reload.sqlite3", messages)
    file = None if langchain is None else _JsonFile(langchain, folder / "reload.json", messages)
    if file is not None:
        sides["file"] = file.reload
    took = await in_turn(sides, rounds=rounds)
    work = f"reload a session of {messages:,} messages, each of them read"
    for side, peer in (("database", _DATABASE), ("file", _FILE)):
        note = "" if side in took else NOT_INSTALLED
        yield Row(work=work, ours_ms=took["ours"], peer=peer, peer_ms=took.get(side), note=note)

    with contextlib.closing(Transcript.open(path)) as transcript:
        sides = {"ours": appending(transcript, _BATCH)} | ({} if file is None else {"file": file.append})
        took = await in_turn(sides, rounds=rounds)
    work = f"append one message behind {messages:,}, acknowledged"
    note = "" if file is not None else NOT_INSTALLED
    yield Row(work=work, ours_ms=took["ours"], peer=_FILE, peer_ms=took.get("file"), note=note)


async def _database(agents: Any, path: Path, number: int) -> Sample:
    session = agents.SQLiteSession(_KEY, path)
    await session.add_items([as_openai_item(said) for said in itertools.islice(conversation(), number)])
    session.close()

    async def sample() -> float:
        began = time.perf_counter()
        reopened = agents.SQLiteSession(_KEY, path)
        items = await reopened.get_items()
        seconds = seconds_each(began)
        assert len(items) == number  # noqa: S101 -- else it would be fast for nothing
        reopened.close()
        return seconds

    return sample


class _JsonFile:
    """What langchain-community's FileChatMessageHistory does, by langchain-core: one JSON array, written anew."""

    def __init__(self, langchain: Any, path: Path, number: int) -> None:
        self._langchain = langchain
        self._path = path
        self._number = number
        self._said = (as_langchain(langchain, said) for said in conversation())
        self._write(list(itertools.islice(self._said, number)))

    async def reload(self) -> float:
        began = time.perf_counter()
        messages = self._read()
        seconds = seconds_each(began)
        assert len(messages) >= self._number  # noqa: S101 -- else it would be fast for nothing
        return seconds

    async def append(self) -> float:
        message = next(self._said)
        began = time.perf_counter()
        self._write([*self._read(), message])
        return seconds_each(began)

    def _read(self) -> list[Any]:
        messages: list[Any] = self._langchain.messages_from_dict(json.loads(self._path.read_text(encoding="utf-8")))
        return messages

    def _write(self, messages: Sequence[Any]) -> None:
        self._path.write_text(json.dumps(self._langchain.messages_to_dict(messages)), encoding="utf-8")

"""The transcript's speed: opening, the newest of a large one, a rewrite, an append, a turn's end, a whole new file."""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import attrs
import msgspec

from openclaw_ctx import Replacement, TextBlock, ToolResultMessage, Transcript
from openclaw_ctx.transcript import Entry, rewrite

from .history import as_message, conversation
from .measure import Options, Row, Sample, file_system, in_memory, in_turn, seconds_each
from .newest import newest_of_large
from .other_stores import beside_others
from .sessions_on_disk import SessionFile, appending, write_transcript
from .turns import first_prompts, turn_ends
from .whole_sessions import rotation_and_fork

__all__ = ["opening", "rows"]

_LINE_BYTES = 600
_SHORT_LINE_BYTES = 220
_REPLACED = 10


@attrs.frozen(kw_only=True)
class _Sizes:
    short: int = 1_000
    middle: int = 10_000
    long: int = 100_000
    longest: int = 1_000_000
    large: SessionFile = SessionFile(messages=200_000, size=300_000_000, longest=9_000_000, after_compaction=100)
    rounds: int = 15
    dear_rounds: int = 7
    batch: int = 200
    rewrites: int = 5

    @classmethod
    def of(cls, options: Options) -> "_Sizes":
        if not options.quick:
            return cls()
        large = SessionFile(messages=400, size=1_000_000, longest=250_000, after_compaction=100)
        few = {"rounds": 1, "dear_rounds": 1, "batch": 4, "rewrites": 1}
        return cls(short=40, middle=80, long=200, longest=400, large=large, **few)


async def rows(options: Options) -> AsyncIterator[Row]:
    """Yield the rows, in the order of the page that sets their targets."""
    if in_memory(options.folder) and not options.quick:
        note = f"refused: {options.folder} is on {file_system(options.folder)}, which is no disk; choose with --dir"
        yield Row(work="all of it", ours_ms=None, peer="any", peer_ms=None, target=1, note=note)
        return
    sizes = _Sizes.of(options)
    for works in (
        opening(options.folder, messages=sizes.long, rounds=sizes.dear_rounds),
        newest_of_large(options.folder, sizes.large, rounds=sizes.dear_rounds),
        first_prompts(options.folder, sizes.large, rounds=sizes.dear_rounds),
        _rewrites(options.folder, sizes),
        _appends(options.folder, sizes),
        turn_ends(options.folder, short=sizes.short, long=sizes.long, rounds=sizes.rounds),
        rotation_and_fork(options.folder, messages=sizes.middle, rounds=sizes.dear_rounds),
        beside_others(options.folder, messages=sizes.middle, rounds=sizes.dear_rounds),
    ):
        async for row in works:
            yield attrs.evolve(row, judged=not options.quick)


# -- opening --------------------------------------------------------------------------------------


async def opening(folder: Path, *, messages: int, rounds: int) -> AsyncIterator[Row]:
    """Yield what it takes to open a transcript of so many messages, beside the decoding of its lines."""
    path = folder / "opening.jsonl"
    write_transcript(path, messages)

    async def ours() -> float:
        began = time.perf_counter()
        transcript = Transcript.open(path)
        history = transcript.history
        seconds = seconds_each(began)
        assert len(history) == messages  # noqa: S101 -- else it would be fast for nothing
        transcript.close()
        return seconds

    def decoding(decode: Callable[[bytes], object]) -> Sample:
        async def sample() -> float:
            began = time.perf_counter()
            for line in path.read_bytes().split(b"\n"):
                if line:
                    decode(line)
            return seconds_each(began)

        return sample

    took = await in_turn(
        {
            "ours": ours,
            "same": decoding(msgspec.json.Decoder(Entry).decode),
            "plain": decoding(msgspec.json.Decoder().decode),
        },
        rounds=rounds,
    )
    work = f"open a transcript of {messages:,} messages, ready to assemble"
    same, plain = "its lines decoded by our entry decoder, dropped", "its lines decoded by msgspec to plain objects"
    yield Row(work=work, ours_ms=took["ours"], peer=same, peer_ms=took["same"], target=1.5)
    yield Row(work=work, ours_ms=took["ours"], peer=plain, peer_ms=took["plain"])


# -- writing --------------------------------------------------------------------------------------


async def _rewrites(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    shape = SessionFile(messages=sizes.middle, size=sizes.middle * _LINE_BYTES)
    rewritten, appended = _opened(folder / "rewritten.jsonl", shape), _opened(folder / "appended.jsonl", shape)
    texts = (said.text for said in conversation())
    messages = map(as_message, conversation())

    def replacements() -> list[Replacement]:
        results = (message for message in reversed(rewritten.history) if isinstance(message, ToolResultMessage))
        return [
            Replacement(entry_id=it.entry_id, message=attrs.evolve(it, content=(TextBlock(text=next(texts)),)))
            for it in itertools.islice(results, _REPLACED)
        ]

    async def ours() -> float:
        seconds = 0.0
        for _ in range(sizes.rewrites):
            wanted = replacements()
            began = time.perf_counter()
            result = rewrite(rewritten, wanted)
            seconds += seconds_each(began, sizes.rewrites)
            assert result.rewritten_entries == _REPLACED, result.reason  # noqa: S101 -- else it would be fast for nothing
        return seconds

    async def ten_appends() -> float:
        some = list(itertools.islice(messages, _REPLACED * sizes.rewrites))
        began = time.perf_counter()
        for message in some:
            appended.append(message)
        return seconds_each(began, sizes.rewrites)

    took = await in_turn({"ours": ours, "peer": ten_appends}, rounds=sizes.rounds)
    rewritten.close()
    appended.close()
    work = f"rewrite the last {_REPLACED} tool results of {sizes.middle:,} messages, acknowledged"
    note = f"the {4 * _REPLACED - 1} messages from the first of them on are written again"
    yield Row(work=work, ours_ms=took["ours"], peer="ten appends", peer_ms=took["peer"], target=20, note=note)


async def _appends(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    sides: dict[str, Sample] = {}
    with contextlib.ExitStack() as stack:
        for number in (sizes.short, sizes.long, sizes.longest):
            shape = SessionFile(messages=number, size=number * _SHORT_LINE_BYTES)
            transcript = _opened(folder / f"{number}.jsonl", shape)
            stack.callback(transcript.close)
            sides[str(number)] = appending(transcript, sizes.batch)
        took = await in_turn(sides, rounds=sizes.rounds)
    peer, peer_ms = f"behind {sizes.short:,}", took[str(sizes.short)]
    for number, target in ((sizes.long, None), (sizes.longest, 1.3)):
        work = f"append one message behind {number:,}, acknowledged"
        yield Row(work=work, ours_ms=took[str(number)], peer=peer, peer_ms=peer_ms, target=target)


def _opened(path: Path, shape: SessionFile) -> Transcript:
    shape.write(path)
    return Transcript.open(path)

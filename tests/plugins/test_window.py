"""The window engine: the newest whole turns that fit, and nothing else."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    CompactionSummaryMessage,
    EngineContext,
    Host,
    Message,
    Registry,
    Services,
    TextBlock,
    TokenCounter,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.host import discover

window = pytest.importorskip("openclaw_ctx_window", reason="openclaw-ctx-window is not installed")

# A token a character: what a law's example says is what one reads.
COUNT = TokenCounter(len)


def _engine(max_turns: int | None = None) -> Any:
    services = Services(
        transcript=None,
        delegate_compaction=None,
        complete=None,
        estimate_tokens=COUNT,
        rewrite_transcript_entries=None,
        background=None,
    )
    context = EngineContext(
        engine_id="window",
        config=window.WindowConfig(max_turns=max_turns),
        state_dir=Path("unused"),
        workspace_dir=Path("unused"),
        services=services,
    )
    return window.WindowEngine(context)


def _assemble(messages: Sequence[Message], budget: int | None, *, max_turns: int | None = None) -> AssembleResult:
    answer: AssembleResult = _engine(max_turns).assemble(messages, budget)
    return answer


# -- conversations --------------------------------------------------------------------------------

_LETTERS = st.integers(0, 6).map("x".__mul__)


@st.composite
def _turns(draw: st.DrawFn) -> list[Message]:
    """One turn: one or two user messages, then rounds of calls and their results, in any order."""
    turn: list[Message] = [UserMessage(content="u" + draw(_LETTERS)) for _ in range(draw(st.integers(1, 2)))]
    for _ in range(draw(st.integers(0, 3))):
        names = draw(st.permutations(["a", "b", "c"][: draw(st.integers(0, 3))]))
        blocks = [TextBlock(text="t" + draw(_LETTERS)), *(ToolCallBlock(id=n, name=n) for n in names)]
        turn.append(AssistantMessage(content=blocks))
        turn += [
            ToolResultMessage(content="r" + draw(_LETTERS), tool_call_id=name) for name in draw(st.permutations(names))
        ]
    return turn


@st.composite
def _conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    summary = [CompactionSummaryMessage(summary="s" * draw(st.integers(1, 8)))] if draw(st.booleans()) else []
    lead = [AssistantMessage(content="welcome")] if draw(st.booleans()) else []
    turns = draw(st.lists(_turns(), min_size=1, max_size=4))
    messages = [*summary, *lead, *(message for turn in turns for message in turn)]
    return tuple(attrs.evolve(message, entry_id=f"e{number}") for number, message in enumerate(messages))


_BUDGETS = st.integers(1, 60)
_MAX_TURNS = st.none() | st.integers(1, 3)


def _opens(messages: Sequence[Message], index: int) -> bool:
    return isinstance(messages[index], UserMessage) and not (index and isinstance(messages[index - 1], UserMessage))


def _behind_summary(messages: Sequence[Message]) -> tuple[Message, ...]:
    has_summary = bool(messages) and isinstance(messages[0], CompactionSummaryMessage)
    return tuple(messages[1:] if has_summary else messages)


# -- laws -----------------------------------------------------------------------------------------


@given(_conversations(), _BUDGETS, _MAX_TURNS)
def test_a_call_never_loses_its_results(conversation, budget, max_turns):
    """Pairs stay whole: every result directly follows the calls that it answers, each call with all of its results."""
    kept = _assemble(conversation, budget, max_turns=max_turns).messages

    for index, message in enumerate(kept):
        if isinstance(message, AssistantMessage):
            called = sorted(call.id for call in message.tool_calls)
            answers = kept[index + 1 : index + 1 + len(called)]
            assert sorted(answer.tool_call_id for answer in answers) == called
        if isinstance(message, ToolResultMessage):
            assert isinstance(kept[index - 1], AssistantMessage | ToolResultMessage)
            assert index > 0


@given(_conversations(), _BUDGETS, _MAX_TURNS)
def test_the_newest_question_and_the_newest_message_are_always_there(conversation, budget, max_turns):
    """A prompt without them answers nothing."""
    kept = _assemble(conversation, budget, max_turns=max_turns).messages

    assert kept[-1] is conversation[-1]
    assert [m for m in conversation if isinstance(m, UserMessage)][-1] in kept


@given(_conversations(), _BUDGETS, _MAX_TURNS)
def test_the_prompt_is_within_the_budget_unless_one_group_forces_it(conversation, budget, max_turns):
    """Over budget is only the newest question with the newest call and its results, which nothing can be taken from."""
    answer = _assemble(conversation, budget, max_turns=max_turns)

    assert answer.estimated_tokens == COUNT.total(answer.messages)
    if answer.estimated_tokens > budget:
        behind = _behind_summary(answer.messages)
        assert sum(isinstance(message, UserMessage) for message in behind) == 1
        assert sum(not isinstance(message, UserMessage | ToolResultMessage) for message in behind) <= 1
        assert COUNT.total(behind) > budget * 3 / 4


@given(_conversations(), _BUDGETS, _MAX_TURNS)
def test_what_is_kept_is_the_end_of_the_history_in_whole_turns(conversation, budget, max_turns):
    """A suffix that opens a turn; or, where not even the running turn fits, its question and a suffix of its groups."""
    kept = _behind_summary(_assemble(conversation, budget, max_turns=max_turns).messages)
    history = _behind_summary(conversation)
    start = len(history) - len(kept)

    if kept == history[start:]:
        assert start == 0 or _opens(history, start) or isinstance(kept[0], UserMessage)
        whole = start == 0 or _opens(history, start)
    else:
        whole = False
        assert isinstance(kept[0], UserMessage)
        assert kept[1:] == history[start + 1 :]
    if not whole:
        newest_turn = max(index for index in range(len(history)) if _opens(history, index))
        assert history.index(kept[0]) >= newest_turn
        assert COUNT.total(history[newest_turn:]) > budget - COUNT.total(
            conversation[: len(conversation) - len(history)]
        )


@given(_conversations(), _BUDGETS)
def test_one_turn_more_would_not_have_fitted(conversation, budget):
    """As many whole turns as fit: the next older one would break the budget."""
    answer = _assemble(conversation, budget)
    history, kept = _behind_summary(conversation), _behind_summary(answer.messages)
    start = len(history) - len(kept)

    if answer.estimated_tokens <= budget and start > 0:
        openings = [index for index in range(start) if _opens(history, index)]
        head = COUNT.total(answer.messages) - COUNT.total(kept)
        with_more = head + COUNT.total(history[openings[-1] :]) if openings else COUNT.total(conversation)
        assert with_more > budget


@given(_conversations(), _BUDGETS, st.integers(1, 3))
def test_no_more_turns_than_allowed(conversation, budget, max_turns):
    """``max_turns`` bounds the turns whatever the budget, and without one."""
    for limit in (budget, None):
        kept = _assemble(conversation, limit, max_turns=max_turns).messages

        assert sum(_opens(kept, index) for index in range(len(kept))) <= max_turns


@given(_conversations(), _MAX_TURNS)
def test_without_a_budget_everything_within_the_turns_stays(conversation, max_turns):
    """No budget, no limit: the host's own sequence comes back."""
    kept = _assemble(conversation, None, max_turns=max_turns).messages

    turns = sum(_opens(conversation, index) for index in range(len(conversation)))
    if max_turns is None or turns < max_turns:
        assert tuple(kept) == conversation


@given(_conversations(), _BUDGETS, _MAX_TURNS)
def test_a_summary_stays_while_it_takes_a_quarter_at_most(conversation, budget, max_turns):
    """At the head, once; dearer than a quarter it goes, unless everything fits anyway."""
    answer = _assemble(conversation, budget, max_turns=max_turns)
    first = conversation[0]
    summaries = [message for message in answer.messages if isinstance(message, CompactionSummaryMessage)]

    if not isinstance(first, CompactionSummaryMessage):
        assert not summaries
    elif COUNT(first) * 4 <= budget:
        assert summaries == [first]
        assert answer.messages[0] is first
    elif COUNT.total(conversation) > budget:
        assert not summaries


def test_a_history_that_is_only_a_summary_comes_back_once():
    """Right after a compaction nothing else may be there."""
    summary = CompactionSummaryMessage(summary="sss")

    assert tuple(_assemble((summary,), 40).messages) == (summary,)
    assert tuple(_assemble((summary,), 2).messages) == (summary,)


def test_nothing_in_nothing_out():
    """An empty history is no error of the engine's."""
    assert tuple(_assemble((), 40).messages) == ()


# -- cost -----------------------------------------------------------------------------------------


class _Counting(Sequence[Message]):
    """A history that counts how many of its messages are looked at."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self.looked_at: set[int] = set()
        self.looks = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        index = range(len(self))[index]
        self.looked_at.add(index)
        self.looks += 1
        return self._messages[index]

    def __reversed__(self) -> Iterator[Message]:
        return (self[index] for index in range(len(self) - 1, -1, -1))


@pytest.mark.parametrize("budget", [pytest.param(400, id="a-few-turns"), pytest.param(5, id="less-than-a-turn")])
def test_the_cost_does_not_grow_with_the_history(budget):
    """A hundred times the history, the same messages looked at."""

    def history(turns: int) -> _Counting:
        messages: list[Message] = []
        for _ in range(turns):
            messages += [UserMessage(content="q" * 10), AssistantMessage(content="a" * 20)]
        return _Counting(messages)

    short, long = history(100), history(10_000)
    answers = [_assemble(messages, budget) for messages in (short, long)]

    assert [len(answer.messages) for answer in answers] == [len(answers[0].messages)] * 2
    assert short.looks == long.looks < 150
    assert long.looked_at - {0} == {index + 19_800 for index in short.looked_at - {0}}


# -- at the host's ---------------------------------------------------------------------------------


def test_the_engine_is_found_by_its_metadata():
    """An installed distribution, owned by its own name."""
    found = [candidate for candidate in discover().candidates if candidate.engine_id == "window"]

    assert [candidate.owner for candidate in found] == ["plugin:openclaw-ctx-window"]


def _config(**config: Any) -> dict[str, Any]:
    return {"plugins": {"slots": {"contextEngine": "window"}, "entries": {"window": {"config": config}}}}


async def _talk(host: Host, turns: int) -> Any:
    async with host.session("talk") as session:
        for number in range(turns):
            await session.append(UserMessage(content=f"question {number}"))
            await session.append(AssistantMessage(content=f"answer {number}"))
            await session.end_turn()
        await session.append(UserMessage(content="and now?"))
        return await session.assemble(budget=10_000)


async def test_the_slot_alone_puts_the_engine_in(tmp_path: Path):
    """One config key, and its ``max_turns`` arrives."""
    async with Host.open(_config(max_turns=3), state_dir=tmp_path, registry=Registry()) as host:
        prompt = await _talk(host, turns=5)

    assert prompt.engine == "window"
    assert prompt.substitution is None
    assert [message.text for message in prompt.messages] == [
        "question 3", "answer 3", "question 4", "answer 4", "and now?",
    ]  # fmt: skip


async def test_without_the_slot_the_engine_is_not_even_imported(tmp_path: Path):
    """An installed engine that nobody selects changes nothing."""
    async with Host.open({}, state_dir=tmp_path, registry=Registry()) as host:
        prompt = await _talk(host, turns=5)

    assert prompt.engine == "legacy"
    assert len(prompt.messages) == 11


@pytest.mark.parametrize(
    "max_turns", [pytest.param(0, id="none"), pytest.param(-1, id="fewer"), pytest.param("3", id="text")]
)
async def test_a_bound_that_makes_no_sense_is_refused_and_legacy_answers(max_turns, tmp_path: Path):
    """The agent answers, and the reason names the key."""
    async with Host.open(_config(max_turns=max_turns), state_dir=tmp_path, registry=Registry()) as host:
        prompt = await _talk(host, turns=2)

    assert prompt.engine == "legacy"
    assert "max_turns" in prompt.substitution


async def test_compaction_is_not_needed_and_changes_nothing(tmp_path: Path):
    """A window leaves out; the transcript stays as it is."""
    async with Host.open(_config(), state_dir=tmp_path, registry=Registry()) as host:
        await _talk(host, turns=2)
        async with host.session("talk") as session:
            before = session.transcript.path.read_bytes()
            compacted = await session.compact(budget=10)
            after = session.transcript.path.read_bytes()

    assert compacted.engine == "window"
    assert (compacted.result.ok, compacted.result.compacted) == (True, False)
    assert after == before

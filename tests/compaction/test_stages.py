"""Into what a history is divided: everything once, in order, no group in two parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.compaction import stages
from openclaw_ctx.compaction.prune import plan_prune
from openclaw_ctx.compaction.stages import (
    adaptive_ratio,
    chunk_cap,
    divide,
    is_oversized,
    max_chunk_tokens,
    plan_stages,
    within,
)


def singles(costs: list[int]) -> list[range]:
    """Return a group for each message."""
    return [range(place, place + 1) for place in range(len(costs))]


@st.composite
def histories(draw):
    """Draw groups of one to three messages, and what each message costs."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=8))
    groups, start = [], 0
    for size in sizes:
        groups.append(range(start, start + size))
        start += size
    return groups, draw(st.lists(st.integers(0, 9), min_size=start, max_size=start))


def test_the_constants_are_the_reference_s():
    """Each has the value that is written."""
    assert (stages.BASE_CHUNK_RATIO, stages.MIN_CHUNK_RATIO, stages.SAFETY_MARGIN) == (0.4, 0.15, 1.2)
    assert (stages.DEFAULT_PARTS, stages.MIN_MESSAGES_TO_SPLIT) == (2, 4)
    assert (stages.SUMMARIZATION_OVERHEAD_TOKENS, stages.OVERSIZED_SHARE) == (4096, 0.5)


@pytest.mark.parametrize(
    "costs,ratio",
    [
        pytest.param([], 0.4, id="nothing"),
        pytest.param([80], 0.4, id="a message of a tenth of the window with its margin, and less"),
        pytest.param([100], 0.4 - 0.24, id="larger messages make chunks smaller"),
        pytest.param([500], 0.15, id="down to the least"),
        pytest.param([20, 180], 0.4 - 0.24, id="the average counts"),
    ],
)
def test_large_messages_make_small_chunks(costs, ratio):
    """The share of the window falls from 0.4 to 0.15."""
    assert adaptive_ratio(costs, window=1000) == pytest.approx(ratio)


def test_a_chunk_leaves_room_for_what_is_around_it():
    """Of a window of 200,000 a chunk may have 75,904 tokens, and is filled with 63,253 by estimate."""
    assert max_chunk_tokens([100], window=200_000) == 75_904
    assert chunk_cap(75_904) == 63_253
    assert max_chunk_tokens([1], window=1000) == chunk_cap(1) == 1


@pytest.mark.parametrize("tokens,large", [(416, False), (417, True)])
def test_half_of_the_window_is_too_large(tokens, large):
    """With the margin: 417 tokens count as 500.4 of a window of 1000."""
    assert is_oversized(tokens, window=1000) is large


@pytest.mark.parametrize(
    "costs,request_tokens,plan",
    [
        pytest.param([], 0, ("single", 0), id="nothing"),
        pytest.param([9000] * 3, 99_999, ("single", 3), id="three messages are not split"),
        pytest.param([500] * 4, 99_999, ("single", 1), id="little is one chunk"),
        pytest.param([5000] * 4, 24_000, ("whole", 1), id="what fits into the window is one request"),
        pytest.param([9000] * 4, 99_999, ("split", 2), id="what does not is split in two"),
        pytest.param([9000, 1, 1, 1, 1], 99_999, ("split", 2), id="unevenly, where it has to be"),
    ],
)
def test_how_a_history_is_summarised(costs, request_tokens, plan):
    """A window of 30,000, of which an answer may take 1,000."""
    made = plan_stages(singles(costs), costs, window=30_000, request_tokens=request_tokens, answer_tokens=1000, parts=2)

    assert (made.kind, len(made.parts)) == plan


@pytest.mark.parametrize("request_tokens,kind", [(20_000, "whole"), (20_001, "split")])
def test_a_whole_request_fits_with_its_margin_and_its_answer(request_tokens, kind):
    """1.2 times the request and the answer are the window, to the token."""
    made = plan_stages(
        singles([9000] * 4), [9000] * 4, window=30_000, request_tokens=request_tokens, answer_tokens=6000
    )

    assert made.kind == kind


def test_one_group_is_not_split():
    """A call with results of any size goes in one piece."""
    made = plan_stages([range(6)], [9000] * 6, window=30_000, request_tokens=99_999, answer_tokens=0)

    assert (made.kind, made.parts) == ("single", (range(6),))


@given(drawn=histories(), most=st.integers(1, 20), parts=st.none() | st.integers(1, 4))
def test_the_law_of_division(drawn, most, parts):
    """Everything once and in order; no group parted; nothing too large but a group alone, or the last part."""
    groups, costs = drawn

    made = divide(groups, costs, most_tokens=most, most_parts=parts)

    assert [place for part in made for place in part] == list(range(len(costs)))
    starts = {group.start for group in groups}
    assert all(part.start in starts for part in made)
    assert parts is None or len(made) <= parts
    for number, part in enumerate(made):
        last_of_few = parts is not None and number == parts - 1
        assert last_of_few or sum(costs[part.start : part.stop]) <= most or len(within(groups, part)) == 1


@given(drawn=histories(), window=st.integers(1, 60), request=st.integers(0, 90), parts=st.integers(0, 4))
def test_the_law_of_stages(drawn, window, request, parts):
    """Whatever the plan, it has every message once, in order."""
    groups, costs = drawn

    made = plan_stages(groups, costs, window=window, request_tokens=request, answer_tokens=0, parts=parts, least=0)

    assert [place for part in made.parts for place in part] == list(range(len(costs)))
    assert made.kind != "split" or 2 <= len(made.parts) <= parts


@given(drawn=histories())
def test_the_groups_of_a_part_are_its_own(drawn):
    """Counted from the part's start, they cover it."""
    groups, costs = drawn
    for part in divide(groups, costs, most_tokens=5):
        assert [place for group in within(groups, part) for place in group] == list(range(len(part)))


@pytest.mark.parametrize(
    "kept,first",
    [
        pytest.param(0, 0, id="nothing stays"),
        pytest.param(600, 0, id="what stays takes the share and its margin"),
        pytest.param(601, 4, id="a token more, and the older half goes ahead"),
    ],
)
def test_old_history_is_summarised_ahead(kept, first):
    """A window of 1,000 of which history may take half; eight messages of 100 tokens are folded."""
    costs = [100] * 8

    assert plan_prune(singles(costs), costs, kept_tokens=kept, window=1000, share=0.5) == first


def test_halves_go_ahead_until_the_rest_fits():
    """Of 1,600 tokens the older half goes, and again the older half of the rest, until 200 are left to do."""
    costs = [100] * 16

    assert plan_prune(singles(costs), costs, kept_tokens=900, window=1000, share=0.3) == 14


@given(drawn=histories(), kept=st.integers(0, 40), window=st.integers(1, 40))
def test_the_law_of_going_ahead(drawn, kept, window):
    """It ends between two groups, and what is left fits into the share or is one group."""
    groups, costs = drawn

    first = plan_prune(groups, costs, kept_tokens=kept, window=window, share=0.5)

    assert first in {0, *(group.start for group in groups)}
    if kept <= int(window * 0.5 * 1.2):
        assert first == 0
    else:
        left = [group for group in groups if group.start >= first]
        assert sum(costs[first:]) <= max(1, window // 2) or _is_indivisible(left, costs)


def _is_indivisible(groups: list[range], costs: list[int]) -> bool:
    return len(stages.halves(groups, costs)) < 2

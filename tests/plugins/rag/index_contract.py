"""What every index of a session promises, whatever keeps it: a backend's tests inherit :class:`IndexContract`."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("openclaw_ctx_rag", reason="openclaw-ctx-rag is not installed")

from openclaw_ctx_rag.documents import Document
from openclaw_ctx_rag.index import Filter, HistoryIndex
from tests.plugins.rag.slow_search import slow_search

__all__ = ["IndexContract", "document", "found_in", "talk"]

WORDS = ("apple", "tree", "trees", "the", "Caroline", "agent_id", "静默", "安装")

talks = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), min_size=1, max_size=24)
questions = st.lists(st.sampled_from((*WORDS, "appl", "unknown")), max_size=4).map(" ".join)


def document(entry_id: str, text: str, **changes: object) -> Document:
    """Return a message; its JSON holds the text as it stands."""
    made = Document(
        entry_id=entry_id,
        group=entry_id,
        role="user",
        author="",
        timestamp=0.0,
        date="",
        text=text,
        tokens=10 + len(text),
        wire=json.dumps({"role": "user", "content": text}, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    )
    return attrs.evolve(made, **changes)


def talk(*texts: str) -> list[Document]:
    """Return messages of these texts, said by two in turn."""
    return [document(f"e{at}", text, author=("Ann", "Bo Li")[at % 2]) for at, text in enumerate(texts)]


def found_in(index: HistoryIndex, query: str) -> list[int]:
    """Return the numbers that a search finds, whatever they cost, the best first."""
    return [hit.number for hit in index.search(query, by_cost=False)]


def unit(*values: float) -> np.ndarray:
    """Return a vector of unit length."""
    vector = np.asarray(values, np.float32)
    return vector / np.linalg.norm(vector)


class IndexContract:
    """Inherit it and say how an index is opened."""

    def make(self, path: Path) -> HistoryIndex:
        """Return the index that is kept at a path, which may be new."""
        raise NotImplementedError

    @contextmanager
    def made(self, documents: Sequence[Document] = ()) -> Iterator[tuple[HistoryIndex, Callable[[], HistoryIndex]]]:
        """Give an index of *documents*, and what closes and opens it again."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "index"
            index = self.make(path)
            index.add(documents)

            def again() -> HistoryIndex:
                nonlocal index
                index.close()
                index = self.make(path)
                return index

            yield index, again
            index.close()

    def test_messages_come_back_as_they_were(self) -> None:
        """Whatever signs are in them, half of a surrogate pair and NUL included."""
        texts = ["", "plain", 'a "quote" and \\ back', "nul \0 in it", "half \ud83d of a pair", "静默\n\t\x1f", "𝄞 é"]
        documents = [document(f"{at}\ud800\0", text, author=text, date=text) for at, text in enumerate(texts)]

        with self.made(documents) as (_, again):
            index = again()

            assert index.read(range(len(texts))) == [(each.entry_id, each.wire) for each in documents]
            assert index.texts(range(len(texts))) == [(text, text, text) for text in texts]
            assert index.entry_ids() == [each.entry_id for each in documents]
            assert index.newest() == documents[-1].entry_id

    def test_messages_come_back_in_the_order_asked_for(self) -> None:
        """And as often."""
        with self.made(talk("one", "two", "three")) as (index, _):
            assert [text for _, _, text in index.texts([2, 0, 2])] == ["three", "one", "three"]

    def test_json_that_does_not_hold_the_text_comes_back_too(self) -> None:
        """As where the text was put together from parts, or is said twice."""
        documents = [
            document("a", "x y", wire=b'{"content":["x","y"]}'),
            document("b", "ab", wire=b'{"c":"ab","d":"ab"}'),
            document("c", "r", wire=b"r\xff\x00"),
        ]

        with self.made(documents) as (index, _):
            assert index.read([0, 1, 2]) == [(each.entry_id, each.wire) for each in documents]

    def test_a_known_message_is_passed_over(self) -> None:
        """Also where it comes twice at once."""
        one, two, three = talk("one", "two", "three")

        with self.made([one, two]) as (index, _):
            assert index.add([one, three, three]) == 1
            assert index.add([one, two]) == 0
            assert index.entry_ids() == ["e0", "e1", "e2"]
            assert (index.number_of("e2"), index.number_of("unknown"), len(index)) == (2, None, 3)

    def test_an_index_of_nothing_finds_nothing(self) -> None:
        """And knows of nothing."""
        with self.made() as (index, _):
            assert len(index) == 0
            assert index.newest() is None
            assert index.search("anything") == []
            assert index.find_literal("%", limit=1) == []
            assert len(index.facts().tokens) == 0

    def test_facts_are_by_number(self) -> None:
        """Groups are told by the number of their first message; an unknown first message is passed over."""
        documents = [
            document("a", "One  two", role="assistant", tokens=7, timestamp=5.5),
            document("b", "one TWO\n", role="tool", group="a"),
            document("c", "one", role="other", group="gone"),
        ]

        with self.made(documents) as (_, again):
            facts = again().facts()

        assert facts.tokens.tolist()[0] == 7
        assert facts.group.tolist() == [0, 0, 2]
        assert facts.timestamp.tolist()[0] == 5.5
        assert facts.role.tolist() == [1, 2, 3]
        assert facts.active.tolist() == [True, True, True]
        assert facts.digest[0] == facts.digest[1] != facts.digest[2]

    def test_facts_stay_as_they_were_given(self) -> None:
        """They are a value: what happens later does not change them, and nobody writes to them."""
        with self.made(talk("one", "two")) as (index, _):
            facts = index.facts()
            index.set_active([0], active=False)
            index.add([document("new", "new")])

            assert facts.active.tolist() == [True, True]
            assert index.facts().active.tolist() == [False, True, True]
            with pytest.raises(ValueError, match="read-only"):
                facts.tokens[0] = 1

    @pytest.mark.parametrize(
        "text, query",
        [
            ("so it's done", "it's"),
            ("see gateway/run.py", "gateway/run.py"),
            ("see gateway/run.py", "run.py"),
            ("mail user@host", "user@host"),
            ("take a, b", "a, b"),
            ("why?", "why?"),
            ("e=mc2", "e=mc2"),
            ("#tag", "#tag"),
            ("[x]", "[x]"),
            ("title:foo", "title:foo"),
            ("this AND that", "AND"),
            ("this NEAR that", "NEAR"),
            ("tar -x", "-x"),
            ("静默安装播客列表", "静默"),
            ("静默安装播客列表", "播客"),
            ("静默安装播客列表", "podcast 播客"),
            ("静默安装播客列表", "列"),
            ("カタカナのテスト", "テ"),
            ("한국어 문장", "국어"),
            ("path/" + "long/" * 40 + "name.py", "name.py"),
        ],
    )
    def test_what_is_plainly_there_is_found(self, text: str, query: str) -> None:
        """Punctuation breaks nothing, operators are words, and a sign or two of Chinese suffice."""
        with self.made(talk("Other things", text, "Unsaid", "Different")) as (index, again):
            assert found_in(index, query)[0] == 1
            assert found_in(again(), query)[0] == 1

    @given(query=st.text(max_size=40) | st.sampled_from(['"', "*", "%", "\\", "NOT", "(", "a OR", "\0", "\udc80"]))
    @settings(max_examples=60)
    def test_no_query_raises(self, query: str) -> None:
        """Not one of them, whether there is a word in it or not."""
        with self.made(talk("one", query, "two")) as (index, _):
            assert set(found_in(index, query)) <= {0, 1, 2}
            assert (1 in index.find_literal(query, limit=3)) == bool(query)

    def test_lengths_are_bounded(self) -> None:
        """A million signs in a message, and a hundred thousand in a query."""
        long = "word " * 100_000 + "Ab1/" * 100_000 + "x" * 100_000
        query = "begins " + "other stuff9 " * 10_000 + " ends"

        with self.made(talk(long, "it begins", "nothing", "it ends")) as (index, _):
            assert 0 in found_in(index, "word")
            assert {1, 3} <= set(found_in(index, query))
            assert index.texts([0])[0][2] == long

    @pytest.mark.parametrize("query, number", [("%", 0), ("agent_id", 2), ("\\", 4), ("0% o", 0)])
    def test_a_literal_has_no_wildcards(self, query: str, number: int) -> None:
        """One hit for each."""
        with self.made(talk("10% off", "1000", "agent_id", "agentXid", "a\\b")) as (index, _):
            assert index.find_literal(query, limit=10) == [number]

    def test_literals_come_newest_first(self) -> None:
        """As many as were asked for, on the branch."""
        with self.made(talk("%", "%", "none", "%", "%")) as (index, _):
            index.set_active([4], active=False)

            assert index.find_literal("%", limit=2) == [3, 1]
            assert index.find_literal("", limit=2) == []
            assert index.find_literal("%", limit=0) == []
            assert index.find_literal("%", limit=2, only=Filter(role="tool")) == []
            assert index.find_literal("%", limit=1, only=Filter(role="user")) in ([3], [1], [0])

    def test_what_the_words_have_nothing_to_do_with_is_not_found(self) -> None:
        """Nothing, where no message has to do with them."""
        with self.made(talk("apple", *["other"] * 300)) as (index, _):
            assert index.search("zebra") == []
            assert 300 not in found_in(index, "apple")

    def test_a_beginning_finds_where_nothing_else_does(self) -> None:
        """Of four letters and more."""
        with self.made(talk("configuration", "other", "else")) as (index, _):
            assert found_in(index, "configur")[0] == 0
            assert index.search("con") == []

    def test_a_named_author_comes_first(self) -> None:
        """Of two equal messages."""
        with self.made(talk("the tree", "the tree")) as (index, _):
            assert found_in(index, "tree, says Ann")[0] == 0
            assert found_in(index, "tree, says Bo Li")[0] == 1
            assert found_in(index, "tree, say Ann and Bo Li")[0] == 1  # the newest

    def test_cost_counts_when_it_should(self) -> None:
        """Of two equal messages the cheaper, or the newest."""
        documents = [document("a", "apple", tokens=10), document("b", "apple", tokens=900)]

        with self.made(documents) as (index, _):
            assert [hit.number for hit in index.search("apple")] == [0, 1]
            assert [hit.number for hit in index.search("apple", by_cost=False)] == [1, 0]

    @given(
        texts=talks, query=questions, active=st.lists(st.booleans(), min_size=24, max_size=24), by_cost=st.booleans()
    )
    @settings(max_examples=60)
    def test_a_search_is_what_the_formula_says(
        self, texts: list[str], query: str, active: list[bool], *, by_cost: bool
    ) -> None:
        """The same as a slow reading of it over the branch alone: what left it is neither found nor counted."""
        documents = talk(*texts)

        with self.made(documents) as (index, _):
            index.set_active([at for at in range(len(texts)) if not active[at]], active=False)
            hits = index.search(query, by_cost=by_cost)

            branch = [at for at in range(len(texts)) if active[at]]
            expected = slow_search([documents[at] for at in branch], query, by_cost=by_cost)
            assert {hit.number for hit in hits} == {branch[at] for at in expected}
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            for hit in hits:
                assert hit.score == pytest.approx(expected[branch.index(hit.number)], abs=1e-3)

    @given(talks, questions, st.lists(st.integers(1, 9), max_size=12))
    @settings(max_examples=40)
    def test_how_messages_were_handed_over_makes_no_difference(
        self, texts: list[str], query: str, sizes: list[int]
    ) -> None:
        """In one go, in slices, opened again between."""
        documents = talk(*texts)

        with self.made(documents) as (whole, _), self.made() as (sliced, again):
            at = 0
            for size in sizes:
                sliced.add(documents[at : at + size])
                at += size
            reopened = again()
            reopened.add(documents[at:])

            assert reopened.search(query) == whole.search(query)
            assert reopened.entry_ids() == whole.entry_ids()
            assert reopened.read(range(len(texts))) == whole.read(range(len(texts)))

    @given(talks, questions, st.lists(st.booleans(), min_size=24, max_size=24))
    @settings(max_examples=30)
    def test_what_returns_to_the_branch_is_found_as_before(
        self, texts: list[str], query: str, active: list[bool]
    ) -> None:
        """And what left it is not, after opening again either."""
        gone = [at for at in range(len(texts)) if not active[at]]

        with self.made(talk(*texts)) as (index, again):
            before = index.search(query)
            index.set_active(gone, active=False)
            without = index.search(query)
            reopened = again()

            assert not {hit.number for hit in without} & set(gone)
            assert reopened.search(query) == without
            reopened.set_active(np.asarray(gone, np.int64), active=True)
            assert reopened.search(query) == before

    @given(st.lists(st.tuples(st.sampled_from(["user", "tool"]), st.integers(0, 4)), max_size=20), st.data())
    @settings(max_examples=40)
    def test_a_filter_is_respected(self, messages: list[tuple[str, int]], data: st.DataObject) -> None:
        """From the one time, to before the other, of the role; what has no time is within no time."""
        role = data.draw(st.sampled_from([None, "user", "tool", "nobody"]))
        since, until = data.draw(st.tuples(*[st.none() | st.integers(0, 5).map(float)] * 2))
        documents = [
            document(f"e{at}", "apple", role=of, timestamp=float(time)) for at, (of, time) in enumerate(messages)
        ]

        with self.made(documents) as (index, _):
            hits = index.search("apple", only=Filter(role=role, since=since, until=until))

        assert sorted(hit.number for hit in hits) == [
            at
            for at, (of, time) in enumerate(messages)
            if role in (None, of)
            and (since is None or (time and time >= since))
            and (until is None or (time and time < until))
        ]

    @given(talks, questions, st.integers(-1, 5))
    @settings(max_examples=30)
    def test_a_limit_keeps_the_best(self, texts: list[str], query: str, limit: int) -> None:
        """In the same order."""
        with self.made(talk(*texts)) as (index, _):
            assert index.search(query, limit=limit) == index.search(query)[: max(limit, 0)]

    def test_a_vector_finds_what_words_do_not(self) -> None:
        """What has no vector yet is found by its words beside it."""
        with self.made(talk("apple", "pear", "engine", "motor")) as (index, again):
            index.set_embedder("small", 3)
            index.set_vectors([0, 1, 2], np.stack([unit(1, 0, 0), unit(1, 0.1, 0), unit(0, 0, 1)]))
            reopened = again()

            assert reopened.embedder() == "small"
            assert reopened.without_vector(10) == [3]
            assert reopened.search("fruit", vector=unit(0, 0.1, 1))[0].number == 2
            assert reopened.search("motor", vector=unit(0, 0, 1))[0].number in (2, 3)
            with pytest.raises(ValueError, match="3 dimensions"):
                reopened.search("fruit", vector=unit(1, 0))

    def test_what_left_the_branch_hides_no_beginning(self) -> None:
        """A word that stands only there stands nowhere."""
        with self.made(talk("window", "windowpane", "other")) as (index, _):
            index.set_active([0], active=False)

            assert found_in(index, "window")[0] == 1

    def test_what_has_no_vector_stands_in_the_middle(self) -> None:
        """Neither above what has one nor below."""
        with self.made(talk(*["word"] * 300)) as (index, _):
            index.set_embedder("small", 2)
            index.set_vectors([0, *range(2, 200)], np.stack([unit(1, 0)] + [unit(-1, 0)] * 198))
            scores = {hit.number: hit.score for hit in index.search("", vector=unit(1, 0), by_cost=False)}

            assert scores[0] > 5
            assert scores[100] < scores[299] < 0.5

    def test_vectors_of_another_embedder_are_dropped(self) -> None:
        """The same one's stay."""
        with self.made(talk("one", "two", "three")) as (index, _):
            index.set_embedder("small", 2)
            index.set_vectors([1], np.stack([unit(1, 0)]))
            index.set_active([2], active=False)
            index.set_embedder("small", 2)
            assert index.without_vector(10) == [0]

            index.set_embedder("large", 3)

            assert index.without_vector(1) == [0]
            assert index.without_vector(9) == [0, 1]
            assert index.search("one", vector=unit(1, 1, 1)) == index.search("one")

    def test_numbers_that_are_not_there_are_refused(self) -> None:
        """And nothing is changed."""
        with self.made(talk("one")) as (index, _):
            index.set_embedder("small", 2)
            for ask in (
                lambda: index.read([1]),
                lambda: index.texts([-1]),
                lambda: index.set_active([0, 1], active=False),
                lambda: index.set_vectors([1], np.stack([unit(1, 0)])),
            ):
                with pytest.raises(IndexError):
                    ask()
            assert found_in(index, "one") == [0]

    def test_an_index_is_forgotten_as_a_whole(self) -> None:
        """And takes a new one."""
        with self.made(talk("one", "two")) as (index, again):
            index.set_embedder("small", 2)

            index.rebuild()

            assert (len(index), index.embedder(), index.search("one")) == (0, None, [])
            index.add(talk("two", "one"))
            assert found_in(again(), "one")[0] == 1

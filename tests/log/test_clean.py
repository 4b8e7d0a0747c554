"""Foreign text and exceptions as one harmless line."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.log import clean_text, describe_error, trace_error

HOSTILE = "\n\r\t\x00\x1b\x7f\x85\x9b\u00ad\u061c\u200b\u200d\u200e\u2028\u2029\u202e\u2066\u2069\ufeff\ud800\U000e0001"
ANY_TEXT = st.text(st.one_of(st.sampled_from(HOSTILE), st.characters()))
FORGED = "index lost\n2026-01-01 INFO all is well\x1b[2K\u2028\u202eevil\x9b1m"


@settings(deadline=None)
@given(text=ANY_TEXT, limit=st.one_of(st.none(), st.integers(0, 40)))
def test_clean_text_is_one_printable_line(text, limit):
    """B64: no control, format, separator or surrogate character passes, whatever the text."""
    shown = clean_text(text, limit=limit)

    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@settings(deadline=None)
@given(text=ANY_TEXT)
def test_clean_text_escapes_nothing_twice(text):
    """Text that passes the gate a second time stays as it was."""
    once = clean_text(text, limit=None)

    assert clean_text(once, limit=None) == once


def test_a_forged_line_is_shown_for_what_it_is():
    """B64: a line break, an ANSI code, U+2028, an override and a C1 byte in one text are written out."""
    assert clean_text(FORGED) == (r"index lost\n2026-01-01 INFO all is well\x1b[2K\u2028\u202eevil\x9b1m")


@pytest.mark.parametrize(
    "text,shown",
    [
        pytest.param("grüße, 世界 🙂", "grüße, 世界 🙂", id="letters-of-any-script-stay"),
        pytest.param("C:\\new\\table", "C:\\new\\table", id="backslashes-stay-single"),
        pytest.param("a\u200bb", r"a\u200bb", id="zero-width"),
        pytest.param("a\u3164b", r"a\u3164b", id="a-letter-that-nobody-sees"),
        pytest.param("\ud83d", r"\ud83d", id="a-lone-surrogate"),
        pytest.param("\U000e0041", r"\U000e0041", id="an-invisible-tag"),
    ],
)
def test_only_what_cannot_be_seen_is_escaped(text, shown):
    """The escape names the character; the rest is left alone."""
    assert clean_text(text) == shown


def test_a_long_text_says_how_much_was_cut():
    """The note counts as part of the limit, so that a second pass changes nothing."""
    shown = clean_text("x" * 700, limit=100)

    assert shown == "x" * 82 + " [+618 characters]"
    assert clean_text(shown, limit=100) == shown


def test_a_secret_at_the_edge_of_what_is_read_is_not_shown_torn():
    """B65: of a dump only the beginning is read, and the word that the edge tears is dropped."""
    torn = "hunter2" * 2
    lead = "password='" + "x" * 99_000 + "' "

    shown = [
        clean_text(f"{lead}{'y' * (955 + shift)} https://ann:{torn}@host {'z' * 5000}", limit=5000)
        for shift in range(32)
    ]

    assert not any("hunt" in line for line in shown)


class _MuteError(Exception):
    def __init__(self, problem: BaseException | object) -> None:
        super().__init__()
        self.problem = problem

    def __str__(self) -> str:
        if isinstance(self.problem, BaseException):
            raise self.problem
        return self.problem  # type: ignore[return-value]


class _LyingText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "raw\n"

    def __getitem__(self, key: object) -> str:
        return "raw\n"


class _TrappedError(Exception):
    @property
    def __cause__(self):
        raise SystemExit(3)

    @property
    def __context__(self):
        raise SystemExit(4)


def _chained(*errors: BaseException) -> BaseException:
    for outer, inner in itertools.pairwise(errors):
        outer.__cause__ = inner
    return errors[0]


def test_no_secret_of_a_chained_exception_is_shown_and_the_chain_stays_readable():
    """B62: a quoted authorization header, a cookie and an app_secret in a cause."""
    error = _chained(
        RuntimeError("recall failed"),
        OSError('request with {"authorization": "Bearer s3cr3t-one", "accept": "*/*"} refused'),
        ValueError("cookie: sid=s3cr3t-two; theme=dark was stale"),
        KeyError("app_secret=s3cr3t-three"),
    )

    shown = describe_error(error)

    assert "s3cr3t" not in shown
    assert shown == (
        "RuntimeError: recall failed"
        ' <- caused by OSError: request with {"authorization": "[masked]", "accept": "*/*"} refused'
        " <- caused by ValueError: cookie: [masked] was stale"
        " <- caused by KeyError: 'app_secret=[masked]'"
    )
    assert clean_text(shown) == shown


def test_an_unclosed_quote_in_one_link_does_not_swallow_the_next():
    """B62: each link is masked by itself, and stays so when the whole passes the gate again."""
    error = _chained(RuntimeError("password='abc"), ValueError("it's the 'index' that is lost"))

    shown = clean_text(describe_error(error))

    assert shown == "RuntimeError: password=[masked] <- caused by ValueError: it's the 'index' that is lost"


def test_a_key_before_a_long_tail_is_masked_and_the_cause_still_shown():
    """B65: a key within the first hundred characters and a long tail; long links share the limit."""
    error = _chained(RuntimeError(f"401 for key sk-{'a1' * 12} " + "tail " * 500), ValueError("refused"))

    shown = describe_error(error)

    assert shown.startswith("RuntimeError: 401 for key [masked] tail tail")
    assert shown.endswith(" characters] <- caused by ValueError: refused")
    assert len(shown) <= 500


@settings(deadline=None)
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=8), limit=st.integers(0, 300))
def test_a_description_is_one_printable_line_within_its_limit(texts, limit):
    """B64: however many links say whatever they say."""
    shown = describe_error(_chained(*map(ValueError, texts)), limit=limit)

    assert shown.isprintable()
    assert len(shown) <= limit


def test_a_chain_names_five_links_and_says_that_there_are_more():
    """A description is bounded."""
    shown = describe_error(_chained(*(ValueError(str(number)) for number in range(7))))

    assert shown.count("ValueError") == 5
    assert shown.endswith("ValueError: 4 <- and more")


def test_a_chain_that_bites_its_tail_ends():
    """A cycle of causes is walked once."""
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__context__ = second, first

    assert describe_error(first) == "ValueError: a <- caused by ValueError: b"


def test_a_context_counts_unless_it_was_suppressed():
    """``raise ... from None`` hides what Python would hide."""
    shown, hidden = ValueError("a"), ValueError("a")
    shown.__context__ = hidden.__context__ = KeyError("k")
    hidden.__suppress_context__ = True

    assert describe_error(shown) == "ValueError: a <- caused by KeyError: 'k'"
    assert describe_error(hidden) == "ValueError: a"


def test_a_group_names_its_first_members():
    """What failed side by side is named, up to three."""
    group = ExceptionGroup("both", [ValueError("token=abc"), KeyError(), OSError("x\ny"), OSError(), OSError()])

    shown = describe_error(group)

    assert shown == (
        r"ExceptionGroup: both (5 sub-exceptions) [ValueError: token=[masked]; KeyError; OSError: x\ny; 2 more]"
    )


@pytest.mark.parametrize(
    "problem,named",
    [
        pytest.param(ValueError("no"), "ValueError", id="an-error"),
        pytest.param(SystemExit(1), "SystemExit", id="an-exit"),
        pytest.param(GeneratorExit(), "GeneratorExit", id="a-generator-exit"),
        pytest.param(RecursionError(), "RecursionError", id="a-recursion"),
        pytest.param(7, "TypeError", id="no-text-at-all"),
    ],
)
def test_an_exception_that_cannot_say_what_it_is_is_named_all_the_same(problem, named):
    """B64: foreign ``__str__`` is guarded, and the links behind it are still shown."""
    error = _chained(_MuteError(problem), ValueError("root"))

    assert describe_error(error) == (f"_MuteError: (its text cannot be read: {named}) <- caused by ValueError: root")


def test_text_that_lies_about_itself_is_read_past_its_methods():
    """A subclass of ``str`` cannot slip raw text through the gate."""
    assert clean_text(_LyingText("a\nb")) == r"a\nb"
    assert describe_error(_MuteError(_LyingText("a\nb"))) == r"_MuteError: a\nb"


def test_an_exception_with_trapped_attributes_is_described():
    """Causes are read past properties that raise."""
    assert describe_error(_TrappedError("x")) == "_TrappedError: x"


def test_the_user_can_always_interrupt():
    """Ctrl-C while a text is read is not taken for a fault of the text."""
    with pytest.raises(KeyboardInterrupt):
        describe_error(_MuteError(KeyboardInterrupt()))


def test_a_type_may_have_a_hostile_name():
    """B64: the name of an exception's type is foreign text too."""
    error = type("Evil\nINFO fine\x1b[2K", (Exception,), {})("x")

    assert describe_error(error) == r"Evil\nINFO fine\x1b[2K: x"


def test_where_an_error_was_raised_is_told_without_what_stood_there():
    """An author needs file, line and function; a source line or a value may be a secret."""

    def inner(secret: str) -> None:
        raise ValueError(secret)

    def outer() -> None:
        inner("hunter2hunter2")

    with pytest.raises(ValueError, match="hunter2") as caught:
        outer()

    where = trace_error(caught.value)

    assert [step.rpartition(" in ")[2] for step in where[-2:]] == ["outer", "inner"]
    assert all(__file__ in step for step in where)
    assert "hunter2" not in "".join(where)
    assert len(trace_error(caught.value, frames=1)) == 1

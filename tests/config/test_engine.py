"""An engine's own configuration: strict, in either spelling, and no value in a message."""

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs
import pytest

from openclaw_ctx.config import structure_engine_config
from openclaw_ctx.errors import ConfigError

PATH = "$.plugins.entries.acme.config"
SECRET = "sk-live-0123456789"  # noqa: S105 -- invented


class Colour(enum.Enum):
    """Two of them."""

    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True)
class Source:
    """A class inside another."""

    base_url: str
    retries: int = 0


def _even(_instance: object, _field: object, value: int) -> None:
    if value % 2:
        message = f"{value} is odd"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class Everything:
    """A field of each kind."""

    names: list[str] = attrs.field(factory=list)
    bare: list = attrs.field(factory=list)  # type: ignore[type-arg]
    row: tuple[str, ...] = ()
    pair: tuple[int, str] = (0, "")
    unique: set[str] = attrs.field(factory=set)
    fixed: frozenset[int] = frozenset()
    some: Sequence[int] = ()
    weights: dict[str, float] = attrs.field(factory=dict)
    sources: Mapping[str, Source] = attrs.field(factory=dict)
    ordered: list[Source] = attrs.field(factory=list)
    size: int | str = 0
    share: int | float | None = None
    path: str | list[str] = ""
    mode: Literal["fast", 1] = "fast"
    colour: Colour = Colour.RED
    inner: "list[Everything]" = attrs.field(factory=list)
    max_turns: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    api_key: str = attrs.field(default="k", validator=attrs.validators.max_len(8))
    step: int = attrs.field(default=2, validator=_even)


def _read(config: Any, cls: type = Everything) -> Any:
    return structure_engine_config(config, cls, engine_id="acme")


def _refusal(config: Any, cls: type = Everything) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        _read(config, cls)
    return caught.value


@pytest.mark.parametrize(
    "config,field,expected",
    [
        pytest.param({"names": ["a", "b"]}, "names", ["a", "b"], id="list"),
        pytest.param({"bare": [1, "a"]}, "bare", [1, "a"], id="list-of-anything"),
        pytest.param({"row": ["a"]}, "row", ("a",), id="tuple"),
        pytest.param({"pair": [1, "a"]}, "pair", (1, "a"), id="pair"),
        pytest.param({"unique": ["a", "a"]}, "unique", {"a"}, id="set"),
        pytest.param({"fixed": [1, 2]}, "fixed", frozenset({1, 2}), id="frozenset"),
        pytest.param({"some": [1]}, "some", (1,), id="sequence"),
        pytest.param({"weights": {"a": 1}}, "weights", {"a": 1.0}, id="dict"),
        pytest.param({"sources": {"a": {"base_url": "u"}}}, "sources", {"a": Source(base_url="u")}, id="mapping"),
        pytest.param({"size": 3}, "size", 3, id="union-number"),
        pytest.param({"size": "3"}, "size", "3", id="union-text"),
        pytest.param({"share": None}, "share", None, id="union-null"),
        pytest.param({"path": "a"}, "path", "a", id="union-text-not-list"),
        pytest.param({"path": ["a", "b"]}, "path", ["a", "b"], id="union-list"),
        pytest.param({"mode": 1}, "mode", 1, id="literal"),
        pytest.param({"colour": "blue"}, "colour", Colour.BLUE, id="enum"),
        pytest.param({"inner": [{"step": 4}]}, "inner", [Everything(step=4)], id="itself"),
    ],
)
def test_what_fits_becomes_what_the_field_says(config, field, expected):
    """Containers, unions, enums and classes, from plain JSON."""
    found = getattr(_read(config), field)

    assert found == expected
    assert type(found) is type(expected)


def test_a_whole_number_stays_one_where_a_fraction_would_do():
    """``int | float`` keeps 3 an int."""
    assert type(_read({"share": 3}).share) is int
    assert type(_read({"share": 0.5}).share) is float


@pytest.mark.parametrize(
    "config,problem",
    [
        pytest.param({"names": "abc"}, "names: expected a list", id="text-is-no-list"),
        pytest.param({"names": {"a": 1}}, "names: expected a list", id="an-object-is-no-list"),
        pytest.param({"bare": "abc"}, "bare: expected a list", id="text-is-no-list-of-anything"),
        pytest.param({"row": "abc"}, "row: expected a list", id="text-is-no-tuple"),
        pytest.param({"pair": [1]}, "pair: expected a list of 2", id="half-a-pair"),
        pytest.param({"unique": "abc"}, "unique: expected a list", id="text-is-no-set"),
        pytest.param({"some": {"1": 2}}, "some: expected a list", id="an-object-is-no-sequence"),
        pytest.param({"weights": [["a", 1]]}, "weights: expected an object", id="a-list-is-no-object"),
        pytest.param({"weights": {"a": True}}, "weights.a: expected a number", id="true-is-no-number"),
        pytest.param({"sources": {"a": "u"}}, "sources.a: expected an object", id="text-is-no-class"),
        pytest.param({"sources": {"a": {}}}, "sources.a.base_url: required, and missing", id="a-field-is-missing"),
        pytest.param({"names": ["a", 1]}, "names[1]: expected a string", id="an-item"),
        pytest.param({"size": 1.5}, "size: expected a whole number or a string", id="no-arm-of-a-union"),
        pytest.param({"path": ["a", 1]}, "path[1]: expected a string", id="inside-an-arm"),
        pytest.param({"mode": True}, 'mode: expected one of "fast", 1', id="true-is-not-1"),
        pytest.param({"mode": None}, 'mode: expected one of "fast", 1', id="null-is-no-choice"),
        pytest.param({"colour": "green"}, 'colour: expected one of "red", "blue"', id="no-member"),
        pytest.param({"inner": [{"step": "4"}]}, "inner[0].step: expected a whole number", id="in-itself"),
    ],
)
def test_what_does_not_fit_is_named_and_not_bent(config, problem):
    """A string is no list of letters, and a list of pairs no object."""
    assert _refusal(config).problems == [f"{PATH}.{problem}"]


def test_either_spelling_of_a_key_is_taken():
    """People paste camel case; field names are what the author documents."""
    written = {"maxTurns": 3, "sources": {"a": {"baseUrl": "u"}}}

    assert _read(written) == _read({"max_turns": 3, "sources": {"a": {"base_url": "u"}}})
    assert _read(written).max_turns == 3


def test_both_spellings_at_once_are_a_problem_beside_the_others():
    """Nobody guesses which of the two holds."""
    problems = _refusal({"maxTurns": 3, "max_turns": 4, "step": "x"}).problems

    assert problems == [
        f"{PATH}.step: expected a whole number",
        f"{PATH}: expected one of 'maxTurns' and 'max_turns', which are the same",
    ]


@pytest.mark.parametrize("key", ["maxTurns", "max_turns"])
def test_a_problem_is_told_by_the_spelling_that_was_used(key):
    """For a wrong type and for a validator's refusal alike."""
    assert _refusal({key: "3"}).problems == [f"{PATH}.{key}: expected a whole number"]
    assert _refusal({key: 0}).problems == [f"{PATH}.{key}: refused by its rule: x >= 1"]


def test_a_key_that_the_class_does_not_have_is_a_problem_with_a_hint():
    """In the place where it stands, each on a line."""
    assert _refusal({"maxTurn": 3, "ordered": [{"base_url": "u", "retry": 1}]}).problems == [
        f"{PATH}.ordered[0].retry: unknown key; did you mean 'retries'?",
        f"{PATH}.maxTurn: unknown key; did you mean 'max_turns'?",
    ]


@attrs.frozen(kw_only=True)
class Guarded:
    """Checks of every sort, each quoting the value."""

    one: str = attrs.field(default="a", validator=attrs.validators.in_(["a", "b"]))
    code: str = attrs.field(default="a", validator=attrs.validators.matches_re("[a-z]"))
    own: str = attrs.field(default="a")
    whole: str = "a"

    @own.validator
    def _check_own(self, _field: object, value: str) -> None:
        if value == SECRET:
            raise ValueError(value)

    def __attrs_post_init__(self) -> None:
        if self.whole == SECRET:
            raise LookupError(self.whole)


@pytest.mark.parametrize(
    "field,said",
    [
        pytest.param("one", ".one: refused by its rule: in_ validator with options ['a', 'b']", id="one-of-attrs"),
        pytest.param("code", ".code: refused by its rule: matches_re validator for pattern", id="a-pattern"),
        pytest.param("own", ".own: refused by its rule: _check_own", id="a-method"),
        pytest.param("whole", ": refused by the engine's own check (LookupError)", id="after-the-fields"),
        pytest.param("missing", ".missing: unknown key", id="no-field"),
    ],
)
def test_a_refusal_names_the_field_and_never_the_value(field, said):
    """Values may be secrets: neither the sentence nor an exception behind it holds one."""
    error = _refusal({field: SECRET}, Guarded)

    (problem,) = error.problems
    assert problem.startswith(f"{PATH}{said}")
    assert SECRET not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_type_that_no_json_can_become_is_told_to_the_author():
    """With the field, in a sentence, and not as a failure of the library."""

    @attrs.frozen
    class Wrong:
        turns: int
        hook: Callable[[int], int]

    (problem,) = _refusal({"turns": 1, "hook": "f"}, Wrong).problems

    assert problem.startswith(f"{PATH}.hook: no configuration can become")
    assert "The engine's author has to declare another." in problem


def test_a_dataclass_will_do():
    """The same rules, whoever made the class."""

    @dataclasses.dataclass(frozen=True)
    class Plain:
        max_turns: int

    assert _read({"maxTurns": 3}, Plain) == Plain(3)
    assert _refusal({}, Plain).problems == [f"{PATH}.max_turns: required, and missing"]

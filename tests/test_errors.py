"""The errors: one tree, each a few fields and a sentence made from them."""

import inspect
import pickle
import re

import attrs
import pytest

from openclaw_ctx import errors
from openclaw_ctx.errors import ConfigError, EngineIdTakenError, HostIncompatibleError, OpenClawCtxError

CLASSES = [getattr(errors, name) for name in errors.__all__]
WITH_FIELDS = [cls for cls in CLASSES if attrs.has(cls) and attrs.fields(cls)]
_WHOSE_FIELDS_ARE_OPTIONAL = {("HostIncompatibleError", "guidance")}


def _value(cls, field):
    """Return a value of the field's type that no sentence would hold by chance."""
    match field.type:
        case t if "float" in str(t):
            return 12.5
        case t if "int" in str(t):
            return 4711
        case t if "Sequence" in str(t):
            return (f"first {field.name}", f"second {field.name}")
        case _:
            return f"the {field.name} of {cls.__name__}"


def _make(cls):
    fields = attrs.fields(cls) if attrs.has(cls) else ()
    return cls(*(_value(cls, field) for field in fields))


def _drawn():
    """Return what the module's docstring draws: class to parent."""
    parents, path = {}, []
    for line in errors.__doc__.splitlines():
        found = re.match(r"^    (?P<indent>[│ ├└─]*)(?P<name>[A-Z]\w+Error)\b", line)
        if found:
            depth = len(found["indent"]) // 4
            path[depth:] = [found["name"]]
            parents[found["name"]] = path[depth - 1] if depth else None
    return parents


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    """Every class stands in the drawing, under the class that it derives from, and nothing else does."""
    actual = {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES}
    actual["OpenClawCtxError"] = None

    assert _drawn() == actual


def test_the_drawing_is_in_alphabetical_order_within_each_branch():
    """A new error has one place."""
    children = {}
    for name, parent in _drawn().items():
        children.setdefault(parent, []).append(name)
    leaves = [names for parent, names in children.items() if parent not in {None, "OpenClawCtxError"}]

    assert leaves
    assert all(names == sorted(names) for names in leaves)


def test_every_error_is_exported_and_the_list_is_sorted():
    """``__all__`` has every public exception that the module defines."""
    defined = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__ == errors.__name__
    ]

    assert errors.__all__ == sorted(defined)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_survives_pickle(cls):
    """It crosses to another process with every field, and says the same there."""
    error = _make(cls)

    back = pickle.loads(pickle.dumps(error))  # noqa: S301 -- ours

    assert type(back) is cls
    assert str(back) == str(error)
    if attrs.has(cls):
        assert attrs.astuple(back) == attrs.astuple(error)


@pytest.mark.parametrize("cls", WITH_FIELDS, ids=lambda cls: cls.__name__)
def test_an_errors_sentence_names_its_fields(cls):
    """Whoever reads only the sentence learns everything."""
    error = _make(cls)

    for field in attrs.fields(cls):
        value = getattr(error, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            assert str(part) in str(error), field.name


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not OpenClawCtxError], ids=lambda cls: cls.__name__)
def test_an_error_has_one_base_and_a_docstring(cls):
    """Single inheritance from our own base, and a word on when it is raised."""
    assert issubclass(cls, OpenClawCtxError)
    assert len(cls.__bases__) == 1
    assert cls.__doc__
    assert "__doc__" in vars(cls)


@pytest.mark.parametrize("cls", WITH_FIELDS, ids=lambda cls: cls.__name__)
def test_two_errors_are_not_equal(cls):
    """An exception is itself: it can be in a set, and compared by identity."""
    first, second = _make(cls), _make(cls)

    assert first != second
    assert len({first, second}) == 2


def test_an_owner_that_registers_twice_is_told_how_to_replace():
    """The same owner is not told to uninstall itself."""
    again = str(EngineIdTakenError("window", "public", "public"))
    other = str(EngineIdTakenError("window", "public", "plugin:x"))

    assert "refresh=True" in again
    assert "refresh=True" not in other
    assert "plugins.deny" in other


def test_every_problem_of_a_configuration_is_listed():
    """All at once, each on a line of its own."""
    text = str(ConfigError("openclaw.json", ["$.plugins: no object", "$.deadlines.compact: no number"]))

    assert text.split("\n") == [
        "Configuration 'openclaw.json' cannot be used:",
        "  $.plugins: no object",
        "  $.deadlines.compact: no number",
    ]


def test_a_host_without_capabilities_says_none():
    """The sentence that programs match on, to the letter."""
    error = HostIncompatibleError(
        "x", "agent-run", "Bare host", ["compact"], ["compact", "maintain"], [], "Use another."
    )

    assert str(error) == (
        'Context engine "x" cannot run operation "agent-run" on Bare host. Missing host capabilities: compact. '
        "Required capabilities: compact, maintain. Host capabilities: (none). Use another."
    )


@pytest.mark.parametrize(
    "error,way_out",
    [
        pytest.param(errors.UnknownFormatError("a.txt", ["pi"]), "--format", id="unknown-format"),
        pytest.param(errors.EngineFailedError("x", "public", "compact", "no"), "openclaw-ctx doctor", id="failed"),
        pytest.param(
            errors.EngineFailedError("x", "public", "compact", "no"), "openclaw-ctx engines release x", id="barred"
        ),
        pytest.param(errors.EngineContractError("x", ["missing info"]), "help(openclaw_ctx.EngineSpec)", id="contract"),
    ],
)
def test_an_error_says_what_to_do(error, way_out):
    """A command or a place to look, to be copied."""
    assert way_out in str(error)

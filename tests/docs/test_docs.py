"""The documentation, held against the code: what rots is found here."""

import ast
import inspect
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import attrs
import click
import pytest
from click.testing import CliRunner

import openclaw_ctx
from openclaw_ctx import Message, RuntimeContext, RuntimeSettings, UnknownMessage, errors
from openclaw_ctx.cli.main import cli
from openclaw_ctx.config import CONFIG_KEYS, DeadlineSettings
from openclaw_ctx.contract import CAPABILITIES, BootstrapReason, HostDescriptor, wire
from openclaw_ctx.contract import results as result_classes
from openclaw_ctx.host import HOOKS, NEUTRAL, REQUIRED_HOOKS
from openclaw_ctx.transcript.importers import FORMATS
from tests.docs.pages import DOCS, PAGES, REFERENCE, ROOT, anchors, blocks, links, rows, section

_HOOKS_PAGE = REFERENCE / "hooks.md"
_COMMANDS_PAGE = REFERENCE / "commands.md"
_PACKAGE = Path(inspect.getfile(openclaw_ctx)).parent


def _name(cell: str) -> str:
    """Return a cell without the marks of code."""
    return cell.replace("`", "")


def _first_cells(text: str) -> set[str]:
    """Return the first cells of all rows, a cell that names several things split."""
    return {_name(part) for row in rows(text) for part in row[0].split(", ")}


# -- hooks.md --------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_its_heading_and_exactly_its_parameters(hook):
    """A parameter that is added, or removed, shows here."""
    text = section(_HOOKS_PAGE, hook)

    documented = [_name(row[0]) for row in rows(text.split("Answers", 1)[0]) if row[0].startswith("`")]
    reasons = set(get_args(BootstrapReason)) if hook == "bootstrap" else set()

    assert [name for name in documented if name not in reasons] == list(HOOKS[hook])
    assert reasons <= set(documented)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_says_what_it_answers_and_whether_it_is_required(hook):
    """Every section opens with the one and ends with the other."""
    text = section(_HOOKS_PAGE, hook)

    opening = "Required." if hook in REQUIRED_HOOKS else "Optional"
    assert text.strip().startswith(opening)
    assert "Answers" in text


def test_every_deadline_stands_with_its_seconds_and_its_key():
    """Operation, default and key, in one row each, and no row more."""
    keys = {field.name: field.metadata["key"] for field in attrs.fields(DeadlineSettings)}
    expected = {
        (name, f"{seconds:g}", f"deadlines.{keys[name]}") for name, seconds in DeadlineSettings().seconds().items()
    }

    documented = {tuple(map(_name, row[:3])) for row in rows(section(_HOOKS_PAGE, "Deadlines"))}

    assert documented == expected


def test_every_hook_has_a_deadline_and_every_neutral_answer_is_named():
    """What is not a hook among the deadlines is the factory and the turn's end."""
    table = {_name(row[0]): row for row in rows(section(_HOOKS_PAGE, "Deadlines"))}

    assert set(HOOKS) == set(table) - {"factory", "turn_end"}
    assert all(table[hook][4] not in {"", "nothing"} for hook in NEUTRAL)


def test_every_result_class_stands_with_all_its_fields():
    """The table of results names each class of the contract, and each field."""
    table = {_name(row[0]): row[1] for row in rows(section(_HOOKS_PAGE, "Results"))}
    classes = {name: getattr(result_classes, name) for name in result_classes.__all__ if name != "PromptAuthority"}

    assert set(table) == set(classes)
    for name, cls in classes.items():
        missing = [field.name for field in attrs.fields(cls) if not re.search(rf"`{field.name}\b", table[name])]
        assert not missing, name


# -- messages.md -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cls", [cls for cls in get_args(Message) if cls is not UnknownMessage], ids=lambda c: c.__name__
)
def test_a_message_class_stands_with_its_role_and_the_wire_name_of_every_field(cls):
    """Fields that all messages have are told once, above."""
    page = REFERENCE / "messages.md"
    text = section(page, cls.__name__)

    documented = {(_name(row[0]), _name(row[1])) for row in rows(text)}
    own = {(field.name, field.wire) for field in wire._MESSAGE_FIELDS[cls]} - {("timestamp", "timestamp")}

    assert f"Role `{cls.role}`" in text
    assert documented == own
    common = {name for name in attrs.fields_dict(cls) if not name.startswith("_")} - {name for name, _ in own}
    assert common == _first_cells(section(page, "What every message has"))


def test_every_block_class_stands_with_its_type_and_its_fields():
    """Field names in Python, and on disk where they differ."""
    table = {_name(row[0]): row for row in rows(section(REFERENCE / "messages.md", "Blocks"))}

    for cls, fields in wire._BLOCK_FIELDS.items():
        row = table[cls.__name__]
        assert _name(row[1]) == wire._TYPE_OF_BLOCK[cls]
        assert all(f"`{field.name}`" in row[2] and f"`{field.wire}`" in row[2] for field in fields)
    assert set(table) == {cls.__name__ for cls in wire._BLOCK_FIELDS} | {"UnknownBlock"}


# -- config.md -------------------------------------------------------------------------------------


def test_every_configuration_key_stands_with_its_default():
    """In the order of the classes, in the file's units; no key more."""
    documented = [(_name(row[0]), json.loads(_name(row[1]))) for row in rows(section(REFERENCE / "config.md", "Keys"))]
    documented = [(key, default) for key, default in documented if "." in key]

    plain = json.loads(json.dumps([(key.key, key.default) for key in CONFIG_KEYS]))

    assert documented == [tuple(pair) for pair in plain]


# -- commands.md -----------------------------------------------------------------------------------


def _commands(group: click.Group = cli, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix}{name} ")


def test_every_command_has_its_heading_and_exactly_its_options():
    """And its argument, in the line that shows how it is called."""
    for name, command in _commands():
        text = section(_COMMANDS_PAGE, name)
        options = {
            option for p in command.params if isinstance(p, click.Option) for option in (*p.opts, *p.secondary_opts)
        }
        arguments = [p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)]

        documented = {cell for cell in _first_cells(text) if cell.startswith("-")}
        prose = " ".join(text.split())

        assert documented == options, name
        assert all(f"`openclaw-ctx {name} {argument}`" in prose for argument in arguments), name


def test_every_exit_code_that_a_help_text_promises_is_in_the_table():
    """Numbers that stand before a word in the paragraph "Exit codes" of a command's help."""
    table = {row[0] for row in rows(section(_COMMANDS_PAGE, "Exit codes"))}

    for name, command in (("", cli), *_commands()):
        promised = (command.help or "").partition("Exit codes:")[2]
        assert set(re.findall(r"\b\d+\b", promised)) <= table, name
        assert promised or name == "", name


def _shape(value: Any) -> Any:
    """Return the keys of JSON data, at every depth; lists as one of them, what depends on the data as nothing."""
    if isinstance(value, Mapping):
        return {key: _shape(item) for key, item in value.items() if key not in {"answered_by", "milliseconds"}}
    return [_shape(value[0])] if isinstance(value, list) and value else None


def _json_blocks() -> list[object]:
    return [
        pytest.param(block.comment.removeprefix("json: "), block.text, id=block.comment.removeprefix("json: "))
        for block in blocks(_COMMANDS_PAGE)
        if block.comment and block.comment.startswith("json: ")
    ]


@pytest.mark.parametrize("command,shown", _json_blocks())
def test_the_json_of_a_command_has_the_keys_that_are_shown(command, shown, monkeypatch):
    """The same keys at every depth, in the same order."""
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(cli, command.split(), standalone_mode=False)

    printed = json.loads(result.stdout)

    expected = json.loads(shown)
    for data in (printed, expected):
        data.pop("findings", None)  # what a test's own machine has
        data.pop("faults", None)
    assert json.dumps(_shape(printed)) == json.dumps(_shape(expected))


# -- errors.md -------------------------------------------------------------------------------------


def test_the_tree_of_errors_is_that_of_the_module():
    """Drawn once in ``errors.py``, shown unchanged."""
    drawn = inspect.cleandoc(errors.__doc__ or "").partition("::\n\n")[2].partition("\n\nAn error")[0]

    shown = next(block.text for block in blocks(REFERENCE / "errors.md"))

    assert shown.strip() == inspect.cleandoc(drawn).strip()


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_has_its_heading_and_its_fields(name):
    """A field is named where the error is explained."""
    text = section(REFERENCE / "errors.md", name)
    cls = getattr(errors, name)

    fields = [field.name for field in attrs.fields(cls)] if attrs.has(cls) else []

    assert [field for field in fields if f"`{field}`" not in text] == []


# -- events.md -------------------------------------------------------------------------------------


def _logged_events() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield name, level and keys of every event that the package logs."""
    for file in _PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="_log"), attr=level), args=[ast.Constant(value=str(name))]
                ):
                    yield name, level, frozenset(keyword.arg or "**" for keyword in node.keywords)
                case ast.Call(func=ast.Attribute(value=ast.Name(id="_log"))):
                    pytest.fail(f"{file.name}:{node.lineno}: an event's name is a literal")


def test_every_event_that_is_logged_stands_with_its_level_and_keys_and_no_other():
    """An event's keys are those of all its call sites together."""
    logged: dict[tuple[str, str], set[str]] = {}
    for name, level, keys in _logged_events():
        logged.setdefault((name, level), set()).update(keys)

    documented = {
        (_name(row[0]), row[1]): set(_name(row[2]).split()) for row in rows((REFERENCE / "events.md").read_text())
    }

    assert documented == logged


# -- api.md, read-a-replay.md ----------------------------------------------------------------------


def test_every_public_name_is_mentioned_in_the_reference():
    """In code marks, so that it can be searched for."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`|^#+ .*$", text, re.MULTILINE))))

    assert [name for name in openclaw_ctx.__all__ if name not in words] == []


@pytest.mark.parametrize("cls", [RuntimeSettings, RuntimeContext], ids=lambda c: c.__name__)
def test_what_an_engine_is_told_of_the_run_stands_field_by_field(cls):
    """Runtime settings and context, no field more or less."""
    assert _first_cells(section(REFERENCE / "api.md", cls.__name__)) == set(attrs.fields_dict(cls))


def test_the_table_of_capabilities_is_what_the_descriptors_say():
    """Every capability, and who has it."""
    hosts = (HostDescriptor.embedded(), HostDescriptor.codex(), HostDescriptor.cli("x"))

    table = {_name(row[0]): row[1:] for row in rows(section(REFERENCE / "api.md", "HostDescriptor"))}

    expected = {name: tuple("yes" if name in host.capabilities else "no" for host in hosts) for name in CAPABILITIES}
    assert table == expected


def test_every_format_that_can_be_replayed_is_listed():
    """By the name that ``--format`` takes."""
    documented = _first_cells(section(DOCS / "how-to" / "read-a-replay.md", "Which files"))

    assert documented == set(FORMATS)


# -- design.md -------------------------------------------------------------------------------------


def test_the_floors_that_are_drawn_are_those_that_are_enforced():
    """import-linter's layers, top floor first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    enforced = [
        sorted(room.strip().removeprefix("openclaw_ctx.") for room in layer.split("|")) for layer in contract["layers"]
    ]

    page = DOCS / "explanation" / "design.md"
    drawing = next(block.text for block in blocks(page) if block.text.startswith("7 "))
    floors = [re.match(r"(\d) +((?:\w+(?: \| )?)+)", line) for line in drawing.splitlines()]

    assert [sorted(floor[2].split(" | ")) for floor in floors if floor] == enforced
    assert [int(floor[1]) for floor in floors if floor] == list(range(len(enforced) - 1, -1, -1))


# -- every page ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_of_a_page_is_broken(page):
    """Relative links lead to a file, fragments to a heading of it; the web is not asked."""
    broken = []
    for target in links(page):
        path, _, fragment = unquote(target).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page if not path else Path(os.path.normpath(page.parent / path))
        if not file.exists() or (fragment and fragment not in anchors(file)):
            broken.append(target)

    assert broken == []


def test_every_page_of_the_documentation_can_be_reached_from_its_index():
    """The index links every page, itself excepted."""
    index = DOCS / "README.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in links(index) if "://" not in target}

    assert {page for page in PAGES if page.is_relative_to(DOCS)} - {index} <= linked

"""Engines are found by metadata alone, and no distribution hides another."""

import asyncio
import importlib.metadata
import inspect
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.errors import EngineLoadError
from openclaw_ctx.host.discovery import ENGINES_GROUP, Candidate, Discovery, discover
from openclaw_ctx.host.loading import load_factory
from tests.host.distributions import build_wheel, install_wheels

KINDS = """
import sys

class Engine:
    def __init__(self, context): ...

class Factory:
    def __call__(self, context): ...

class Holder:
    @staticmethod
    def make(context): ...

    @property
    def moody(self):
        raise RuntimeError("not today")

def make(context): ...
async def make_slowly(context): ...

factory = Factory()
nothing = None
three = 3
plain = object()
holder = Holder()
module = sys
"""

OPTIONAL = """
try:
    from acme_speedlib import turbo as make
except ImportError:
    make = None
"""

WRAPPED = """
try:
    import acme_speedlib
except ImportError as exc:
    raise RuntimeError("acme_speedlib is not there") from exc
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed plugins, good and bad; tests that change it take a copy."""
    wheels = tmp_path_factory.mktemp("wheels")
    kinds = {
        name: f"acme_kinds:{target}"
        for name, target in {
            "function": "make",
            "async": "make_slowly",
            "class": "Engine",
            "callable": "factory",
            "nested": "Holder.make",
            "none": "nothing",
            "number": "three",
            "instance": "plain",
            "other-module": "module",
            "moody": "holder.moody",
            "absent": "nowhere",
        }.items()
    }
    built = [
        build_wheel(
            wheels, "Acme.Kinds", "1.2", {"acme_kinds.py": KINDS}, {ENGINES_GROUP: {**kinds, "module": "acme_kinds"}}
        ),
        build_wheel(
            wheels,
            "acme-extras",
            "1.0",
            {
                "acme_extras/__init__.py": "",
                "acme_extras/fast.py": "from acme_speedlib import turbo as make\n",
                "acme_extras/plain.py": "def make(context): ...\n",
                "acme_extras/optional.py": OPTIONAL,
                "acme_extras/wrapped.py": WRAPPED,
                "acme_extras/typo.py": "from acme_extras.plian import make\n",
            },
            {
                ENGINES_GROUP: {
                    "fast": "acme_extras.fast:make [speed]",
                    "fast-by-all": "acme_extras.fast:make [all]",
                    "optional": "acme_extras.optional:make [speed]",
                    "plain": "acme_extras.plain:make",
                    "plain-with-extra": "acme_extras.plain:make [speed]",
                    "typo-beside-extra": "acme_extras.typo:make [speed]",
                    "wrapped": "acme_extras.wrapped:make [speed]",
                }
            },
            requires=['acme-absent; python_version >= "3"'],
            extras={"speed": ["Acme.Speedlib>=2"], "all": ["acme-extras[all,speed]"]},
        ),
        build_wheel(
            wheels,
            "acme-faulty",
            "1.0",
            {
                "acme_faulty/__init__.py": "",
                "acme_faulty/typo.py": "import jsonn\n",
                "acme_faulty/exits.py": "raise SystemExit(7)\n",
                "acme_faulty/stops.py": "raise KeyboardInterrupt\n",
                "acme_faulty/mute.py": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E\n",
                "acme_faulty/rude.py": "raise ValueError('two\\nlines and \\x1b[31m red')\n",
            },
            {
                ENGINES_GROUP: {
                    name: f"acme_faulty.{name}:make" for name in ("typo", "exits", "stops", "mute", "rude", "gone")
                }
            },
        ),
        build_wheel(
            wheels, "acme-script", "3", {"acme_script.py": ""}, {"console_scripts": {"acme": "acme_script:main"}}
        ),
    ]
    return install_wheels(built, tmp_path_factory.mktemp("site"))


@pytest.fixture
def copy(site: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    return Path(shutil.copytree(site, tmp_path / "site"))


@pytest.fixture
def importable(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder on ``sys.path``; what is imported from it is forgotten again."""
    monkeypatch.syspath_prepend(site)
    yield site
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]


def install(folder: Path, name: str, version: str, engines: dict[str, str], code: str = "") -> Path:
    """Build and install one distribution of one module into *folder*, and return its metadata."""
    module = f"{name.replace('-', '_')}.py"
    wheel = build_wheel(folder / "wheels", name, version, {module: code}, {ENGINES_GROUP: engines})
    return next(install_wheels([wheel], folder / "site").glob("*.dist-info"))


def found(path: Path | str | list[Path]) -> Discovery:
    """Discover on *path*."""
    return discover([os.fspath(entry) for entry in (path if isinstance(path, list) else [path])])


def candidate(site: Path, engine_id: str, *more: Path) -> Candidate:
    """The candidate of that id."""
    return next(one for one in found([site, *more]).candidates if one.engine_id == engine_id)


def ids(discovery: Discovery, distribution: str) -> list[str]:
    """The ids that a distribution offers."""
    return [one.engine_id for one in discovery.candidates if one.distribution == distribution]


def info(folder: Path, name: str) -> Path:
    """The metadata of a distribution in *folder*."""
    return next(folder.glob(f"{name}-*.dist-info"))


def test_every_engine_of_every_installed_distribution_is_found_with_its_owner(site):
    """A candidate says who offers it, in which version, from where, and needs what."""
    discovery = found(site)

    assert discovery.faults == ()
    assert ids(discovery, "acme-faulty") == ["exits", "gone", "mute", "rude", "stops", "typo"]
    function = candidate(site, "function")
    assert function.owner == "plugin:acme-kinds"
    assert (function.version, function.value, function.extras) == ("1.2", "acme_kinds:make", ())
    assert function.location == str(info(site, "acme_kinds"))
    assert candidate(site, "fast").extras == ("speed",)
    assert candidate(site, "module").value == "acme_kinds"


def test_candidates_are_sorted_by_id_then_distribution(copy, tmp_path):
    """Two distributions that claim one id are both listed, side by side, in an order that never changes."""
    install(tmp_path / "rival", "aaa-rival", "1", {"plain": "aaa_rival:make"})

    discovery = found([copy, tmp_path / "rival" / "site"])

    keys = [(one.engine_id, one.distribution) for one in discovery.candidates]
    assert keys == sorted(keys)
    assert [distribution for engine_id, distribution in keys if engine_id == "plain"] == ["aaa-rival", "acme-extras"]


def test_discovery_imports_neither_a_plugin_nor_a_dear_library(site):
    """Listing what is installed runs no plugin's code, and costs no import of metadata libraries."""
    program = (
        "import sys, attrs; before = set(sys.modules)\n"
        "from openclaw_ctx.host.discovery import discover\n"
        "assert len(discover().candidates) > 10\n"
        "print(*sorted(set(sys.modules) - before))"
    )

    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(Path.cwd())])},
        check=True,
        capture_output=True,
        text=True,
    )

    loaded = set(run.stdout.split())
    assert not [name for name in loaded if name.startswith("acme_")]
    assert not loaded & {"importlib.metadata", "importlib_metadata", "email", "zipfile", "packaging", "configparser"}


def test_a_missing_or_nonsensical_place_on_the_path_is_passed_over(site, tmp_path):
    """What imports pass over, discovery passes over: a folder that isn't there, a file, an object."""
    note = tmp_path / "note.txt"
    note.write_text("not an archive")

    discovery = discover([str(tmp_path / "nowhere"), str(note), None, str(site)])  # type: ignore[list-item]

    assert discovery == found(site)


def test_a_wheel_on_the_path_is_read_as_python_reads_it(tmp_path):
    """An engine in a zip file on the search path is found, and its extras are read there too."""
    files = {"acme_zipped.py": "import acme_speedlib\n"}
    engines = {ENGINES_GROUP: {"zipped": "acme_zipped:make [speed]"}}
    wheel = build_wheel(tmp_path, "acme-zipped", "1.0", files, engines, extras={"speed": ["acme-speedlib"]})

    (zipped,) = found(wheel).candidates

    assert (zipped.engine_id, zipped.distribution, zipped.version) == ("zipped", "acme-zipped", "1.0")
    assert zipped.location == str(wheel / "acme_zipped-1.0.dist-info")
    assert zipped.missing_extras() == ("speed",)


def test_a_damaged_zip_file_costs_only_what_it_holds(site, tmp_path):
    """B51: metadata that can't be unpacked is reported by its path inside the file, and the rest loads."""
    wheel = build_wheel(tmp_path, "acme-zipped", "1.0", {}, {ENGINES_GROUP: {"zipped": "acme_zipped:make"}})
    wheel.write_bytes(wheel.read_bytes().replace(b"Name: acme-zipped", b"Name: acme-zapped"))

    discovery = found([wheel, site])

    assert [(fault.kind, fault.location) for fault in discovery.faults] == [
        ("unreadable", str(wheel / "acme_zipped-1.0.dist-info"))
    ]
    assert discovery.candidates == found(site).candidates


def test_a_value_of_another_group_may_go_on_in_the_next_line(copy):
    """What configparser allows in a stranger's group does not spoil ours."""
    text = f"[stranger]\nlong =\n    more of it\n[{ENGINES_GROUP}]\ngood = acme_faulty.typo:make\n"
    (info(copy, "acme_faulty") / "entry_points.txt").write_text(text)

    discovery = found(copy)

    assert (ids(discovery, "acme-faulty"), discovery.faults) == (["good"], ())


def test_an_editable_install_beside_its_egg_info_is_one_engine(copy, tmp_path):
    """B50: the source folder's egg-info and the installed dist-info say the same thing; nobody is told of a clash."""
    source = tmp_path / "source" / "acme_extras.egg-info"
    source.mkdir(parents=True)
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme_extras\nVersion: 1.0\n")
    (source / "requires.txt").write_text("attrs\n\n[speed]\nacme-speedlib>=2\n\n[all]\nacme-extras[speed]\n")
    shutil.copy(info(copy, "acme_extras") / "entry_points.txt", source)

    discovery = found([source.parent, copy])

    assert discovery.faults == ()
    assert ids(discovery, "acme-extras") == ids(found(copy), "acme-extras")
    assert candidate(source.parent, "fast", copy).location == str(source)
    assert candidate(source.parent, "fast-by-all", copy).missing_extras() == ("all",)


def test_of_two_versions_with_different_targets_the_first_on_the_path_counts(tmp_path):
    """B50, variant: the one that imports would find is used, and the hidden one is named with what it offered."""
    install(tmp_path / "first", "acme-twice", "1.0", {"twice": "acme_twice:make"})
    hidden = install(tmp_path / "second", "acme-twice", "2.0", {"twice": "acme_twice:build"})

    discovery = found([tmp_path / "first" / "site", tmp_path / "second" / "site"])

    assert [(one.version, one.value) for one in discovery.candidates] == [("1.0", "acme_twice:make")]
    (fault,) = discovery.faults
    assert (fault.kind, fault.distribution, fault.location) == ("shadowed", "acme-twice", str(hidden))
    assert "Uninstall one of the two" in fault.problem
    assert "'twice'" in fault.problem


def test_an_engine_hidden_by_a_version_without_engines_is_named(copy, tmp_path):
    """B50: imports find the first version, so the engine of the second is not offered, and the reason is kept."""
    first = tmp_path / "first" / "acme_extras-0.9.dist-info"
    first.mkdir(parents=True)
    (first / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-extras\nVersion: 0.9\n")

    discovery = found([first.parent, copy])

    assert ids(discovery, "acme-extras") == []
    assert [fault.kind for fault in discovery.faults] == ["shadowed"]


@pytest.mark.parametrize(
    "version,other",
    [
        pytest.param("1.10", "1.2", id="listed before the lower"),
        pytest.param("1.3", "1.2", id="listed after the lower"),
        pytest.param("0.1", "unknown", id="the other is no version"),
    ],
)
def test_of_two_versions_in_one_folder_the_higher_counts(copy, version, other):
    """B51: after an upgrade that broke off the older metadata does not win by its place in the listing."""
    lower = info(copy, "acme_kinds")
    (lower / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-kinds\nVersion: {other}\n")
    higher = Path(shutil.copytree(lower, copy / f"acme_kinds-{version}.dist-info"))
    (higher / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-kinds\nVersion: {version}\n")
    (higher / "entry_points.txt").write_text(f"[{ENGINES_GROUP}]\nnewer = acme_kinds:make\n")

    discovery = found(copy)

    assert ids(discovery, "acme-kinds") == ["newer"]
    assert [(fault.kind, fault.location) for fault in discovery.faults] == [("shadowed", str(lower))]


def test_a_folder_reached_by_two_ways_is_read_once(copy, tmp_path):
    """B50: a path entry listed twice, or reached by a symbolic link, neither clashes nor shadows."""
    (copy / "left_over-1.0.dist-info").mkdir()
    link = tmp_path / "link"
    link.symlink_to(copy, target_is_directory=True)

    discovery = found([copy, copy, link])

    assert discovery == found(copy)
    assert [fault.kind for fault in discovery.faults] == ["damaged"]


def test_an_empty_left_over_does_not_hide_the_good_version(copy):
    """B51a: an empty dist-info beside a good one is reported by its path, and the engine is found."""
    empty = copy / "acme_kinds-1.1.dist-info"
    empty.mkdir()

    discovery = found(copy)

    assert "function" in ids(discovery, "acme-kinds")
    assert [(fault.kind, fault.location) for fault in discovery.faults] == [("damaged", str(empty))]
    assert repr(str(empty)) in discovery.faults[0].problem


def test_what_an_interrupted_pip_left_behind_is_reported_and_not_used(copy):
    """B51: pip renames what it removes to ``~name``; that is no second installation."""
    left = Path(shutil.copytree(info(copy, "acme_kinds"), copy / "~cme_kinds-1.1.dist-info"))

    discovery = found(copy)

    assert "function" in ids(discovery, "acme-kinds")
    assert [(fault.kind, fault.location) for fault in discovery.faults] == [("damaged", str(left))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"Metadata-Version: 2.1\nVersion: 1.0\n\nName: in-the-body\n", id="no name before the body"),
        pytest.param(b"Metadata-Version: 2.1\nName:\nVersion: 1.0\n", id="an empty name"),
        pytest.param(b"Metadata-Version: 2.1\nName: \xff\xfe\nVersion: 1.0\n", id="bytes that are no text"),
        pytest.param(b"Metadata-Version: 2.1\nName: ../evil\nVersion: 1.0\n", id="a name that is a path"),
    ],
)
def test_metadata_without_a_usable_name_is_reported_by_its_path(copy, text):
    """B51b: nobody can own what has no name; the rest loads."""
    broken = info(copy, "acme_faulty")
    (broken / "METADATA").write_bytes(text)

    discovery = found(copy)

    assert [(fault.kind, fault.location, fault.distribution) for fault in discovery.faults] == [
        ("unnamed", str(broken), None)
    ]
    assert {one.distribution for one in discovery.candidates} == {"acme-extras", "acme-kinds"}


HEADING = f"[{ENGINES_GROUP}]\n".encode()


@pytest.mark.parametrize(
    "data,said",
    [
        pytest.param(HEADING + b"a = b:c\ngarbage\n", "line 3, 'garbage'", id="a garbage line"),
        pytest.param(HEADING + b"a = b:c\na = b:d\n", "'a' a second time", id="a repeated key"),
        pytest.param(b"a = b:c\n" + HEADING, "line 1", id="a line before the first group"),
        pytest.param(b"[x]\ny = z:z\ngarbage\n" + HEADING + b"a = b:c\n", "line 3", id="a garbage line elsewhere"),
        pytest.param(b"[" + ENGINES_GROUP.encode() + b"\na = b:c\n", "line 1", id="a group left open"),
        pytest.param(HEADING + b"[more = less\na = b:c\n", "line 2", id="a group left open before an equals sign"),
        pytest.param(HEADING + b"a = b:c\n\xff = b:c\n", "not UTF-8", id="bytes that are no text"),
        pytest.param(f"[{ENGINES_GROUP}]\na = b:c\n".encode("utf-16"), "not UTF-8", id="UTF-16"),
    ],
)
def test_a_spoilt_entry_points_file_costs_its_own_distribution_only(copy, data, said):
    """B51c: the distribution is skipped with the path and the line; the others' engines are there."""
    broken = info(copy, "acme_faulty")
    (broken / "entry_points.txt").write_bytes(data)

    discovery = found(copy)

    (fault,) = discovery.faults
    assert (fault.kind, fault.location, fault.distribution) == ("entry_points", str(broken), "acme-faulty")
    assert said in fault.problem
    assert str(broken) in fault.problem
    assert {one.distribution for one in discovery.candidates} == {"acme-extras", "acme-kinds"}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("= acme_faulty:make", id="a blank id"),
        pytest.param("two words = acme_faulty:make", id="an id with a space"),
        pytest.param("red\x1b[31m = acme_faulty:make", id="an id with a control character"),
        pytest.param("zero\u200bwidth = acme_faulty:make", id="an id with an invisible character"),
        pytest.param("x = ", id="no target"),
        pytest.param("x = not a target", id="a target with spaces"),
        pytest.param("x = ../evil:make", id="a target that is a path"),
        pytest.param("x = os:system('true')", id="a target that is a call"),
    ],
)
def test_an_odd_id_or_target_costs_that_engine_only(copy, line):
    """B51: the fault shows it escaped; the distribution's other engine is offered."""
    text = f"[{ENGINES_GROUP}]\n{line}\ngood = acme_faulty.typo:make\n"
    (info(copy, "acme_faulty") / "entry_points.txt").write_text(text, encoding="utf-8")

    discovery = found(copy)

    assert ids(discovery, "acme-faulty") == ["good"]
    assert [fault.kind for fault in discovery.faults] == ["entry_points"]
    assert discovery.faults[0].problem.isprintable()


def test_what_the_system_refuses_to_read_is_reported(copy, tmp_path):
    """A link that leads in a circle stands for every file that can't be opened: reported, and the rest loads."""
    for name in ("METADATA", "entry_points.txt"):
        broken = info(copy, "acme_faulty" if name == "METADATA" else "acme_kinds") / name
        broken.unlink()
        broken.symlink_to(broken)
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    discovery = found([circle, copy])

    assert {fault.kind for fault in discovery.faults} == {"unreadable"}
    assert {fault.distribution for fault in discovery.faults} == {None, "acme-kinds"}
    assert {one.distribution for one in discovery.candidates} == {"acme-extras"}


PIECES = [
    b"[",
    b"]",
    b"=",
    b"a",
    b"b:c",
    b" ",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"Name:",
    b"#",
    HEADING,
    b"\xef\xbb\xbf",
]


@pytest.fixture(scope="session")
def scratch(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose one distribution is rewritten again and again."""
    return Path(shutil.copytree(site, tmp_path_factory.mktemp("scratch") / "site"))


@given(
    description=st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join),
    entry_points=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
    named=st.booleans(),
)
def test_no_bytes_of_one_distribution_hide_another(scratch, description, entry_points, named):
    """B51, as a law: whatever a distribution's files hold, discovery returns and the others' engines are there."""
    broken = info(scratch, "acme_faulty")
    (broken / "METADATA").write_bytes(b"Name: acme-faulty\n" * named + description)
    (broken / "entry_points.txt").write_bytes(entry_points)

    discovery = found(scratch)

    assert {"acme-extras", "acme-kinds"} <= {one.distribution for one in discovery.candidates}
    assert all(fault.location == str(broken) and fault.problem.isprintable() for fault in discovery.faults)


GROUPS = st.dictionaries(
    st.sampled_from([ENGINES_GROUP, "console_scripts", f"{ENGINES_GROUP}.more"]),
    st.dictionaries(
        st.sampled_from(["a", "A", "b-b", "c.c"]),
        st.sampled_from(["m:f", "m.n:f.g", "m", "m:f [x]", "m.n:f [x,y]"]),
        max_size=3,
    ),
)


@given(groups=GROUPS, gap=st.sampled_from(["\n", "\r\n", "\n\n", "\n# note\n", "\n  \n"]))
def test_a_sound_file_is_read_as_the_standard_library_reads_it(scratch, groups, gap):
    """Where nothing is wrong, our reader and importlib.metadata agree on every id, target and extra."""
    lines = [
        line for group, pairs in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in pairs.items()))
    ]
    folder = info(scratch, "acme_faulty")
    (folder / "METADATA").write_text("Name: acme-faulty\nVersion: 1\n")
    (folder / "entry_points.txt").write_bytes(gap.join(lines).encode())

    discovery = found(scratch)

    theirs = importlib.metadata.PathDistribution(folder).entry_points.select(group=ENGINES_GROUP)
    expected = {(one.name, one.value.partition(" ")[0], tuple(one.extras)) for one in theirs}
    ours = {(one.engine_id, one.value, one.extras) for one in discovery.candidates if one.distribution == "acme-faulty"}
    assert ours == expected
    assert discovery.faults == ()


@pytest.mark.parametrize("engine_id", ["function", "async", "class", "callable", "nested"])
def test_a_factory_of_a_documented_kind_is_returned(importable, engine_id):
    """B53: functions, async functions, classes and objects with ``__call__`` serve, and are handed back as they are."""
    factory = load_factory(candidate(importable, engine_id))

    assert callable(factory)
    assert factory.__module__ == "acme_kinds"
    assert inspect.iscoroutinefunction(factory) == (engine_id == "async")


@pytest.mark.parametrize(
    "engine_id,named",
    [
        pytest.param("module", "a module", id="a module with hooks"),
        pytest.param("other-module", "a module", id="a module in a module"),
        pytest.param("none", "None", id="None"),
        pytest.param("number", "an int that cannot be called", id="the number 3"),
        pytest.param("instance", "an object that cannot be called", id="an instance"),
    ],
)
def test_a_target_of_the_wrong_kind_is_refused_with_what_it_is(importable, engine_id, named):
    """B53: one clear error says what was found and what is wanted; ``sys.modules`` keeps no trace of it."""
    with pytest.raises(EngineLoadError) as caught:
        load_factory(candidate(importable, engine_id))

    assert f"leads to {named}, not to a factory" in str(caught.value)
    assert "acme_kinds:make_engine" in str(caught.value)
    assert (caught.value.engine_id, caught.value.distribution) == (engine_id, "acme-kinds")
    assert None not in sys.modules.values()
    assert load_factory(candidate(importable, "function")) is sys.modules["acme_kinds"].make


@pytest.mark.parametrize(
    "engine_id,cause,said",
    [
        pytest.param("typo", ModuleNotFoundError, "No module named 'jsonn'. This is a bug of the plugin", id="typo"),
        pytest.param("mute", Exception, "raised E: (its text cannot be read)", id="an error that can't be printed"),
        pytest.param("rude", ValueError, r"two lines and \x1b[31m red", id="an error with control characters"),
        pytest.param("gone", ModuleNotFoundError, "no module 'acme_faulty.gone'", id="the module isn't there"),
        pytest.param("absent", AttributeError, "looking up 'nowhere' in 'acme_kinds'", id="the attribute isn't there"),
        pytest.param("moody", RuntimeError, "RuntimeError: not today", id="an attribute that raises"),
    ],
)
def test_a_plugins_own_bug_is_named_as_that_with_its_cause(importable, engine_id, cause, said):
    """B52, third plugin: the author's error is attached, and nobody is sent to install an extra."""
    with pytest.raises(EngineLoadError) as caught:
        load_factory(candidate(importable, engine_id))

    assert isinstance(caught.value.__cause__, cause)
    assert said in str(caught.value)
    assert "extra" not in str(caught.value)


@pytest.mark.parametrize("engine_id,raised", [("exits", SystemExit), ("stops", KeyboardInterrupt)])
def test_an_exit_while_importing_passes_as_raised(importable, engine_id, raised):
    """Whoever calls decides what an exit means; it is not dressed up as an error."""
    with pytest.raises(raised):
        load_factory(candidate(importable, engine_id))


@pytest.mark.parametrize("engine_id", ["fast", "optional", "wrapped"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(importable, engine_id):
    """B52: an import that fails, one that leaves None, and one that raises its own error all say which extra."""
    with pytest.raises(EngineLoadError) as caught:
        load_factory(candidate(importable, engine_id))

    assert caught.value.problem == "needs extra 'speed' of 'acme-extras': pip install 'acme-extras[speed]'"


def test_an_extra_may_be_missing_by_way_of_another(importable):
    """B52: an extra that asks for its own distribution's extras is followed, in a circle too."""
    assert candidate(importable, "fast-by-all").missing_extras() == ("all",)
    assert candidate(importable, "fast").missing_extras([]) == ("speed",)


def test_an_engine_without_the_extra_loads_beside_one_that_lacks_it(importable):
    """B52: the second entry point of the distribution is plain; and one that gets by without its extra serves too."""
    assert callable(load_factory(candidate(importable, "plain")))
    assert callable(load_factory(candidate(importable, "plain-with-extra")))


def test_a_typo_beside_a_missing_extra_stays_the_plugins_bug(importable):
    """B52: a module missing from the plugin's own package is no extra, though one is missing as well."""
    with pytest.raises(EngineLoadError, match=r"No module named 'acme_extras\.plian'\. This is a bug of the plugin"):
        load_factory(candidate(importable, "typo-beside-extra"))


def test_an_installed_extra_lets_the_engine_load(importable, tmp_path, monkeypatch):
    """B52: with the extra's requirement there in a version that fits, nothing is missing."""
    code = "def turbo(context): ...\n"
    speed = install(tmp_path, "acme-speedlib", "2.1", {}, code).parent
    monkeypatch.syspath_prepend(speed)

    one = candidate(importable, "fast", speed)

    assert one.missing_extras() == ()
    assert candidate(importable, "fast-by-all", speed).missing_extras() == ()
    assert load_factory(one) is sys.modules["acme_speedlib"].turbo


def test_an_extra_in_too_old_a_version_is_missing(importable, tmp_path, monkeypatch):
    """B52: the requirement's version counts, not only its name."""
    old = install(tmp_path, "acme-speedlib", "1.9", {}).parent
    monkeypatch.syspath_prepend(old)

    with pytest.raises(EngineLoadError, match="needs extra 'speed'"):
        load_factory(candidate(importable, "fast", old))


def test_an_extra_in_a_shared_namespace_is_not_taken_for_the_plugins_own(importable, tmp_path, monkeypatch):
    """B52: ``acme_space.speed`` may be another distribution's part of the namespace ``acme_space``."""
    wheel = build_wheel(
        tmp_path,
        "acme-space-engine",
        "1.0",
        {"acme_space/engine.py": "from acme_space.speed import make\n"},
        {ENGINES_GROUP: {"spacious": "acme_space.engine:make [speed]"}},
        extras={"speed": ["acme-space-speed"]},
    )
    folder = install_wheels([wheel], tmp_path / "space")
    monkeypatch.syspath_prepend(folder)

    with pytest.raises(EngineLoadError, match=r"pip install 'acme-space-engine\[speed\]'"):
        load_factory(candidate(folder, "spacious"))


def test_a_plugin_installed_while_the_process_runs_can_be_loaded(importable, tmp_path, monkeypatch):
    """Import caches of a folder that was listed before the installation do not hide the new module."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("acme_late")
    before = folder.stat()
    install(tmp_path, "acme-late", "1.0", {"late": "acme_late:make"}, "async def make(context): return 'late'\n")
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))

    factory = load_factory(candidate(folder, "late"))

    assert asyncio.run(factory(None)) == "late"


@pytest.mark.skipif(sys.platform == "win32", reason="FIFOs are POSIX's")
@pytest.mark.parametrize(
    "name,distribution",
    [
        pytest.param("METADATA", "acme_faulty", id="what-describes-it"),
        pytest.param("entry_points.txt", "acme_kinds", id="what-it-offers"),
        pytest.param(None, None, id="in-a-folders-place"),
    ],
)
def test_a_fifo_is_reported_and_not_waited_for(copy, tmp_path, name, distribution):
    """Nobody writes into it, so reading it would hang whoever looks for engines; in a process of its own, for that."""
    path = info(copy, distribution) / name if name else tmp_path / "fifo"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    program = "import sys; from openclaw_ctx.host.discovery import discover; print(discover(sys.argv[1:]))"

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "fifo"), str(copy)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "acme-extras" in done.stdout
    if name:
        assert "it is not a regular file" in done.stdout
        assert str(path) in done.stdout


@pytest.mark.parametrize("name", ["METADATA", "entry_points.txt"])
def test_metadata_without_end_is_reported_and_not_read(copy, name):
    """A file of many gigabytes would fill the memory; this one is all holes, and its size is told."""
    path = info(copy, "acme_kinds") / name
    os.truncate(path, 1 << 33)

    (fault,) = [one for one in found(copy).faults if one.location == str(path.parent)]

    assert fault.kind == "unreadable"
    assert "8589934592 bytes" in fault.problem
    assert repr(str(path)) in fault.problem


def test_a_zip_file_that_unpacks_without_end_is_reported(tmp_path):
    """Few bytes on disk may be gigabytes in memory."""
    wheel = tmp_path / "bomb.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb-1.dist-info/METADATA", "Name: bomb\nVersion: 1\n")
        archive.writestr("bomb-1.dist-info/entry_points.txt", f"[{ENGINES_GROUP}]\nx = a:b\n" + "#" * (1 << 24))

    (fault,) = found(wheel).faults

    assert (fault.kind, fault.distribution) == ("unreadable", "bomb")
    assert "bytes" in fault.problem


@pytest.mark.skipif(sys.platform == "win32", reason="FIFOs are POSIX's")
def test_an_extra_whose_distribution_says_nothing_readable_is_not_waited_for(tmp_path):
    """Requirements of an egg-info stand in a file of their own, and a FIFO there names none."""
    egg = tmp_path / "acme.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Name: acme\nVersion: 1\n")
    os.mkfifo(egg / "requires.txt")
    program = (
        "import sys; from openclaw_ctx.host.extras import missing_extras as m; print(m(*sys.argv[1:2], ['x'], []))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(egg)], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.stdout == "()\n", done.stderr


def test_where_a_candidate_was_looked_for_is_no_part_of_what_it_is(site):
    """The same engine found by two search paths compares equal, so that a registry can tell a refresh from a change."""
    one = candidate(site, "function")

    assert one == attrs.evolve(one, search_path=None)
    assert "search_path" not in repr(one)

"""The command in processes of its own, with engines that are really installed."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import structlog

import openclaw_ctx
from openclaw_ctx.cli.main import main
from openclaw_ctx.host import ENGINES_GROUP
from tests.host.distributions import build_wheel, install_wheels

ROOT = Path(__file__).parents[2]
HOSTILE = "a\x1b[31m\u202e\x9b\nError: forged"
"""Colour, right-to-left override, a C1 control, a line break: in names of files and engines."""
SECRET = "sk-live-0123456789abcdefghijklmnop"  # noqa: S105 -- invented
_PATIENCE_SECONDS = 60

_MODULE = """
import os
import pathlib
import time

from openclaw_ctx import AssembleResult, CompactResult, EngineInfo, IngestResult, hookimpl

if "ACME_WITNESS" in os.environ:
    pathlib.Path(os.environ["ACME_WITNESS"]).write_text("imported")


class Fine:
    info = EngineInfo(id="fine", name="Fine")

    def __init__(self, context):
        pass

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False)


class Leaky(Fine):
    @hookimpl
    def assemble(self):
        raise RuntimeError({leak!r})


class Moody(Fine):
    @hookimpl
    def bootstrap(self):
        raise RuntimeError({leak!r})


class Stuck(Fine):
    @hookimpl
    def assemble(self):
        print("stuck now", flush=True, file=__import__("sys").stderr)
        while True:
            try:
                time.sleep(3600)
            except BaseException:
                pass
"""

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which pip has installed the engines fine, leaky, moody and stuck."""
    folder = tmp_path_factory.mktemp("acme")
    leak = f'provider said no\n{HOSTILE}\n{{"authorization": "Bearer {SECRET}", "api_key": "{SECRET}"}}'
    wheel = build_wheel(
        folder,
        "acme-engines",
        "1.0",
        {"acme_engines.py": _MODULE.format(leak=leak)},
        {ENGINES_GROUP: {name: f"acme_engines:{name.title()}" for name in ("fine", "leaky", "moody", "stuck")}},
    )
    return install_wheels([wheel], folder / "site")


@pytest.fixture
def environment(tmp_path: Path, site: Path) -> dict[str, str]:
    """Return the environment of a command: our package, the engines, a private home, an empty temporary folder."""
    temporaries = tmp_path / "temporaries"
    temporaries.mkdir()
    ours = Path(openclaw_ctx.__file__).parent.parent
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}}
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(ours), str(site), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "OPENCLAW_CTX_STATE_DIR": str(tmp_path / "state"),
        "OPENCLAW_CTX_CONFIG": str(_config(tmp_path)),
        "TMPDIR": str(temporaries),
        "TERM": "xterm-256color",
    }


def _config(tmp_path: Path) -> Path:
    path = tmp_path / "openclaw.json"
    path.write_text("{}", encoding="utf-8")
    return path


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], Path]:
    """Return what writes the configuration that commands read."""

    def write(text: str) -> Path:
        path = tmp_path / "openclaw.json"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def spawn(environment: dict[str, str], tmp_path: Path) -> Run:
    """Return what runs ``python -m openclaw_ctx`` to its end, in a process of its own."""

    def spawn(*arguments: Any, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "openclaw_ctx", *map(os.fspath, arguments)],
            cwd=tmp_path,
            env=environment | more,
            capture_output=True,
            text=True,
            encoding=more.get("PYTHONIOENCODING", "utf-8"),
            errors="surrogateescape",
            check=False,
            timeout=_PATIENCE_SECONDS,
        )

    return spawn


@pytest.fixture
def run(
    environment: dict[str, str],
    site: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Return what runs the command's ``main`` to its end here, as ``spawn`` does there: that is ten times faster."""
    for name in ("OPENCLAW_CTX_STATE_DIR", "OPENCLAW_CTX_CONFIG"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["openclaw-ctx", *map(os.fspath, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, shown.out, shown.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
    structlog.reset_defaults()  # the command sets up logging for its process, which here is the tests'


class Terminal:
    """A command on a terminal of 80 columns, which is read until it shows what one waits for."""

    def __init__(self, arguments: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openclaw_ctx", *arguments],
            cwd=cwd,
            env=environment | {"COLUMNS": "80", "LINES": "24"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.shown = b""

    def read_until(self, text: bytes) -> None:
        """Read on until *text* has been shown."""
        while text not in self.shown:
            assert self._read(), f"ended without {text!r}: {self.shown!r}"

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, read to the end, and return the exit code."""
        if number is not None:
            self.process.send_signal(number)
        while self._read():
            pass
        return self.process.wait(_PATIENCE_SECONDS)

    def close(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(_PATIENCE_SECONDS)
        os.close(self._master)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], _PATIENCE_SECONDS)
        assert ready, f"nothing for {_PATIENCE_SECONDS} seconds; so far: {self.shown!r}"
        with contextlib.suppress(OSError):  # Linux's way to say that the other side has closed
            data = os.read(self._master, 65_536)
            self.shown += data
            return bool(data)
        return False


@pytest.fixture
def terminal(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Return what starts a command on a terminal."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: Any, **more: str) -> Terminal:
            terminal = Terminal([os.fspath(argument) for argument in arguments], tmp_path, environment | more)
            stack.callback(terminal.close)
            return terminal

        yield start


_LIVING = """
import asyncio, itertools, sys
from openclaw_ctx import AssistantMessage, Host, UserMessage

async def main():
    async with Host.open({"plugins": {"slots": {"contextEngine": sys.argv[1]}}}) as host:
        async with host.session("living") as session:
            for line in itertools.chain(["first"], sys.stdin):
                await session.append(UserMessage(content=line))
                prompt = await session.assemble()
                await session.append(AssistantMessage(content="yes"))
                print(prompt.engine, flush=True)

asyncio.run(main())
"""


class Agent:
    """An agent in a process of its own that lives on: each turn says which engine answered."""

    def __init__(self, engine: str, environment: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LIVING, engine],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.state = environment["OPENCLAW_CTX_STATE_DIR"]
        self.answered_by = [self._line()]

    def turn(self) -> str:
        """Take one more turn and return who answered."""
        assert self.process.stdin is not None
        print("next", file=self.process.stdin, flush=True)
        self.answered_by.append(self._line())
        return self.answered_by[-1]

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.communicate(timeout=_PATIENCE_SECONDS)

    def _line(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _PATIENCE_SECONDS)
        assert ready, f"the agent has said nothing for {_PATIENCE_SECONDS} seconds"
        return self.process.stdout.readline().strip()


@pytest.fixture
def living(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    """Return what starts an agent whose slot holds an engine, and waits for its first turn."""
    with contextlib.ExitStack() as stack:

        def start(engine: str) -> Agent:
            agent = Agent(engine, environment, tmp_path)
            stack.callback(agent.close)
            return agent

        yield start


@pytest.fixture(scope="session")
def lighthouse() -> Path:
    """Return the session that ships with the repository."""
    return ROOT / "examples" / "lighthouse.jsonl"

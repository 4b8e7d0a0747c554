"""
A store does what a model of plain lists and dicts does, whatever is done to it, in whatever order.

It looks for longer, ten minutes and more, with
``OPENCLAW_CTX_MACHINE_EXAMPLES=2000 pytest -o faulthandler_timeout=0 tests/transcript/stores/test_store_machine.py``.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from openclaw_ctx.contract import AssistantMessage, SessionKey, UserMessage
from openclaw_ctx.transcript import FileStore, MemoryStore, SessionStore, file_record, tail
from openclaw_ctx.transcript.checks.verify import verify_file
from tests.transcript.stores.store_machine import KEYS, MAYBE, PICKS, Machine, pick
from tests.transcript.stores.store_model import Line, Model, keeps_what_is_elsewhere, way

EXAMPLES = int(os.environ.get("OPENCLAW_CTX_MACHINE_EXAMPLES", "80"))
TORN = [b'{"type":"message","id":"x","par', b"\x00\x00\x00", b'{"type":']
# What a conversation may lack that somebody puts together at random; nothing is wrong with its file.
UNPAIRED = {"result-missing", "result-orphaned", "result-duplicate"}


class Files(Machine):
    """A store in a folder, in which others write, and where things get lost."""

    store: FileStore

    def new_store(self) -> FileStore:
        """Return another store in the folder."""
        return FileStore(self.folder / "sessions")

    def file_of(self, number: int, *ends: str) -> tuple[Path, Model] | None:
        """Return the file of a session that ends in one of these ways."""
        self.touched = key = pick(KEYS, number)
        model = self.sessions.get(key)
        if model is None or not model.lines or model.end not in ends:
            return None
        (path,) = (info.path for info in self.store.sessions() if info.key == key)
        return path, model

    @rule(number=PICKS, torn=st.sampled_from(TORN), looks=st.booleans())
    def tear(self, number: int, torn: bytes, *, looks: bool) -> None:
        """Leave what a crash leaves at the end of a file."""
        found = self.file_of(number, "whole", "torn")
        if found is None:
            return
        path, model = found
        with path.open("ab") as file:
            file.write(torn)
        model.end, model.disturbed = "torn", True
        if model.is_open and (looks or not self.reads_all):
            self.open[pick(KEYS, number)].refresh()
            model.catch_up()

    @rule(
        number=PICKS,
        kind=st.sampled_from(["say", "reply", "title", "reset", "compaction", "label"]),
        after=MAYBE,
        keep=MAYBE,
        is_whole=st.booleans(),
    )
    def write_without_the_lock(
        self, number: int, kind: str, after: int | None, keep: int | None, *, is_whole: bool
    ) -> None:
        """Append a line as another program does, which knows of no lock; behind any entry."""
        found = self.file_of(number, "whole", "torn")
        if found is None:
            return
        path, model = found
        parent = model.last if after is None else pick(model.lines, after)["id"]
        branch = way(model.lines, parent)
        keeps = None if keep is None else pick(branch, keep)["id"]
        data: dict[str, Any] = {"id": os.urandom(4).hex(), "parentId": parent, "timestamp": "2025-11-20T23:34:00Z"}
        line: Line = {"id": data["id"], "parent": parent}
        match kind:
            case "say" | "reply":
                role, text = ("user", "yes") if kind == "say" else ("assistant", "well")
                data |= {"type": "message", "message": {"role": role, "content": text}}
                line["message"] = (UserMessage if kind == "say" else AssistantMessage)(content=text)
            case "title":
                data |= {"type": "session_info", "name": "foreign"}
                line["name"] = "foreign"
            case "label":
                data |= {"type": "label", "targetId": parent, "label": "foreign"}
                line |= {"target": parent, "label": "foreign"}
            case "reset":
                data |= {"type": "reset"} | ({"firstKeptEntryId": keeps} if keeps else {})
                line["keeps"] = keeps
            case _:
                data |= {"type": kind, "summary": "foreign", "firstKeptEntryId": keeps or data["id"], "tokensBefore": 1}
                line |= {"summary": "foreign", "keeps": keeps or data["id"]}
        line["type"] = data["type"]
        ordered = {"type": data["type"], **data}
        with path.open("ab") as file:
            file.write(json.dumps(ordered).encode() + (b"\n" if is_whole else b""))
        model.damaged = model.damaged or model.end == "torn"
        model.lines.append(line)
        model.end, model.disturbed = "whole" if is_whole else "unfinished", True

    @rule(content=st.sampled_from([None, b"", b'{"agent:main:main": ', b"[]", b"{}", b'{"A": {"sessionFile": 7}}']))
    def lose_the_index(self, content: bytes | None) -> None:
        """Lose what every session's index said, or let it say something else."""
        path = self.folder / "sessions" / "sessions.json"
        if content is None:
            path.unlink(missing_ok=True)
        elif path.exists():
            path.write_bytes(content)
        for model in self.sessions.values():
            model.tokens = model.tokens | {None}

    def check_file(self, key: SessionKey) -> None:
        """Nothing is wrong with a file that nobody damaged, and whoever reads it finds what we find."""
        model = self.sessions[key]
        if not model.lines or model.damaged:
            return
        (path,) = (info.path for info in self.store.sessions() if info.key == key)
        errors = {finding.code for finding in verify_file(path).findings if finding.level == "error"}
        assert errors <= UNPAIRED | ({"boundary-unresolved"} if keeps_what_is_elsewhere(model.lines) else set())
        if model.end != "torn":
            header, *lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
            assert header["type"] == "session"
            assert [(line["id"], line["parentId"]) for line in lines] == [
                (line["id"], line["parent"]) for line in model.lines
            ]


class FilesFromTheEnd(Files):
    """A store in a folder, and every file that was compacted is opened from its end."""

    reads_all = False

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(file_record, "_SMALL_BYTES", 0)
        self.patch.setattr(tail, "_SHARE", 1)

    def teardown(self) -> None:
        """Look at everything once more."""
        try:
            super().teardown()
        finally:
            self.patch.undo()


class Memory(Machine):
    """A store without files."""

    def new_store(self) -> SessionStore:
        """Return the one store: nothing outlives it."""
        return getattr(self, "store", None) or MemoryStore()


@pytest.mark.parametrize("machine", [Memory, Files, FilesFromTheEnd])
def test_a_store_does_what_its_model_does(machine: type[Machine]) -> None:
    """Records, contexts, leaves, labels, titles, lists and counts are the model's after every step."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

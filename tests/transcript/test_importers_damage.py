"""Recorded sessions as they lie on disk: damaged, of no known format, or anything at all."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    message_from_wire,
    message_to_wire,
)
from openclaw_ctx.errors import OpenClawCtxError, TranscriptFormatError, UnknownFormatError
from openclaw_ctx.transcript.importers import FORMATS, ImportedSession, import_session

# The messages that each recorded file of a known format holds.
RECORDED = {
    "agentsessions__claude_large.jsonl": ("claude-code", 10),
    "agentsessions__openclaw_large.jsonl": ("pi", 6),
    "agentsessions__pi_small.jsonl": ("pi", 4),
    "agentsessions__subagent_0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl": ("claude-code", 2),
    "agentsessions__subagents_agent-a0ad4f44468bdf20d.jsonl": ("claude-code", 3),
    "cctools__claude_session.jsonl": ("claude-code", 8),
    "claudecodelog__edge_cases.jsonl": ("claude-code", 11),
    "claudecodelog__image.jsonl": ("claude-code", 1),
    "claudecodelog__session_b.jsonl": ("claude-code", 3),
    "pi__large-session.jsonl": ("pi", 914),
    "taubench__airline_gpt4o_task0_trial3.json": ("chat-completions", 46),
    "taubench__airline_gpt4o_task2_trial1.json": ("chat-completions", 62),
    "taubench__airline_gpt4o_task33_trial2.json": ("chat-completions", 62),
    "taubench__airline_gpt4o_task3_trial1.json": ("chat-completions", 48),
    "taubench__airline_gpt4o_task46_trial3.json": ("chat-completions", 62),
    "taubench__airline_gpt4o_task9_trial2.json": ("chat-completions", 62),
}

Lines = list[dict[str, Any]]


@pytest.fixture(name="save")
def _save(tmp_path: Path):
    """Return a function that writes a file: bytes as they are, a list as lines, anything else as one document."""

    def save(content: object, name: str = "session.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else as_lines(content))
        return path

    return save


def as_lines(content: object) -> bytes:
    """Return JSON lines."""
    records = content if isinstance(content, list) else [content]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def pi_entry(entry_id: str, parent: str | None, text: str, **entry: Any) -> dict[str, Any]:
    """Return a pi line that holds a user message."""
    message = {"role": "user", "content": text, "timestamp": 1}
    return {"type": "message", "id": entry_id, "parentId": parent, "message": message, **entry}


PI_HEADER = {"type": "session", "version": 3, "id": "s1", "cwd": "/project", "timestamp": "2026-01-01T00:00:00Z"}


def claude(kind: str, content: object, **more: Any) -> dict[str, Any]:
    """Return a Claude Code line."""
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {"type": kind, "message": message, "sessionId": "c1", "cwd": "/project", "isSidechain": False, **more}


def texts(session: ImportedSession) -> list[str]:
    """Return the text of every message."""
    return [message.text for message in session.messages]


class TestLines:
    """What befalls files of lines."""

    GOOD = (PI_HEADER, *(pi_entry(f"e{n}", f"e{n - 1}" if n else None, f"m{n}") for n in range(6)))

    def test_nul_bytes_hide_nothing_after_them(self, save) -> None:
        """B17: the entries around 300 NUL bytes load, with one note that names the line."""
        lines = as_lines(list(self.GOOD)).split(b"\n")

        session = import_session(save(b"\n".join([*lines[:4], b"\0" * 300, *lines[4:]])))

        assert texts(session) == ["m0", "m1", "m2", "m3", "m4", "m5"]
        assert session.skipped == ("line 5: 300 NUL bytes",)

    def test_a_record_after_nul_bytes_on_its_line_is_read(self, save) -> None:
        """B17: a crash leaves NUL bytes, and the next append goes behind them."""
        lines = as_lines(list(self.GOOD)).split(b"\n")
        lines[2] = b"\0" * 9 + lines[2]

        session = import_session(save(b"\n".join(lines)))

        assert len(session.messages) == 6
        assert session.skipped == ("line 3: 9 NUL bytes",)

    @pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\v", "\f"], ids=ascii)
    def test_a_line_separator_in_a_text_ends_no_record(self, save, separator: str) -> None:
        """B18: records end at a line feed only, however the text was written."""
        text = f"one{separator}two"
        raw = json.dumps([PI_HEADER, pi_entry("a", None, text)], ensure_ascii=False)[1:-1].replace("}, {", "}\n{", 1)

        session = import_session(save(raw.encode()))

        assert texts(session) == [text]
        assert session.skipped == ()

    def test_a_torn_last_line_is_told_and_dropped(self, save) -> None:
        """B16: nothing earlier is lost, also when the tear is inside a character."""
        torn = '{"type":"message","id":"m9","parentId":"e5","message":{"role":"user","content":"caf\u00e9'.encode()[:-1]

        session = import_session(save(as_lines(list(self.GOOD)) + torn))

        assert len(session.messages) == 6
        assert session.skipped == ("line 8: cut off at the end of the file",)

    def test_windows_line_ends_a_byte_order_mark_and_no_final_line_feed_are_no_damage(self, save) -> None:
        """What editors do to a file costs nothing."""
        session = import_session(save(b"\xef\xbb\xbf" + as_lines(list(self.GOOD)).replace(b"\n", b"\r\n").rstrip()))

        assert len(session.messages) == 6
        assert session.skipped == ()

    @pytest.mark.parametrize(
        "written,read,notes",
        [
            pytest.param(b'"\\ud800 half"', "\ud800 half", (), id="half of a surrogate pair"),
            pytest.param(b'"\xff\xfe"', "\ufffd\ufffd", ("line 2: bytes that are not UTF-8, replaced",), id="no UTF-8"),
            pytest.param(b'"a\x01b"', "a\x01b", (), id="a control character"),
            pytest.param(b'"x\\ud800", "odd": ' + b"9" * 5000, "x\ud800", (), id="an integer of 5000 digits"),
        ],
    )
    def test_text_that_strict_readers_refuse_is_read(self, save, written: bytes, read: str, notes: tuple[str]) -> None:
        """One odd string costs no record."""
        lines = as_lines([PI_HEADER, pi_entry("a", None, "HERE")])

        session = import_session(save(lines.replace(b'"HERE"', written)))

        assert texts(session) == [read]
        assert session.skipped == notes

    def test_nan_in_a_record_costs_nothing(self, save) -> None:
        """Python programs write NaN, which is no JSON."""
        session = import_session(save([PI_HEADER, pi_entry("a", None, "x", cost=float("nan"))]))

        assert texts(session) == ["x"]

    def test_a_record_nested_without_end_is_passed_over(self, save) -> None:
        """Depth that would exhaust the stack is refused by line."""
        deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
        nested = json.dumps(pi_entry("b", "a", "x", data=json.loads("[" * 200 + "]" * 200))).encode() + b"\n"

        session = import_session(save(as_lines([PI_HEADER, pi_entry("a", None, "x")]) + deep + b"\n" + nested))

        assert len(session.messages) == 1
        assert session.skipped == ("line 3: nested too deep", "line 4: nested too deep")


class TestImportSession:
    """Choosing the format."""

    @pytest.mark.parametrize(
        "content", [b"", b" \n", b"\x89PNG\r\n\x1a\n\0\0", b"hello\n", b"{}", b"[]", b"[1]", b'"x"']
    )
    def test_a_file_that_is_no_session_is_refused_in_one_sentence(self, save, content: bytes) -> None:
        """It names the file and the formats; asked for by name, each format refuses it too."""
        path = save(content)

        with pytest.raises(UnknownFormatError, match=r"chat-completions, claude-code, .*pi"):
            import_session(path)
        for name in FORMATS:
            with pytest.raises(TranscriptFormatError):
                import_session(path, format=name)

    def test_a_folder_and_a_missing_file_are_told_apart(self, tmp_path: Path) -> None:
        """One is no transcript, the other is no file."""
        with pytest.raises(TranscriptFormatError, match="it is a folder"):
            import_session(tmp_path)
        with pytest.raises(FileNotFoundError):
            import_session(str(tmp_path / "none.jsonl"))

    def test_a_format_that_nobody_reads_is_refused_with_the_ones_there_are(self, save) -> None:
        """The sentence shows what may be asked for."""
        with pytest.raises(TranscriptFormatError, match=r"no importer 'cobol', only chat-completions"):
            import_session(save([PI_HEADER]), format="cobol")

    def test_a_damaged_header_needs_only_the_format_by_name(self, save) -> None:
        """What sniffing can't see can be forced."""
        path = save(b'{"type":"sess\n' + as_lines([pi_entry("a", None, "still here")]))

        session = import_session(path, format="pi")

        assert texts(session) == ["still here"]
        assert session.skipped == ("file: no session header", "line 1: not JSON")

    def test_another_distribution_adds_a_format_and_a_broken_one_hides_nothing(
        self, save, tmp_path, monkeypatch
    ) -> None:
        """An entry point is asked when no shipped importer knows a file; one that does not load is named."""
        (tmp_path / "cobol_importer.py").write_text(
            "from openclaw_ctx.transcript.importers import ImportedSession\n"
            "NAME = 'cobol'\n"
            "def sniff(head, path): return head.startswith(b'IDENTIFICATION')\n"
            "def read(path): return ImportedSession(format=NAME, messages=())\n"
        )
        metadata = tmp_path / "cobol-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cobol\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(
            "[openclaw_ctx.importers]\nalgol = no_such_module\ncobol = cobol_importer\n"
        )
        monkeypatch.syspath_prepend(tmp_path)

        assert import_session(save(b"IDENTIFICATION DIVISION.")).format == "cobol"
        assert import_session(save(b""), format="cobol").format == "cobol"
        with pytest.raises(UnknownFormatError, match="algol, which did not load: ModuleNotFoundError"):
            import_session(save(b"nothing"))


class TestRecordedFiles:
    """Real sessions."""

    def test_every_recorded_file_imports_or_is_of_no_known_format(self, recorded_transcripts: Path) -> None:
        """Each file of these formats yields all its messages, and none claims a file of another."""
        found = {}
        for path in sorted(recorded_transcripts.glob("*__*")):
            try:
                session = import_session(path)
            except UnknownFormatError:
                continue
            if session.format in SEEDS:
                found[path.name] = (session.format, len(session.messages))

        assert found == RECORDED

    @pytest.mark.parametrize("name", RECORDED)
    def test_what_was_imported_survives_the_wire(self, recorded_transcripts: Path, name: str) -> None:
        """A transcript that takes the messages gives back the same, and no two have one id."""
        messages = import_session(recorded_transcripts / name).messages

        wire = [json.loads(json.dumps(message_to_wire(message))) for message in messages]
        again = [message_from_wire(data, entry_id=m.entry_id) for data, m in zip(wire, messages, strict=True)]
        ids = [message.entry_id for message in messages if message.entry_id]
        assert again == list(messages)
        assert len(ids) == len(set(ids))


SEEDS: dict[str, Lines] = {
    "pi": [PI_HEADER, pi_entry("a", None, "x"), {"type": "custom_message", "id": "b", "parentId": "a", "content": "y"}],
    "claude-code": [
        claude("user", "hi", uuid="u1", timestamp="2025-06-14T11:00:00Z"),
        claude(
            "assistant", [{"type": "tool_use", "id": "t", "name": "n", "input": {}}], message={"id": "r"}, uuid="u2"
        ),
        claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}]),
    ],
    "chat-completions": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "see"}]},
        {"role": "assistant", "tool_calls": [{"id": "t", "function": {"name": "n", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "t", "content": "seen"},
        {"role": "assistant", "content": "done", "function_call": {"name": "n"}},
    ],
}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner)
)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to every value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def check(path: Path) -> None:
    """Import in every way; whatever comes back must be encodable, and only the package's own errors may come out."""
    for name in ("auto", *FORMATS):
        try:
            session = import_session(path, format=name)
        except OpenClawCtxError:
            continue
        json.dumps([message_to_wire(message) for message in session.messages])


class TestNeverATraceback:
    """Fuzz."""

    @FUZZ
    @given(
        content=st.binary(max_size=200), start=st.sampled_from([b"", b"[", b"{", b'{"role":"user",', b"\xef\xbb\xbf{"])
    )
    def test_on_any_bytes(self, save, content: bytes, start: bytes) -> None:
        """Bytes of any kind are a session or one of our errors."""
        check(save(start + content))

    @FUZZ
    @given(data=st.data(), name=st.sampled_from(sorted(SEEDS)))
    def test_when_any_value_in_a_session_is_another(self, save, data: st.DataObject, name: str) -> None:
        """No field is trusted to be of its type."""
        lines = json.loads(json.dumps(SEEDS[name]))
        *parents, key = data.draw(st.sampled_from(places(lines)[1:]))
        holder = lines
        for step in parents:
            holder = holder[step]
        holder[key] = data.draw(JSON_VALUES)

        check(save(as_lines(lines)))
        check(save(as_lines({"messages": lines})))

    @FUZZ
    @given(data=st.data(), name=st.sampled_from(sorted(SEEDS)))
    def test_when_a_piece_of_a_file_is_overwritten(self, save, data: st.DataObject, name: str) -> None:
        """A torn, doubled or scribbled file is a session or one of our errors."""
        whole = as_lines(SEEDS[name]) if data.draw(st.booleans()) else json.dumps(SEEDS[name]).encode()
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
        piece = data.draw(st.sampled_from([b"", b"\0" * 9, b"\n", b'"', b"}", b"]", b"[", b"\xff", whole]))

        check(save(whole[:first] + piece + whole[last:]))


_IMPORT = "import sys; from openclaw_ctx.transcript.importers import import_session; import_session(*sys.argv[1:])"


def _imported(path: Path, form: str, more: str = "") -> str:
    """Return what a process of its own says that imports a file; it would be waited for no more than half a minute."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [more, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-c", _IMPORT, str(path), form]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environ, check=False).stderr


@pytest.mark.skipif(sys.platform == "win32", reason="FIFOs are POSIX's")
@pytest.mark.parametrize("form", ["auto", *sorted(FORMATS)])
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, form: str) -> None:
    """Whatever the format: nobody writes into it."""
    os.mkfifo(tmp_path / "session")

    said = _imported(tmp_path / "session", form)

    assert "TranscriptFormatError" in said
    assert "it is not a regular file" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_device_is_refused_and_not_read() -> None:
    """A device need not end, and this one gives zeros for ever."""
    with pytest.raises(TranscriptFormatError, match="not a regular file"):
        import_session(Path("/dev/full"))


@pytest.mark.skipif(sys.platform == "win32", reason="FIFOs are POSIX's")
def test_an_importer_of_others_is_looked_for_past_a_fifo(tmp_path: Path) -> None:
    """Where a file is of no known format, every distribution is asked what it offers; a FIFO there offers nothing."""
    described = tmp_path / "site" / "acme-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Name: acme\nVersion: 1\n")
    os.mkfifo(described / "entry_points.txt")
    (tmp_path / "session").write_text("of no known format")

    assert "UnknownFormatError" in _imported(tmp_path / "session", "auto", str(tmp_path / "site"))

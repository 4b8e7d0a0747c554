"""What a crash leaves of a file: the torn record is lost, and no other."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.errors import OpenClawCtxError
from openclaw_ctx.transcript import Transcript
from tests.transcript.sessions import HEADER, as_bytes, chain, line, new_file, opened, say, texts


def test_a_tail_torn_anywhere_costs_the_torn_record_only() -> None:
    """B16: wherever a record is cut, also inside a character, what stands before it is kept once and in order."""
    good = as_bytes([HEADER, *chain("one", "two", "three")])
    record = json.dumps(line("e4", "e3", "vier 漢 \U0001f600"), ensure_ascii=False).encode()

    for cut in range(1, len(record)):
        with new_file(good + record[:cut]) as path:
            with opened(path) as transcript:
                assert len(transcript.take_warnings()) == 1
                assert path.read_bytes() == good + record[:cut]
                appended = transcript.append(say("five"))
                live = texts(transcript.history)

            with opened(path) as transcript:
                assert live == texts(transcript.history) == ["one", "two", "three", "five"]
                assert transcript.take_warnings() == []
            lines = path.read_bytes().splitlines()
            (copy,) = path.parent.glob("session.jsonl.torn-*")
            assert path.read_bytes().startswith(good)
            assert json.loads(lines[-1])["parentId"] == "e3"
            assert json.loads(lines[-1])["id"] == appended.entry_id
            assert copy.read_bytes() == record[:cut]


def test_a_record_without_its_newline_is_kept(tmp_path: Path) -> None:
    """B16: only the newline is missing, so nothing is lost and nobody need be warned."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one", "two")]).rstrip(b"\n"))

    with opened(path) as transcript:
        transcript.append(say("three"))
        warnings = transcript.take_warnings()

    with opened(path) as transcript:
        assert texts(transcript.history) == ["one", "two", "three"]
    assert warnings == []


def test_a_torn_header_does_not_stop_the_session() -> None:
    """A crash during the very first write: what is left is kept in a copy, and a session begins."""
    header = json.dumps(HEADER).encode()

    for cut in (*range(1, len(header), 9), len(header) - 1, len(header)):
        with new_file(header[:cut]) as path:
            with opened(path) as transcript:
                transcript.append(say("hello"))

            with opened(path) as transcript:
                assert texts(transcript.history) == ["hello"]
                assert transcript.take_warnings() == []
            assert path.read_bytes().startswith(b'{"type"')


def test_a_zeroed_tail_is_cut_off(tmp_path: Path) -> None:
    """A power cut leaves NUL bytes at the end; the next record does not follow them on their line."""
    path = tmp_path / "s.jsonl"
    good = as_bytes([HEADER, *chain("one")])
    path.write_bytes(good + b"\x00" * 300)

    with opened(path) as transcript:
        transcript.append(say("two"))

    with opened(path) as transcript:
        assert texts(transcript.history) == ["one", "two"]
    assert b"\x00" not in path.read_bytes()


_DAMAGE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            as_bytes([HEADER]),
            as_bytes(chain("one", "two")),
            b'{"type":"message","id":"e1","parentId":"e1","message":{"role":"user","content":"\xff\xfe"}}\n',
            b'{"type":"message","id":7,"parentId":{},"message":[]}\n',
            b'{"type":"compaction","id":"c","parentId":"e2","summary":5,"firstKeptEntryId":["e1"]}\n',
            b'{"type":"message","message":' + b"[" * 3000 + b"]" * 3000 + b"}\n",
            b'{"type":"message","id":"d","message":{"role":"user","content":' + b"[" * 700 + b"]" * 700 + b"}}\n",
            b'{"type":"message","id":"n","message":{"role":"user","content":"x","timestamp":' + b"9" * 5000 + b"}}\n",
            '{"type":"message","id":"o","\uffffo":3,"\uffffl":5,"\uffffm":"no message"}\n'.encode(),
            b'{"type":"reset","id":"r","parentId":"e2","firstKeptEntryId":"e1"}\n',
            b'{"type":"custom_message","id":"u","parentId":"e1","content":{"a":1},"timestamp":"never"}\n',
            b'{"type":"branch_summary","id":"b","parentId":"e1","summary":"x","fromId":4}\n',
            b'{"type":"session","id":"other","version":1e3}\n{"type":"session","version":"4","id":"x"}\n',
            b'\xef\xbb\xbf{"type":"session","version":true,"id":"x"}\r\n',
            b"[1,2]\nnull\n5\n\x00\x00\n \t\r\n",
        ]
    ),
)


@settings(max_examples=250, deadline=None)
@given(st.lists(_DAMAGE, max_size=6), st.integers(0, 12))
def test_any_bytes_open_and_are_left_alone_until_an_append(parts: list[bytes], cut: int) -> None:
    """Whatever a file holds, opening and reading it raises nothing of Python's and changes nothing on disk."""
    content = b"".join(parts)
    content = content[: max(0, len(content) - cut)]
    with new_file(content) as path:
        try:
            transcript = Transcript.open(path)
        except OpenClawCtxError:
            assert path.read_bytes() == content
            return
        before = [*transcript.record()], [*transcript.history]
        assert path.read_bytes() == content
        transcript.append(say("go on"))
        live = [*transcript.record()], [*transcript.history]
        transcript.close()

        with opened(path) as transcript:
            again = [*transcript.record()], [*transcript.history]

    assert [message.entry_id for message in live[0][:-1]] == [message.entry_id for message in before[0]]
    assert [message.entry_id for message in live[1]] == [message.entry_id for message in again[1]]
    assert live[0][-1].text == again[0][-1].text == "go on"

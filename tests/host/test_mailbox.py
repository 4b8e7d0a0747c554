"""What crosses between threads arrives, in order, or is dropped, and never lands elsewhere."""

import asyncio
import os
import threading

import pytest

from openclaw_ctx.host.mailbox import Mailbox


async def test_items_arrive_in_order_from_many_threads() -> None:
    """Each poster's items keep their order, and none is lost or repeated."""
    received: list[tuple[int, int]] = []
    done = asyncio.Event()

    def receive(item: tuple[int, int]) -> None:
        received.append(item)
        if len(received) == 2_000:
            done.set()

    box = Mailbox(asyncio.get_running_loop(), receive)
    threads = [
        threading.Thread(target=lambda poster=poster: [box.post((poster, number)) for number in range(500)])
        for poster in range(4)
    ]

    for thread in threads:
        thread.start()
    await done.wait()

    for poster in range(4):
        assert [number for who, number in received if who == poster] == list(range(500))
    box.close()
    for thread in threads:
        thread.join()


async def test_a_loop_without_eventfd_gets_the_same_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems without eventfd take the loop's own way."""
    monkeypatch.setattr("openclaw_ctx.host.mailbox._HAS_EVENTFD", False)
    received: asyncio.Queue[int] = asyncio.Queue()
    box = Mailbox(asyncio.get_running_loop(), received.put_nowait)

    await asyncio.to_thread(lambda: [box.post(number) for number in range(3)])

    assert [await received.get() for _ in range(3)] == [0, 1, 2]
    box.close()


async def test_a_closed_box_writes_into_no_file_that_took_its_descriptor(tmp_path: object) -> None:
    """A late post must not land in whatever opened next."""
    received: list[int] = []
    box = Mailbox(asyncio.get_running_loop(), received.append)
    box.close()
    path = f"{tmp_path}/file"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    box.post(1)
    await asyncio.sleep(0)

    assert os.fstat(descriptor).st_size == 0
    assert received == []
    os.close(descriptor)


async def test_a_post_to_a_loop_that_has_ended_is_dropped() -> None:
    """Nobody waits any more, and the poster is not told off for it."""
    loop = asyncio.new_event_loop()
    box = Mailbox(loop, lambda _: None)
    loop.close()

    box.post(1)
    box.close()

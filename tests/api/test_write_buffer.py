"""Writes of the same moment are sent together, in order and without loss."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.api.write_buffer import CoalescingTransport

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Wire(asyncio.Transport):
    """Records the calls of its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.lost = False

    def write(self, data: Any) -> None:
        if self.lost:
            raise RuntimeError("the handler is closed")  # uvloop's message
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return self.lost

    def close(self) -> None:
        self.sent.append(b"closed")

    def abort(self) -> None:
        self.sent.append(b"aborted")


async def written(turns: list[list[bytes]], apart: float = 0.002) -> list[bytes]:
    """Return what is sent of pieces that are written in this many turns of the loop, `apart` seconds after each other.

    The clock stands still within a turn: a real one may advance by a millisecond between two pieces.
    """
    wire, loop = Wire(), asyncio.get_running_loop()
    clock = Mock(call_soon=loop.call_soon, time=Mock(return_value=1.0))
    corked = CoalescingTransport(wire, clock)
    for turn in turns:
        for piece in turn:
            corked.write(piece)
        await asyncio.sleep(0)
        clock.time.return_value += apart
    return wire.sent


def run(turns: list[list[bytes]]) -> list[bytes]:
    return asyncio.run(written(turns))


async def test_buffered_data_is_dropped_when_the_client_disconnects() -> None:
    wire, faults = Wire(), []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, fault: faults.append(fault))

    CoalescingTransport(wire, loop).write(HEAD)
    wire.lost = True
    await asyncio.sleep(0)

    assert (wire.sent, faults) == ([], [])


def test_a_head_is_sent_together_with_its_body() -> None:
    assert run([[HEAD, b"body"]]) == [HEAD + b"body"]


def test_a_head_without_a_body_is_sent_in_the_next_turn_of_the_event_loop() -> None:
    assert run([[HEAD], [b"first"], [b"second"]]) == [HEAD, b"first", b"second"]


def test_separate_pieces_are_sent_separately() -> None:
    assert run([[b"one"], [b"two"], [b"three"]]) == [b"one", b"two", b"three"]


def test_the_writes_of_one_turn_are_combined_into_two_at_most() -> None:
    assert run([[b"a", b"b", b"c", b"d"], [b"e"]]) == [b"a", b"bcd", b"e"]


@pytest.mark.parametrize("end", ["close", "abort"])
def test_buffered_data_is_sent_before_the_connection_closes(end: str) -> None:
    async def end_at_once() -> list[bytes]:
        wire = Wire()
        corked = CoalescingTransport(wire, asyncio.get_running_loop())
        corked.write(HEAD)
        corked.write(b"part")
        getattr(corked, end)()
        await asyncio.sleep(0)
        return wire.sent

    assert asyncio.run(end_at_once()) == [HEAD + b"part", f"{end}ed".encode().replace(b"ee", b"e")]


@given(st.lists(st.lists(st.sampled_from([HEAD, b"x", b"yy", b"HTTP/1.", b""])), max_size=6))
def test_the_bytes_are_the_same_in_the_same_order(turns: list[list[bytes]]) -> None:
    sent = asyncio.run(written(turns, apart=0))
    assert b"".join(sent) == b"".join(piece for turn in turns for piece in turn)


async def test_the_buffer_of_one_turn_is_bounded() -> None:
    """Else a writer would never learn that its client does not read."""
    wire = Wire()
    corked = CoalescingTransport(wire, asyncio.get_running_loop())
    corked.write(HEAD)
    for _ in range(100):
        corked.write(b"x" * 10_000)

    assert sum(map(len, wire.sent)) > 900_000

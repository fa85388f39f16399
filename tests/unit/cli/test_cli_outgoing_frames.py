"""What waits to be sent to a session: input in order, signals before it."""

import sys
import threading
from itertools import islice
from types import FrameType

import pytest

from drumbeat.cli.follow.session_terminal import MAX_INPUT, OutgoingFrames

pytestmark = pytest.mark.feature("M10")


def test_signal_frame_is_sent_before_waiting_input() -> None:
    outgoing = OutgoingFrames()
    for number in range(MAX_INPUT):
        outgoing.add_input(b"%d" % number)
    outgoing.add_signal(b"interrupt")
    outgoing.add_signal(b"size")
    assert [*islice(outgoing, 4)] == [b"interrupt", b"size", b"0", b"1"]


def test_input_waits_for_room() -> None:
    outgoing = OutgoingFrames()
    for _ in range(MAX_INPUT):
        outgoing.add_input(b"early")
    late = threading.Thread(target=outgoing.add_input, args=(b"late",), daemon=True)
    late.start()
    assert late.is_alive()
    assert [*islice(outgoing, MAX_INPUT + 1)] == [*[b"early"] * MAX_INPUT, b"late"]
    late.join(20)
    assert not late.is_alive()


def test_a_signal_handler_that_interrupts_another_one_adds_its_frame() -> None:
    outgoing, interrupts = OutgoingFrames(), [0]

    def interrupt(_frame: FrameType, _event: str, _argument: object) -> None:
        sys.setprofile(None)
        interrupts[0] += 1
        outgoing.add_signal(b"inner")
        sys.setprofile(interrupt)

    def handle() -> None:
        sys.setprofile(interrupt)  # It is called at each call and return, as a handler may be.
        outgoing.add_signal(b"outer")
        sys.setprofile(None)

    handler = threading.Thread(target=handle, daemon=True)
    handler.start()
    handler.join(20)
    assert not handler.is_alive()
    assert interrupts[0] > 3
    assert sorted(islice(outgoing, interrupts[0] + 1)) == [*[b"inner"] * interrupts[0], b"outer"]

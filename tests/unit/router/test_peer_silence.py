"""Whether a replica's machine is gone, by the kernel's numbers."""

import struct

import pytest

from drumbeat.router.peer_silence import is_silent


class Kernel:
    """A socket with these numbers in its `tcp_info`."""

    def __init__(self, retransmits: int, probes: int, last_ack_ms: int) -> None:
        self._raw = struct.pack("=8B13I", 1, 0, retransmits, probes, 0, 0, 0, 0, *([0] * 12), last_ack_ms)

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        del level, optname
        return self._raw[:buflen]


class WithoutNumbers(Kernel):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        raise OSError("no such option")


@pytest.mark.parametrize(
    ("retransmits", "probes", "last_ack_ms", "expected"),
    [
        (0, 0, 100, False),
        (0, 0, 60_000, False),  # A window that stays closed: the program doesn't read, and its machine answers.
        (0, 4, 4_000, True),
        (4, 0, 3_200, True),
        (2, 2, 9_000, False),
        (5, 0, 800, False),  # A slow network, which answers.
    ],
)
def test_machine_is_gone_after_tries_without_an_answer(retransmits: int, probes: int, last_ack_ms: int, expected: bool):
    assert is_silent(Kernel(retransmits, probes, last_ack_ms)) is expected


def test_kernel_without_these_numbers_says_nothing():
    assert not is_silent(WithoutNumbers(9, 9, 99_000))
    assert not is_silent(type("Short", (Kernel,), {"getsockopt": lambda *_: b"12"})(9, 9, 99_000))

"""What lets in the commands of other nodes, with the node that asks played by the test."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from drumbeat.node.launchers.remote import frames

pytestmark = pytest.mark.feature("L6")

STILL = "visit._pump = lambda *_: visit.ended.wait()"
"""Those who read while the command runs stand still."""
TOLD = "visit.pass_on(signal.SIGTERM)"


@contextmanager
def visiting(command: str, before: str = "") -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """A process that runs the command for whoever is at the other end of the line."""
    line, door = socket.socketpair()
    code = f"""
import signal, socket, sys
from drumbeat.node.launchers.remote.command_server import RemoteCommand
visit = RemoteCommand(socket.socket(fileno={door.fileno()}), {command!r})
{before}
sys.exit(visit.run())
"""
    with line:
        with door:
            process = subprocess.Popen([sys.executable, "-c", code], pass_fds=[door.fileno()])
        with process:
            yield line, process


def said(line: socket.socket) -> list[tuple[bytes, bytes]]:
    return list(frames.frames(line))


def test_last_output_of_a_command_precedes_its_exit():
    with visiting("echo last; echo loud >&2; exit 3", STILL) as (line, _):
        told = said(line)
    assert told == [(frames.OUT, b"last\n"), (frames.ERR, b"loud\n"), (frames.EXIT, b"3")]


def test_command_ends_despite_leftovers_that_hold_its_output():
    with visiting("echo last; sleep 20 & exit 0") as (line, _):
        assert said(line) == [(frames.OUT, b"last\n"), (frames.EXIT, b"0")]


def test_a_long_output_comes_whole_and_in_its_order():
    with visiting("seq 100000") as (line, _):
        told = said(line)
    text = b"".join(data for kind, data in told if kind == frames.OUT)
    assert text == b"".join(b"%d\n" % n for n in range(1, 100_001))
    assert told[-1] == (frames.EXIT, b"0")


def test_sigterm_reaches_the_command_also_when_it_came_before_that_began():
    with visiting("while :; do sleep 0.02; done", TOLD) as (line, _):
        assert said(line)[-1] == (frames.EXIT, b"143")


def test_command_is_ended_when_its_shell_disconnects():
    with visiting("exec sleep 600") as (line, process):
        line.close()
        assert process.wait(60) == 143

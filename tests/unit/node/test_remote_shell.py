"""What stands in for ssh on a job's nodes, with the other node's door played by the test."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from drumbeat.node.launchers.remote import frames


def a_shell(line: socket.socket, then: str = "") -> subprocess.Popen[str]:
    """A process that follows a command of another node over the line; `then` is what it does when that is over."""
    code = f"""
import os, signal, socket, sys
from drumbeat.node.launchers.remote import ssh_stand_in
with socket.socket(fileno={line.fileno()}) as line:
    with ssh_stand_in._passing_signals_on(line):
        pass
    code = ssh_stand_in._follow(line)
{then}
sys.exit(code)
"""
    words = [sys.executable, "-c", code]
    return subprocess.Popen(words, pass_fds=[line.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_after_the_commands_end_changes_nothing(number: signal.Signals):
    door, line = socket.socketpair()
    with door, line:
        following = a_shell(line, f"os.kill(os.getpid(), {int(number)})")
        door.sendall(frames.frame(frames.OUT, b"said\n") + frames.frame(frames.EXIT, b"7"))
        said, errors = following.communicate(timeout=60)
    assert (following.returncode, said, errors) == (7, "said\n", "")


def test_a_signal_that_the_other_node_is_too_far_gone_to_get_leaves_its_last_words_to_be_read():
    door, line = socket.socketpair()
    with door, line:
        following = a_shell(line)
        door.sendall(frames.frame(frames.OUT, b"begun\n"))
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        door.shutdown(socket.SHUT_RD)  # Whatever is sent to it fails.
        following.send_signal(signal.SIGTERM)
        door.sendall(frames.frame(frames.OUT, b"said\n"))
        assert following.stdout.readline() == "said\n"
        door.sendall(frames.frame(frames.EXIT, b"0"))
        said, errors = following.communicate(timeout=60)
    assert (following.returncode, said, errors) == (0, "", "")


def test_a_signal_goes_to_the_command():
    door, line = socket.socketpair()
    with door, line:
        following = a_shell(line)
        door.sendall(frames.frame(frames.OUT, b"begun\n"))
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        following.send_signal(signal.SIGTERM)
        assert next(frames.frames(door)) == (frames.SIGNAL, str(int(signal.SIGTERM)).encode())
        door.sendall(frames.frame(frames.EXIT, b"143"))
        assert following.wait(timeout=60) == 143
        following.communicate()

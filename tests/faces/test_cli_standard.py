"""What the command line writes comes whole, whatever happens to it meanwhile."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

WRITES = """
import sys
from drumbeat.cli.terminal import standard_streams
standard_streams.prepare()
sys.stdout.write("x" * 1_000_000 + "\\n")
print("é" * 300_000, flush=True)
standard_streams.flush_quietly()
"""


def waiting(file: int) -> int:
    """Bytes in a pipe."""
    return struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, bytes(4)))[0]


@pytest.mark.feature("M1")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_command_stopped_and_continued_within_a_write_loses_nothing(unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen([sys.executable, "-c", WRITES], stdout=subprocess.PIPE, env=environment) as writing:
        came = b""
        while writing.poll() is None or waiting(writing.stdout.fileno()):
            deadline = time.monotonic() + 60
            while not waiting(writing.stdout.fileno()) and writing.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            for number in (signal.SIGSTOP, signal.SIGCONT):  # As Ctrl-Z and `fg` do.
                writing.send_signal(number)
            came += os.read(writing.stdout.fileno(), 1 << 16)
    assert came == b"x" * 1_000_000 + b"\n" + "é".encode() * 300_000 + b"\n"

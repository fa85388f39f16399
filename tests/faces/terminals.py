"""Commands in terminals of their own, for what only a terminal shows: questions and Ctrl-C."""

import codecs
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Terminal:
    """A command in a terminal of its own. Texts are waited for one after the other.

    program: Python, which finds the words in `sys.argv`.
    """

    def __init__(self, program: str, *words: str) -> None:
        self.side, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""
        self.place = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while (found := self.seen.find(text, self.place)) < 0:
            ready, _, _ = select.select([self.side], [], [], max(deadline - time.monotonic(), 0))
            try:
                part = os.read(self.side, 65536) if ready else b""
            except OSError:
                part = b""
            if not part:
                raise AssertionError(f"{text!r} didn't come: {self.seen!r}")
            self.seen += self.decoder.decode(part)
        self.place = found + len(text)

    def ctrl_c(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            os.close(self.side)

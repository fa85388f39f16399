"""Reads GPUs for the process that started it: `python -I -m drumbeat.node.platform.gpu_reader_process LIBRARY`.

A call of a broken driver may never return, or crash. Each line of its input is a JSON list of GPUs' names, and is
answered by a line with their readings. It ends with its input, and by itself when an answer takes `MAX_ANSWER_S`.
"""

from __future__ import annotations

import json
import signal
import sys

from drumbeat.model.wire import to_wire
from drumbeat.node.platform.gpu_readings import read
from drumbeat.node.platform.nvml import Nvml, NvmlError

MAX_ANSWER_S = 30


def main() -> int:
    """Returns 1 if there is no driver."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # The signal ends the process in any call, except in state D.
    library: Nvml | None = None
    for line in sys.stdin.buffer:
        signal.alarm(MAX_ANSWER_S)
        try:
            library = library or Nvml(sys.argv[1])
        except NvmlError:
            return 1
        sys.stdout.write(json.dumps(to_wire(read(library, json.loads(line)))) + "\n")
        sys.stdout.flush()
        signal.alarm(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())

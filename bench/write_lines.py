"""The measured rank of bench/logs.py; drumbeat, a shell and torchrun start the same script.

write_lines.py loop N FILE        prints N lines one by one, then writes the seconds that took into FILE
write_lines.py flood MIB          writes so much as fast as it is taken, in lines of 100 bytes
write_lines.py steady MIB N       writes a MiB that often a second, N times
write_lines.py one-line MIB       writes so much without a line end
write_lines.py clock N PAUSE_S    prints the time N times, with pauses
"""

import os
import sys
import time
from pathlib import Path

LINE = b"x" * 99 + b"\n"
BLOCK = LINE * 10_000


def write_all(size: int, block: bytes) -> None:
    """So many bytes, in as few calls as they take."""
    left = size
    while left > 0:
        left -= os.write(1, block[:left])


kind, *words = sys.argv[1:]
match kind:
    case "loop":
        count, begun = int(words[0]), time.perf_counter()
        for number in range(count):
            print(f"step {number:8d} loss 0.1234 accuracy 0.9876")
        Path(words[1]).write_text(str(time.perf_counter() - begun), encoding="utf-8")
    case "flood":
        write_all(int(words[0]) << 20, BLOCK)
    case "steady":
        begun = time.monotonic()
        for number in range(int(words[1])):
            write_all(1 << 20, BLOCK)
            time.sleep(max(0.0, begun + (number + 1) / int(words[0]) - time.monotonic()))
    case "one-line":
        write_all(int(words[0]) << 20, b"x" * (1 << 20))
    case "clock":
        for _ in range(int(words[0])):
            print(time.time_ns(), flush=True)
            time.sleep(float(words[1]))
    case _:
        raise SystemExit(__doc__)

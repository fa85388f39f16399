"""Trains a few steps and saves by `torch.save`, as a script does that knows nothing of drumbeat.

At step 9 of the first round, rank 0 dies in the middle of a save, or its disk is full there: `HOW` says which.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

HOW, STEPS, FAIL_AT = sys.argv[1], 12, 9
FOLDER = Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"])
LAST = FOLDER / "last.pt"
BALLAST = torch.zeros(1 << 20)
HALF = 2 << 20


class Dying:
    """A file whose writer is killed when half of it is written."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb", buffering=0)

    def write(self, data: memoryview) -> int:
        if len(data) < HALF:
            return self.file.write(data)
        self.file.write(data[:HALF])
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def flush(self) -> None:
        pass


def say(sentence: str) -> None:
    """Prints at once."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def save(state: dict[str, Any], *, is_last: bool) -> None:
    """Writes over the last checkpoint, in place."""
    if not is_last:
        torch.save(state, LAST)
        return
    while not (copy := FOLDER / ".last-good/files/last.pt").exists() or copy.stat().st_mtime != LAST.stat().st_mtime:
        time.sleep(0.02)
    if HOW == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, resource.RLIM_INFINITY))
        torch.save(state, LAST)
    torch.save(state, Dying(LAST))


def main() -> None:
    dist.init_process_group("gloo")
    rank, round_ = dist.get_rank(), int(os.environ["DRUMBEAT_ROUND"])
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    first = 0
    if LAST.exists():
        state = torch.load(LAST, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        say(f"goes on after step {first}")
    for step in range(first + 1, STEPS + 1):
        x_b4 = torch.randn(8, 4, generator=torch.Generator().manual_seed(2 * step + rank))
        loss = ((model(x_b4) - x_b4.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        say(f"step {step}: loss {float(loss).hex()}")
        if step % 3 == 0 and rank == 0:
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "b": BALLAST}
            save(state, is_last=round_ == 1 and step == FAIL_AT)
        dist.barrier()
    dist.destroy_process_group()


main()

"""Measures the steps of a training and what they are made of. Standard library only; any framework.

Each block does so many steps with all ranks, then so many on a copy of the network that no other rank knows. What the
first take longer, beside the wait for data, is synchronisation that isn't hidden behind the computation.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WARMUP_STEPS = 2
BLOCKS = 3


@dataclass(frozen=True)
class Steps:
    """What is measured. `together` and `alone` do a step with a batch and return when it is done."""

    next_batch: Callable[[], Any]
    together: Callable[[Any], object]
    alone: Callable[[Any], object]
    barrier: Callable[[], object]
    highest: Callable[[list[float]], list[float]]
    """Returns for each place the highest value of all ranks."""


@dataclass(frozen=True)
class Block:
    """One block's means, of the slowest rank: a step's milliseconds, and images per second over all ranks."""

    images_per_s: float
    step_ms: float
    data_ms: float
    compute_ms: float
    sync_ms: float


def run_steps(steps: Steps, step: Callable[[Any], object], count: int) -> tuple[float, float]:
    """Returns the milliseconds of a step, and those of them that it waited for data."""
    steps.barrier()
    begun, data_s = time.perf_counter(), 0.0
    for _ in range(count):
        asked = time.perf_counter()
        batch = steps.next_batch()
        data_s += time.perf_counter() - asked
        step(batch)
    return (time.perf_counter() - begun) * 1000 / count, data_s * 1000 / count


def measure(steps: Steps, count: int, images: int) -> list[Block]:
    """Returns the blocks. count: steps of each half. images: of one step over all ranks."""
    for step in (steps.together, steps.alone):
        run_steps(steps, step, WARMUP_STEPS)
    blocks = []
    for _ in range(BLOCKS):
        step_ms, data_ms = run_steps(steps, steps.together, count)
        alone_ms, alone_data_ms = run_steps(steps, steps.alone, count)
        step_ms, data_ms, compute_ms = steps.highest([step_ms, data_ms, alone_ms - alone_data_ms])
        sync_ms = max(0.0, step_ms - data_ms - compute_ms)
        blocks.append(Block(images * 1000 / step_ms, step_ms, data_ms, compute_ms, sync_ms))
    return blocks


def save(folder: Path, blocks: list[Block], facts: dict[str, object]) -> None:
    """Writes `measured.json` and prints a line for each block."""
    for block in blocks:
        parts = " ".join(f"{name}={value:.1f}" for name, value in asdict(block).items())
        print(f"measured: {parts}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**facts, "blocks": [asdict(block) for block in blocks]}, indent=1)
    (folder / "measured.json").write_text(text, encoding="utf-8")

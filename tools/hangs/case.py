"""One labelled silence: a script, and what drumbeat should make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DISTRIBUTED = """\
import os, sys, threading, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, ones = dist.get_rank(), torch.ones(77)
dist.all_reduce(ones)
"""
"""How scripts of two ranks begin: the first collective has met all."""

PLAIN = """\
import os, sys, threading, time
rank = int(os.environ["RANK"])
"""
READY = 'print("ready", flush=True)\n'
NEEDS_ROOT, NEEDS_GPU = "root", "gpu"


@dataclass(frozen=True)
class Case:
    """A silence. Scripts print `ready` when it begins."""

    name: str
    script: str
    is_hang: bool
    odd: int | None = None
    """The rank that is to be named; None = none, or whichever."""
    ranks: int = 2
    begins: str = DISTRIBUTED
    needs: str = ""
    """What the machine must have: `root`, `gpu`."""

    @property
    def text(self) -> str:
        """The whole script."""
        return self.begins + self.script


def hang(name: str, script: str, odd: int | None = 1, **more: object) -> Case:
    """Returns a case in which nothing will go on by itself."""
    return Case(name, script, is_hang=True, odd=odd, **more)  # type: ignore[arg-type]


def busy(name: str, script: str, **more: object) -> Case:
    """Returns a case that goes on by itself, or that waits for something from outside."""
    return Case(name, script, is_hang=False, **more)  # type: ignore[arg-type]


def beside(work: str, waits: str = "dist.all_reduce(ones)") -> str:
    """Returns a script in which rank 1 does `work` while rank 0 waits for it."""
    lines = "\n".join(f"    {line}" for line in work.strip().splitlines())
    return f"{READY}if rank == 1:\n{lines}\n{waits}\n"


TUNED_LATER = frozenset({"rank left, store"})
"""Cases that were kept for judging until a change was made because of their verdict; others came in their place."""


def judged(cases: Sequence[Case]) -> set[str]:
    """Returns the names of the cases that are kept for judging: every second one."""
    return {case.name for case in cases[1::2]} - TUNED_LATER

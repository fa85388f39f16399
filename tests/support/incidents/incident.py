"""What a labelled incident is: a small script that goes wrong, and what a verdict on it must say."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from drumbeat.core.reason_table import REASONS
from drumbeat.model.states import Reason, Retry

COMMON = '''\
"""What the scripts of the incidents share: without torch, ranks meet, and wait until they are ended."""

import os
import pathlib
import signal
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def meet(name="start"):
    """Goes on when every rank is here."""
    pathlib.Path(f"{name}.{RANK}").touch()
    while not all(pathlib.Path(f"{name}.{rank}").exists() for rank in range(WORLD)):
        time.sleep(0.002)


def wait():
    """Until somebody ends this rank."""
    while True:
        signal.pause()


def group(**options):
    """torch.distributed, with every rank in one gloo group."""
    import torch.distributed as dist

    dist.init_process_group("gloo", **options)
    return dist
'''
"""The module `common`, which lies beside every script."""


@dataclass(frozen=True)
class Said:
    """What a verdict said, as far as a label judges it."""

    rank: int | None
    reason: str
    sentence: str
    advice: str = ""


@dataclass(frozen=True)
class Incident:
    """A script `t.py`, started once per rank on one node, and its label.

    ranks: one of these was the cause (several where they are equally so). says, advises: words that the sentence and
    the advice must hold. needs: `torch`, or `cgroup` (a memory cgroup that root can make; INCIDENT_CGROUP is its
    folder). files: further files beside the script.
    """

    name: str
    ranks: tuple[int, ...]
    reason: Reason
    script: str = ""
    says: str = ""
    advises: str = ""
    world: int = 4
    command: str = "python t.py"
    needs: frozenset[str] = frozenset()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def retry(self) -> Retry:
        """The class of retry that the reason stands for."""
        return REASONS[self.reason].retry

    @property
    def all_files(self) -> dict[str, str]:
        """Everything in the code folder, by name."""
        script = f"from common import *\n{dedent(self.script)}" if self.script else ""
        return {"common.py": COMMON, **({"t.py": script} if script else {}), **dict(self.files)}

    def wrong(self, said: Said) -> list[str]:
        """What a verdict got wrong: `rank`, `reason`, `retry`, `sentence`, `advice`; empty = nothing."""
        known = {row.value: row for row in Reason}
        retry = REASONS[known[said.reason]].retry if said.reason in known else None
        checks = {
            "rank": said.rank in self.ranks,
            "reason": said.reason == self.reason,
            "retry": retry is self.retry,
            "sentence": self.says.lower() in said.sentence.lower(),
            "advice": self.advises.lower() in said.advice.lower(),
        }
        return [name for name, is_right in checks.items() if not is_right]

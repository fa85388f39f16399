"""The name of a log: whose it is, and where it lies in an attempt's folder on a node and in a job's folder."""

from __future__ import annotations

import re
from typing import NamedTuple

NODE_LOG = -1
"""Stands for a rank where the log is the node's own: what making its environment and preparing it have printed."""

_PATH = re.compile(r"logs/(\d{1,9})\.(\d{1,9})/(\d{1,9})/(\d{1,9}|node)\.log", re.ASCII)


class LogName(NamedTuple):
    """One log of a job: a rank's, or with rank `NODE_LOG` the node's own."""

    attempt: int
    round: int
    node: int
    rank: int

    @property
    def path(self) -> str:
        """The log's path, relative to the attempt's folder and to the job's folder alike."""
        return f"logs/{self.attempt}.{self.round}/{self.node}/{log_stem(self.rank)}.log"

    @classmethod
    def from_path(cls, path: str) -> LogName:
        """The log with this `path`; each log has one. Raises ValueError."""
        match = _PATH.fullmatch(path)
        if match is None or any(len(one) > 1 and one.startswith("0") for one in match.groups()):
            raise ValueError(f"not the path of a log: {path[:200]!r}")
        return cls(int(match[1]), int(match[2]), int(match[3]), parse_rank(match[4]))


def log_stem(rank: int) -> str:
    """The file name of a log without its suffix: `0`, `1`, …, `node`."""
    return "node" if rank == NODE_LOG else str(rank)


def parse_rank(stem: str) -> int:
    """The rank with this `log_stem`. Raises ValueError."""
    return NODE_LOG if stem == "node" else int(stem)

"""Shares in a plan: what every node must have mounted before a job's ranks start."""

from __future__ import annotations

from dataclasses import dataclass

MOUNTED_BY = {"sshfs": "sshfs", "smb": "rclone", "s3": "rclone"}
"""The program with which nodes mount shares of a type; others are only checked."""


@dataclass(frozen=True)
class SharePlan:
    """A share as the nodes of a job check it. mount: whether they mount it where it isn't."""

    name: str
    type: str
    path: str
    source: str = ""
    mount: bool = False
    options: tuple[str, ...] = ()
    writable: bool = False

    def has(self, place: str) -> bool:
        """Whether a path lies on the share."""
        top = self.path.rstrip("/")
        return place == top or place.startswith(f"{top}/")

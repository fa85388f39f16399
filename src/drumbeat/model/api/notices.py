"""Notice targets as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoticeTargetView:
    """Where the server reports the ends of jobs. Its secrets are never shown."""

    name: str
    type: str
    """`webhook` or `mail`."""
    jobs: str
    """`named`: jobs that name it; `all`: every job."""
    on: tuple[str, ...]
    """The ends that are reported."""
    place: str
    """The host that it is sent to."""
    receivers: tuple[str, ...] = ()
    """Of a mail target."""
    description: str = ""
    problem: str = ""
    """Why the last notice could not be delivered; empty when it was."""

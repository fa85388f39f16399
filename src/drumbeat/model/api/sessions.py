"""Sessions and services of running jobs as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionStartRequest:
    """A command to run beside a rank.

    argv: the command and its arguments. rank: beside which it runs; the first of `node` when not given. is_tty: whether
    it gets a terminal, of so many rows and columns at first.
    """

    argv: list[str]
    rank: int | None = None
    node: int | None = None
    is_tty: bool = False
    rows: int = 24
    columns: int = 80


@dataclass(frozen=True)
class SessionView:
    """A session that has begun."""

    id: str
    rank: int
    node: int


@dataclass(frozen=True)
class ServiceLinkView:
    """A link that opens a service in a browser, once."""

    url: str
    """The whole address: services have ports of their own."""
    ends_s: float
    """For how many seconds the link works."""


@dataclass(frozen=True)
class ServiceView:
    """A service of a job on one node."""

    name: str
    type: str
    node: int
    is_running: bool
    problem: str = ""
    """Why it doesn't run; "" = it does, or the job's ranks don't run."""
    is_web: bool = True
    """Whether a browser opens it; one that isn't is reached by `drumbeat ssh`."""

    def command(self, job: str) -> str:
        """Returns the command that reaches it."""
        words = ["drumbeat", "open", job, self.name] if self.is_web else ["drumbeat", "ssh", job]
        return " ".join([*words, *(["--node", str(self.node)] if self.node else [])])

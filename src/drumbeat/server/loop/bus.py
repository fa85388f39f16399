"""The bus: tells everyone who subscribed what has changed. A change is named by its topic, and carries nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

JOB = "job"
"""Kind of the topics of jobs: published after each change of a job or of its logs."""


GANG = "gang"
"""Kind of the topics of gangs: published when the agents of a job should do something else."""

NODE = "node"
"""Kind of the topics of nodes: published when a node is asked for something."""


@dataclass(frozen=True)
class Topic:
    """One thing that can change. kind: what it is, such as `job`; name: which one."""

    kind: str
    name: str


def job_topic(name: str) -> Topic:
    """The topic of a job."""
    return Topic(JOB, name)


def gang_topic(job: str) -> Topic:
    """The topic of a job's gang. Long polls of its agents end with it, and with nothing else that changes of the job:
    of a thousand nodes each writes logs and reports.
    """
    return Topic(GANG, job)


def node_topic(job: str, node: int) -> Topic:
    """The topic of one of a job's nodes."""
    return Topic(NODE, f"{job}/{node}")


class Bus:
    """Passes topics from publishers to every subscriber, on the publisher's thread. Thread-safe."""

    def __init__(self) -> None:
        self._subscribers: dict[object, Callable[[Topic], None]] = {}

    def subscribe(self, hear: Callable[[Topic], None]) -> Callable[[], None]:
        """Calls `hear` for each topic from now on; returns the function that ends the subscription."""
        key = object()
        self._subscribers[key] = hear
        return lambda: self._subscribers.pop(key, None) and None

    def publish(self, topic: Topic) -> None:
        """Tells the subscribers that the topic's thing has changed."""
        for hear in list(self._subscribers.values()):
            hear(topic)

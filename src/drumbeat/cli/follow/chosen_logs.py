"""Which logs of a job are asked for: by rank, node and round, and whether there are such ones. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drumbeat.protocol.api.jobs import JobView, LogPiece
from drumbeat.protocol.errors import NotFoundError


@dataclass(frozen=True)
class Chosen:
    """Which pieces are shown; None = all, but what is only shown where its rank or its node is asked for."""

    rank: int | None = None
    node: int | None = None
    round: tuple[int, int] | None = None
    job: JobView | None = None

    def has(self, piece: LogPiece) -> bool:
        """Whether a piece is one of them."""
        return (
            self.rank in (None, piece.rank)
            and self.node in (None, piece.node)
            and self.round in (None, (piece.attempt, piece.round))
            and not (self.is_open and self.job and self.job.is_infrastructure(piece.rank))
        )

    @property
    def is_open(self) -> bool:
        """Whether neither a rank nor a node was asked for."""
        return self.rank is None and self.node is None

    @property
    def sentence(self) -> str:
        """What is asked for in words; "" = everything."""
        places = (("rank", self.rank), ("node", self.node), ("round", self.round and _dotted(self.round)))
        return " and ".join(f"{kind} {place}" for kind, place in places if place is not None)


@dataclass(frozen=True)
class _Lack:
    """A rank, a node or a round that a job doesn't have. size: how many it has, or its last."""

    job: str
    kind: str
    place: str
    size: tuple[int, ...]
    advice: str


def check_places(job: JobView, chosen: Chosen) -> None:
    """Raises NotFoundError for a rank or a node that the job doesn't have: silence would look like an empty log."""
    for lack in _lacks(job, chosen):
        raise NotFoundError(f"the job has no {lack.kind} {lack.place}", where=job.name, fix=lack.advice)


def check_steps(pipeline: str, jobs: Sequence[JobView], chosen: Chosen) -> None:
    """Raises NotFoundError where none of the steps' jobs has what is asked for."""
    lacks = [lack for job in jobs for lack in list(_lacks(job, chosen))[:1]]
    if not lacks or len(lacks) < len(jobs):
        return
    largest = max((lack for lack in lacks if lack.kind == lacks[0].kind), key=lambda lack: lack.size)
    advice = f"{largest.job} has the most {largest.kind}s. {largest.advice}" if len(jobs) > 1 else largest.advice
    raise NotFoundError(f"no step has {chosen.sentence}", where=pipeline, fix=advice)


def _lacks(job: JobView, chosen: Chosen) -> Iterator[_Lack]:
    nodes, ranks = job.node_count, job.world_size
    if job.elastic:  # An earlier attempt may have had more.
        nodes, ranks = job.elastic.max_nodes, ranks // nodes * job.elastic.max_nodes
    for kind, number, size in (("rank", chosen.rank, ranks), ("node", chosen.node, nodes)):
        if number is not None and number >= size:
            advice = f"It has {kind}s 0 to {size - 1}." if size > 1 else f"Its only {kind} is 0."
            yield _Lack(job.name, kind, str(number), (size,), advice)
    last = (job.attempt, job.round)
    if chosen.round is not None and chosen.round > last and job.ended_at:
        advice = f"Its last is {_dotted(last)}; it has ended."
        yield _Lack(job.name, "round", _dotted(chosen.round), last, advice)


def _dotted(number: tuple[int, int]) -> str:
    return ".".join(map(str, number))

"""The file that an agent is started with, for every engine."""

from __future__ import annotations

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.ports.engines import Gang


def enrolment(  # noqa: PLR0913 (keywords, most with a default)
    gang: Gang, node: int, *, root: str, checkpoints: str, address: str = "", keeps_spares: bool = False,
    has_ranks: bool = False,
) -> str:  # fmt: skip
    """The file's content. root: the attempt's folder on the node. address: "" = the node detects the address at which
    the other nodes reach it. keeps_spares: whether warm workers may outlive the job there.
    has_ranks: for an agent of an earlier version, which can't assign its ranks itself.
    """
    return wire.dumps(
        Enrolment(
            job=gang.job,
            attempt=gang.attempt,
            node=node,
            servers=gang.servers,
            secret=gang.node_secret(node),
            root=root,
            checkpoints=checkpoints,
            plan=gang.plan if has_ranks else gang.node_plan,
            address=address,
            gpus=gang.slots[node].gpus,
            ca=gang.ca,
            keeps_spares=keeps_spares,
            peer_secret=gang.peer_secret,
        )
    )

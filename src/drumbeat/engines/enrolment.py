"""The file that an agent is started with, for every engine."""

from __future__ import annotations

from drumbeat.ports import Gang
from drumbeat.protocol import wire
from drumbeat.protocol.agent import Enrolment


def enrolment(gang: Gang, node: int, *, root: str, checkpoints: str, address: str = "") -> str:
    """Its text. root: the attempt's folder on the node. address: "" = the node finds out how the others reach it."""
    return wire.dumps(
        Enrolment(
            job=gang.job,
            attempt=gang.attempt,
            node=node,
            servers=gang.servers,
            secret=gang.secret,
            root=root,
            checkpoints=checkpoints,
            plan=gang.plan,
            address=address,
            gpus=gang.slots[node].gpus,
            ca=gang.ca,
        )
    )

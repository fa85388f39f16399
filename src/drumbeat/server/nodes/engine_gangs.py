"""Gangs as engines are given them: a job's attempt with its secret and the addresses at which its agents call.

A secret opens one node of one attempt. It is derived from the servers' key, so that any server knows its agents again:
the key gives the attempt's, which never leaves the servers, and that one gives the nodes'.
"""

from __future__ import annotations

import hashlib
import hmac
import re

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import SpecError, StaleError, UnauthorizedError
from drumbeat.model.unique_names import unique_name
from drumbeat.ports.engines import Gang, node_secret, peer_secret
from drumbeat.server.computes.agent_addresses import AgentAddresses

_MARK = "."
_VERSION = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class Secrets:
    """The secrets of attempts and of their nodes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, job: str, attempt: int, first_version: int = 1) -> str:
        """The secret of an attempt, as `Gang` has it. first_version: as `Job` has it; a secret begins with one that
        isn't 1.
        """
        text = f"{unique_name(job, first_version)}\0{attempt}"
        digest = hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
        return f"{first_version}{_MARK}{digest}" if first_version > 1 else digest

    def of_peers(self, job: Job) -> str:
        """What the nodes of a job's current attempt share, and prove themselves to each other with."""
        secret = self.of(job.name, job.attempt, job.first_version)
        return peer_secret(secret) if job.has_node_secrets(job.attempt) else secret

    def check(self, job: str, attempt: int, node: int, secret: str) -> None:
        """Raises UnauthorizedError for a secret that isn't the node's, whether or not the job exists.

        The attempt's own is let pass: `check_job` knows whether the agents of this attempt were given that one.
        """
        own = self.of(job, attempt, _first_version(secret))
        is_nodes = hmac.compare_digest(secret.encode(), node_secret(own, node).encode())
        if not is_nodes and not hmac.compare_digest(secret.encode(), own.encode()):
            raise UnauthorizedError(f"not the secret of node {node} of attempt {attempt} of job {job}")

    def check_job(self, job: Job, attempt: int, node: int, secret: str) -> None:
        """Raises StaleError for a checked secret that is of a deleted job with the name of this one, UnauthorizedError
        for one of a whole attempt whose nodes have a secret each, SpecError for a node that the job doesn't have.
        """
        if _first_version(secret) != job.first_version:
            raise StaleError(f"that job {job.name} was deleted, and another job has its name")
        if job.has_node_secrets(attempt) and secret == self.of(job.name, attempt, job.first_version):
            raise UnauthorizedError(f"not the secret of node {node} of attempt {attempt} of job {job.name}")
        elastic = job.plan.elastic
        nodes = elastic.max_nodes if elastic and attempt != job.attempt else job.plan.nodes
        if not 0 <= node < nodes:
            raise SpecError(f"job {job.name} has no node {node}", where="node", fix=f"Its nodes are 0 to {nodes - 1}.")


def _first_version(secret: str) -> int:
    digits, mark, _ = secret.partition(_MARK)
    return int(digits) if mark and _VERSION.fullmatch(digits) else 1


class GangFactory:
    """Makes the gangs of jobs."""

    def __init__(self, secrets: Secrets, addresses: AgentAddresses) -> None:
        self._secrets, self._addresses = secrets, addresses

    def of(self, job: Job) -> Gang:
        """The gang of a job's current attempt. Raises EngineError, UnreachableError where its agents can't call."""
        servers = self._addresses.open_for(job.plan.compute)
        secret, ca = self._secrets.of(job.name, job.attempt, job.first_version), self._addresses.authority(servers)
        has_node_secrets = job.has_node_secrets(job.attempt)
        return Gang(
            job.name, job.attempt, job.plan, job.slots, secret, servers, ca, job.first_version, has_node_secrets,
            taken=job.taken.gang if job.taken else "",
        )  # fmt: skip

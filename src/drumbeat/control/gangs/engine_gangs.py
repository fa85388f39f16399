"""Gangs as engines are given them: a job's attempt with its secret and the addresses at which its agents call."""

from __future__ import annotations

import hashlib
import hmac

from drumbeat.control.computes.agent_addresses import AgentAddresses
from drumbeat.core.life.job import Job
from drumbeat.ports import Gang
from drumbeat.protocol.errors import UnauthorizedError


class Secrets:
    """The secrets of attempts. They are derived from the servers' key, so that any server knows its agents again."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, job: str, attempt: int) -> str:
        """The secret of an attempt."""
        return hmac.new(self._key, f"{job}\0{attempt}".encode(), hashlib.sha256).hexdigest()

    def check(self, job: str, attempt: int, secret: str) -> None:
        """Raises UnauthorizedError for a secret that isn't the attempt's, whether or not the job exists."""
        if not hmac.compare_digest(secret.encode(), self.of(job, attempt).encode()):
            raise UnauthorizedError(f"not the secret of attempt {attempt} of job {job}")


class GangFactory:
    """Makes the gangs of jobs."""

    def __init__(self, secrets: Secrets, addresses: AgentAddresses) -> None:
        self._secrets, self._addresses = secrets, addresses

    def of(self, job: Job) -> Gang:
        """The gang of a job's current attempt. Raises EngineError, UnreachableError where its agents can't call."""
        servers = self._addresses.open_for(job.plan.compute)
        secret, ca = self._secrets.of(job.name, job.attempt), self._addresses.authority(servers)
        return Gang(job.name, job.attempt, job.plan, job.slots, secret, servers, ca)

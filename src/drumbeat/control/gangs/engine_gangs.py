"""Gangs as engines are given them: a job's attempt with its secret and the addresses at which its agents call."""

from __future__ import annotations

import hashlib
import hmac
import re

from drumbeat.control.computes.agent_addresses import AgentAddresses
from drumbeat.core.life.job import Job
from drumbeat.ports import Gang
from drumbeat.protocol.errors import StaleError, UnauthorizedError
from drumbeat.protocol.unique_names import unique_name

_MARK = "."
_VERSION = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class Secrets:
    """The secrets of attempts. They are derived from the servers' key, so that any server knows its agents again."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, job: str, attempt: int, first_version: int = 1) -> str:
        """The secret of an attempt. first_version: as `Job` has it; a secret begins with one that isn't 1."""
        text = f"{unique_name(job, first_version)}\0{attempt}"
        digest = hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
        return f"{first_version}{_MARK}{digest}" if first_version > 1 else digest

    def check(self, job: str, attempt: int, secret: str) -> None:
        """Raises UnauthorizedError for a secret that isn't the attempt's, whether or not the job exists."""
        if not hmac.compare_digest(secret.encode(), self.of(job, attempt, _first_version(secret)).encode()):
            raise UnauthorizedError(f"not the secret of attempt {attempt} of job {job}")

    def check_job(self, job: Job, secret: str) -> None:
        """Raises StaleError for a checked secret that is of a deleted job with the name of this one."""
        if _first_version(secret) != job.first_version:
            raise StaleError(f"that job {job.name} was deleted, and another job has its name")


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
        return Gang(job.name, job.attempt, job.plan, job.slots, secret, servers, ca, job.first_version)

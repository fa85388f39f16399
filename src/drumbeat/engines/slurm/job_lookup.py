"""Finds the Slurm job of a gang that squeue doesn't show: by its id, or by its name and user."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drumbeat.engines.slurm.client import Ended, Slurm
from drumbeat.node.host.gangs import write_private

MAX_STATUS_AGE_S = 1.5
"""The maximum age of the last answer about a living job."""
MAX_SEARCH_AGE_S = 30.0
"""The maximum age of the last search for a job by its name: a search lists all jobs of the cluster."""
ID_FILE = "number"
"""The file in a gang's folder with the id of its Slurm job."""


@dataclass(frozen=True)
class _Answer:
    """The last answer about a gang's job, by its id."""

    id: str
    ended: Ended | None
    """None = slurmctld, or the accounts, don't know the job."""
    at: float
    """The time of the request, by the monotonic clock."""
    has_accounts: bool = False
    """Whether the accounts were asked, too."""

    @property
    def is_final(self) -> bool:
        return self.ended is None or self.ended.is_over


class JobLookup:
    """The Slurm jobs of gangs, and the last answers about them. As thread-safe as its callers."""

    def __init__(self, slurm: Slurm, gang_folder: Callable[[str], Path], job_name: Callable[[str], str]) -> None:
        self._slurm, self._gang_folder, self._job_name = slurm, gang_folder, job_name
        self._answers: dict[str, _Answer] = {}
        self._searches: dict[str, tuple[str, float]] = {}
        """The result of the last search for a gang's name ("" = none), and its time."""

    def submitted(self, gang: str, number: str) -> None:
        """Records the id of a gang's new job, for the next server."""
        self.forget(gang)
        with contextlib.suppress(OSError):  # The job is submitted all the same.
            write_private(self._gang_folder(gang) / ID_FILE, number)

    def forget(self, gang: str) -> None:
        """Drops the answers about a gang."""
        self._answers.pop(gang, None)
        self._searches.pop(gang, None)

    def job_id(self, gang: str, *, is_fresh: bool = False) -> str:
        """The recorded id of a gang's job, else the result of a search for its name; "" = none.

        Raises UnreachableError while slurmctld doesn't answer a search.
        """
        return self.written_id(gang) or self._search(gang, is_fresh=is_fresh)

    def written_id(self, gang: str) -> str:
        """The id that the submitting server recorded, else the one in the name of its output; "" = unknown."""
        folder = self._gang_folder(gang)
        ids = [file.stem.removeprefix("slurm-") for file in folder.glob("slurm-*.out")]
        with contextlib.suppress(OSError):
            ids.insert(0, (folder / ID_FILE).read_text(errors="replace"))
        return next(filter(re.compile(r"[0-9]+").fullmatch, ids), "")

    def _search(self, gang: str, *, is_fresh: bool) -> str:
        # The folder is written before the job is submitted: without it there is no job.
        if not self._gang_folder(gang).exists():
            return ""
        number, at = self._searches.get(gang, ("", float("-inf")))
        if not number and (is_fresh or time.monotonic() - at > MAX_SEARCH_AGE_S):
            now = time.monotonic()
            number = next(iter(self._slurm.job_ids(self._job_name(gang))), "")
            self._searches[gang] = number, now
        return number

    def how_ended(self, gang: str, number: str, *, is_fresh: bool) -> Ended | None:
        """The end of a job, by slurmctld, else by the accounts; its state so far, if it isn't over."""
        status, last = self.status(gang, number, is_fresh=is_fresh), self._answers.get(gang)
        if status or not number or not last or last.has_accounts:
            return status
        status = self._slurm.accounted(number, self._job_name(gang))
        self._answers[gang] = _Answer(number, status, last.at, has_accounts=True)
        return status

    def status(self, gang: str, number: str, *, is_fresh: bool = False) -> Ended | None:
        """The state of a gang's job of this id, by slurmctld; None = it has none.

        An answer that can't change is asked for once, others at most every `MAX_STATUS_AGE_S` unless `is_fresh`.
        """
        last, now = self._answers.get(gang), time.monotonic()
        if last and last.id == number and (last.is_final or (not is_fresh and now - last.at < MAX_STATUS_AGE_S)):
            return last.ended
        if not number:
            return None
        ended = self._slurm.shown(number, self._job_name(gang))
        self._answers[gang] = _Answer(number, ended, now)
        return ended

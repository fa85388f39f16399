"""Finding the Slurm job of a gang where squeue does not show it: by its id, or by its name and user."""

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
"""How old the last answer about a job that lives may be."""
MAX_SEARCH_AGE_S = 30.0
"""How old the last search for a job by its name may be: it asks for all jobs of the cluster."""
ID_FILE = "number"
"""The file in a gang's folder with the id of its Slurm job."""


@dataclass(frozen=True)
class _Answer:
    """What was last said of a gang's job, asked for by its id."""

    id: str
    ended: Ended | None
    """None = slurmctld, or accounts, do not know it."""
    at: float
    """When it was asked, by the monotonic clock."""
    has_accounts: bool = False
    """Whether accounts were asked too."""

    @property
    def is_final(self) -> bool:
        return self.ended is None or self.ended.is_over


class JobLookup:
    """The Slurm jobs of gangs, and the last answers about them. Thread-safe as far as its callers are."""

    def __init__(self, slurm: Slurm, folder_of: Callable[[str], Path], name_of: Callable[[str], str]) -> None:
        self._slurm, self._folder_of, self._name_of = slurm, folder_of, name_of
        self._answers: dict[str, _Answer] = {}
        self._searches: dict[str, tuple[str, float]] = {}
        """The id that the last search for a gang's name gave, "" = none, and when it was made."""

    def submitted(self, gang: str, number: str) -> None:
        """Writes down the id of a gang's new job, for the next server."""
        self.forget(gang)
        with contextlib.suppress(OSError):  # It is submitted nevertheless.
            write_private(self._folder_of(gang) / ID_FILE, number)

    def forget(self, gang: str) -> None:
        """Drops what was said of a gang."""
        self._answers.pop(gang, None)
        self._searches.pop(gang, None)

    def id_of(self, gang: str, *, is_fresh: bool = False) -> str:
        """The id of a gang's job as it was written down, else as a search for its name finds it; "" = there is none.

        Raises UnreachableError while slurmctld does not answer a search.
        """
        return self.written_id(gang) or self._search(gang, is_fresh=is_fresh)

    def written_id(self, gang: str) -> str:
        """The id that the server which submitted it wrote down, else the one in its output's name; "" = not known."""
        folder = self._folder_of(gang)
        ids = [file.stem.removeprefix("slurm-") for file in folder.glob("slurm-*.out")]
        with contextlib.suppress(OSError):
            ids.insert(0, (folder / ID_FILE).read_text(errors="replace"))
        return next(filter(re.compile(r"[0-9]+").fullmatch, ids), "")

    def _search(self, gang: str, *, is_fresh: bool) -> str:
        # The folder is laid out before the job is submitted: without it there is no job.
        if not self._folder_of(gang).exists():
            return ""
        number, at = self._searches.get(gang, ("", float("-inf")))
        if not number and (is_fresh or time.monotonic() - at > MAX_SEARCH_AGE_S):
            now = time.monotonic()
            number = next(iter(self._slurm.ids_of(self._name_of(gang))), "")
            self._searches[gang] = number, now
        return number

    def how_ended(self, gang: str, number: str, *, is_fresh: bool) -> Ended | None:
        """How a job ended, by slurmctld, else by accounts; how far it is, if it is not over."""
        status, last = self.status(gang, number, is_fresh=is_fresh), self._answers.get(gang)
        if status or not number or not last or last.has_accounts:
            return status
        status = self._slurm.accounted(number, self._name_of(gang))
        self._answers[gang] = _Answer(number, status, last.at, has_accounts=True)
        return status

    def status(self, gang: str, number: str, *, is_fresh: bool = False) -> Ended | None:
        """What slurmctld says of a gang's job of this id; None = it has none.

        It is asked once if the answer cannot change, else at most each `MAX_STATUS_AGE_S`, unless it must be fresh.
        """
        last, now = self._answers.get(gang), time.monotonic()
        if last and last.id == number and (last.is_final or (not is_fresh and now - last.at < MAX_STATUS_AGE_S)):
            return last.ended
        if not number:
            return None
        ended = self._slurm.shown(number, self._name_of(gang))
        self._answers[gang] = _Answer(number, ended, now)
        return ended

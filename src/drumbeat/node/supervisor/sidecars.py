"""The sidecars of a round: services and sessions. They run in its confinement, and none of them is a rank.

A session gets the variables and the folder of a rank. When the ranks end, the supervisor ends their leftovers,
including sidecars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drumbeat.model.process import SIDECAR
from drumbeat.model.supervisor import ProcessStart, SessionStart, SidecarExit
from drumbeat.node.supervisor import rank_start
from drumbeat.node.supervisor.confinement import Subreaper

_MAX_EXITS = 200
"""The number of exits that are kept, newest first to stay."""


class Sidecars:
    """Starts the sidecars of one round and records their ends."""

    def __init__(self, ranks: Sequence[ProcessStart] = ()) -> None:
        self._ranks = {rank.rank: rank for rank in ranks}
        self._running: dict[int, str] = {}
        """Names of running sidecars, by pid."""
        self._seen: set[str] = set()
        self._exits: list[SidecarExit] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of running sidecars."""
        return tuple(sorted(self._running.values()))

    @property
    def exits(self) -> tuple[SidecarExit, ...]:
        """The exits of the others, in order."""
        return tuple(self._exits)

    def start_services(self, services: Sequence[ProcessStart], confinement: Subreaper) -> None:
        """Starts the services of the round; one that can't be started counts as ended."""
        for service in services:
            self._start(service.role, service, confinement)

    def start_sessions(self, sessions: Sequence[SessionStart], confinement: Subreaper) -> bool:
        """Starts new sessions; returns whether there were any."""
        new = [one for one in sessions if one.id not in self._seen]
        for one in new:
            self._seen.add(one.id)
            rank = self._ranks.get(one.rank)
            if rank is None:
                self._add_exit(SidecarExit(one.id, error=f"rank {one.rank} isn't on this node"))
                continue
            kept = {name: value for name, value in rank.env.items() if name not in one.left_out}
            process = replace(rank, argv=one.argv, log=one.log, env={**kept, SIDECAR: one.id}, rank=-1, joins="")
            confinement.resume()  # While the next round is being prepared, forks may be born into another confinement.
            self._start(one.id, process, confinement)
        return bool(new)

    def end(self, pid: int, code: int) -> bool:
        """Records that a process has ended; returns whether it was a sidecar."""
        name = self._running.pop(pid, None)
        if name is None:
            return False
        self._add_exit(SidecarExit(name, code if code >= 0 else None, -code if code < 0 else None))
        return True

    def _start(self, name: str, process: ProcessStart, confinement: Subreaper) -> None:
        try:
            self._running[rank_start.start(process, confinement)] = name
        except OSError as error:
            self._add_exit(SidecarExit(name, error=str(error.strerror)))

    def _add_exit(self, ended: SidecarExit) -> None:
        self._exits = [*self._exits, ended][-_MAX_EXITS:]

"""A Slurm cluster whose machines come and go: cloud nodes are nodes of the lab that are switched on and off.

Slurm runs its resume and suspend programs inside the head's node, where nothing can be switched. They append what they
are asked for to a file, and a thread of the test carries it out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drumbeat.engines.netlab.lab import Lab
from tools.slurmlab import SlurmLab, until

RESUME_TIMEOUT_S = 40
SUSPEND_TIMEOUT_S = 15
"""How long Slurm shows a machine as going. drumbeat looks each 10 s where no job waits."""


@dataclass
class ElasticLab(SlurmLab):
    """The cluster. suspend_s: after so long without a job Slurm switches a machine off.

    start_s: how long a machine takes to come, long enough to be seen. broken: machines that never come.
    """

    suspend_s: int = 8
    start_s: float = 5.0
    broken: set[str] = field(default_factory=set[str])
    _is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def requests(self) -> Path:
        """What Slurm's programs have asked for, a line each: the machine, and what."""
        return self.folder / "requests"

    def up(self) -> None:
        self.lay_out()
        for request in ("resume", "suspend", "resumefail"):
            program = self.folder / request
            names = f'SLURM_CONF={self.conf} scontrol show hostnames "$1"'
            program.write_text(f"#!/bin/sh\nfor n in $({names}); do echo $n {request} >> {self.requests}; done\n")
            program.chmod(0o755)
        self.requests.write_text("")
        self._munge(self.head)
        self.start_slurmctld()
        for name in self.names:
            self.lab.switch_off(name)
        threading.Thread(target=self._provide, name="provider", daemon=True).start()

    def down(self) -> None:
        """Ends the thread that switches machines."""
        self._is_over.set()

    def _provide(self) -> None:
        done = 0
        while not self._is_over.wait(0.2):
            lines = self.requests.read_text().splitlines()
            for line in lines[done:]:
                name, request = line.split()
                if request != "resume":
                    self.lab.switch_off(name)
                elif name not in self.broken:
                    threading.Thread(target=self._bring, args=[name], daemon=True).start()
            done = len(lines)

    def _bring(self, name: str) -> None:
        self._is_over.wait(self.start_s)
        self.lab.switch_on(name)
        with contextlib.suppress(AssertionError):  # The lab may be ending.
            until(lambda: self.lab.pid_of(name), "the node is on")
            until(lambda: self._is_over.is_set() or self._has_started(name), "its daemons run")

    def _has_started(self, name: str) -> bool:
        try:
            self.start(name)
        except AssertionError:  # Another resume of the same machine runs.
            return False
        return True

    def are_off(self) -> bool:
        """Whether every machine is switched off, and Slurm knows it."""
        states = self.slurm("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()
        return set(states) == {"idle~"} and not any(map(self.lab.pid_of, self.names))

    def _conf(self) -> str:
        text = super()._conf()
        for node in self.lab.blueprint()["nodes"][1:]:
            line = f"NodeName={node['name']} NodeAddr={node['address']}\n"
            text = text.replace(line, line.rstrip() + " State=CLOUD\n")
        for partition in ("main", "low", "slow", "spot"):
            line = f"PartitionName={partition} "
            text = text.replace(line, f"{line}SuspendTime={self.suspend_s} ")
        # Without PrivateData=cloud sinfo and scontrol hide machines that are switched off.
        return (
            text
            + f"""PrivateData=cloud
ResumeProgram={self.folder}/resume
SuspendProgram={self.folder}/suspend
ResumeFailProgram={self.folder}/resumefail
SuspendTime=-1
SuspendTimeout={SUSPEND_TIMEOUT_S}
ResumeTimeout={RESUME_TIMEOUT_S}
ResumeRate=0
SuspendRate=0
SlurmctldParameters=idle_on_node_suspend
"""
        )


@contextlib.contextmanager
def elastic_lab(folder: Path, name: str, nodes: int) -> Iterator[ElasticLab]:
    """A cluster whose machines are all switched off."""
    lab = Lab(folder / "lab", name, nodes + 1)
    cluster = ElasticLab(lab, folder)
    try:
        lab.up()
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        lab.close()

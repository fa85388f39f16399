"""A real Slurm cluster on the nodes of a lab: the first has slurmctld, the others slurmd, each a munged of its own.

Everything runs inside nodes, so it ends with the lab, however that ends. Slurm's commands are called from this machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.errors import EngineError
from tools.debian_packages import install

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
_NEWS = "news"
_QUESTIONS = ("squeue", "sinfo")
"""Asked again when a busy machine was too slow to answer within Slurm's own timeouts."""
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge")


def missing() -> str:
    """What is missing for it, "" = nothing any more: root has it installed."""
    try:
        require_tools()
    except EngineError as error:
        return str(error)
    if not all(map(_where, PROGRAMS)):
        install(*PACKAGES)
    if not all(map(_where, PROGRAMS)):
        return f"Slurm isn't here: install it (Debian: apt-get install {' '.join(PACKAGES)})"
    return ""


def _where(program: str) -> str:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""


@dataclass
class SlurmLab:
    """The cluster. shared: a folder that all nodes see. conf: what SLURM_CONF must be."""

    lab: Lab
    folder: Path

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    @property
    def head(self) -> str:
        return f"{self.lab.name}-1"

    @property
    def names(self) -> list[str]:
        """The nodes that jobs run on."""
        return [node["name"] for node in self.lab.blueprint()["nodes"]][1:]

    def up(self) -> None:
        self.lay_out()
        self._munge(self.head)
        self.start_slurmctld()
        for name in self.names:
            self.start(name)
        self.await_nodes("idle", self.names)

    def lay_out(self) -> None:
        """Writes what its daemons read."""
        for part in ("shared", "munge", "state", "spool", "scratch"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "munge" / "key").write_bytes(os.urandom(128))
        (self.folder / "munge" / "key").chmod(0o400)
        own = f"{self.folder}/scratch/$SLURMD_NODENAME"
        prolog = self.folder / "prolog"
        prolog.write_text(f"#!/bin/sh\nmkdir -p {own}\necho export TMPDIR={own}\n")
        prolog.chmod(0o755)
        self.conf.write_text(self._conf())

    def _munge(self, name: str) -> None:
        socket = self.folder / "munge" / ("socket" if name == self.head else f"{name}.socket")
        files = [f"--{kind}-file={self.folder}/munge/{name}.{kind}" for kind in ("pid", "log", "seed")]
        key = f"--key-file={self.folder}/munge/key"
        self.on(name, _where("munged"), "--force", f"--socket={socket}", key, *files)
        if name != self.head:
            self.on(name, "mount", "--bind", str(socket), str(self.folder / "munge" / "socket"))

    def start(self, name: str) -> None:
        """A node's munged and slurmd."""
        self._munge(name)
        self.on(name, _where("slurmd"), "-b", "-N", name)

    def start_slurmctld(self) -> None:
        self.on(self.head, _where("slurmctld"))
        until(lambda: "UP" in self.slurm("scontrol", "ping", ok=False), "slurmctld is up")
        until(self._has_no_news, "what was to be saved is gone")

    def _has_no_news(self) -> bool:
        self.slurm("scancel", f"--name={_NEWS}", ok=False)
        return not self.slurm("squeue", "-h", f"--name={_NEWS}").strip()

    def kill_slurmctld(self) -> None:
        """Once it has saved what it knows, which it does every few seconds: what it hasn't saved it would forget.

        A job whose end it has forgotten would have its nodes for another minute. It saves only what is new, so there is
        something new again and again: a job that never starts. One alone may have been saved too soon to be sure of.
        """
        began, saved = time.time(), self.folder / "state" / "job_state"

        def has_saved() -> bool:
            self.slurm("sbatch", "--hold", f"--job-name={_NEWS}", "--wrap", "true", "--output", "/dev/null")
            time.sleep(0.5)
            return saved.exists() and saved.stat().st_mtime > began + 1

        until(has_saved, "its state is saved")
        self.on(self.head, "kill", "-9", (self.folder / "slurmctld.pid").read_text().strip())
        until(lambda: "UP" not in self.slurm("scontrol", "ping", ok=False), "slurmctld is gone")

    def on(self, name: str, *command: str) -> str:
        environment = {"PATH": os.defpath + ":/usr/sbin:/sbin", "SLURM_CONF": str(self.conf), "HOME": "/root"}
        said = self.folder / "said"
        with said.open("wb") as out:  # A daemon may keep it open.
            done = subprocess.run(self.lab.inside(name, list(command)), env=environment, stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=out, check=False)  # fmt: skip
        assert done.returncode == 0, f"{command}: {said.read_text()}"
        return said.read_text()

    def slurm(self, *command: str, ok: bool = True) -> str:
        """One of Slurm's commands, called on this machine."""
        environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        for pause_s in (0.5, 1, 2, 4, 0) if ok and command[0] in _QUESTIONS else (0,):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(pause_s)
        assert not ok or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def await_nodes(self, state: str, names: list[str]) -> None:
        def states() -> list[str]:
            return self.slurm("sinfo", "-h", "-N", "-p", "main", "-n", ",".join(names), "-o", "%N %T %E").splitlines()

        def they_are() -> bool:
            return {line.split()[1] for line in states()} == {state}

        try:
            until(they_are, f"nodes are {state}")
        except AssertionError as error:
            log = (self.folder / "slurmctld.log").read_text()[-3000:]
            raise AssertionError(f"{error}: {states()}, {self.slurm('squeue')}, {log}") from None

    def mend(self) -> None:
        """Every node on, connected, and idle."""
        for name in self.names:
            if self.lab.pid_of(name):
                self.lab.set_link(name, is_up=True)
                continue
            self.lab.switch_on(name)
            until(lambda name=name: self.lab.pid_of(name), "the node is on")
            self.start(name)
        self.slurm("scancel", "--user=root", ok=False)
        # A slurmctld that was killed may start a job again that had ended, and drains the node where it meets it.
        for name in self.names:
            self.slurm("scontrol", "update", f"nodename={name}", "state=resume", ok=False)
        self.await_nodes("idle", self.names)

    def _conf(self) -> str:
        address = {node["name"]: node["address"] for node in self.lab.blueprint()["nodes"]}
        nodes = "".join(f"NodeName={name} NodeAddr={address[name]}\n" for name in self.names)
        here = self.folder
        return f"""\
ClusterName={self.lab.name}
SlurmctldHost={self.head}({address[self.head]})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={here}/munge/socket,cred_expire=30
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool/%n
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/%n.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/%n.log
TaskProlog={here}/prolog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={here}/completed
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
JobRequeue=1
SlurmdTimeout=10
TCPTimeout=1
MessageTimeout=10
KillWait=30
MpiDefault=none
NodeName=DEFAULT CPUs=4 RealMemory=4000
{nodes}PartitionName=DEFAULT Nodes=ALL MaxTime=INFINITE State=UP
PartitionName=main Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=low PriorityTier=1 PreemptMode=REQUEUE
PartitionName=slow PriorityTier=1 PreemptMode=CANCEL GraceTime=30
PartitionName=spot PriorityTier=1 PreemptMode=REQUEUE GraceTime=15
"""


def until(holds: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    """Waits for it. what: in words."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"it never came to hold that {what}"
        time.sleep(0.1)


@contextlib.contextmanager
def slurm_lab(folder: Path, name: str, nodes: int) -> Iterator[SlurmLab]:
    """A cluster with so many nodes for jobs."""
    lab = Lab(folder / "lab", name, nodes + 1)
    try:
        lab.up()
        there = SlurmLab(lab, folder)
        there.up()
        yield there
    finally:
        lab.close()

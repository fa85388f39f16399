"""Slurm's own commands, run and read. Asked for one line a job or a machine in a format of ours, which every version
since 20.11 prints alike; their JSON differs between versions, and squeue's ignores its filters in some.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drumbeat.engines.slurm import job_states
from drumbeat.engines.slurm.power_saving import Power, read_power
from drumbeat.model.errors import EngineError, UnreachableError

ASK_S = 30.0
_CUT = "\x1f"
"""Stands in no value that people write."""
_JOB_FORMAT = _CUT.join(("%i", "%T", "%N", "%l", "%j", "%r"))
_MACHINE_FORMAT = _CUT.join(("%N", "%o", "%P", "%T", "%c", "%m", "%G", "%E"))
_ACCOUNTED = "JobID,State,Timelimit,JobName"
_ALL = ("--all",)
"""Partitions too that are hidden, or closed to this user's groups: a job may be there nevertheless."""

_PASSES = re.compile(
    r"unable to contact slurm controller|socket timed out|temporarily unable|connect(?:ion)? (?:failure|refused)|"
    r"zero bytes were (?:transmitted|received)|unable to connect|in backup|in standby|too many (?:rpcs|open files)|"
    r"incomplete|please try again|(?:Max|Grp)SubmitJob|submit(?:ted)? job limit|resource temporarily unavailable|"
    r"slurm_load_\w+ error: (?:unexpected|transport)|authentication error|munge encode failed|"
    r"partition (?:configuration )?not available|i/o error writing script|could not establish a configuration source",
    re.IGNORECASE,
)
"""What Slurm says when the same can succeed later; anything else it says is a refusal."""
# A type may be digits alone (4090), but digits at the end are the count.
_GPUS = re.compile(r"(?:^|,)gpu(?::(?!\d+(?:[,(]|$))[^:,()]+)?(?::(\d+))?(?=$|[,(])")
_NO_TIME = ("None", "(null)", "N/A", "Unknown", "")
_NONE_SUCH = re.compile(r"invalid job id|job \S+ not found|access/permission denied", re.IGNORECASE)
"""What scontrol says of a job that slurmctld has forgotten, or that only others may see."""


@dataclass(frozen=True)
class SlurmJob:
    """A job as squeue shows it. word: see `job_states.said`. reason: "" = none. nodes: Slurm's list of them."""

    id: str
    word: str
    name: str = ""
    reason: str = ""
    nodes: str = ""
    limit: str = ""

    @property
    def stage(self) -> job_states.Stage:
        """How far it is."""
        return job_states.meaning(self.word).stage

    @property
    def is_living(self) -> bool:
        """Whether it isn't over."""
        return self.stage is not job_states.Stage.OVER

    @property
    def told(self) -> str:
        """The word, and the reason where Slurm gives one."""
        return f"{self.word} ({self.reason})" if self.reason else self.word


@dataclass(frozen=True)
class SlurmNode:
    """A machine as sinfo shows it in one partition. gpus: how many."""

    name: str
    address: str
    partition: str
    state: str
    cpus: int
    memory_mib: int
    gpus: int
    why: str


@dataclass(frozen=True)
class Ended:
    """How a job ended, by `scontrol show job` or sacct; by the former, how far it is. ran_s, limit_s: None = not known,
    not limited.
    """

    word: str
    code: int = 0
    ran_s: int | None = None
    limit_s: int | None = None
    was_preempted: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return job_states.meaning(self.word).stage is job_states.Stage.OVER


class Slurm:
    """The commands, as this user may call them here. conf: the cluster's slurm.conf, "" = as they find it."""

    def __init__(self, conf: str = "") -> None:
        self._told = {"SLURM_CONF": conf} if conf else {}

    def submit(self, script: str) -> str:
        """The id of the new job. Raises EngineError with Slurm's refusal, UnreachableError: it may be taken later."""
        printed = self._run(["sbatch", "--parsable"], text=script)
        match = re.search(r"^(\d+)(?:;|$)", printed, re.MULTILINE)
        if not match:
            raise UnreachableError(f"sbatch gave no job id: {_complaint(printed)}")
        return match[1]

    def jobs(self, name: str = "") -> list[SlurmJob]:
        """What this user has in Slurm, whatever the environment says who that is; ended a while ago too; with this name
        only, if one is given. Raises UnreachableError while Slurm doesn't say.
        """
        chosen = [f"--user={os.geteuid()}", *([f"--name={name}"] if name else []), "--states=all"]
        return read_jobs(self._ask(["squeue", *_ALL, "--noheader", *chosen, f"--format={_JOB_FORMAT}"]))

    def nodes(self, partition: str = "") -> list[SlurmNode]:
        """The machines of a partition; "" = of the default one."""
        # sinfo shows a partition that is named, hidden or not, and refuses both options together.
        chosen = [f"--partition={partition}"] if partition else _ALL
        return read_nodes(self._run(["sinfo", "--noheader", "--Node", *chosen, f"--format={_MACHINE_FORMAT}"]))

    def power(self, partition: str) -> Power:
        """How a partition's machines come and go."""
        shown = self._run(["scontrol", *_ALL, "--oneliner", "show", "partition", partition])
        return read_power(shown, self._run(["scontrol", "show", "config"]))

    def preempted(self) -> dict[str, str]:
        """The running jobs of this user that Slurm is about to take the nodes of, with the time that it says."""
        chosen = [f"--user={os.geteuid()}", "--states=RUNNING", "--Format=JobID:24,PreemptTime:32"]
        return read_preempted(self._run(["squeue", *_ALL, "--noheader", *chosen]))

    def names(self, expression: str) -> list[str]:
        """The names of machines in a list as Slurm writes it (`n[1-3],m1`)."""
        return self._run(["scontrol", "show", "hostnames", expression]).split()

    def controllers(self) -> list[str]:
        """The machines that slurmctld runs on."""
        return re.findall(r"^SlurmctldHost\S*\s*=\s*([^\s(]+)", self._run(["scontrol", "show", "config"]), re.MULTILINE)

    def cancel(self, ids: Sequence[str]) -> None:
        """Ends jobs; one that has ended already is no error."""
        if ids:
            self._run(["scancel", "--quiet", *ids])

    def tell_to_end(self, ids: Sequence[str]) -> None:
        """SIGTERM to what runs on the nodes of jobs, not to their batch scripts; one that has ended is no error.

        For any signal but SIGKILL scancel takes that for one, and says nothing of it when it is to be quiet.
        """
        if ids:
            self._run(["scancel", "--quiet", "--signal=TERM", *ids], may_fail_mute=True)

    def shown(self, job: str, name: str) -> Ended | None:
        """How far slurmctld says that this user's job of this name is; None = it has none of this id, or it is another:
        ids begin again with slurmctld's memory, and in another cluster. Raises UnreachableError while it doesn't say.
        """
        try:
            printed = self._run(["scontrol", *_ALL, "--oneliner", "show", "job", job])
        except EngineError as error:
            if _NONE_SUCH.search(error.what):
                return None
            raise UnreachableError(error.what, fix=error.fix) from error
        return read_ended(printed) if read_owner(printed) == (name, os.geteuid()) else None

    def ids_of(self, name: str) -> list[str]:
        """The ids of this user's jobs of this name, living ones first: of all that slurmctld has, else of accounts.

        Raises UnreachableError while slurmctld does not answer.
        """
        printed = self._ask(["scontrol", *_ALL, "--oneliner", "show", "job"])
        return read_ids(printed, name, os.geteuid()) or self._accounted_ids(name)

    def _accounted_ids(self, name: str) -> list[str]:
        user = str(os.geteuid())
        chosen = [f"--name={name}", f"--user={user}", "--starttime=now-30days", "--format=JobID,UID,JobName"]
        with contextlib.suppress(EngineError, UnreachableError):  # Many clusters keep no accounts.
            rows = self._run(["sacct", "--allocations", "--noheader", "--parsable2", *chosen]).splitlines()
            return [row.partition("|")[0] for row in rows if row.partition("|")[2] == f"{user}|{name}"]
        return []

    def accounted(self, job: str, name: str) -> Ended | None:
        """How a job that slurmctld has forgotten ended; None = that isn't known.

        Accounts may have one running for ever whose end they weren't told of (sacctmgr(1), RunawayJobs).
        """
        for how in (["--allocations"], ["--completion"]):
            chosen = ["--noheader", "--parsable2", f"--jobs={job}", f"--format={_ACCOUNTED}"]
            try:
                printed = self._run(["sacct", *how, *chosen])
            except EngineError:
                continue
            for line in printed.splitlines():
                number, word, limit, called, *_ = (*line.split("|", 3), "", "", "")
                ended = Ended(job_states.said(word), limit_s=job_states.seconds(limit))
                if (number, called) == (job, name) and ended.is_over:
                    return ended
        return None

    def _ask(self, command: Sequence[str]) -> str:
        """A question about a gang: one that is refused isn't a refusal of the gang, and is asked again."""
        try:
            return self._run(command)
        except EngineError as error:
            raise UnreachableError(error.what, fix=error.fix) from error

    def _run(self, command: Sequence[str], text: str = "", *, may_fail_mute: bool = False) -> str:
        program = shutil.which(command[0])
        if program is None:
            what = f"there is no program `{command[0]}` here"
            raise EngineError(what, fix="Run the server where Slurm's commands are (a login node), or set its PATH.")
        try:
            done = subprocess.run(
                [program, *command[1:]], input=text, capture_output=True, text=True, errors="replace", timeout=ASK_S,
                env={**clean(os.environ, str(Path(program).parent)), **self._told}, cwd="/", check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{command[0]} doesn't answer within {ASK_S:g} s") from None
        except OSError as error:
            raise UnreachableError(f"{command[0]} can't be run here: {error}") from error
        if done.returncode == 0 or (may_fail_mute and done.returncode == 1 and not done.stderr.strip()):
            return done.stdout
        last = _complaint(done.stderr or done.stdout)
        if _PASSES.search(done.stderr):
            raise UnreachableError(f"Slurm doesn't answer now: {last}")
        raise EngineError(f"{command[0]} refused: {last}")


def clean(environment: Mapping[str, str], programs: str) -> dict[str, str]:
    """What the commands see, and jobs inherit: whose it is, where Slurm is; nothing that changes what is asked for."""
    kept = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "SLURM_CONF", "SLURM_CLUSTERS")
    path = dict.fromkeys((programs, "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"))
    settings = {name: environment[name] for name in kept if name in environment}
    return {**settings, "PATH": ":".join(path), "LC_ALL": "C.UTF-8"}


# --- reading ----------------------------------------------------------------------------------------------------
def read_jobs(printed: str) -> list[SlurmJob]:
    """Of `squeue`; a line that isn't one is passed over."""
    jobs: list[SlurmJob] = []
    for parts in _rows(printed, 6):
        number, word, nodes, limit, name, reason = parts
        if number.isdigit():
            why = "" if reason in ("None", "(null)", "N/A") else reason
            jobs.append(SlurmJob(number, job_states.said(word), name, why, "" if nodes == "(null)" else nodes, limit))
    return jobs


def read_preempted(printed: str) -> dict[str, str]:
    """Of `squeue --Format=JobID,PreemptTime`: those that have one."""
    rows = [line.split() for line in printed.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[1] not in _NO_TIME}


def read_nodes(printed: str) -> list[SlurmNode]:
    """Of `sinfo`, each machine once; where no partition was asked for, those of the default one, else all."""
    rows = [
        SlurmNode(name, address, partition, state, _number(cpus), _number(memory), gpus_in(gres), why)
        for name, address, partition, state, cpus, memory, gres, why in _rows(printed, 8)
    ]
    chosen = [row for row in rows if row.partition.endswith("*")] or rows
    return list({row.name: row for row in reversed(chosen)}.values())[::-1]


def read_ended(printed: str) -> Ended | None:
    """Of `scontrol --oneliner show job`."""
    fields: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", printed):
        fields.setdefault(key, value)
    if "JobState" not in fields:
        return None
    code, _, number = fields.get("ExitCode", "0:0").partition(":")
    return Ended(
        job_states.said(fields["JobState"]),
        _number(code) or (128 + _number(number) if _number(number) else 0),
        job_states.seconds(fields.get("RunTime", "")),
        job_states.seconds(fields.get("TimeLimit", "")),
        fields.get("PreemptTime", "None") not in _NO_TIME,
    )


def read_owner(printed: str) -> tuple[str, int] | None:
    """The name and the user's number in the same. A name may hold anything, a user's after it too: the last counts."""
    match = re.search(r"\bJobName=(.*) UserId=\S*\((\d+)\)", printed)
    return (match[1], int(match[2])) if match else None


def read_ids(printed: str, name: str, user: int) -> list[str]:
    """The ids of a user's jobs of this name in the same of several jobs, living ones first, then the oldest."""
    jobs: list[tuple[bool, int]] = []
    for line in printed.splitlines():
        number, ended = re.match(r"JobId=(\d+) ", line), read_ended(line)
        if number and ended and read_owner(line) == (name, user):
            jobs.append((ended.is_over, int(number[1])))
    return [str(number) for _, number in sorted(jobs)]


def gpus_in(gres: str) -> int:
    """How many GPUs `gpu:h100:8(S:0-1),gpu:2,nvme:1` has."""
    return sum(int(n or 1) for n in _GPUS.findall(gres))


def _rows(printed: str, columns: int) -> list[list[str]]:
    split = [[part.strip() for part in line.split(_CUT)] for line in printed.splitlines()]
    return [parts for parts in split if len(parts) == columns]


def _number(text: str) -> int:
    digits = re.match(r"\d+", text.strip())
    return int(digits[0]) if digits else 0


def _complaint(said: str) -> str:
    """What a command says went wrong: its last lines, each without its name."""
    lines = [re.sub(r"^s\w+: (?:error: )?", "", line.strip()) for line in said.splitlines() if line.strip()]
    complaints = [line for line in lines if not line.startswith("Try ")]
    return "; ".join(complaints[-3:]) or "it said nothing"

"""Slurm's own commands, run and parsed. They print one line for each job or machine in a format of ours, which every
version since 20.11 prints alike; their JSON differs between versions, and squeue's ignores its filters in some.
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
"""A separator that appears in no value."""
_JOB_FORMAT = _CUT.join(("%i", "%T", "%N", "%l", "%j", "%r"))
_MACHINE_FORMAT = _CUT.join(("%N", "%o", "%P", "%T", "%c", "%m", "%G", "%E"))
_ACCOUNTED = "JobID,State,Timelimit,JobName"
_ALL = ("--all",)
"""Includes partitions that are hidden or closed to this user's groups: a job may still be there."""

_TRANSIENT = re.compile(
    r"unable to contact slurm controller|socket timed out|temporarily unable|connect(?:ion)? (?:failure|refused)|"
    r"zero bytes were (?:transmitted|received)|unable to connect|in backup|in standby|too many (?:rpcs|open files)|"
    r"incomplete|please try again|(?:Max|Grp)SubmitJob|submit(?:ted)? job limit|resource temporarily unavailable|"
    r"slurm_load_\w+ error: (?:unexpected|transport)|authentication error|munge encode failed|"
    r"partition (?:configuration )?not available|i/o error writing script|could not establish a configuration source",
    re.IGNORECASE,
)
"""Slurm's messages for errors that are transient; any other message is a refusal."""
# A type may consist of digits (4090), but digits at the end are the count.
_GPUS = re.compile(r"(?:^|,)gpu(?::(?!\d+(?:[,(]|$))[^:,()]+)?(?::(\d+))?(?=$|[,(])")
_NO_TIME = ("None", "(null)", "N/A", "Unknown", "")
_NONE_SUCH = re.compile(r"invalid job id|job \S+ not found|access/permission denied", re.IGNORECASE)
"""scontrol's messages for a job that slurmctld has forgotten, or that only others may see."""


@dataclass(frozen=True)
class SlurmJob:
    """A job as squeue shows it. word: see `job_states.full_word`. reason: "" = none. nodes: Slurm's list of them."""

    id: str
    word: str
    name: str = ""
    reason: str = ""
    nodes: str = ""
    limit: str = ""

    @property
    def stage(self) -> job_states.Stage:
        """The stage of its state."""
        return job_states.meaning(self.word).stage

    @property
    def is_living(self) -> bool:
        """Whether the job isn't over."""
        return self.stage is not job_states.Stage.OVER

    @property
    def state_and_reason(self) -> str:
        """The state, with the reason if Slurm gives one."""
        return f"{self.word} ({self.reason})" if self.reason else self.word


@dataclass(frozen=True)
class SlurmNode:
    """A machine as sinfo shows it in one partition. gpus: their count."""

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
    """The end of a job, or its state so far, by `scontrol show job` or sacct. ran_s, limit_s: None = unknown,
    unlimited.
    """

    word: str
    code: int = 0
    ran_s: int | None = None
    limit_s: int | None = None
    was_preempted: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return job_states.meaning(self.word).stage is job_states.Stage.OVER


class Slurm:
    """Slurm's commands, called as this user. conf: the cluster's slurm.conf, "" = the commands' own default."""

    def __init__(self, conf: str = "") -> None:
        self._told = {"SLURM_CONF": conf} if conf else {}

    def submit(self, script: str) -> str:
        """The id of the new job. Raises EngineError with Slurm's refusal, UnreachableError if
        it may be accepted later.
        """
        printed = self._run(["sbatch", "--parsable"], text=script)
        match = re.search(r"^(\d+)(?:;|$)", printed, re.MULTILINE)
        if not match:
            raise UnreachableError(f"sbatch gave no job id: {_complaint(printed)}")
        return match[1]

    def jobs(self, name: str = "") -> list[SlurmJob]:
        """The jobs of this user, recently ended ones included, whatever the environment says; with `name`, only those
        of that name. Raises UnreachableError while Slurm doesn't answer.
        """
        chosen = [f"--user={os.geteuid()}", *([f"--name={name}"] if name else []), "--states=all"]
        return read_jobs(self._ask(["squeue", *_ALL, "--noheader", *chosen, f"--format={_JOB_FORMAT}"]))

    def nodes(self, partition: str = "") -> list[SlurmNode]:
        """The machines of a partition; "" = the default one."""
        # sinfo shows a named partition, hidden or not, and refuses both options together.
        chosen = [f"--partition={partition}"] if partition else _ALL
        return read_nodes(self._run(["sinfo", "--noheader", "--Node", *chosen, f"--format={_MACHINE_FORMAT}"]))

    def power(self, partition: str) -> Power:
        """The settings by which a partition's machines are switched on and off."""
        shown = self._run(["scontrol", *_ALL, "--oneliner", "show", "partition", partition])
        return read_power(shown, self._run(["scontrol", "show", "config"]))

    def preempted(self) -> dict[str, str]:
        """The running jobs of this user whose nodes Slurm is about to take, with the time that it reports."""
        chosen = [f"--user={os.geteuid()}", "--states=RUNNING", "--Format=JobID:24,PreemptTime:32"]
        return read_preempted(self._run(["squeue", *_ALL, "--noheader", *chosen]))

    def names(self, expression: str) -> list[str]:
        """The names of machines in a list of Slurm's (`n[1-3],m1`)."""
        return self._run(["scontrol", "show", "hostnames", expression]).split()

    def controllers(self) -> list[str]:
        """The machines that slurmctld runs on."""
        return re.findall(r"^SlurmctldHost\S*\s*=\s*([^\s(]+)", self._run(["scontrol", "show", "config"]), re.MULTILINE)

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancels jobs; jobs that have ended are no error."""
        if ids:
            self._run(["scancel", "--quiet", *ids])

    def tell_to_end(self, ids: Sequence[str]) -> None:
        """Sends SIGTERM to the tasks of jobs, not to their batch scripts; jobs that have ended are no error.

        For signals other than SIGKILL, scancel treats an ended job as an error, and is silent about it with `--quiet`.
        """
        if ids:
            self._run(["scancel", "--quiet", "--signal=TERM", *ids], may_fail_mute=True)

    def shown(self, job: str, name: str) -> Ended | None:
        """The user's job of this id and name, by slurmctld; None if it has none with this id, or the name differs: ids
        begin again when slurmctld loses its memory, and in another cluster. Raises UnreachableError without an answer.
        """
        try:
            printed = self._run(["scontrol", *_ALL, "--oneliner", "show", "job", job])
        except EngineError as error:
            if _NONE_SUCH.search(error.what):
                return None
            raise UnreachableError(error.what, fix=error.fix) from error
        return read_ended(printed) if read_owner(printed) == (name, os.geteuid()) else None

    def job_ids(self, name: str) -> list[str]:
        """The ids of this user's jobs of this name, living ones first: from slurmctld, else from the accounts.

        Raises UnreachableError while slurmctld doesn't answer.
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
        """The end of a job that slurmctld has forgotten; None = unknown.

        Accounts may show as running forever a job whose end they missed (sacctmgr(1), RunawayJobs).
        """
        for how in (["--allocations"], ["--completion"]):
            chosen = ["--noheader", "--parsable2", f"--jobs={job}", f"--format={_ACCOUNTED}"]
            try:
                printed = self._run(["sacct", *how, *chosen])
            except EngineError:
                continue
            for line in printed.splitlines():
                number, word, limit, called, *_ = (*line.split("|", 3), "", "", "")
                ended = Ended(job_states.full_word(word), limit_s=job_states.seconds(limit))
                if (number, called) == (job, name) and ended.is_over:
                    return ended
        return None

    def _ask(self, command: Sequence[str]) -> str:
        """Runs a query about a gang; its refusal doesn't refuse the gang, and the query is repeated."""
        try:
            return self._run(command)
        except EngineError as error:
            raise UnreachableError(error.what, fix=error.fix) from error

    def _run(self, command: Sequence[str], text: str = "", *, may_fail_mute: bool = False) -> str:
        program = shutil.which(command[0])
        if program is None:
            what = f"this machine has no program `{command[0]}`"
            raise EngineError(what, fix="Run the server where Slurm's commands are (a login node), or set its PATH.")
        try:
            done = subprocess.run(
                [program, *command[1:]], input=text, capture_output=True, text=True, errors="replace", timeout=ASK_S,
                env={**clean(os.environ, str(Path(program).parent)), **self._told}, cwd="/", check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{command[0]} doesn't answer within {ASK_S:g} s") from None
        except OSError as error:
            raise UnreachableError(f"{command[0]} can't be run: {error}") from error
        if done.returncode == 0 or (may_fail_mute and done.returncode == 1 and not done.stderr.strip()):
            return done.stdout
        last = _complaint(done.stderr or done.stdout)
        if _TRANSIENT.search(done.stderr):
            raise UnreachableError(f"Slurm doesn't answer now: {last}")
        raise EngineError(f"{command[0]} refused: {last}")


def clean(environment: Mapping[str, str], programs: str) -> dict[str, str]:
    """The environment of the commands, which jobs inherit: user and cluster, but nothing that changes options."""
    names = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "SLURM_CONF", "SLURM_CLUSTERS")
    path = dict.fromkeys((programs, "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"))
    settings = {name: environment[name] for name in names if name in environment}
    return {**settings, "PATH": ":".join(path), "LC_ALL": "C.UTF-8"}


# --- reading ----------------------------------------------------------------------------------------------------
def read_jobs(printed: str) -> list[SlurmJob]:
    """The jobs in squeue's output; other lines are skipped."""
    jobs: list[SlurmJob] = []
    for parts in _rows(printed, 6):
        number, word, nodes, limit, name, reason = parts
        if number.isdigit():
            why = "" if reason in ("None", "(null)", "N/A") else reason
            jobs.append(
                SlurmJob(number, job_states.full_word(word), name, why, "" if nodes == "(null)" else nodes, limit)
            )
    return jobs


def read_preempted(printed: str) -> dict[str, str]:
    """The jobs with a preemption time in the output of `squeue --Format=JobID,PreemptTime`."""
    rows = [line.split() for line in printed.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[1] not in _NO_TIME}


def read_nodes(printed: str) -> list[SlurmNode]:
    """The machines in sinfo's output, each once; without a chosen partition those of the default one, else all."""
    rows = [
        SlurmNode(name, address, partition, state, _number(cpus), _number(memory), gpus_in(gres), why)
        for name, address, partition, state, cpus, memory, gres, why in _rows(printed, 8)
    ]
    chosen = [row for row in rows if row.partition.endswith("*")] or rows
    return list({row.name: row for row in reversed(chosen)}.values())[::-1]


def read_ended(printed: str) -> Ended | None:
    """The job in the output of `scontrol --oneliner show job`."""
    fields: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", printed):
        fields.setdefault(key, value)
    if "JobState" not in fields:
        return None
    code, _, number = fields.get("ExitCode", "0:0").partition(":")
    return Ended(
        job_states.full_word(fields["JobState"]),
        _number(code) or (128 + _number(number) if _number(number) else 0),
        job_states.seconds(fields.get("RunTime", "")),
        job_states.seconds(fields.get("TimeLimit", "")),
        fields.get("PreemptTime", "None") not in _NO_TIME,
    )


def read_owner(printed: str) -> tuple[str, int] | None:
    """The name and user id in the same output. A name may contain anything, even a user id: the last one counts."""
    match = re.search(r"\bJobName=(.*) UserId=\S*\((\d+)\)", printed)
    return (match[1], int(match[2])) if match else None


def read_ids(printed: str, name: str, user: int) -> list[str]:
    """The ids of a user's jobs of this name in the same output for several jobs, living ones first, then the oldest."""
    jobs: list[tuple[bool, int]] = []
    for line in printed.splitlines():
        number, ended = re.match(r"JobId=(\d+) ", line), read_ended(line)
        if number and ended and read_owner(line) == (name, user):
            jobs.append((ended.is_over, int(number[1])))
    return [str(number) for _, number in sorted(jobs)]


def gpus_in(gres: str) -> int:
    """The number of GPUs in a list like `gpu:h100:8(S:0-1),gpu:2,nvme:1`."""
    return sum(int(n or 1) for n in _GPUS.findall(gres))


def _rows(printed: str, columns: int) -> list[list[str]]:
    split = [[part.strip() for part in line.split(_CUT)] for line in printed.splitlines()]
    return [parts for parts in split if len(parts) == columns]


def _number(text: str) -> int:
    digits = re.match(r"\d+", text.strip())
    return int(digits[0]) if digits else 0


def _complaint(output: str) -> str:
    """The errors in a command's output: its last lines, without the command's name."""
    lines = [re.sub(r"^s\w+: (?:error: )?", "", line.strip()) for line in output.splitlines() if line.strip()]
    complaints = [line for line in lines if not line.startswith("Try ")]
    return "; ".join(complaints[-3:]) or "it printed nothing"

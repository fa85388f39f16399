"""The engine over a Slurm cluster: a gang is one Slurm job. Slurm chooses the machines and waits for them.

One thread polls for all gangs at once, and less often while slurmctld doesn't answer; a gang without an answer isn't
gone. The name of a gang's Slurm job identifies its owner, so that no server submits it twice.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.own_address import route_to
from drumbeat.engines.poller import Poller
from drumbeat.engines.slurm.client import Ended, Slurm, SlurmJob
from drumbeat.engines.slurm.job_lookup import JobLookup
from drumbeat.engines.slurm.job_states import Stage
from drumbeat.engines.slurm.loss_reasons import ended_nodes, judged
from drumbeat.engines.slurm.machines import Cluster
from drumbeat.engines.slurm.render import agents_folder, batch_script, gang_folder
from drumbeat.engines.start_errors import not_started
from drumbeat.engines.unwanted_gangs import Wanted, unwanted
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.api.computes import Machine, Scale
from drumbeat.model.errors import DrumbeatError, EngineError, Problem, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.node.host.gangs import write_private
from drumbeat.ports.engines import Gang, GangStatus

POLL_S = 1.5
END_S = 50.0
"""How long one call of `stop` waits for Slurm; the call is repeated."""
SLURMCTLD_PORT = 6817
_MAX_OUTPUT = 100_000
_PART_S = 86_400.0


@dataclass
class _Seen:
    """Slurm's last answer, by names of jobs. at: the time of the request."""

    jobs: dict[str, list[SlurmJob]] = field(default_factory=dict[str, list[SlurmJob]])
    at: float = 0.0


@dataclass(frozen=True)
class _Read:
    """The ended nodes in a job's output. size: the output's size when it was read."""

    number: str
    size: int
    gone: dict[int, str]


class SlurmEngine:
    """The `Engine` of one compute. mark: distinguishes this server's jobs from those of the user's other servers."""

    name = "slurm"
    has_queue = True
    leave_s, clear_s = 3.0, 10.0
    """How long the engine waits for nodes whose agents are leaving, and then, after Slurm's SIGTERM, for the others."""

    def __init__(self, spec: SlurmCompute, mark: str, slurm: Slurm | None = None) -> None:
        self._spec, self._slurm = spec, slurm or Slurm(spec.conf or "")
        self._prefix = f"drumbeat-{spec.name}-{mark}-"
        self._cluster = Cluster(spec, self._slurm)
        self._addresses: list[str] = []
        self._seen = _Seen()
        self._started: dict[str, tuple[float, str]] = {}
        """When each gang had certainly been submitted, by the monotonic clock, and the id of its job, "" = unknown."""
        self._addressed: dict[str, tuple[str, ...]] = {}
        """The servers that the nodes of each gang will call."""
        self._read: dict[str, _Read] = {}
        """The last reading of each gang's output."""
        self._lookup = JobLookup(self._slurm, self._gang_folder, self._job_name)
        self._wanted: Wanted | None = None
        """The wanted gangs, as of the first sweep; before that, unknown gangs are left alone."""
        self._must_sweep = False
        self._lock = threading.Lock()
        self.poller = Poller("Slurm", self._look, lambda: bool(self._started or self._seen.jobs), busy_s=POLL_S)

    # --- machines ---------------------------------------------------------------------------------------------
    def machines(self) -> list[Machine]:
        """The partition's machines, as sinfo last showed them. Raises UnreachableError before the first list,
        NoMachinesError where it was empty.
        """
        self.poller.begin()
        if not self._cluster.nodes and (problem := self.poller.problem):
            raise UnreachableError(problem.what, fix=problem.fix)
        return self._cluster.machines()

    def scale(self) -> Scale | None:
        """The scaling limits of the partition; None = unknown."""
        return self._cluster.scale()

    def server_addresses(self) -> list[str]:
        """The address of this machine on the route to the cluster."""
        if self._spec.server_address:
            return [self._spec.server_address]
        self.poller.begin()
        if not self._addresses:
            problem = self.poller.problem or Problem("there is no route from this machine to the cluster's nodes")
            raise UnreachableError(problem.what, fix="Set `server_address` in the compute's file.")
        return self._addresses

    # --- gangs ------------------------------------------------------------------------------------------------
    def start(self, gang: Gang) -> str:
        """Submits the gang, unless Slurm has a job of its name. Raises EngineError with Slurm's refusal."""
        self.poller.begin()
        with self._lock:
            # Keeps the gang from being seen as missing before it is submitted.
            self._started.setdefault(gang.name, (math.inf, ""))
        self.poller.nudge()  # So that a waiting caller learns at once that Slurm doesn't answer.
        jobs = self._jobs(gang.name, is_fresh=True)
        number = jobs[0].id if jobs else self._submit(gang)
        with self._lock:
            self._started[gang.name] = (time.monotonic(), number)
        self.poller.nudge()
        return f"submitted as Slurm job {number}"

    def _submit(self, gang: Gang) -> str:
        folder = self._gang_folder(gang.name)
        script = self.rendered(gang)
        try:
            self._lay_out(gang, folder)
            write_private(folder / "script.sh", script)
        except OSError as error:
            fix = "The compute's `folder` must be writable here, and on all nodes."
            raise not_started(error, folder, fix) from error
        number = self._slurm.submit(script)
        failpoint("engine.submitted")
        self._lookup.submitted(gang.name, number)
        return number

    def _lay_out(self, gang: Gang, folder: Path) -> None:
        """Writes the files of every node: the agent, and each node's enrolment."""
        agents = Path(agents_folder(self._spec))
        agents.mkdir(0o700, parents=True, exist_ok=True)
        if not _is_whole(agents / agent_archive().name, len(agent_archive().content)):
            part = agents / f"{agent_archive().name}.{threading.get_ident()}"
            part.write_bytes(agent_archive().content)
            part.replace(agents / agent_archive().name)
            _clear_parts(agents)
        folder.parent.mkdir(0o700, parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        for slot in gang.slots:
            (folder / str(slot.node)).mkdir(0o700, exist_ok=True)
        self._enrol(gang, folder)

    def rendered(self, gang: Gang) -> str:
        """The batch script of the gang."""
        return batch_script(self._spec, gang, self._job_name(gang.name), agent_archive().name)

    def observe(self, gang: Gang) -> GangStatus:
        """The gang's state as of Slurm's last answer."""
        self.poller.begin()
        since, number = self._since(gang.name)
        seen, trouble = self._seen, self.poller.trouble
        if seen.at < since:
            status = f"submitted as Slurm job {number}" if number else "not submitted yet" if since == math.inf else ""
            return GangStatus(f"{status}: {trouble}" if status and trouble else status, waits=True)
        job = _chosen(seen.jobs.get(self._job_name(gang.name), []), number)
        return self._sighting(gang, job) if job and job.is_living else self._gone(gang, job, number)

    def _sighting(self, gang: Gang, job: SlurmJob) -> GangStatus:
        waits, trouble = job.stage is Stage.WAITS, self.poller.trouble
        if waits:
            self._readdress(gang)
        word, notice = self._cluster.word(job), self._cluster.notice(job)
        status = f"{word}, Slurm job {job.id}" + (f"; {trouble}" if trouble else "")
        gone = self._ended_nodes(gang, job.id) if job.word == "RUNNING" else {}
        return GangStatus(status, gone, Loss.FAILED if gone else Loss.LOST, waits=waits, notice=notice)

    def _ended_nodes(self, gang: Gang, number: str) -> dict[int, str]:
        """The nodes whose tasks have ended while the job runs. The output is read only after it has grown."""
        file, last = self._output_file(gang.name, number), self._read.get(gang.name)
        with contextlib.suppress(OSError):
            size = file.stat().st_size
            if last is None or (last.number, last.size) != (number, size):
                gone = {node: why for node, why in ended_nodes(_tail(file)).items() if node < len(gang.slots)}
                last = self._read[gang.name] = _Read(number, size, gone)
        return last.gone if last and last.number == number else {}

    def _since(self, gang: str) -> tuple[float, str]:
        with self._lock:
            if gang not in self._started:  # Another server started it.
                self._started[gang] = time.monotonic(), ""
                self.poller.nudge()
            return self._started[gang]

    def _readdress(self, gang: Gang) -> None:
        """Rewrites the enrolments: nodes call the servers that exist when they start, possibly days from now."""
        if self._addressed.get(gang.name) == gang.servers:
            return
        folder = self._gang_folder(gang.name)
        with contextlib.suppress(OSError, ValueError):  # The earlier servers may still exist.
            before = wire.loads(Enrolment, (folder / str(gang.slots[0].node) / "enrolment.json").read_bytes())
            self._enrol(gang, folder, has_ranks=bool(before.plan.ranks))

    def _enrol(self, gang: Gang, folder: Path, *, has_ranks: bool = False) -> None:
        checkpoints = f"{self._spec.folder}/jobs/{self._job_name(gang.unique_job)}/checkpoints"
        for slot in gang.slots:
            text = enrolment(gang, slot.node, root="", checkpoints=checkpoints, has_ranks=has_ranks)
            write_private(folder / str(slot.node) / "enrolment.json", text)
        self._addressed[gang.name] = gang.servers

    def _gone(self, gang: Gang, job: SlurmJob | None, number: str) -> GangStatus:
        try:
            number = job.id if job else number or self._lookup.job_id(gang.name)
            ended = self._lookup.how_ended(gang.name, number, is_fresh=job is not None)
        except UnreachableError as error:
            return GangStatus(f"{job.state_and_reason if job else 'gone'}; {error.what}")
        if ended and not ended.is_over and not job:
            return self._sighting(gang, SlurmJob(number, ended.word))
        if ended is None or not ended.is_over:
            ended = Ended(job.word) if job else None
        loss, why = judged(ended, gang.plan.grace_s, self._output(gang.name, number))
        message = f"Slurm job {number or 'of that name'} {why}"
        return GangStatus(ended.word if ended else "gone", {slot.node: message for slot in gang.slots}, loss)

    def _jobs(self, gang: str, *, is_fresh: bool = False) -> list[SlurmJob]:
        """The gang's jobs: those that squeue shows, and the one that it doesn't show."""
        listed = self._slurm.jobs(self._job_name(gang))
        return [*listed, *self._unlisted(gang, listed, is_fresh=is_fresh)]

    def _unlisted(self, gang: str, listed: Sequence[SlurmJob], *, is_fresh: bool = False) -> list[SlurmJob]:
        """The gang's Slurm job, if squeue hasn't listed it and slurmctld says that it lives."""
        name = self._job_name(gang)
        with self._lock:
            _, number = self._started.get(gang, (0.0, ""))
        if not number and name not in {job.name for job in listed}:
            number = self._lookup.job_id(gang, is_fresh=is_fresh)
        number = number or self._lookup.written_id(gang)
        is_listed = number in {job.id for job in listed}
        ended = None if is_listed else self._lookup.status(gang, number, is_fresh=is_fresh)
        return [SlurmJob(number, ended.word, name)] if ended and not ended.is_over else []

    def _output(self, gang: str, number: str) -> str:
        with contextlib.suppress(OSError):
            return _tail(self._output_file(gang, number))
        return ""

    def _output_file(self, gang: str, number: str) -> Path:
        return Path(self._gang_folder(gang), f"slurm-{number}.out")

    # --- stop -------------------------------------------------------------------------------------------------
    def stop(self, name: str) -> None:
        """Waits a moment for nodes whose agents leave, sends SIGTERM to the others, then cancels the job. Raises
        UnreachableError until Slurm confirms its end.
        """
        self._slurm.cancel([job.id for job in self._living(name) if job.stage is Stage.WAITS])
        if not self._await_end(name, self.leave_s):
            # scancel kills srun, too, which hears of it first: the nodes' own disks would not be cleared.
            self._slurm.tell_to_end([job.id for job in self._living(name)])
            self._await_end(name, self.clear_s)
        living = self._living(name)
        self._slurm.cancel([job.id for job in living])
        if living and not self._await_end(name, END_S):
            raise UnreachableError(f"Slurm job {living[0].id} is still ending on {living[0].nodes or 'its nodes'}")
        failpoint("engine.cancelled")
        shutil.rmtree(self._gang_folder(name), ignore_errors=True)
        self._forget(name)

    def _forget(self, gang: str) -> None:
        with self._lock:
            self._started.pop(gang, None)
            self._addressed.pop(gang, None)
            self._read.pop(gang, None)
        self._lookup.forget(gang)

    def _await_end(self, gang: str, within_s: float) -> bool:
        end, pause = time.monotonic() + within_s, 0.1
        while self._living(gang):
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(2.0, pause * 1.5)
        return True

    def _living(self, gang: str) -> list[SlurmJob]:
        return [job for job in self._jobs(gang, is_fresh=True) if job.is_living]

    def sweep(self, wanted: Wanted) -> list[str]:
        """Cancels all other gangs and waits for them; without an answer of Slurm, as soon as it answers."""
        try:
            surplus = self._cancel_surplus(wanted)
            self._wanted = wanted
            ended = sorted({job.name.removeprefix(self._prefix) for job in surplus})
            for name in ended:
                self.stop(name)
            return ended
        except DrumbeatError as error:
            self._wanted, self._must_sweep = wanted, True
            self.poller.begin()
            raise EngineError(error.what, where=error.where, fix=error.fix) from error

    def _cancel_surplus(self, wanted: Wanted) -> list[SlurmJob]:
        """Cancels the unwanted gangs' jobs and returns those that aren't over; removes the
        folders of those that are.
        """
        jobs = [job for job in self._slurm.jobs() if job.name.startswith(self._prefix)]
        folders = list(Path(gang_folder(self._spec, "")).glob(f"{self._prefix}*"))
        keep = {self._job_name(name) for name in wanted()}
        gangs = [folder.name.removeprefix(self._prefix) for folder in folders if folder.name not in keep]
        living = [job for job in jobs if job.name not in keep and job.is_living]
        self._slurm.cancel([job.id for job in living])
        hidden = [job for gang in gangs for job in self._unlisted(gang, jobs)]
        self._slurm.cancel([job.id for job in hidden])
        left = keep | {job.name for job in (*living, *hidden)}
        for folder in folders:
            if folder.name not in left:
                shutil.rmtree(folder, ignore_errors=True)
                self._lookup.forget(folder.name.removeprefix(self._prefix))
        return [*living, *hidden]

    def close(self) -> None:
        """Stops polling."""
        self.poller.close()

    # --- asking -----------------------------------------------------------------------------------------------
    def _job_name(self, gang: str) -> str:
        return f"{self._prefix}{gang}"

    def _gang_folder(self, gang: str) -> Path:
        return Path(gang_folder(self._spec, self._job_name(gang)))

    def _look(self) -> None:
        began = time.monotonic()
        if self._cluster.look([job for jobs in self._seen.jobs.values() for job in jobs], began):
            self._find_addresses()
        by_name: dict[str, list[SlurmJob]] = {}
        for job in self._slurm.jobs():
            if job.name.startswith(self._prefix):
                by_name.setdefault(job.name, []).append(job)
        self._cluster.follow(by_name, began)
        self._seen = _Seen(by_name, began)
        self._cancel_doubles(by_name)
        present = {name.removeprefix(self._prefix) for name, jobs in by_name.items() if _some_live(jobs)}
        leftovers = unwanted({*present, *self._started}, self._wanted)
        for gang in leftovers:
            self._forget(gang)
        if self._wanted is not None and (self._must_sweep or leftovers & present):
            self._must_sweep = True  # Stays set unless the sweep succeeds now.
            # There is no wait: jobs that are still ending are checked again.
            self._must_sweep = bool(self._cancel_surplus(self._wanted))

    def _cancel_doubles(self, by_name: dict[str, list[SlurmJob]]) -> None:
        """Cancels duplicates: a submission whose answer came too late was repeated. The oldest one stays."""
        living = [[job for job in jobs if job.stage in (Stage.WAITS, Stage.RUNS)] for jobs in by_name.values()]
        self._slurm.cancel([job.id for jobs in living for job in sorted(jobs, key=lambda job: int(job.id))[1:]])

    def _find_addresses(self) -> None:
        if not self._addresses and not self._spec.server_address:
            self._addresses = self._towards([node.address for node in self._cluster.nodes])

    def _towards(self, nodes: Sequence[str]) -> list[str]:
        """The addresses of this machine on the routes to the nodes; to slurmctld while nodes have no address."""
        for place in (*nodes[:8], *self._slurm.controllers()):
            own = route_to(place, SLURMCTLD_PORT)
            if own and not own.startswith("127.") and own != "::1":
                return [own]
        return []


def _clear_parts(agents: Path) -> None:
    """Removes partial files older than a day: their writers were killed."""
    for part in agents.glob("agent-*.pyz.*"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _PART_S:
                part.unlink()


def _is_whole(file: Path, size: int) -> bool:
    """Whether the file exists in full: a machine may have lost its power while it wrote it."""
    with contextlib.suppress(OSError):
        return file.stat().st_size == size
    return False


def _tail(file: Path) -> str:
    """The end of a job's output. Raises OSError."""
    with file.open("rb") as output:
        output.seek(max(0, output.seek(0, 2) - _MAX_OUTPUT))
        return output.read(_MAX_OUTPUT).decode(errors="replace")


def _some_live(jobs: Sequence[SlurmJob]) -> bool:
    return any(job.is_living for job in jobs)


def _chosen(jobs: Sequence[SlurmJob], number: str) -> SlurmJob | None:
    """The job that counts among those of a gang's name: the oldest living one."""
    ranked = sorted(jobs, key=lambda job: (job.stage is Stage.OVER, job.id != number, int(job.id)))
    return ranked[0] if ranked else None

"""A fault at a random instant of a job's life, and all that must hold afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from drumbeat.model.api.jobs import JobView
from drumbeat.model.states import Reason
from tests.real.house import until

from .instants import PHASES, Instant
from .mortal import (
    NODES,
    PROCESSES,
    WANTED,
    Mortal,
    commands,
    logs_are_whole,
    nothing_is_left,
    outputs_are_whole,
    story_is_along_the_table,
)
from .striking import Networked, cancel_whoever_dies, strike, victim

DEADLINE_S = 120
COMMANDS = commands(pause_s=0.1, saves_s=0.8)
LOST_AFTER_S = 20
PREPARES_S = 1.0
"""How long a node gets ready, where that is when it is struck."""


@dataclass
class Play:
    """A fault, the house that it strikes, and what is seen of it."""

    mortal: Mortal
    instant: Instant
    jobs: tuple[str, ...] = ()
    struck_in: str = ""
    """The state of the job a moment before."""
    hit: tuple[str, ...] = ()
    is_canceled: bool = False

    def run(self) -> None:
        """All of it. Raises AssertionError where something doesn't hold."""
        if self.instant.phase == "queued":
            with blocked(self.mortal) as release:
                self._run(release)
        else:
            self._run(lambda: None)
        for job in self.jobs:
            self._check(self.mortal.job(job))

    def _run(self, release: Callable[[], object]) -> None:
        self.jobs = tuple(self._begin() for _ in range(2 if self.instant.fault == "two jobs" else 1))
        job = self.jobs[0]
        self._await_phase(job)
        time.sleep(self.instant.delay_s)
        self.struck_in = self.mortal.job(job).state
        self._strike(job, release)
        if self.instant.kind == "canceled" and not self.is_canceled:
            self._cancel(job)
        for each in self.jobs:
            until(lambda one=each: self.mortal.job(one).has_ended, DEADLINE_S, f"the end of {each}")

    def _begin(self) -> str:
        keys = {"compute": self.mortal.place.compute} if isinstance(self.mortal, Networked) else {}
        drumbeat = ["grace_s: 5"]
        if self.instant.phase == "staging":
            drumbeat.append(f"prepare: sleep {PREPARES_S:g}")
        if self.instant.fault == "node off":
            # Slurm is slow to notice a node that is back soon: its silence tells.
            drumbeat.append(f"lost_after_s: {LOST_AFTER_S}")
        keys["drumbeat"] = f"{{{', '.join(drumbeat)}}}"
        nodes, processes = (1, 1) if self.instant.fault == "two jobs" else (NODES, PROCESSES)
        # A rank whose own line found no room has failed; the shell alone would go on.
        first = "set -e; " if self.instant.fault == "disk full" else ""
        title = f"seed-{self.instant.seed}"
        return self.mortal.begin(title, first + COMMANDS[self.instant.kind], nodes, processes, **keys)

    # --- when -------------------------------------------------------------------------------------------------
    def _await_phase(self, job: str) -> None:
        phase = self.instant.phase
        if self.instant.kind == "canceled" and PHASES.index(phase) >= PHASES.index("stopping"):
            self._cancel(job)
        until(lambda: is_in(self.mortal.job(job), phase), DEADLINE_S, f"{job} {phase}")
        if phase in ("staging", "running"):  # Supervisors come a moment after their agents.
            until(lambda: self._are_there(job), DEADLINE_S, f"{', '.join(self.instant.victims)} of {job}")

    def _are_there(self, job: str) -> bool:
        """Whom it strikes; or it is too late."""
        there = [victim(self.mortal.house, who, job, self.instant.node) for who in self.instant.victims]
        return all(there) or self.mortal.job(job).has_ended

    def _cancel(self, job: str) -> None:
        self.mortal.cancel(job)
        self.is_canceled = True

    # --- what -------------------------------------------------------------------------------------------------
    def _strike(self, job: str, release: Callable[[], object]) -> None:
        if self.instant.fault != "cancel":
            self.hit = tuple(strike(self.mortal, self.instant, job, release))
            return
        with ThreadPoolExecutor(1) as pool:
            if self.instant.gap_s < 0:
                self.hit = tuple(strike(self.mortal, self.instant, job, release))
                time.sleep(-self.instant.gap_s)
            canceling = pool.submit(cancel_whoever_dies, self.mortal, job)
            if self.instant.gap_s >= 0:
                time.sleep(self.instant.gap_s)
                self.hit = tuple(strike(self.mortal, self.instant, job, release))
            self.is_canceled = canceling.result()

    # --- what must hold ---------------------------------------------------------------------------------------
    def _check(self, job: JobView) -> None:
        is_cut = self.instant.fault == "cancel" and self.is_canceled
        if self.instant.fault == "disk full" and job.state == "failed":
            told = f"{job.sentence} {job.verdict}"
            is_own = job.reason == "rank_failed"  # Its own write found no room: its log may have had none for why.
            assert is_own or names_the_disk(told), f"failed, and doesn't say why: {told}"
            is_cut = True
        else:
            wanted = "canceled" if is_cut else WANTED[self.instant.kind]
            assert job.state == wanted, f"{job.state}, not {wanted}: {job.sentence}"
        self._check_rounds(job)
        nothing_is_left(self.mortal, job.name)
        logs_are_whole(self.mortal, job, is_cut=is_cut)
        outputs_are_whole(self.mortal, job, is_cut=is_cut)
        story_is_along_the_table(self.mortal, job)

    def _check_rounds(self, job: JobView) -> None:
        """A round is repeated for what its job did and where its supervisor died, for nothing else, no more often."""
        failures = [failure.verdict.reason for failure in job.failures]
        gone = failures.count(Reason.NODE_LOST)
        assert gone <= (self.instant.fault == "node off"), f"a node was lost that nobody had switched off: {failures}"
        assert job.attempt <= 1 + gone, f"attempt {job.attempt}: {job.sentence}"
        if job.state == "completed" and not gone:
            assert job.round == 1 + len(failures), f"round {job.round} after {failures}"
        if self.instant.fault == "disk full":
            said = [(one.verdict.reason, f"{one.verdict.sentence} {one.verdict.tail}") for one in job.failures]
            others = [words for reason, words in said if reason != "rank_failed" and not names_the_disk(words)]
            assert not others, f"rounds failed of something else: {others}"
            return
        lost = failures.count(Reason.KEEPER_LOST)
        assert lost <= ("supervisor" in self.hit), f"a supervisor was lost that nobody had killed: {failures}"
        assert lost == 0 or self.instant.fault != "stopped", f"a supervisor that was stopped was given up: {failures}"
        own = [reason for reason in failures if reason not in ("keeper_lost", "node_lost")]
        wanted = ["rank_failed"] if self.instant.kind == "failed once" else []
        assert own == wanted or ((lost or gone) and not own), f"rounds failed: {failures}"


def names_the_disk(told: str) -> bool:
    """Whether somebody who reads it knows what to look at."""
    return "No space left on device" in told or "disk" in told


def is_in(job: JobView, phase: str) -> bool:
    """Whether its phase has begun; or it is too late."""
    return job.has_ended or (job.state == phase and phase != "sweeping")


@contextlib.contextmanager
def blocked(mortal: Mortal) -> Generator[Callable[[], object]]:
    """While it lasts, a job holds every slot; gives what ends that job, which must have gone well."""
    compute = mortal.place.compute if isinstance(mortal, Networked) else "local"
    machines = mortal.house.client.compute(compute).machines
    waits = "while [ ! -e $DRUMBEAT_CHECKPOINT_DIR/go ]; do sleep 0.05; done"
    name = mortal.begin("blocks", waits, len(machines), machines[0].cpus, compute=compute)
    until(lambda: mortal.job(name).state == "running", DEADLINE_S, f"{name} at work")
    go = mortal.checkpoints(name) / "go"
    try:
        yield go.touch
    finally:
        go.touch()
    until(lambda: mortal.job(name).has_ended, DEADLINE_S, f"the end of {name}")
    job = mortal.job(name)
    assert (job.state, job.attempt, job.round) == ("completed", 1, 1), job.sentence


def story(play: Play) -> str:
    """What happened, for a user who looks for the cause: the jobs' stories, and what the server said last."""
    lines: list[str] = []
    for job in play.jobs:
        with contextlib.suppress(Exception):
            lines += [f"  {one.state:12} {one.reason:20} {one.sentence}" for one in play.mortal.house.client.story(job)]
    with contextlib.suppress(OSError):
        log = (play.mortal.house.home / "server.log").read_text(errors="replace")
        lines += [f"  server.log: {line}" for line in log.splitlines()[-15:]]
    return "\n".join(lines)

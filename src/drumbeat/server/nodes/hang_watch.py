"""The watch over ranks: nodes are asked what theirs do, and a hang or a slow rank becomes an event of the job.

A round whose nodes report silence is looked at again and again, at intervals of `hang_after_s`, also while it hangs:
the hang may become certain, or pass without a word in the log. What counts as silence is decided on each node
(`node/stacks/silence.py`). A hang must be the same in two looks before it counts: in slow exchanges of data, every
rank may stand in the same line for a while.

A round that hangs at its rendezvous has a limit of its own, and is ended if ranks won't come (`rendezvous_look`).

The job's keys `hang_after_s`, `on_hang` and `rendezvous_timeout_s` set when and what; their defaults are in
`jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace

from drumbeat.core.diagnosis.hangs import stack_report
from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict, Stillness
from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousState, RendezvousVerdict
from drumbeat.core.diagnosis.hangs.straggler_phases import RankPhases
from drumbeat.core.diagnosis.hangs.stragglers import MIN_WAITS, WaitRecord
from drumbeat.core.lifecycle import hang_response
from drumbeat.core.lifecycle.events import StallObserved
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError, NotFoundError, StorageError
from drumbeat.model.stacks import STACKS
from drumbeat.model.states import State
from drumbeat.server.loop.loop import Loop
from drumbeat.server.nodes.closer_look import Ask, CloserLook
from drumbeat.server.nodes.node_requests import Answer, NodeRequests
from drumbeat.server.nodes.pooled_watch import PooledWatch
from drumbeat.server.nodes.rendezvous_look import RendezvousLook, interval_s, may_hold_one
from drumbeat.server.nodes.silence_look import SilenceLook, SilenceMemory
from drumbeat.server.nodes.stacks import JobFacts, hosts_of, request_fields, result_of

# Samples of the ranks of jobs that go on, a few in `hang_after_s`, by which a slow rank is named.

SAMPLED_S = 2.0
"""For so long ranks are sampled in a look."""
RANK_S = 4.0
"""Seconds between two looks for each rank of a node: a look takes about 50 ms of CPU time a rank."""
MAX_RANKS = 256
"""Jobs of more ranks aren't looked at: the answers would be much to send and to read, again and again."""


@dataclass
class StragglerSamples:
    """The looks at one round."""

    looked_at: float = 0.0
    _record: WaitRecord = field(default_factory=WaitRecord)

    def is_due(self, job: Job, now: float) -> bool:
        """Whether another look is due at this time; none is once a slow rank was named."""
        if not 2 <= len(job.plan.workers) <= MAX_RANKS or hang_response.slow_subject(job) in job.reported_subjects:
            return False
        self.looked_at = self.looked_at or now
        return now - self.looked_at >= max(job.plan.hang_after_s / MIN_WAITS, RANK_S * job.plan.processes_per_node)

    def take(self, look: Sequence[RankPhases], workers: Collection[int]) -> HangVerdict | None:
        """Returns the slow rank once enough looks name it. A look that isn't at all ranks counts for nothing."""
        ranks = [one for one in look if one.rank in workers]
        if {one.rank for one in ranks} == set(workers):
            self._record.take(ranks)
        return self._record.slow()


log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 0.5
ANSWER_S, SAMPLE_S = 60.0, 15.0
"""How long the answers of the nodes are waited for, to a look at silence and to samples of a job that goes on."""
_DUMP = "dump"

Keep = Callable[[str, str, str], None]
"""Writes a text into a job's folder: job, path, text. Raises StorageError."""


@dataclass
class _Round:
    """What is known of the silence of one round."""

    looked_at: float = 0.0
    rendezvous_at: float = 0.0
    """When its rendezvous was looked at last."""
    is_past_rendezvous: bool = False
    arrivals: dict[int, float] = field(default_factory=dict[int, float])
    """As in `RendezvousLook`."""
    work: Future[None] | None = None
    silence: SilenceMemory = field(default_factory=SilenceMemory)
    samples: StragglerSamples = field(default_factory=StragglerSamples)

    @property
    def is_busy(self) -> bool:
        """Whether it is being looked at."""
        return self.work is not None and not self.work.done()

    def is_due(self, now: float, interval_s: float) -> bool:
        """Whether another look at the silence is due."""
        return not self.looked_at or now - self.looked_at >= interval_s


class HangWatch(PooledWatch):
    """Looks at the silent rounds of this server's jobs, on threads of its own."""

    def __init__(self, loop: Loop, requests: NodeRequests, keep: Keep) -> None:
        super().__init__("hangs", CHECK_INTERVAL_S, "silent ranks could not be looked at")
        self._loop, self._requests, self._keep = loop, requests, keep
        self._rounds: dict[tuple[str, int, int], _Round] = {}

    def look(self) -> None:
        """Begins the looks that are due."""
        now = time.monotonic()
        jobs = [record.job for record in list(self._loop.jobs.values())]
        watched = [job for job in jobs if job.state is State.RUNNING and job.attempt and _is_watched(job)]
        keys = {(job.name, job.attempt, job.round) for job in watched}
        self._rounds = {key: one for key, one in self._rounds.items() if key in keys}
        for job in watched:
            round_ = self._rounds.setdefault((job.name, job.attempt, job.round), _Round())
            if not round_.is_busy:
                self._follow(job, round_, now)

    def _follow(self, job: Job, round_: _Round, now: float) -> None:
        """Begins the look that is due, if one is."""
        is_at_start = not round_.is_past_rendezvous and may_hold_one(job)
        if is_at_start and now - round_.rendezvous_at >= interval_s(job):
            round_.rendezvous_at = now
            round_.work = self.pool.submit(self._guarded, job, self._look_at_rendezvous, round_)
        elif not is_silent(job):
            round_.looked_at = 0.0
            round_.silence.places.clear()
            if hang_response.is_hung(job):
                self._report_end(job)
            else:
                self._sample_if_due(job, round_, now)
        elif round_.is_due(now, job.plan.hang_after_s):
            round_.looked_at = now
            round_.work = self.pool.submit(self._guarded, job, self._look, round_)
        elif not hang_response.is_hung(job):  # A job may be silent because it is slow.
            self._sample_if_due(job, round_, now)

    def _sample_if_due(self, job: Job, round_: _Round, now: float) -> None:
        if job.plan.hang_after_s and round_.samples.is_due(job, now):
            round_.samples.looked_at = now
            round_.work = self.pool.submit(self._guarded, job, self._sample, round_)

    def _guarded(self, job: Job, look: Callable[[Job, _Round], None], round_: _Round) -> None:
        try:
            look(job, round_)
        except DrumbeatError as error:
            log.warning("the silence of job %s could not be looked into: %s", job.name, error)
        except Exception:
            log.exception("the silence of job %s could not be looked into", job.name)

    # --- looks ------------------------------------------------------------------------------------------------------
    def _closer(self, job: Job, limit_s: float) -> CloserLook:
        return CloserLook(
            job.plan.workers, limit_s, lambda what: self._ask(job, what), lambda: self._left(job), self.stopping.wait
        )

    def _look(self, job: Job, round_: _Round) -> None:
        look = SilenceLook(self._closer(job, job.plan.hang_after_s), round_.silence)
        verdict, facts = look.look()
        if verdict.stillness in (Stillness.SLOW, Stillness.BUSY) and hang_response.is_hung(job):
            self._report_end(job)
        if verdict.stillness is Stillness.SLOW:
            self._report_slow(job, verdict, f"silent for {job.plan.hang_after_s:g} s: {verdict.sentence}")
        elif verdict.is_hang and not hang_response.is_recorded(job, is_certain=verdict.is_certain):
            if job.plan.on_hang == _DUMP:
                facts = facts.with_native(self._ask(job, Ask(is_native=True)))
            self._report_hang(job, verdict, facts)

    def _look_at_rendezvous(self, job: Job, round_: _Round) -> None:
        look = RendezvousLook(job, self._closer(job, job.plan.rendezvous_timeout_s), round_.arrivals)
        verdict, facts = look.look()
        round_.is_past_rendezvous = verdict.state is RendezvousState.OVER
        is_known = hang_response.late_subject(job) in job.reported_subjects
        if verdict.state is RendezvousState.STUCK or (verdict.state is RendezvousState.LATE and not is_known):
            self._report_incomplete(job, verdict, facts)

    def _sample(self, job: Job, round_: _Round) -> None:
        look = self._ask(job, Ask(sample_s=SAMPLED_S), SAMPLE_S).phases
        if verdict := round_.samples.take(look, job.plan.workers):
            self._report_slow(job, verdict, verdict.sentence)

    def _left(self, job: Job) -> set[int]:
        return {one.rank for _, one in self._loop.record(job.name).job.exits if not one.is_failure}

    def _wait_for(self, answers: list[Future[Answer]], within_s: float) -> None:
        """Waits for the answers; a server that stops must not wait for a node that gives none."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and not self.stopping.is_set():
            if not wait(answers, CHECK_INTERVAL_S).not_done:
                return

    def _ask(self, job: Job, what: Ask, within_s: float = ANSWER_S) -> JobFacts:
        """The answers of all nodes, or of those with these ranks. Raises DrumbeatError."""
        fields = request_fields(job, what.pause_s, is_native=what.is_native, ranks=what.ranks, sample_s=what.sample_s)
        nodes = {one.node for one in job.plan.ranks if not what.ranks or one.rank in what.ranks} - set(job.lost)
        asked = {node: self._requests.ask(job.name, node, STACKS, fields) for node in sorted(nodes)}
        try:
            self._wait_for([one.answer for one in asked.values()], within_s)
            if not self._loop.is_there(job):  # A new job of its name may have answered.
                raise NotFoundError(f"job {job.name} was deleted")
            return JobFacts({node: result_of(one.answer) for node, one in asked.items()})
        finally:
            for one in asked.values():
                self._requests.forget(one)

    # --- words ------------------------------------------------------------------------------------------------------
    def _report_hang(self, job: Job, verdict: HangVerdict, facts: JobFacts) -> None:
        sentence = self._with_stacks(
            job, f"{hang_response.HANGS if verdict.is_certain else hang_response.MAY_HANG}{verdict.sentence}", facts
        )
        seen = StallObserved(job.attempt, job.round, sentence, is_hang=True, is_certain=verdict.is_certain)
        self._tell(job, replace(seen, rank=verdict.rank, node=verdict.node, silent_s=verdict.silent_s))

    def _report_end(self, job: Job) -> None:
        self._tell(job, StallObserved(job.attempt, job.round, "the ranks go on", is_hang=True, is_over=True))

    def _report_incomplete(self, job: Job, verdict: RendezvousVerdict, facts: JobFacts) -> None:
        sentence = self._with_stacks(job, verdict.sentence, facts)
        is_stuck = verdict.state is RendezvousState.STUCK
        seen = StallObserved(job.attempt, job.round, sentence, is_hang=True, is_certain=is_stuck, is_rendezvous=True)
        self._tell(job, replace(seen, rank=verdict.rank, node=verdict.node, silent_s=verdict.silent_s))

    def _with_stacks(self, job: Job, sentence: str, facts: JobFacts) -> str:
        """Keeps the stacks in the job's folder, and returns the sentence with where they are.

        A later hang of the round has a file of its own.
        """
        count = hang_response.hangs_recorded(job) + 1
        path = f"hangs/{job.attempt}.{job.round}{f'.{count}' if count > 1 else ''}.txt"
        try:
            self._keep(job.name, path, f"{sentence}\n\n{stack_report.text(facts.stacks(hosts_of(job)))}")
        except StorageError as error:
            log.warning("the stacks of job %s could not be kept: %s", job.name, error)
            return sentence
        return f"{sentence}; the stacks of all ranks are in the job's file {path}"

    def _report_slow(self, job: Job, verdict: HangVerdict, sentence: str) -> None:
        seen = StallObserved(job.attempt, job.round, sentence, is_hang=False, rank=verdict.rank, node=verdict.node)
        self._tell(job, seen)

    def _tell(self, job: Job, seen: StallObserved) -> None:
        if self._loop.is_current and self._loop.is_there(job):
            self._loop.tell(job.name, seen)


def _is_watched(job: Job) -> bool:
    return bool(job.plan.hang_after_s or job.plan.rendezvous_timeout_s)


def is_silent(job: Job) -> bool:
    """Whether a node of the round says that its ranks are silent."""
    return any(status is not None and status.round == job.round and status.is_silent for status in job.nodes)

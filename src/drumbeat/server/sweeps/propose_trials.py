"""The effect `propose_trials`, which determines the parameters of trials, and the requests for their jobs.

Grid and random sampling depend only on a trial's number. Bayesian sampling asks a sampler that gets all results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from drumbeat import jobfile
from drumbeat.core.child_jobs import SweepProgress
from drumbeat.core.lifecycle.events import ProposeTrials, SamplerRefused, TrialsProposed
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.sweeps import grid_sampling, random_sampling
from drumbeat.core.sweeps.trial_jobs import sampling_algorithm
from drumbeat.jobfile.sweeping.sweep import RandomSampling, SweepJob
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError
from drumbeat.model.failpoints import failpoint
from drumbeat.ports.samplers import Sampler
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import NODES, Handler, Pool
from drumbeat.server.sweeps.sweep_submission import trial_request

Samplers = Callable[[str, SweepJob, int], Sampler]
"""Returns the sampler of a sweep, given its name, the sweep and the seed; always the same one for a name."""


def no_samplers(name: str, sweep: SweepJob, seed: int) -> Sampler:
    """Raises RefusedError: this server has no samplers."""
    _ = sweep, seed
    raise RefusedError(f"sweep {name} needs a sampler, and this server has none", fix="Use `random` or `grid`.")


class Proposals:
    """Proposes the parameters of trials, and builds the requests for their jobs."""

    def __init__(self, loop: Loop, samplers: Samplers) -> None:
        self._loop, self._samplers = loop, samplers

    def handler(self) -> Handler:
        """The handler of `propose_trials`, with threads of its own, because a sampler may take long."""
        return Handler(ProposeTrials, NODES, self._carry_out, lambda _pending: Pool("sampler", 4))

    def trial_request(self, sweep: Job, trial: str) -> JobRequest:
        """Returns the request for a trial's job, by the name of the job."""
        request = self._loop.store.request(sweep.name)
        number = int(trial.rpartition("_")[2])
        progress = cast("SweepProgress", sweep.sweep)
        return trial_request(request, sweep_in(request), sweep.name, number, progress.trials[number].values)

    def _carry_out(self, pending: PendingEffect, job: Job) -> None:
        effect = cast("ProposeTrials", pending.effect)
        progress = job.sweep
        if progress and progress.is_asking and effect.first == len(progress.trials):
            failpoint("sweep.asked")
            try:
                event = self._proposed(job, progress, effect)
            except (SpecError, RefusedError, NotFoundError) as error:
                event = SamplerRefused(str(error))
            self._loop.tell(job.name, event)
        self._loop.store.done(pending.id)

    def _proposed(self, job: Job, progress: SweepProgress, effect: ProposeTrials) -> TrialsProposed:
        sweep = sweep_in(self._loop.store.request(job.name))
        sampling, algorithm = sweep.sampling_algorithm, sampling_algorithm(sweep)
        numbers = range(effect.first, effect.first + effect.count)
        if algorithm == "grid":
            total = grid_sampling.count(sweep.search_space)
            values = [grid_sampling.combination(sweep.search_space, number) for number in numbers if number < total]
            return _answer(effect, values, is_exhausted=numbers.stop >= total)
        if algorithm == "random":
            rule = sampling if isinstance(sampling, RandomSampling) else RandomSampling()
            seed = rule.seed if rule.seed is not None else _seed(job)
            return _answer(effect, [random_sampling.draw(sweep.search_space, rule, seed, number) for number in numbers])
        sampler = self._samplers(job.name, sweep, _seed(job))
        return _answer(effect, sampler.ask(effect.count, progress.trials))


def _answer(
    effect: ProposeTrials, values: Sequence[Mapping[str, Any]], *, is_exhausted: bool = False
) -> TrialsProposed:
    return TrialsProposed(effect.first, tuple(dict(one) for one in values), is_exhausted)


def sweep_in(request: JobRequest) -> SweepJob:
    """Returns the sweep in its request."""
    return cast("SweepJob", jobfile.from_dict(request.document, request.source))


def _seed(job: Job) -> int:
    """Returns a seed for a sweep that sets none: constant across restarts, different for each sweep."""
    return int.from_bytes(hashlib.sha256(f"{job.name} {job.submitted_at}".encode()).digest()[:4])

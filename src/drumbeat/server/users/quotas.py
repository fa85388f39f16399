"""Quotas and fair share: settings and current use."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.fair_share import recent_use
from drumbeat.core.scheduling.quotas import EVERYONE, Payer, Quota, QuotaKind, refused_waiting
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError
from drumbeat.model.states import State
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.waiting_jobs import half_life_of
from drumbeat.server.users.tokens import require_user_name
from drumbeat.server.users.user_token import HALF_LIFE_SETTING

log = logging.getLogger(__name__)

MAX_LIMIT = 1_000_000
MIN_HALF_LIFE, MAX_HALF_LIFE = timedelta(minutes=1), timedelta(days=3650)


@dataclass(frozen=True)
class CurrentUse:
    """What a user or an experiment uses now. recent: slot-hours that count in fair share; of users."""

    kind: QuotaKind
    name: str
    slots: int = 0
    gpus: int = 0
    waiting: int = 0
    recent: float = 0.0


class Quotas:
    """Manages quotas. Thread-safe, except `require_room`."""

    def __init__(self, loop: Loop) -> None:
        self._loop, self._store = loop, loop.store

    def all(self) -> list[Quota]:
        """Returns all quotas, by kind and name."""
        return self._store.quotas()

    def set(self, quota: Quota) -> None:
        """Sets a quota; running jobs continue. Raises SpecError."""
        if quota.kind is QuotaKind.USER and quota.name != EVERYONE:
            require_user_name(quota.name)
        for what in ("slots", "gpus", "waiting"):
            limit = getattr(quota, what)
            if limit is not None and not 0 <= limit <= MAX_LIMIT:
                fix = "Omit it for no limit."
                raise SpecError(f"{limit} isn't a valid limit, which is 0 to {MAX_LIMIT:,}", where=what, fix=fix)
        self._store.set_quota(quota)
        log.info("quota: %s", quota)
        self._loop.call(self._loop.freed)

    def remove(self, kind: QuotaKind, name: str) -> None:
        """Removes a quota. Raises NotFoundError."""
        if not any((one.kind, one.name) == (kind, name) for one in self.all()):
            fix = "List the quotas: drumbeat quota list"
            raise NotFoundError(f"there is no quota of {kind} {name}", where="name", fix=fix)
        self.set(Quota(kind, name))

    @property
    def half_life(self) -> timedelta:
        """The half-life of past use."""
        return half_life_of(self._store)

    def set_half_life(self, half_life: timedelta) -> None:
        """Sets the half-life of past use. Raises RefusedError."""
        if not MIN_HALF_LIFE <= half_life <= MAX_HALF_LIFE:
            what = f"a half-life of {half_life.total_seconds():g} s is too short or too long"
            raise RefusedError(what, where="half_life_s", fix="Give one from a minute to ten years, such as 7d.")
        self._store.set_setting(HALF_LIFE_SETTING, repr(half_life.total_seconds()))
        self._loop.call(self._loop.freed)

    def uses(self) -> list[CurrentUse]:
        """What users and experiments use now, and what users have used recently; by kind and name."""
        held, now = self._store.held_slots(), self._loop.clock.now()
        recent = recent_use(self._store.past_use(), held, now, self.half_life)
        slots: Counter[tuple[QuotaKind, str]] = Counter()
        gpus: Counter[tuple[QuotaKind, str]] = Counter()
        for one in held:
            for key in ((QuotaKind.USER, one.user), (QuotaKind.EXPERIMENT, one.experiment)):
                slots[key] += one.slots
                gpus[key] += one.gpus
        waiting = Counter(key for job in self._waiting() for key in _keys(job))
        keys = {*slots, *waiting, *((QuotaKind.USER, user) for user in recent)}
        keys |= {(one.kind, one.name) for one in self.all() if one.name != EVERYONE}
        of_users = {(QuotaKind.USER, person): amount for person, amount in recent.items()}
        return [CurrentUse(*key, slots[key], gpus[key], waiting[key], of_users.get(key, 0.0)) for key in sorted(keys)]

    def require_room(self, *jobs: Job) -> None:
        """Raises RefusedError unless quotas let these jobs wait that users submit. Only on the loop's thread."""
        quotas = [one for one in self.all() if one.waiting is not None]
        asking = [job for job in jobs if not job.parent and job.state is State.QUEUED]
        if not quotas or not asking:
            return
        waiting = Counter(key for one in self._waiting() for key in _keys(one))
        for job in asking:
            counts = {kind: waiting[kind, name] for kind, name in _keys(job)}
            if refusal := refused_waiting(quotas, Payer(job.user, job.plan.experiment), counts):
                fix = (
                    "Wait until one of them has started, cancel one, or ask an owner of the server: drumbeat quota set."
                )
                raise RefusedError(refusal, where=f"job {job.name}", fix=fix)
            waiting.update(_keys(job))

    def _waiting(self) -> list[Job]:
        """Jobs in queues that users submitted; trials and steps belong to their parents."""
        return [job for job in self._loop.jobs.queued() if not job.parent]


def _keys(job: Job) -> Iterable[tuple[QuotaKind, str]]:
    return (QuotaKind.USER, job.user), (QuotaKind.EXPERIMENT, job.plan.experiment)

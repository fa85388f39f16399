"""Quotas: how much a user or an experiment may use at a time, over all computes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from drumbeat.core.scheduling.fair_share import HeldSlots
from drumbeat.model.plurals import counted, name_some

EVERYONE = "*"
"""The name of the quota of everybody, and of every experiment, without one of their own."""


class QuotaKind(StrEnum):
    """Whose use a quota limits."""

    USER = "person"
    EXPERIMENT = "experiment"


@dataclass(frozen=True)
class Quota:
    """Limits of one user or experiment; None = no limit."""

    kind: QuotaKind
    name: str
    """`*` = each one that has no quota of its own."""
    slots: int | None = None
    """CPU slots that jobs may hold at a time, on all computes together."""
    gpus: int | None = None
    waiting: int | None = None
    """Jobs that may wait at a time; trials and steps don't count."""

    @property
    def is_empty(self) -> bool:
        """Whether it limits nothing."""
        return self.slots is None and self.gpus is None and self.waiting is None


@dataclass(frozen=True)
class Amount:
    """What a job takes."""

    slots: int = 0
    gpus: int = 0


@dataclass(frozen=True)
class Payer:
    """On whose quotas a job counts."""

    user: str = ""
    experiment: str = ""


@dataclass(frozen=True)
class QuotaWait:
    """Why a quota keeps a job from starting. key: of the limit. is_never: it can't start under this quota at all."""

    key: tuple[QuotaKind, str, str]
    sentence: str
    is_never: bool = False


@dataclass(frozen=True)
class Allowances:
    """The quotas, and what is used of them. Frozen: `taken` gives another one."""

    quotas: tuple[Quota, ...] = ()
    held: tuple[HeldSlots, ...] = ()
    waited_for: frozenset[tuple[QuotaKind, str, str]] = field(default_factory=frozenset[tuple[QuotaKind, str, str]])
    """Limits that an earlier job waits for: later jobs on the same limit wait behind it."""
    reserved: tuple[HeldSlots, ...] = ()
    """For an earlier job that waits for slots: later ones must leave it what it needs of its quotas."""

    def taken(self, job: str, payer: Payer, amount: Amount) -> Allowances:
        """Returns the allowances after a job was granted what it takes."""
        return replace(self, held=(*self.held, _held(job, payer, amount)))

    def reserved_for(self, job: str, payer: Payer, amount: Amount) -> Allowances:
        """Returns the allowances for the jobs behind one that waits for slots."""
        return replace(self, reserved=(*self.reserved, _held(job, payer, amount)))

    def behind(self, wait: QuotaWait) -> Allowances:
        """Returns the allowances for the jobs behind one that waits. A job that can never start holds no other up."""
        return self if wait.is_never else replace(self, waited_for=self.waited_for | {wait.key})

    def wait(self, payer: Payer, amount: Amount) -> QuotaWait | None:
        """Returns why a job that takes this much may not start now; None = it may."""
        waits = [wait for quota in self._quotas_for(payer) for wait in self._waits(quota, amount)]
        return next((one for one in waits if one.is_never), waits[0] if waits else None)

    def _quotas_for(self, payer: Payer) -> Iterable[Quota]:
        names = {QuotaKind.USER: payer.user, QuotaKind.EXPERIMENT: payer.experiment}
        for kind, name in names.items():
            if quota := quota_for(self.quotas, kind, name):
                yield replace(quota, name=name)

    def _waits(self, quota: Quota, amount: Amount) -> Iterable[QuotaWait]:
        for limit in self._limits(quota, amount):
            key = (quota.kind, quota.name, limit.what)
            if limit.takes > limit.most:
                yield QuotaWait(key, limit.describe_never(who(quota)), is_never=True)
            elif limit.is_reached or key in self.waited_for:
                yield QuotaWait(key, limit.describe_wait(who(quota)))

    def _limits(self, quota: Quota, amount: Amount) -> Iterable[_Limit]:
        """Yields the limits of a quota that a job counts against."""
        held = [one for one in self.held if _name(one, quota.kind) == quota.name]
        kept = [one for one in self.reserved if _name(one, quota.kind) == quota.name]
        if quota.slots is not None and amount.slots:
            used = _by_job((one.job, one.slots) for one in held)
            yield _Limit("CPU slot", quota.slots, amount.slots, used, sum(one.slots for one in kept))
        if quota.gpus is not None and amount.gpus:
            used = _by_job((one.job, one.gpus) for one in held)
            yield _Limit("GPU", quota.gpus, amount.gpus, used, sum(one.gpus for one in kept))


@dataclass(frozen=True)
class _Limit:
    """One limit of a quota, and a job that counts against it. used: by job. reserved: for an earlier job."""

    what: str
    most: int
    takes: int
    used: Mapping[str, int]
    reserved: int

    @property
    def is_reached(self) -> bool:
        """Whether the job needs more than is left."""
        return sum(self.used.values()) + self.reserved + self.takes > self.most

    def describe_wait(self, user: str) -> str:
        used = sum(self.used.values())
        by = f"; held by {name_some(sorted(set(self.used)))}" if self.used else ""
        behind = "" if used + self.takes > self.most else "; an earlier job waits for the same quota"
        of = f"{used} of {counted(self.most, self.what)} of the quota"
        return f"{user} uses {of}, and the job needs {self.takes}{by}{behind}"

    def describe_never(self, user: str) -> str:
        most = counted(self.most, self.what)
        raised = "it waits until an owner raises the quota"
        return f"{user} may use {most} at a time, and the job needs {self.takes}: {raised}"


def _by_job(amounts: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """Returns what each job holds; two attempts of one may overlap while the first ends."""
    total: Counter[str] = Counter()
    for job, amount in amounts:
        total[job] += amount
    return +total


def _held(job: str, payer: Payer, amount: Amount) -> HeldSlots:
    return HeldSlots("", job, payer.user, payer.experiment, amount.slots, amount.gpus)


def quota_for(quotas: Sequence[Quota], kind: QuotaKind, name: str) -> Quota | None:
    """The quota of a user or experiment: its own, else everyone's; None = no limit."""
    of_kind: Mapping[str, Quota] = {one.name: one for one in quotas if one.kind is kind}
    return of_kind.get(name) or of_kind.get(EVERYONE)


def _name(held: HeldSlots, kind: QuotaKind) -> str:
    return held.user if kind is QuotaKind.USER else held.experiment


def who(quota: Quota) -> str:
    """The user or the experiment in a sentence."""
    if quota.kind is QuotaKind.EXPERIMENT:
        return f"experiment {quota.name}"
    return quota.name or "the unknown user"


def refused_waiting(quotas: Sequence[Quota], payer: Payer, waiting: Mapping[QuotaKind, int]) -> str:
    """Why one more job may not wait, "" = it may. waiting: how many jobs of this payer wait, by kind of quota."""
    for kind, name in ((QuotaKind.USER, payer.user), (QuotaKind.EXPERIMENT, payer.experiment)):
        quota = quota_for(quotas, kind, name)
        if quota and quota.waiting is not None and waiting[kind] >= quota.waiting:
            jobs = counted(quota.waiting, "job")
            has = f"{waiting[kind]} {'waits' if waiting[kind] == 1 else 'wait'} already"
            return f"{who(replace(quota, name=name))} may have {jobs} waiting at a time, and {has}"
    return ""

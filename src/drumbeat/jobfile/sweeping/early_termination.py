"""Rules that end trials early: the policies of the dialect, and ASHA, which drumbeat adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.jobfile.reading.field_types import Count, Number, Tally, Whole
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, by_type


class EarlyTerminationPolicy(Model):
    """The keys that all policies for ending hopeless trials early have."""

    evaluation_interval: Tally = Field(default=1, description="Reports of the metric between two evaluations.")
    delay_evaluation: Tally = Field(default=0, description="Reports before the first evaluation.")


class BanditPolicy(EarlyTerminationPolicy):
    """Ends a trial that is further from the best one than the slack."""

    type: Annotated[Literal["bandit"], AnyCase()] = Field(default="bandit", description="Always `bandit`.")
    slack_factor: Annotated[Number, Field(ge=0)] | None = Field(
        default=None, description="Allowed distance, as a ratio."
    )
    slack_amount: Annotated[Number, Field(ge=0)] | None = Field(default=None, description="Allowed distance, absolute.")

    def contradictions(self) -> Iterator[Contradiction]:
        if (self.slack_factor is None) == (self.slack_amount is None):
            many = "neither" if self.slack_factor is None else "both"
            fix = "Give exactly one of them."
            yield Contradiction(("slack_factor",), f"{many} of `slack_factor` and `slack_amount`", fix)


class MedianStoppingPolicy(EarlyTerminationPolicy):
    """Ends a trial that is worse than the median of the others' averages."""

    type: Annotated[Literal["median_stopping"], AnyCase()] = Field(
        default="median_stopping", description="Always `median_stopping`."
    )


class TruncationSelectionPolicy(EarlyTerminationPolicy):
    """Ends the worst trials at each evaluation."""

    type: Annotated[Literal["truncation_selection"], AnyCase()] = Field(
        default="truncation_selection", description="Always `truncation_selection`."
    )
    truncation_percentage: Annotated[Whole, Field(ge=1, le=99)] = Field(
        description="Share of trials to end, in percent."
    )
    exclude_finished_jobs: bool = Field(default=False, description="Whether to ignore finished trials.")


PolicyValue = Annotated[
    BanditPolicy | MedianStoppingPolicy | TruncationSelectionPolicy,
    by_type(BanditPolicy, MedianStoppingPolicy, TruncationSelectionPolicy, what="early termination"),
]


class Asha(Model):
    """Asynchronous successive halving: at each rung, a trial continues only if it is among the best.

    Rungs lie at `min_reports`, and at each multiple of it by the factor: 1, 4, 16, … (Li et al., "A System for
    Massively Parallel Hyperparameter Tuning", MLSys 2020).
    """

    min_reports: Count = Field(default=1, description="Reports of the metric before the first rung.")
    max_reports: Count | None = Field(
        default=None, description="Reports of a trial that trains to its end; there are no rungs from there on."
    )
    reduction_factor: Annotated[Whole, Field(ge=2, le=1000)] = Field(
        default=4, description="One trial in so many continues from a rung; also the distance between rungs."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        if self.max_reports is not None and self.max_reports <= self.min_reports:
            yield Contradiction(
                ("max_reports",),
                f"no rung lies below {self.max_reports} reports: the first is at {self.min_reports}",
                "Raise `max_reports`, or leave it out.",
            )


class SweepExtensions(Extensions):
    """What drumbeat adds to a sweep; all keys but `asha` are those of each trial."""

    asha: Asha | None = Field(
        default=None, description="Successive halving (ASHA) of the trials, instead of `early_termination`."
    )


def early_end_contradictions(
    policy: EarlyTerminationPolicy | None, extensions: SweepExtensions
) -> Iterator[Contradiction]:
    """Yields what is said where a sweep has both a policy and ASHA."""
    if policy and extensions.asha:
        what = "a sweep has one rule that ends trials early, and `early_termination` is another"
        yield Contradiction(("drumbeat", "asha"), what, "Leave one of them out.")

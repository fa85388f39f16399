"""Outputs with mode `direct`: links by which ranks write to the store themselves, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError, ForbiddenError
from drumbeat.model.input_listing import Link
from drumbeat.model.plan import OutputPlan, StagedFiles
from drumbeat.ports.data import DataAccess

DAY_S = 24 * 3600.0
"""Lifetime of a link for a job without a time limit."""
_MORE_S = 3600.0
_TRIED_S = 60.0


@dataclass(frozen=True)
class DirectOutputs:
    """The direct outputs of all jobs. job_of: returns a job; raises NotFoundError."""

    data: DataAccess
    job_of: Callable[[str], Job]

    def check(self, plan: StagedFiles) -> None:
        """Raises RefusedError with the output's name if a link can't be created."""
        for output in plan.outputs:
            if output.mode == "direct":
                self._link(output, _TRIED_S)

    def link(self, job: str, name: str) -> Link:
        """Returns the link of an output, valid for the job's time limit. Raises ForbiddenError for any other output."""
        record = self.job_of(job)
        for output in record.plan.outputs:
            if output.name == name and output.mode == "direct":
                limit = record.policy.timeout_s
                return self._link(output, DAY_S if limit is None else limit + _MORE_S)
        raise ForbiddenError("the job has no output of this name with mode direct", where=name[:80])

    def _link(self, output: OutputPlan, lifetime_s: float) -> Link:
        try:
            return self.data.write_link(output.uri, lifetime_s)
        except DrumbeatError as error:
            what = f"output {output.name} can't be direct: {error.what}"
            raise type(error)(what, where=f"outputs.{output.name}.mode", fix=error.fix) from error

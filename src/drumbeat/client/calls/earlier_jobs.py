"""The calls of `Client` that run jobs again: as they were, with changes, from their last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.client.run_again import Changes, request_like
from drumbeat.model import wire
from drumbeat.model.api.checkpoints import CheckpointView, SnapshotView
from drumbeat.model.api.jobs import JobView, PreviewView
from drumbeat.model.api.page import DefinitionView
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import SpecError


class EarlierJobCalls:
    """A part of `Client`."""

    connection: Connection

    def run_again(  # noqa: PLR0913 - each change is a word of its own
        self,
        like: str,
        *,
        sets: Sequence[str] = (),
        name: str | None = None,
        resume: bool = False,
        code: str | Path | None = None,
        code_of: str = "",
    ) -> JobView:
        """Runs a job again, with its code and files, and with changes: `key.path=value` in its job file.

        It may be any job, also a trial or a step. name: of the new job. resume: it continues the job from its last
        checkpoint. code: a folder that is sent; code_of: a job whose code it runs. Raises NotFoundError, SpecError,
        RefusedError.
        """
        request = self._request_like(like, Changes(sets, name, resume, self._code(code, code_of)), is_sending=True)
        return view(JobView, self.connection.call("POST", "/jobs", json=wire.to_wire(request)))

    def plan_again(  # noqa: PLR0913 - as above
        self,
        like: str,
        *,
        sets: Sequence[str] = (),
        name: str | None = None,
        resume: bool = False,
        code: str | Path | None = None,
        code_of: str = "",
    ) -> PreviewView:
        """Returns what `run_again` would run; nothing is started or sent."""
        request = self._request_like(like, Changes(sets, name, resume, self._code(code, code_of)), is_sending=False)
        return view(PreviewView, self.connection.call("POST", "/plan", json=wire.to_wire(request)))

    def _code(self, code: str | Path | None, code_of: str) -> Path | DefinitionView | None:
        if code is not None and code_of:
            raise SpecError("the code is named twice", where="code", fix="Give a folder, or a job.")
        return self.definition(code_of) if code_of else Path(code) if code is not None else None

    def _request_like(self, like: str, changes: Changes, *, is_sending: bool) -> JobRequest:
        return request_like(like, self.definition(like), changes, self.connection, is_sending=is_sending)

    def checkpoint(self, name: str) -> CheckpointView:
        """The last checkpoint of a job, from which another one can continue, or why none can. Raises NotFoundError."""
        return view(CheckpointView, self.connection.call("GET", f"/jobs/{part(name)}/checkpoint"))

    def snapshots(self, name: str) -> Sequence[SnapshotView]:
        """The code of a job and of its experiment's others, each by the last job that ran it. Raises NotFoundError."""
        return views(SnapshotView, self.connection.call("GET", f"/jobs/{part(name)}/snapshots"))

    def definition(self, name: str) -> DefinitionView:
        """The job file as it was submitted, and the plan that was made of it. Raises NotFoundError."""
        return view(DefinitionView, self.connection.call("GET", f"/jobs/{part(name)}/definition"))

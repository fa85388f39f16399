"""Publishes the outputs of an ended job: copies them to their places, and registers them under their names.

`resumable_copy.py` copies the files. Registered versions get their type and tags here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.core.lifecycle.job import Job, Published
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.core.planning.outputs import is_published, is_registered
from drumbeat.jobfile.data.assets import DataAsset
from drumbeat.jobfile.data.paths import JobOutputReference
from drumbeat.model.errors import (
    CertificateError,
    ConflictError,
    DrumbeatError,
    NotFoundError,
    StandbyError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.failpoints import failpoint
from drumbeat.model.folder_layout import MANIFEST
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import State
from drumbeat.ports.data import DataAccess
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.outputs.resumable_copy import Copy, NotWantedError, require

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 300.0
MAX_TRIES = 300
"""About a day of tries, after which publishing fails."""
PASSING = (UnreachableError, StorageError, CertificateError)
"""Errors that may pass: a certificate is renewed, a clock corrected."""


def format_refusal(error: DrumbeatError) -> str:
    """Returns a store's refusal as a message without manifests: the datastore, and what is wrong with it."""
    what = error.what
    if MANIFEST in what:
        what = what.partition("can't be ")[2].partition(": ")[2] or what
    return f"{error.where}: {what}" if error.where.startswith("datastore ") else what


def _always() -> bool:
    return True


def wait_after(tries: int) -> float:
    """Returns the pause in seconds before a store that was down is tried again."""
    return min(LONGEST_WAIT_S, 2.0 ** min(tries, 20))


@dataclass(frozen=True)
class Publisher:
    """Publishes outputs. data: access to all places. stores: the same without checks of manifests; None = none."""

    data: DataAccess
    stores: DataAccess | None
    assets: DataAssets

    def publish(
        self, job: Job, output: OutputPlan, is_wanted: Callable[[], bool] = _always, *, is_last: bool
    ) -> Published | None:
        """Publishes an output, and returns the outcome; None = it was discarded. is_wanted: asked now and then.

        A transient error is raised, or at the last try returned as the outcome. An unexpected one counts as transient,
        as a StorageError.
        """
        try:
            return self._publish(job, output, is_wanted)
        except NotWantedError:
            return None
        except StandbyError:
            raise
        except DrumbeatError as error:
            trouble = error
        except Exception as error:
            log.exception("output %s of job %s can't be published", output.name, job.name)
            what = f"unexpected error, {type(error).__name__}: {error}"
            trouble = StorageError(what, fix="See the server's log.")
        if isinstance(trouble, PASSING) and not is_last:
            raise trouble
        log.warning("output %s of job %s isn't published: %s", output.name, job.name, trouble)
        return Published(
            output.name, output.uri, problem=f"{format_refusal(trouble)}. {trouble.fix}".removesuffix(". ")
        )

    def _publish(self, job: Job, output: OutputPlan, is_wanted: Callable[[], bool]) -> Published:
        if job.sweep is not None:
            return self._register_best(job, output, is_wanted)
        source = output.uri if output.mode == "direct" else JobOutputReference(job.name, output.name).uri
        try:
            listed = self.data.listing(source, is_file=output.type == "uri_file")
        except NotFoundError as error:
            if job.state is not State.COMPLETED:  # It ended before it wrote anything.
                return Published(output.name, "")
            raise NotFoundError(f"the job wrote nothing to output {output.name}") from error
        uri = output.uri if is_published(output, job.state) else ""
        if uri:
            Copy(self.data, self.stores, job, source, uri, listed, is_wanted).run()
        asset = self._register(job, output, uri or source, is_wanted) if is_registered(output, job.state) else ""
        return Published(output.name, uri, len(listed.files), listed.size, asset)

    def _register_best(self, sweep: Job, output: OutputPlan, is_wanted: Callable[[], bool]) -> Published:
        """Registers an output of a sweep's best trial at its place."""
        trial = self.assets.best_trial(sweep)
        if any(one.name == output.name for one in outputs_left(trial)):
            raise StorageError(f"trial {trial.name} hasn't published it yet")
        uri = _output_place(trial, output.name)
        try:
            listed = self.data.listing(uri, is_file=output.type == "uri_file")
        except NotFoundError as error:
            raise NotFoundError(f"the best trial, {trial.name}, wrote nothing to output {output.name}") from error
        asset = self._register(sweep, output, uri, is_wanted)
        return Published(output.name, uri, len(listed.files), listed.size, asset)

    def _register(self, job: Job, output: OutputPlan, uri: str, is_wanted: Callable[[], bool]) -> str:
        require(is_wanted)
        version = self.assets.made_by(job, output.asset, uri)
        if version is None:
            asked = DataAsset.made(
                {"name": output.asset, "version": output.version or None, "type": output.type, "path": uri}
            )
            try:
                version = self.assets.register(asked, uri, job.name)[0].version
            except ConflictError as error:  # The version was taken after the job began.
                fix = f"To register them: drumbeat data create {output.asset} --path {uri}"
                raise ConflictError(f"its files are in {uri}, and {error.what}", fix=fix) from error
        failpoint("publish.registered")
        return f"{output.asset}:{version}"


def _output_place(job: Job, name: str) -> str:
    """Returns where an output of an ended job is: at its published place, else in the job's folder."""
    direct = [one.uri for one in job.plan.outputs if one.name == name and one.mode == "direct"]
    in_place = [one.uri for one in job.published if one.output == name and one.uri and not one.problem]
    return next(iter((*direct, *in_place)), JobOutputReference(job.name, name).uri)

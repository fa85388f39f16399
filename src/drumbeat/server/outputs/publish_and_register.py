"""Outputs of a job that has ended: put where the job says, and registered under the name that it gives them.

The files are copied by `resumable_copy.py`. What is registered gets its type and tags here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.core.lifecycle.job import Job, Published
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.core.planning.outputs import is_published, is_registered
from drumbeat.jobfile.data.assets import DataAsset
from drumbeat.jobfile.data.paths import OfJob
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
"""A day, about: then the job's page says that its outputs could not be put there."""
PASSING = (UnreachableError, StorageError, CertificateError)
"""Troubles that may be over later: a certificate is renewed, a clock set right."""


def said(error: DrumbeatError) -> str:
    """A store's refusal for who never heard of a manifest: which datastore, and what is wrong with it."""
    what = error.what
    if MANIFEST in what:
        what = what.partition("can't be ")[2].partition(": ")[2] or what
    return f"{error.where}: {what}" if error.where.startswith("datastore ") else what


def _always() -> bool:
    return True


def wait_after(tries: int) -> float:
    """How long a store that was down is left alone, in seconds."""
    return min(LONGEST_WAIT_S, 2.0 ** min(tries, 20))


@dataclass(frozen=True)
class Publishing:
    """data: every place that can be read and written. stores: the same without what manifests say; None = none."""

    data: DataAccess
    stores: DataAccess | None
    assets: DataAssets

    def publish(
        self, job: Job, output: OutputPlan, is_wanted: Callable[[], bool] = _always, *, is_last: bool
    ) -> Published | None:
        """What has become of an output; None: it isn't wanted any more. is_wanted: asked now and then.

        A passing trouble is raised, unless it is the last try: then it is told. One that nobody has thought of counts
        as passing: StorageError.
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
            what = f"an error that wasn't foreseen, {type(error).__name__}: {error}"
            trouble = StorageError(what, fix="More about it is in the server's log.")
        if isinstance(trouble, PASSING) and not is_last:
            raise trouble
        log.warning("output %s of job %s isn't published: %s", output.name, job.name, trouble)
        return Published(output.name, output.uri, problem=f"{said(trouble)}. {trouble.fix}".removesuffix(". "))

    def _publish(self, job: Job, output: OutputPlan, is_wanted: Callable[[], bool]) -> Published:
        if job.sweep is not None:
            return self._register_best(job, output, is_wanted)
        source = output.uri if output.mode == "direct" else OfJob(job.name, output.name).uri
        try:
            listed = self.data.listing(source, is_file=output.type == "uri_file")
        except NotFoundError as error:
            if job.state is not State.COMPLETED:  # It didn't come to write anything.
                return Published(output.name, "")
            raise NotFoundError(f"the job wrote nothing to output {output.name}") from error
        uri = output.uri if is_published(output, job.state) else ""
        if uri:
            Copy(self.data, self.stores, job, source, uri, listed, is_wanted).run()
        asset = self._register(job, output, uri or source, is_wanted) if is_registered(output, job.state) else ""
        return Published(output.name, uri, len(listed.files), listed.size, asset)

    def _register_best(self, sweep: Job, output: OutputPlan, is_wanted: Callable[[], bool]) -> Published:
        """Registers an output of a sweep's best trial, where the trial has put it."""
        trial = self.assets.best_trial(sweep)
        if any(one.name == output.name for one in outputs_left(trial)):
            raise StorageError(f"trial {trial.name} hasn't put it in its place yet")
        uri = _place_of(trial, output.name)
        try:
            listed = self.data.listing(uri, is_file=output.type == "uri_file")
        except NotFoundError as error:
            raise NotFoundError(f"the best trial, {trial.name}, wrote nothing to output {output.name}") from error
        asset = self._register(sweep, output, uri, is_wanted)
        return Published(output.name, uri, len(listed.files), listed.size, asset)

    def _register(self, job: Job, output: OutputPlan, uri: str, is_wanted: Callable[[], bool]) -> str:
        require(is_wanted)
        known = self.assets.made_by(job, output.asset, uri)
        if known is None:
            asked = DataAsset.made(
                {"name": output.asset, "version": output.version or None, "type": output.type, "path": uri}
            )
            try:
                known = self.assets.register(asked, uri, job.name)[0].version
            except ConflictError as error:  # Another has taken the version since the job began.
                fix = f"To name them: drumbeat data create {output.asset} --path {uri}"
                raise ConflictError(f"its files are in {uri}, and {error.what}", fix=fix) from error
        failpoint("publish.registered")
        return f"{output.asset}:{known}"


def _place_of(job: Job, name: str) -> str:
    """Where an output of a job that has ended is: in its place, else in the job's folder."""
    direct = [one.uri for one in job.plan.outputs if one.name == name and one.mode == "direct"]
    in_place = [one.uri for one in job.published if one.output == name and one.uri and not one.problem]
    return next(iter((*direct, *in_place)), OfJob(job.name, name).uri)

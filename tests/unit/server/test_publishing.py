"""Outputs on their way to where they are to go, over a store in memory that is ill when a test says so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from drumbeat.core.child_jobs import SweepProgress, TrialProgress
from drumbeat.core.lifecycle.job import Job, Published
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    CertificateError,
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NotFoundError,
    StandbyError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.folder_layout import MANIFEST
from drumbeat.model.input_listing import Listing
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import State
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.job_output_reader import JobOutputReader
from drumbeat.server.data.manifests import Manifest, ManifestDataAccess, find, put
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.outputs.publish_and_register import Publisher, format_refusal, wait_after
from drumbeat.server.outputs.resumable_copy import Copy
from drumbeat.server.resources.records import Resource
from drumbeat.wiring import SystemClock
from tests.support.memory_data import ROOT, MemoryData
from tests.support.memory_store import MemoryStore
from tests.support.registries import make_models
from tests.support.sample_jobs import submission

pytestmark = pytest.mark.feature("D3", "D4")

FILES = {f"f{n}.bin": f"content {n}".encode() for n in range(6)}
MODEL = OutputPlan("model", "uri_folder", "rw_mount", f"{ROOT}/out", "best")


class Ill(MemoryData):
    """Stops working after so many files; sees which were written."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.error, self.written = 1000, UnreachableError("the store is down"), list[str]()

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        if path != MANIFEST:
            if not self.left:
                raise self.error
            self.left -= 1
            self.written.append(path)
        return super().write(uri, path, pieces, size)


class Room:
    """A job that has ended, and what publishes its outputs."""

    def __init__(self, folder: Path) -> None:
        self.artifacts, self.store, self.data = FolderArtifacts(folder), MemoryStore(), Ill()
        given = {f"model/{path}": content for path, content in FILES.items()}
        for path, content in given.items():
            self.artifacts.append_output("j", 1, 0, path, 0, content)
        told = {path: (len(content), sha256(content).hexdigest()) for path, content in given.items()}
        assert self.artifacts.commit_outputs("j", 1, 0, told) == []
        everything = JobOutputReader(self.artifacts, ManifestDataAccess(self.data))
        models = self.models = make_models(self.store, everything, SystemClock(), self.artifacts)
        assets = DataAssets(self.store, SystemClock(), Datastores(self.store, b"k"), everything, models)
        self.publishing = Publisher(everything, self.data, assets)

    def job(self, *outputs: OutputPlan, state: State = State.COMPLETED) -> Job:
        made = submission("j").job
        return replace(made, state=state, attempt=1, plan=replace(made.plan, outputs=outputs or (MODEL,)))

    def publish(self, *, is_last: bool = False, state: State = State.COMPLETED) -> Published:
        told = self.publishing.publish(self.job(state=state), MODEL, is_last=is_last)
        assert told is not None
        return told


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_files_are_copied_and_the_manifest_is_complete(room: Room):
    size = sum(map(len, FILES.values()))
    assert room.publish() == Published("model", f"{ROOT}/out", len(FILES), size, "best:1")
    assert {path: room.data.files[f"out/{path}"] for path in FILES} == FILES
    told = find(room.data, f"{ROOT}/out")
    assert told is not None
    assert (told.by, told.is_complete, set(told.files)) == ("job j", True, set(FILES))
    kept = room.store.resource("data", "best")
    assert (kept.made_by, kept.document["uri"]) == ("j", f"{ROOT}/out")


def test_version_that_a_deleted_job_of_the_name_made_is_not_the_new_jobs(room: Room):
    earlier = room.job().submitted_at - timedelta(days=1)
    room.store.add_version(Resource("data", "best", "1", {"uri": f"{ROOT}/out"}, "digest", earlier, made_by="j"))
    assert room.publish().asset == "best:2"
    assert room.publish().asset == "best:2"


def test_interrupted_publication_is_partial_and_resumes(room: Room):
    room.data.left = 3
    with pytest.raises(UnreachableError):
        room.publish()
    assert json.loads(room.data.files[f"out/{MANIFEST}"])["complete"] is False
    with pytest.raises(ConflictError, match="is incomplete: job j has not finished writing it"):
        room.publishing.data.listing(f"{ROOT}/out", is_file=False)
    room.data.left = 1000
    assert room.publish().asset == "best:1"
    assert room.publishing.data.listing(f"{ROOT}/out", is_file=False).size == sum(map(len, FILES.values()))


class ManySmall(MemoryData):
    """Counts the manifests that are written."""

    manifests = 0

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        self.manifests += path == MANIFEST
        return super().write(uri, path, pieces, size)


def test_manifest_of_many_small_files_is_written_rarely():
    data = ManySmall({f"in/{number:04}": b"x" for number in range(2000)})
    listed = data.listing(f"{ROOT}/in", is_file=False)
    Copy(data, data, submission("j").job, f"{ROOT}/in", f"{ROOT}/out", listed, lambda: True).run()
    assert len(data.listing(f"{ROOT}/out", is_file=False).files) == 2001
    assert data.manifests <= 10  # Once in 5 s, and at both ends.


def test_listed_files_are_not_sent_again_unless_they_differ(room: Room):
    room.publish()
    room.data.written.clear()
    assert room.publish().asset == "best:1"
    assert room.data.written == []
    room.data.files["out/f3.bin"] = b"half"
    del room.data.files["out/f4.bin"]
    room.publish()
    assert sorted(room.data.written) == ["f3.bin", "f4.bin"]
    assert room.data.files["out/f3.bin"] == FILES["f3.bin"]
    assert len(room.store.resources("data", "best")) == 1


def test_refusal_of_a_store_is_final_and_reported(room: Room):
    room.data.left, room.data.error = 0, ForbiddenError("the store refuses: no permission to write")  # type: ignore[assignment]
    assert room.publish().problem == "the store refuses: no permission to write"
    assert room.store.resources("data") == []


def test_untrusted_certificate_of_a_store_is_tried_again(room: Room):
    room.data.left, room.data.error = 0, CertificateError("the certificate has expired", fix="Have it renewed.")  # type: ignore[assignment]
    with pytest.raises(CertificateError):
        room.publish()
    assert room.publish(is_last=True).problem == "the certificate has expired. Have it renewed."
    room.data.left = 1000
    assert room.publish().problem == ""


def test_last_try_returns_the_problem_instead_of_an_error(room: Room):
    room.data.left = 0
    with pytest.raises(UnreachableError):
        room.publish()
    assert room.publish(is_last=True).problem == "the store is down"


def test_unexpected_error_is_retried_and_reported_by_the_last_try(room: Room):
    room.data.left, room.data.error = 0, TypeError("'NoneType' object is not iterable")  # type: ignore[assignment]
    with pytest.raises(StorageError, match="unexpected error, TypeError: 'NoneType' object"):
        room.publish()
    assert room.publish(is_last=True).problem == (
        "unexpected error, TypeError: 'NoneType' object is not iterable. See the server's log."
    )


def test_abandoned_publication_is_neither_complete_nor_registered(room: Room):
    asked = iter([True, False, False, False])
    assert room.publishing.publish(room.job(), MODEL, lambda: next(asked), is_last=False) is None
    assert json.loads(room.data.files[f"out/{MANIFEST}"])["complete"] is False
    assert room.store.resources("data") == []


def test_a_server_that_slept_while_another_finished_leaves_the_folder_whole(room: Room):
    """It looked, stood still, and then says that the folder isn't whole, which the other has just filled."""
    looks = 0

    def is_wanted() -> bool:
        nonlocal looks
        looks += 1
        if looks > 1:
            raise StandbyError("another server is the active one")
        room.publish()
        return True

    with pytest.raises(StandbyError):
        room.publishing.publish(room.job(), MODEL, is_wanted, is_last=False)
    told = find(room.data, MODEL.uri)
    assert told is not None
    assert (told.is_complete, set(told.files)) == (True, set(FILES))
    assert len(room.store.resources("data", "best")) == 1


def test_version_taken_by_another_is_reported_with_the_place_of_the_files(room: Room):
    room.publish()
    room.data.files["elsewhere/a"] = b"a"
    taken = replace(MODEL, version="1", uri=f"{ROOT}/mine")
    told = room.publishing.publish(room.job(taken), taken, is_last=False)
    assert told is not None
    assert told.problem.startswith(f"its files are in {ROOT}/mine, and data best:1 exists already")
    assert told.problem.endswith(f"drumbeat data create best --path {ROOT}/mine")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            UnreachableError(f"`out/{MANIFEST}` can't be read: no answer from http://h", where="datastore `away`"),
            "datastore `away`: no answer from http://h",
        ),
        (ConflictError("the version is taken"), "the version is taken"),
    ],
)
def test_why_an_output_isnt_in_its_place_names_the_store_and_no_file_of_ours(error: DrumbeatError, told: str):
    assert format_refusal(error) == told


def test_outputs_of_a_failed_job_are_marked_and_have_no_name(room: Room):
    assert room.publish(state=State.FAILED).asset == ""
    told = find(room.data, f"{ROOT}/out")
    assert told is not None
    assert told.by == "job j, which ended failed"
    assert room.store.resources("data") == []


def test_outputs_left_are_those_not_published_yet(room: Room):
    plain = OutputPlan("default", "uri_folder", "rw_mount")
    job = room.job(MODEL, plain)
    assert outputs_left(job) == [MODEL]
    assert outputs_left(replace(job, published=(Published("model", ""),))) == []


def test_output_without_files_is_reported(room: Room):
    nothing = replace(MODEL, name="nothing")
    told = room.publishing.publish(room.job(nothing), nothing, is_last=False)
    assert told.problem == "the job wrote nothing to output nothing"


def test_an_output_that_is_named_and_stays_is_read_from_its_job(room: Room):
    named = replace(MODEL, uri="")
    assert room.publishing.publish(room.job(named), named, is_last=False).asset == "best:1"
    uri = str(room.store.resource("data", "best").document["uri"])
    listed = room.publishing.data.listing(uri, is_file=False)
    assert {one.path: b"".join(room.publishing.data.read(uri, one)) for one in listed.files} == FILES
    assert {one.sha256 for one in listed.files} == {sha256(content).hexdigest() for content in FILES.values()}


def test_output_of_one_file_is_published(room: Room):
    content = b"one file"
    room.artifacts.append_output("j", 1, 1, "scores", 0, content)
    assert room.artifacts.commit_outputs("j", 1, 1, {"scores": (len(content), sha256(content).hexdigest())}) == []
    one = OutputPlan("scores", "uri_file", "upload", f"{ROOT}/all/scores.csv", "scores")
    assert room.publishing.publish(room.job(one), one, is_last=False).asset == "scores:1"
    assert room.data.files["all/scores.csv"] == content
    assert room.store.resource("data", "scores").document["type"] == "uri_file"


def test_output_of_a_model_type_is_a_signed_version_of_a_model(room: Room):
    model = replace(MODEL, type="custom_model")
    assert room.publishing.publish(room.job(model), model, is_last=False).asset == "best:1"
    shown = room.models.show("best")
    assert (shown.type, shown.made_by, shown.files, bool(shown.statement)) == ("custom_model", "j", len(FILES), True)
    assert room.store.resources("data") == []


def test_manifest_of_a_folder_includes_an_output_of_one_file(room: Room):
    earlier = (5, sha256(b"older").hexdigest())
    put(room.data, f"{ROOT}/all", Manifest("ada", is_complete=True, files={"scores.csv": earlier, "x": earlier}))
    one = OutputPlan("model", "uri_file", "upload", f"{ROOT}/all/scores.csv")
    content = b"1,2"
    room.artifacts.append_output("j", 2, 0, "model", 0, content)
    told = (len(content), sha256(content).hexdigest())
    assert room.artifacts.commit_outputs("j", 2, 0, {"model": told}) == []
    assert room.publishing.publish(replace(room.job(one), attempt=2), one, is_last=True)
    manifest = find(room.data, f"{ROOT}/all")
    assert manifest == Manifest("ada", is_complete=True, files={"scores.csv": told, "x": earlier})


SWEPT = OutputPlan("model", "custom_model", "upload", asset="swept", version="77")
TRIALS = (TrialProgress(0, best=0.1), TrialProgress(1, best=0.9), TrialProgress(2, best=0.5))


def sweep_whose_best_trial_is(room: Room, output: OutputPlan, *published: Published, files: bool = True) -> Job:
    """A sweep that has completed, whose best trial has this output."""
    made = submission("s_1")
    plan = replace(made.job.plan, outputs=(output,))
    trial = replace(made.job, state=State.COMPLETED, attempt=1, plan=plan, published=published)
    room.store.submit(replace(made, job=trial))
    if files:
        room.artifacts.append_output("s_1", 1, 0, "model/m", 0, b"best")
        assert room.artifacts.commit_outputs("s_1", 1, 0, {"model/m": (4, sha256(b"best").hexdigest())}) == []
    sweep = submission("s").job
    progress = SweepProgress("maximize", "acc", 3, 1, trials=TRIALS)
    return replace(sweep, state=State.COMPLETED, sweep=progress, plan=replace(sweep.plan, outputs=(SWEPT,)))


def test_output_of_a_sweep_is_registered_once_and_is_its_best_trials(room: Room):
    sweep = sweep_whose_best_trial_is(room, OutputPlan("model", "custom_model", "rw_mount"))
    assert outputs_left(sweep) == [SWEPT]
    place = "azureml://jobs/s_1/outputs/model/paths/"
    for _ in range(2):  # The server was stopped after the first time.
        told = room.publishing.publish(sweep, SWEPT, is_last=False)
        assert told == Published("model", place, 1, 4, "swept:77")
    (kept,) = room.models.versions("swept")
    assert (kept.made_by, kept.document["uri"], kept.document["type"]) == ("s", place, "custom_model")


def test_output_of_a_sweep_is_that_of_its_best_trial(room: Room):
    given = replace(SWEPT, mode="rw_mount", uri=f"{ROOT}/out", asset="", version="")
    room.data.files["out/m"] = b"best"
    sweep = sweep_whose_best_trial_is(room, given, Published("model", f"{ROOT}/out", 1, 4))
    told = room.publishing.publish(sweep, SWEPT, is_last=False)
    assert told is not None
    assert (told.uri, told.asset) == (f"{ROOT}/out", "swept:77")


def test_output_of_a_sweep_waits_until_its_best_trial_has_published(room: Room):
    sweep = sweep_whose_best_trial_is(room, replace(SWEPT, mode="rw_mount", uri=f"{ROOT}/out", asset="", version=""))
    with pytest.raises(StorageError, match="trial s_1 hasn't published it yet"):
        room.publishing.publish(sweep, SWEPT, is_last=False)


def test_output_of_a_sweep_without_files_of_its_best_trial_is_reported(room: Room):
    sweep = sweep_whose_best_trial_is(room, OutputPlan("model", "custom_model", "rw_mount"), files=False)
    told = room.publishing.publish(sweep, SWEPT, is_last=False)
    assert told is not None
    assert (told.asset, "the best trial, s_1, wrote nothing to output model" in told.problem) == ("", True)


def test_pauses_grow_to_five_minutes():
    assert [wait_after(tries) for tries in (0, 1, 5, 50)] == [1, 2, 32, 300]


def test_folder_written_by_another_program_is_listed_as_it_is(room: Room):
    room.data.files["theirs/a"] = b"1"
    assert [one.path for one in room.publishing.data.listing(f"{ROOT}/theirs", is_file=False).files] == ["a"]
    room.data.files[f"theirs/{MANIFEST}"] = b"no manifest of ours"
    assert [one.path for one in room.publishing.data.listing(f"{ROOT}/theirs", is_file=False).files] == ["a"]


def test_a_half_written_folder_below_is_noticed_too(room: Room):
    room.data.files["theirs/a"] = b"1"
    put(room.data, f"{ROOT}/theirs/below", Manifest("ann", is_complete=False))
    with pytest.raises(ConflictError, match="ann has not finished writing it"):
        room.publishing.data.listing(f"{ROOT}/theirs", is_file=False)


@pytest.mark.parametrize("path", ["", "/paths/f0.bin", "/paths/nothing/"])
def test_missing_output_of_a_job_is_refused(room: Room, path: str):
    uri = f"azureml://jobs/j/outputs/none{path}"
    with pytest.raises(NotFoundError, match="job j has no such folder"):
        room.publishing.data.listing(uri, is_file=False)


def test_repeated_publication_keeps_the_manifest_complete(room: Room):
    done = room.publish()
    before = find(room.data, MODEL.uri)
    room.data.left, room.data.written = 0, []
    puts: list[Manifest] = []
    room.data.write = lambda *_: puts.append(Manifest("", is_complete=False))  # type: ignore[method-assign,assignment]
    assert room.publish() == done
    assert (puts, find(room.data, MODEL.uri)) == ([], before)


def test_listing_made_before_the_folder_was_complete_is_repeated(room: Room):
    """The writer ends between the reader's list and its look at the manifest."""
    room.publish()
    whole_list, early = room.data.listing, [True]

    def listing(uri: str, *, is_file: bool) -> Listing:
        found = whole_list(uri, is_file=is_file)
        if uri == MODEL.uri and early:
            early.clear()
            return replace(found, files=tuple(one for one in found.files if one.path in ("f0.bin", MANIFEST)))
        return found

    room.data.listing = listing  # type: ignore[method-assign]
    found = ManifestDataAccess(room.data).listing(MODEL.uri, is_file=False)
    assert [one.path for one in found.files] == sorted(FILES)


def test_a_folder_that_lost_a_file_isnt_whole(room: Room):
    room.publish()
    room.data.remove(MODEL.uri, "f3.bin")
    with pytest.raises(ConflictError, match=r"f3\.bin is in its manifest but doesn't exist") as refused:
        ManifestDataAccess(room.data).listing(MODEL.uri, is_file=False)
    assert MANIFEST in refused.value.fix
    room.data.remove(MODEL.uri, MANIFEST)
    assert len(ManifestDataAccess(room.data).listing(MODEL.uri, is_file=False).files) == len(FILES) - 1

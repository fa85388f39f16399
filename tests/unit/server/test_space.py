"""Deleting jobs and giving space back, in a control room with a fake engine."""

import hashlib
import json
import os
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.core.child_jobs import SweepProgress, TrialProgress
from drumbeat.model.api.requests import EnvironmentFiles, JobRequest
from drumbeat.model.api.space import Freed, SpaceItem
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, StorageError
from drumbeat.model.plan import PythonEnvironment, Resumption
from drumbeat.model.states import State
from drumbeat.server.database.records import Change
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.resources.records import Resource
from drumbeat.server.space.job_pruning import TRIMMED
from drumbeat.server.space.space import Space
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore
from tests.support.store_witness import listed

from .house import JOB, House, until

pytestmark = pytest.mark.feature("M9")

NOW = timedelta(0)
CODE = b"a tar file"
DIGEST = hashlib.sha256(CODE).hexdigest()


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path, MemoryStore(), FakeEngine(cpus=8))
    yield made
    made.control.stop()


def ended(house, name, code=False, outputs=True, **more):
    """A job that has completed, with a log and, if asked for, an output."""
    if code:
        house.control.artifacts.add_snapshot(DIGEST, [CODE])
    submit(house, name, code=code, **more)
    artifacts = house.control.artifacts
    artifacts.append_log(name, "logs/1.1/0/0.log", 0, b"hello\n")
    if outputs:
        artifacts.append_output(name, 1, 0, "default/model.bin", 0, b"weights")
        sha = hashlib.sha256(b"weights").hexdigest()
        assert not artifacts.commit_outputs(name, 1, 0, {"default/model.bin": (7, sha)})
    house.run_to_end(name)
    until(lambda: not house.store.outbox())
    return name


def change(house, name, **more):
    """Changes the record of a job that has ended."""
    record = house.store.load(name)
    house.store.commit([Change(replace(record.job, **more), record.version)])


def ended_sweep(house, *trials):
    """A sweep without files of its own, and its trials, which have outputs; the first is the best one."""
    progress = [TrialProgress(n, state=State.COMPLETED, reports=1, best=1.0 - n) for n in range(len(trials))]
    ended(house, "s", outputs=False)
    change(house, "s", sweep=SweepProgress("maximize", "accuracy", 2, 2, trials=tuple(progress)))
    for trial in trials:
        change(house, ended(house, trial), parent="s")


def submit(house, name, code=False, **more):
    document = {**JOB, "name": name, "resources": {"instance_count": 1}, **more}
    house.control.jobs.submit(JobRequest(document, key=name, code=DIGEST if code else None))


def reading(name):
    return {"w": {"type": "uri_folder", "path": f"azureml://jobs/{name}/outputs/default/paths/"}}


def folders(house):
    return {one.name for one in (house.folder / "jobs").iterdir() if not one.name.startswith(".")}


def delete(house, name):
    return house.control.space.delete(name, by="a test")


def test_deleted_job_leaves_no_row_and_no_file_and_others_stay(house):
    ended(house, "a", code=True)
    ended(house, "b")
    freed = delete(house, "a")
    assert {(one.kind, one.name) for one in freed.items} == {("job", "a"), ("snapshot", DIGEST)}
    assert freed.total == sum(one.size for one in freed.items) > 0
    with pytest.raises(NotFoundError):
        house.store.load("a")
    assert folders(house) == {"b"}
    assert house.control.artifacts.snapshots() == []
    assert house.store.removals() == {}
    assert house.store.events("b")


def test_deleting_again_is_the_same_success(house):
    ended(house, "a")
    delete(house, "a")
    assert delete(house, "a") == Freed()
    with pytest.raises(NotFoundError):
        delete(house, "never")


def test_running_job_is_refused_with_the_command_that_cancels_it(house):
    submit(house, "a")
    with pytest.raises(ConflictError) as refused:
        delete(house, "a")
    assert refused.value.fix == "Cancel it first: drumbeat cancel a"
    house.gang("a")


def test_job_that_another_one_reads_is_kept_until_that_one_is_deleted(house):
    ended(house, "a")
    ended(house, "b", inputs=reading("a"))
    with pytest.raises(ConflictError) as refused:
        delete(house, "a")
    assert refused.value.what == "job a isn't deleted: its output default is input w of job b"
    delete(house, "b")
    delete(house, "a")
    assert folders(house) == set()


def test_job_with_a_registered_version_is_kept_and_named_by_prune(house):
    ended(house, "a")
    place = "azureml://jobs/a/outputs/default/paths/"
    house.store.add_version(Resource("data", "weights", "1", {"uri": place}, "d", datetime.now(UTC)))
    freed = house.control.space.prune(NOW, keep_outputs=False, is_dry=False)
    assert [(one.what, one.why) for one in freed.kept] == [("job a", "its output default is data weights:1")]
    assert folders(house) == {"a"}


def test_snapshot_stays_while_another_job_names_it(house):
    ended(house, "a", code=True)
    ended(house, "b", code=True)
    freed = delete(house, "b")
    assert [one.why for one in freed.kept] == ["needed by job a"]
    assert house.control.artifacts.has_snapshot(DIGEST)


def test_snapshot_goes_with_the_last_job_in_whatever_order_they_go(house):
    ended(house, "a", code=True)
    ended(house, "b", code=True)
    delete(house, "b")
    delete(house, "a")
    assert house.control.artifacts.snapshots() == []


def test_snapshot_that_was_asked_for_since_stays(house):
    ended(house, "a", code=True)
    assert house.control.artifacts.has_snapshot(DIGEST)  # A client is about to submit another job with it.
    delete(house, "a")
    submit(house, "b", code=True)
    assert house.control.artifacts.has_snapshot(DIGEST)
    house.run_to_end("b")


def test_snapshot_that_no_job_ever_named_goes_after_a_day(house):
    artifacts = house.control.artifacts
    artifacts.add_snapshot(DIGEST, [CODE])
    assert house.control.space.prune(NOW, keep_outputs=False, is_dry=False).items == ()
    (file,) = house.folder.glob("snapshots/*/*.tar")
    two_days_ago = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(file, (two_days_ago, two_days_ago))
    freed = house.control.space.prune(NOW, keep_outputs=False, is_dry=False)
    assert [one.kind for one in freed.items] == ["snapshot"]


def test_rehearsal_says_what_prune_does_and_deletes_nothing(house):
    ended(house, "a", code=True)
    ended(house, "b", inputs=reading("a"))
    space = house.control.space
    rehearsal = space.prune(NOW, keep_outputs=False, is_dry=True)
    assert (folders(house), rehearsal.is_dry) == ({"a", "b"}, True)
    done = space.prune(NOW, keep_outputs=False, is_dry=False)
    assert {(one.kind, one.name) for one in rehearsal.items} == {(one.kind, one.name) for one in done.items}
    assert folders(house) == set()


def test_prune_leaves_young_jobs(house):
    ended(house, "a")
    assert house.control.space.prune(timedelta(hours=1), keep_outputs=False, is_dry=False) == Freed()
    assert folders(house) == {"a"}


def test_prune_that_keeps_outputs_removes_logs_with_an_event(house):
    ended(house, "a", code=True)
    freed = house.control.space.prune(NOW, keep_outputs=True, is_dry=False)
    assert [(one.name, one.note) for one in freed.items] == [("a", TRIMMED)]
    assert [one.path for one in house.control.jobs.files("a")] == [
        "outputs/default/model.bin", "plan.json", "story.jsonl",
    ]  # fmt: skip
    assert house.store.events("a")[-1].sentence == "logs and checkpoints were removed by prune"
    assert house.control.space.prune(NOW, keep_outputs=True, is_dry=False) == Freed()


def test_checkpoints_that_another_job_is_to_continue_from_are_not_pruned(house):
    ended(house, "a")
    plan = house.store.load(ended(house, "b", outputs=False)).job.plan
    change(house, "b", state=State.QUEUED, started_at=None, plan=replace(plan, resumption=Resumption("a", ("/kept",))))
    for keep_outputs in (True, False):
        freed = house.control.space.prune(NOW, keep_outputs=keep_outputs, is_dry=False)
        assert freed.items == ()
        why = "b continues it, and has no copy of its checkpoints yet"
        assert [(one.what, one.why) for one in freed.kept] == [("job a", why)]
    assert any(one.path.startswith("logs/") for one in house.control.jobs.files("a"))


def test_prune_that_keeps_outputs_keeps_those_of_trials_and_their_sweep(house):
    ended_sweep(house, "s_0", "s_1")
    ended(house, "s_2", outputs=False)
    change(house, "s_2", parent="s")
    space = house.control.space
    rehearsal = space.prune(NOW, keep_outputs=True, is_dry=True)
    freed = space.prune(NOW, keep_outputs=True, is_dry=False)
    for one in (rehearsal, freed):
        assert {(item.name, item.note) for item in one.items} == {
            ("s_0", TRIMMED), ("s_1", TRIMMED), ("s_2", State.COMPLETED),
        }  # fmt: skip
        assert [(item.what, item.why, item.fix) for item in one.kept] == [
            ("job s", "s_1, which is a part of it, is kept with its outputs",
             "Delete it with all outputs: drumbeat delete s"),
        ]  # fmt: skip
    assert folders(house) == {"s", "s_0", "s_1"}
    assert space.prune(NOW, keep_outputs=True, is_dry=False).items == ()
    assert "outputs/default/model.bin" in [one.path for one in house.control.jobs.files("s_1")]
    delete(house, "s")
    assert folders(house) == set()


class RefusingArtifacts(FolderArtifacts):
    """Deletes one job just before the logs of another one are removed, and refuses to remove those of a third."""

    def __init__(self, house, gone, refused):
        super().__init__(house.folder)
        self.house, self.gone, self.refused = house, gone, refused

    def remove_logs(self, job):
        if job == self.refused:
            raise StorageError("this user may not write there", fix="Give it the right to.")
        super().remove_logs(job)
        if self.gone in listed(self.house.store, JobFilter()):
            self.house.store.delete_job(self.gone)


def test_prune_that_keeps_outputs_skips_a_job_deleted_meanwhile(house):
    for name in ("a", "b", "c", "d"):
        ended(house, name)
    control = house.control
    artifacts = RefusingArtifacts(house, gone="c", refused="b")
    freed = Space(control.loop, artifacts, control.catalogs.environments).prune(NOW, keep_outputs=True, is_dry=False)
    trimmed = {"a", "d"}
    assert {one.name for one in freed.items} == trimmed
    assert [(one.what, one.why) for one in freed.kept] == [
        ("logs and checkpoints of job b", "this user may not write there")
    ]
    for name in trimmed:
        assert house.store.events(name)[-1].sentence == "logs and checkpoints were removed by prune"


class UncountedOutputs(FolderArtifacts):
    """Artifacts on a file system where folders and empty files take no space."""

    def job_space(self, job=None):
        return {name: replace(space, outputs=0) for name, space in super().job_space(job).items()}


def test_prune_that_keeps_outputs_keeps_an_output_that_takes_no_space(house):
    ended(house, "a")
    control = house.control
    space = Space(control.loop, UncountedOutputs(house.folder), control.catalogs.environments)
    assert [one.note for one in space.prune(NOW, keep_outputs=True, is_dry=False).items] == [TRIMMED]
    assert folders(house) == {"a"}


def test_version_registered_from_a_sweeps_output_keeps_its_best_trial(house):
    ended_sweep(house, "s_0", "s_1")
    place = "azureml://jobs/s/outputs/default/paths/"
    house.control.catalogs.data.create({"name": "weights", "path": place}, "data.yml")
    freed = house.control.space.prune(NOW, keep_outputs=False, is_dry=False)
    assert [one.what for one in freed.kept] == ["job s_0", "job s"]
    assert folders(house) == {"s", "s_0"}


def test_retention_rule_survives_a_restart_and_deletes_old_jobs(house):
    ended(house, "a")
    house.control.space.retention.set(3600)
    house.reopen()
    space = house.control.space
    assert space.retention.retain_s == 3600
    space.apply_retention()
    assert folders(house) == {"a"}
    change(house, "a", ended_at=datetime.now(UTC) - timedelta(hours=2))
    space.apply_retention()
    assert folders(house) == set()
    space.retention.set(0)
    assert space.retention.retain_s == 0


@pytest.mark.parametrize("seconds", [1, 59.9, float("inf"), float("nan"), -5])
def test_retention_that_is_too_short_or_no_time_is_refused(house, seconds):
    with pytest.raises(RefusedError):
        house.control.space.retention.set(seconds)


def test_removal_that_was_interrupted_is_finished_at_the_next_start(house):
    ended(house, "a", code=True)
    note = json.dumps({"snapshots": [DIGEST], "asked_until": 1e12})
    house.store.delete_job("a", note)
    assert folders(house) == {"a"}
    house.reopen()
    house.control.space.finish_removals()
    assert (folders(house), house.control.artifacts.snapshots()) == (set(), [])


class SlowToRemove(FolderArtifacts):
    """While its server removes the files of job `a`, another one goes on."""

    def __init__(self, root, go_on):
        super().__init__(root)
        self._go_on = go_on

    def remove_job(self, job):
        if job == "a":
            self._go_on()
        super().remove_job(job)


class Runs:
    """The metrics of jobs, of which it is noted whose are removed."""

    def __init__(self):
        self.removed = []

    def held(self):
        return nullcontext()

    def remove(self, name):
        self.removed.append(name)

    def remove_points(self):
        pass


@pytest.mark.feature("F5")
@pytest.mark.parametrize("deleted_again", [False, True])
def test_new_job_keeps_its_files_from_a_server_that_is_late_to_remove_the_deleted_one(house, deleted_again):
    def finish_and_submit_again():
        house.control.space.finish_removals()
        house.control.artifacts.append_log(ended(house, "b"), "logs/1.1/0/1.log", 0, b"new\n")
        if deleted_again:
            house.store.delete_job("b", json.dumps({"snapshots": [], "asked_until": 0}))

    for name in ("a", "b"):
        house.store.delete_job(ended(house, name))
    control, runs = house.control, Runs()
    slow = SlowToRemove(house.folder, finish_and_submit_again)
    Space(control.loop, slow, control.catalogs.environments, runs=runs).finish_removals()
    assert house.store.removals() == {}
    assert (folders(house), runs.removed) == ((set(), ["a", "b"]) if deleted_again else ({"b"}, ["a"]))


def test_usage_names_each_thing_the_biggest_first(house):
    ended(house, "a", code=True)
    (house.folder / "jobs" / "stray").mkdir()
    usage = house.control.space.usage()
    assert [one.size for one in usage.items] == sorted((one.size for one in usage.items), reverse=True)
    notes = {one.name: one.note for one in usage.items}
    assert notes == {"a": "completed", DIGEST: "needed by job a", "stray": "no job of this server"}
    assert usage.total == sum(usage.totals.values()) == sum(one.size for one in usage.items)


class Caches:
    """Caches of a machine that hold one environment."""

    def __init__(self):
        self.calls = []

    def usage(self):
        return [SpaceItem("environment", "abc", 5)]

    def environment(self, key):
        return SpaceItem("environment", "abc", 823 << 20, note="mine") if key == "key of mine" else None

    def spares(self):
        return []

    def end_spares(self):
        pass

    def free(self):
        return 7

    def prune(self, unused_s, needed, *, is_dry):
        self.calls.append((unused_s, dict(needed), is_dry))
        return Freed((SpaceItem("environment", "abc", 5),), (), 5, is_dry)


def test_caches_of_the_machine_are_pruned_with_what_is_needed(house):
    caches = Caches()
    control = house.control
    made = Space(control.loop, control.artifacts, control.catalogs.environments, caches)
    control.catalogs.environments.create(
        {"name": "torch", "version": "1", "conda_file": "c.yml"},
        "environment",
        texts=texts("name: x\ndependencies: [python=3.11, pip, {pip: [attrs==23.1]}]\n"),
    )
    assert made.prune(timedelta(hours=1), keep_outputs=False, is_dry=True).total == 5
    ((unused_s, needed, is_dry),) = caches.calls
    assert (unused_s, list(needed.values()), is_dry) == (3600.0, ["environment torch:1"], True)
    assert (made.usage().free, made.usage().totals) == (7, {"environment": 5})


def test_delete_names_the_environment_that_stays_and_how_to_remove_it(house):
    ended(house, "a")
    ended(house, "b")
    control = house.control
    made = Space(control.loop, control.artifacts, control.catalogs.environments, Caches())
    for name, key in (("a", "key of mine"), ("b", "of another")):
        plan = house.store.load(name).job.plan
        change(house, name, plan=replace(plan, python=PythonEnvironment(key, "mine")))
    (kept,) = made.delete("a", "ann").kept
    assert (kept.what, kept.why) == (
        "environment mine in this machine's cache (823 MiB)",
        "the next job with this environment can use it",
    )
    assert "`drumbeat prune` deletes it after 30 days without use" in kept.fix
    assert made.delete("b", "ann").kept == ()


def test_prune_tells_a_snapshot_of_several_jobs_once_and_as_deleted(house):
    for name in ("a", "b", "c"):
        ended(house, name, code=True)
    freed = house.control.space.prune(NOW, keep_outputs=False, is_dry=False)
    assert sorted(one.kind for one in freed.items) == ["job", "job", "job", "snapshot"]
    assert freed.kept == ()


def texts(content):
    return EnvironmentFiles("c.yml", {"c.yml": content})

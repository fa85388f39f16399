"""Runs are copied to the MLflow server that is named for a server: here another drumbeat server, by real HTTP."""

from __future__ import annotations

import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from drumbeat.model.errors import ConflictError, RefusedError, UnreachableError
from drumbeat.model.metrics import (
    ParamsLogged,
    Point,
    PointsLogged,
    RunCreated,
    RunDeleted,
    RunUpdated,
    TagDeleted,
    TagsSet,
    experiment_id,
    run_id,
)
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.metrics import run_copies
from drumbeat.server.metrics.metric_records import RunSearch
from drumbeat.server.metrics.mlflow_address import MlflowAddress
from drumbeat.server.metrics.mlflow_choice import MlflowFile
from drumbeat.server.metrics.mlflow_server import HttpMlflowServer
from drumbeat.server.metrics.mlflow_target import MlflowTarget
from drumbeat.server.metrics.run_copies import RunCopies
from tests.faces.api_house import TOKEN, eventually, house_in
from tests.support.memory_metrics import MemoryMetricStore

pytestmark = pytest.mark.feature("M2")

RUN, CHILD = "1" * 32, "2" * 32


@pytest.fixture
def named(tmp_path):
    with house_in(tmp_path / "named") as there:
        yield there


@pytest.fixture
def store():
    store = MemoryMetricStore()
    store.ensure_experiment("vision", 1)
    store.write([RunCreated(RUN, experiment_id("vision"), "parent", 1000, "ann")])
    yield store
    store.close()


@pytest.fixture
def files(tmp_path):
    return FolderArtifacts(tmp_path / "own").of_runs


@pytest.fixture
def copies(named, store, files):
    server = HttpMlflowServer(f"{named.url}/mlflow", {"MLFLOW_TRACKING_TOKEN": TOKEN})
    yield RunCopies(lambda: store, files, server, lambda: None)
    server.close()


def copied(named, name="parent"):
    runs = named.control.metrics.store.search_runs(RunSearch(view="all")).runs
    (found,) = [one for one in runs if one.name == name]
    return found


def test_run_is_copied_with_all_ranks_and_the_copy_resumes(named, store, copies):
    store.write([ParamsLogged(RUN, {"lr": "1"}), TagsSet(RUN, {"a": "b", "c": "d"})])
    store.write([PointsLogged(RUN, 0, tuple(Point("loss", n / 10, n, n) for n in range(1500)))])
    store.write(
        [PointsLogged(RUN, 3, (Point("loss", math.nan, 1, 1),)), PointsLogged(RUN, -1, (Point("cpu", 1, 1, 1),))]
    )
    copies.copy()
    store.write([PointsLogged(RUN, 0, (Point("loss", 7.0, 1500, 1500),)), TagDeleted(RUN, "c")])
    for _ in range(2):
        copies.copy()
    copy = copied(named)
    assert (copy.user, copy.status, copy.params) == ("ann", "RUNNING", {"lr": "1"})
    assert (copy.tags["a"], copy.tags["drumbeat.run_id"]) == ("b", RUN)
    assert "c" not in copy.tags
    assert named.control.metrics.store.experiment(copy.experiment).name == "vision"
    series = {one.name: one for one in copy.metrics}
    assert {name: one.count for name, one in series.items()} == {"loss": 1501, "rank_3/loss": 1, "node_0/cpu": 1}
    assert series["loss"].last.value == 7.0
    assert math.isnan(series["rank_3/loss"].last.value)


def test_a_run_that_ended_is_copied_to_its_end_with_its_artifacts(named, store, files, copies):
    copies.copy()
    files.put("", f"{RUN}/a/b.txt", [b"text"])
    store.write([RunUpdated(RUN, "FINISHED", 2000)])
    copies.copy()
    copy = copied(named)
    assert (copy.status, copy.end_ms) == ("FINISHED", 2000)
    assert named.control.artifacts.of_runs.locate("", f"{copy.id}/a/b.txt").read_bytes() == b"text"


def test_a_run_that_begins_and_ends_between_two_rounds_is_copied(named, store, copies):
    copies.copy()
    store.write([RunCreated(CHILD, experiment_id("vision"), "short", 2000), RunUpdated(CHILD, "FINISHED", 2001)])
    copies.copy()
    assert copied(named, "short").status == "FINISHED"
    store.write([TagsSet(CHILD, {"later": "1"})])
    copies.copy()
    assert copied(named, "short").tags["later"] == "1"


def test_a_nested_run_is_nested_in_the_copy_of_its_parent(named, store, copies):
    copies.copy()
    child = RunCreated(CHILD, experiment_id("vision"), "child", 2000, tags={"mlflow.parentRunId": RUN})
    store.write([child])
    copies.copy()
    assert copied(named, "child").tags["mlflow.parentRunId"] == copied(named).id


def test_a_deleted_run_is_deleted_in_the_copy(named, store, copies):
    copies.copy()
    store.write([RunUpdated(RUN, "FINISHED", 2000), RunDeleted(RUN, 3000)])
    copies.copy()
    assert copied(named).deleted_ms is not None


def test_a_copy_that_was_created_before_a_crash_is_used(named, store, files, copies):
    copies.copy()
    store.remove_documents("mlflow_copy", RUN)
    copies.copy()
    assert copied(named).name == "parent"


def test_run_of_a_deleted_jobs_name_gets_a_copy_of_its_own(named, store, copies):
    run = run_id("train")
    for start_ms, lr in ((1000, "1"), (5000, "2")):
        store.write([RunCreated(run, experiment_id("vision"), f"lr {lr}", start_ms, "ann", "train")])
        store.write([ParamsLogged(run, {"lr": lr}), PointsLogged(run, 0, (Point("loss", float(lr), 0, start_ms),))])
        copies.copy()
        store.write([RunUpdated(run, "FINISHED", start_ms + 1)])
        copies.copy()
        store.remove_run(run)
    for lr in ("1", "2"):
        copy = copied(named, f"lr {lr}")
        assert (copy.params, copy.status, copy.tags["drumbeat.run_id"]) == ({"lr": lr}, "FINISHED", run)
        assert [one.last.value for one in copy.metrics] == [float(lr)]


def as_an_earlier_version_kept_it(store, run):
    def without_start(body):
        return {key: value for key, value in body.items() if key != "start_ms"}

    store.change_document("mlflow_copy", run, 0, without_start)


def train_and_copy(store, copies, start_ms, lr):
    run = run_id("train")
    store.write([RunCreated(run, experiment_id("vision"), f"lr {lr}", start_ms, "ann", "train")])
    store.write([ParamsLogged(run, {"lr": lr}), PointsLogged(run, 0, (Point("loss", float(lr), 0, start_ms),))])
    copies.copy()
    return run


@pytest.mark.feature("U2")
def test_copy_of_a_deleted_job_by_an_earlier_version_is_left_alone(named, store, copies):
    run = train_and_copy(store, copies, 1000, "1")
    as_an_earlier_version_kept_it(store, run)
    store.remove_run(run)
    train_and_copy(store, copies, 5000, "2")
    for lr in ("1", "2"):
        copy = copied(named, f"lr {lr}")
        assert copy.params == {"lr": lr}
        assert [(one.count, one.last.value) for one in copy.metrics] == [(1, float(lr))]


@pytest.mark.feature("U2")
def test_copy_by_an_earlier_version_continues_and_is_recognized_by_its_start(named, store, copies):
    run = train_and_copy(store, copies, 1000, "1")
    as_an_earlier_version_kept_it(store, run)
    store.write([PointsLogged(run, 0, (Point("loss", 3.0, 1, 1001),))])
    copies.copy()
    copy = copied(named, "lr 1")
    assert [(one.count, one.last.value) for one in copy.metrics] == [(2, 3.0)]
    assert store.document("mlflow_copy", run).body["start_ms"] == 1000


def test_copy_of_a_job_that_was_deleted_meanwhile_is_not_taken_for_a_new_job(named, store, copies):
    deleted = store.run(train_and_copy(store, copies, 1000, "1"))
    store.remove_run(deleted.id)
    copies._copy(store, deleted)  # This round had read the run before.
    train_and_copy(store, copies, 5000, "2")
    assert copied(named, "lr 1").params == {"lr": "1"}
    assert copied(named, "lr 2").params == {"lr": "2"}


def test_unreachable_mlflow_server_is_reported_and_loses_nothing(store, files):
    server = HttpMlflowServer("http://127.0.0.1:9", {})
    copies = RunCopies(lambda: store, files, server, lambda: None)
    with pytest.raises(UnreachableError, match="doesn't answer"):
        copies.copy()
    server.close()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "mlflow.json"


def copying(choice, store, files):
    return MlflowTarget(choice, lambda server: RunCopies(lambda: store, files, server, lambda: None))


def test_server_that_is_named_gets_copies_from_then_on_and_after_a_restart(named, store, files, file):
    first = copying(MlflowFile(file, {}), store, files)
    first.start()
    assert first.url == ""
    first.set(MlflowAddress(f"{named.url}/mlflow", {"MLFLOW_TRACKING_TOKEN": TOKEN}))
    eventually(lambda: named.control.metrics.store.search_runs(RunSearch(view="all")).runs)
    first.stop()
    store.write([TagsSet(RUN, {"later": "1"})])
    second = copying(MlflowFile(file, {}), store, files)
    second.start()
    eventually(lambda: copied(named).tags.get("later"))
    second.set(None)
    assert (second.url, file.exists()) == ("", False)


def test_new_mlflow_server_gets_all_earlier_runs(named, store, files, tmp_path, copies):
    store.write([ParamsLogged(RUN, {"lr": "1"}), PointsLogged(RUN, 0, (Point("loss", 1.0, 1, 1),))])
    copies.copy()
    with house_in(tmp_path / "other") as other:
        server = HttpMlflowServer(f"{other.url}/mlflow", {"MLFLOW_TRACKING_TOKEN": TOKEN})
        RunCopies(lambda: store, files, server, lambda: None).copy()
        server.close()
        assert copied(other).params == {"lr": "1"}
        assert [one.last.value for one in copied(other).metrics] == [1.0]
    store.write([TagsSet(RUN, {"later": "1"})])
    copies.copy()
    assert copied(named).tags["later"] == "1"
    assert [one.count for one in copied(named).metrics] == [1]


def test_mlflow_server_of_the_environment_holds_for_its_process(store, files, file):
    fixed = copying(MlflowFile(file, {"DRUMBEAT_MLFLOW": "http://ann:secret@127.0.0.1:9"}), store, files)
    fixed.start()
    assert fixed.url == "http://127.0.0.1:9"
    for other in (None, MlflowAddress("http://127.0.0.1:10")):
        with pytest.raises(ConflictError, match=r"it copies runs to http://127\.0\.0\.1:9"):
            fixed.set(other)
    fixed.stop()
    assert not file.exists()
    with pytest.raises(RefusedError, match="must begin with http"):
        MlflowFile(file, {"DRUMBEAT_MLFLOW": "mlflow.example.org"})


def test_damaged_address_of_an_mlflow_server_does_not_keep_a_server_from_starting(store, files, file, caplog):
    file.write_text("{}")
    copies = copying(MlflowFile(file, {}), store, files)
    copies.start()
    assert copies.url == ""
    assert "Set it again: drumbeat server start --mlflow URL" in caplog.text


class LoginPage(BaseHTTPRequestHandler):
    """A proxy that wants a login first: with a page, or by a redirect to one. Below /mlflow3 it lets pass."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", "/login")
        elif self.path.startswith("/mlflow3"):
            self.send_response(200)
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            body = b"<html>Log in</html>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.do_POST()

    def do_GET(self):
        self.headers["Content-Length"] = "0"
        self.do_POST()

    def log_message(self, format, *args):
        """Nothing."""


@pytest.fixture
def proxy():
    with ThreadingHTTPServer(("127.0.0.1", 0), LoginPage) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["", "/away"], ids=["page", "redirect"])
def test_login_page_of_a_proxy_is_no_success_and_no_point_is_lost(named, store, files, proxy, path):
    server = HttpMlflowServer(f"{named.url}/mlflow", {"MLFLOW_TRACKING_TOKEN": TOKEN})
    copies = RunCopies(lambda: store, files, server, lambda: None)
    copies.copy()
    store.write([PointsLogged(RUN, 0, (Point("loss", 1.0, 1, 1),))])
    server.url = proxy + path
    with pytest.raises(UnreachableError, match="the server isn't an MLflow server"):
        copies.copy()
    server.url = f"{named.url}/mlflow"
    copies.copy()
    assert [one.last.value for one in copied(named).metrics] == [1.0]
    server.close()


def test_an_upload_is_done_that_mlflow_3_answers_with_nothing(proxy, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    server = HttpMlflowServer(f"{proxy}/mlflow3", {})
    server.put_artifact("1/a.txt", tmp_path / "a.txt")
    server.url = proxy
    with pytest.raises(UnreachableError, match="the server isn't an MLflow server"):
        server.put_artifact("1/a.txt", tmp_path / "a.txt")
    server.close()


class BrokenServer:
    """An MLflow server whose answers lack what MLflow's have. rounds: how often it was asked."""

    def __init__(self):
        self.rounds = threading.Semaphore(0)

    def call(self, method, route, arguments):
        self.rounds.release()
        return {}

    def close(self):
        """Nothing is open."""


def test_answer_that_lacks_what_mlflow_sends_does_not_end_the_copying(store, files, monkeypatch, caplog):
    monkeypatch.setattr(run_copies, "INTERVAL_S", 0.01)
    server = BrokenServer()
    copies = RunCopies(lambda: store, files, server, lambda: None)
    copies.start()
    for _ in range(3):
        assert server.rounds.acquire(timeout=20)
    copies.stop()
    assert f"run {RUN} was copied only in part" in caplog.text


def test_unforeseen_failure_does_not_end_the_thread_that_copies(store, files, monkeypatch, caplog):
    monkeypatch.setattr(run_copies, "INTERVAL_S", 0.01)
    rounds = threading.Semaphore(0)

    def settle():
        rounds.release()
        raise OSError("too many open files")

    copies = RunCopies(lambda: store, files, BrokenServer(), settle)
    copies.start()
    for _ in range(3):
        assert rounds.acquire(timeout=20)
    copies.stop()
    assert "too many open files" in caplog.text


def test_an_address_that_is_no_url_is_refused():
    with pytest.raises(RefusedError, match="http"):
        HttpMlflowServer("mlflow.example.org", {})

"""What a job may change by MLflow's API with the secret of a node: its own, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drumbeat.model.metrics import JsonObject, RunCreated, experiment_id
from drumbeat.model.mlflow_calls import DENIED, INVALID, MlflowRefusal
from drumbeat.server.home_folder import FolderRunFiles
from drumbeat.server.metrics.mlflow import artifacts
from drumbeat.server.metrics.mlflow.request import Call
from drumbeat.server.metrics.mlflow.routes import find
from drumbeat.server.metrics.mlflow.write_scope import WriteScope
from tests.support.memory_metrics import MemoryMetricStore
from tests.support.registries import make_rows

OWN, OTHERS, OUTSIDE = ("a" * 32, "own"), ("b" * 32, "others"), ("c" * 32, "")
HOME = experiment_id("home")
USER = None
OWN_JOB = WriteScope("Job own", lambda job: job in ("own", "own_step"), "own", HOME, "own")
STEP = WriteScope("Job own_step", OWN_JOB.owns_job, "own_step", HOME, "own")
OTHER_JOB = WriteScope("Job others", lambda job: job == "others", "others", HOME, "others")
ADA = WriteScope("ada, a contributor,", lambda job: job == "own")

Ask = Callable[..., JsonObject]


class NoFiles(FolderRunFiles):
    """Run files that only notes what is removed."""

    def __init__(self) -> None:
        self.removed: list[tuple[str, str]] = []

    def remove(self, job: str, path: str) -> None:
        self.removed.append((job, path))


@pytest.fixture
def store() -> Iterator[MemoryMetricStore]:
    made = MemoryMetricStore()
    made.ensure_experiment("home", 1)
    for run, job in (OWN, OTHERS, OUTSIDE):
        made.write([RunCreated(run, HOME, f"run-{run[:4]}", 1, job=job)])
    yield made
    made.close()


@pytest.fixture
def ask(store: MemoryMetricStore) -> Ask:
    rows = make_rows()

    def asked(scope: WriteScope | None, method: str, route: str, **arguments: Any) -> JsonObject:
        found = find(method, f"api/2.0/mlflow/{route}")
        return found.handler(Call(arguments | found.parts, store, NoFiles(), rows, scope=scope))

    return asked


def code(call: Callable[[], object]) -> str:
    """The code of a refusal, "" = it was carried out."""
    try:
        call()
    except MlflowRefusal as refusal:
        return refusal.code
    return ""


RUN_WRITES: dict[str, JsonObject] = {
    "runs/update": {"status": "FAILED"},
    "runs/delete": {},
    "runs/restore": {},
    "runs/set-tag": {"key": "k", "value": "v"},
    "runs/log-metric": {"key": "m", "value": 1.0},
    "runs/log-parameter": {"key": "p", "value": "1"},
    "runs/log-batch": {"metrics": [{"key": "m", "value": 2.0}]},
    "runs/log-model": {"model_json": "{}"},
    "runs/log-inputs": {},
    "runs/outputs": {},
}


@pytest.mark.feature("X2")
@pytest.mark.parametrize("route", RUN_WRITES)
def test_job_writes_to_its_own_run_and_to_no_other(ask: Ask, route: str):
    def written(run: str) -> str:
        return code(lambda: ask(OWN_JOB, "POST", route, run_id=run, **RUN_WRITES[route]))

    assert [written(run) for run, _ in (OWN, OTHERS, OUTSIDE)] == ["", DENIED, DENIED]


def test_refusal_names_the_run_its_job_and_the_way_out(ask: Ask):
    with pytest.raises(MlflowRefusal) as refused:
        ask(OWN_JOB, "POST", "runs/delete", run_id=OTHERS[0])
    assert refused.value.message == (
        f"Job own may not change run {OTHERS[0]} of job others. A job changes its own runs, and the experiments and "
        "models that it made. Do it outside of the job, with your own token in MLFLOW_TRACKING_TOKEN."
    )


def test_runs_that_a_job_creates_are_its_own_and_others_can_be_read(ask: Ask):
    made = ask(OWN_JOB, "POST", "runs/create", experiment_id=HOME)["run"]["info"]["run_id"]
    assert code(lambda: ask(OWN_JOB, "POST", "runs/set-tag", run_id=made, key="k", value="v")) == ""
    assert code(lambda: ask(OTHER_JOB, "POST", "runs/set-tag", run_id=made, key="k", value="v")) == DENIED
    assert len(ask(OTHER_JOB, "POST", "runs/search", experiment_ids=[HOME])["runs"]) == 4
    assert ask(OTHER_JOB, "GET", "runs/get", run_id=made)["run"]["info"]["run_id"] == made


def test_contributor_writes_to_runs_of_own_jobs_and_of_no_job(ask: Ask):
    written = [
        code(lambda run=run: ask(ADA, "POST", "runs/set-tag", run_id=run, key="k")) for run, _ in (OWN, OTHERS, OUTSIDE)
    ]
    assert written == ["", DENIED, ""]


def registered(ask: Ask, scope: WriteScope | None, name: str = "net") -> str:
    """Registers a model with one version, or one more version; returns its number."""
    code(lambda: ask(scope, "POST", "registered-models/create", name=name))
    return ask(scope, "POST", "model-versions/create", name=name, source="s3://x")["model_version"]["version"]


MODEL_WRITES: list[tuple[str, str, JsonObject]] = [
    ("PATCH", "registered-models/update", {"description": "d"}),
    ("POST", "registered-models/set-tag", {"key": "k", "value": "v"}),
    ("DELETE", "registered-models/delete-tag", {"key": "k"}),
    ("POST", "registered-models/alias", {"alias": "best", "version": "1"}),
    ("DELETE", "registered-models/alias", {"alias": "best"}),
    ("PATCH", "model-versions/update", {"version": "1", "description": "d"}),
    ("POST", "model-versions/transition-stage", {"version": "1", "stage": "Production"}),
    ("POST", "model-versions/set-tag", {"version": "1", "key": "k", "value": "v"}),
    ("DELETE", "model-versions/delete-tag", {"version": "1", "key": "k"}),
    ("DELETE", "model-versions/delete", {"version": "1"}),
    ("POST", "registered-models/rename", {"new_name": "other"}),
    ("DELETE", "registered-models/delete", {}),
]


@pytest.mark.feature("X2")
@pytest.mark.parametrize(("method", "route", "arguments"), MODEL_WRITES)
@pytest.mark.parametrize("owner", [OTHER_JOB, USER])
def test_job_does_not_change_a_model_of_another_job_or_person(
    ask: Ask, method: str, route: str, arguments: JsonObject, owner: WriteScope | None
):
    registered(ask, owner)
    ask(owner, "POST", "registered-models/alias", name="net", alias="best", version="1")
    assert code(lambda: ask(OWN_JOB, method, route, name="net", **arguments)) == DENIED


@pytest.mark.parametrize(("method", "route", "arguments"), MODEL_WRITES)
@pytest.mark.parametrize("scope", [OWN_JOB, STEP, USER])
def test_job_the_steps_beside_it_and_persons_change_its_models(
    ask: Ask, method: str, route: str, arguments: JsonObject, scope: WriteScope | None
):
    registered(ask, OWN_JOB)
    assert code(lambda: ask(scope, method, route, name="net", **arguments)) == ""


def test_job_adds_a_version_to_anothers_model_and_owns_that_one_alone(ask: Ask):
    registered(ask, OTHER_JOB)
    own = registered(ask, OWN_JOB)
    assert code(lambda: ask(OWN_JOB, "POST", "registered-models/alias", name="net", alias="new", version=own)) == ""

    def changed(route: str, version: str, **arguments: str) -> str:
        return code(lambda: ask(OWN_JOB, "POST", f"model-versions/{route}", name="net", version=version, **arguments))

    assert [changed("transition-stage", n, stage="Production") for n in ("1", own)] == [DENIED, ""]
    assert [changed("set-tag", n, key="k") for n in ("1", own)] == [DENIED, ""]
    assert code(lambda: ask(OTHER_JOB, "DELETE", "registered-models/delete", name="net")) == DENIED, (
        "it has others' versions"
    )


def test_job_does_not_archive_others_versions_by_staging_its_own(ask: Ask):
    registered(ask, OTHER_JOB)
    ask(OTHER_JOB, "POST", "model-versions/transition-stage", name="net", version="1", stage="Production")
    own, stage = registered(ask, OWN_JOB), {"stage": "Production", "archive_existing_versions": True}
    assert (
        code(lambda: ask(OWN_JOB, "POST", "model-versions/transition-stage", name="net", version=own, **stage))
        == DENIED
    )
    assert (
        ask(USER, "GET", "model-versions/get", name="net", version="1")["model_version"]["current_stage"]
        == "Production"
    )


EXPERIMENT_WRITES: list[tuple[str, JsonObject]] = [
    ("update", {"new_name": "renamed"}),
    ("set-experiment-tag", {"key": "k", "value": "new"}),
    ("delete-experiment-tag", {"key": "k"}),
    ("delete", {}),
    ("restore", {}),
]


@pytest.mark.parametrize(("route", "arguments"), EXPERIMENT_WRITES)
def test_job_changes_experiments_that_it_created_and_no_other(ask: Ask, route: str, arguments: JsonObject):
    changed: list[str] = []
    for scope in (OWN_JOB, OTHER_JOB, USER):
        made = ask(scope, "POST", "experiments/create", name=f"{scope}", tags=[{"key": "k", "value": "v"}])[
            "experiment_id"
        ]
        changed.append(
            code(lambda made=made: ask(OWN_JOB, "POST", f"experiments/{route}", experiment_id=made, **arguments))
        )
    assert changed == ["", DENIED, DENIED]


def test_job_adds_tags_to_its_own_experiment_and_sets_them_again(ask: Ask):
    def tagged(value: str) -> str:
        tag = {"experiment_id": HOME, "key": "team", "value": value}
        return code(lambda: ask(OWN_JOB, "POST", "experiments/set-experiment-tag", **tag))

    assert [tagged("vision"), tagged("vision"), tagged("other")] == ["", "", DENIED]


@pytest.mark.parametrize("key", ["drumbeat.owner", "drumbeat.artifact_location"])
@pytest.mark.parametrize("scope", [OWN_JOB, USER])
def test_clients_cannot_set_the_tags_of_an_experiments_owner(ask: Ask, scope: WriteScope | None, key: str):
    made = ask(OTHER_JOB, "POST", "experiments/create", name="x", tags=[{"key": key, "value": "own"}])["experiment_id"]
    tag = {"experiment_id": made, "key": key, "value": "own"}
    assert code(lambda: ask(scope, "POST", "experiments/set-experiment-tag", **tag)) == INVALID
    assert ask(USER, "GET", "experiments/get", experiment_id=made)["experiment"]["tags"] == []
    assert code(lambda: ask(OWN_JOB, "POST", "experiments/delete", experiment_id=made)) == DENIED


def logged_model(ask: Ask, scope: WriteScope | None, run: str = "") -> str:
    return ask(scope, "POST", "logged-models", experiment_id=HOME, source_run_id=run)["model"]["info"]["model_id"]


@pytest.mark.parametrize("run", [OWN[0], ""])
def test_logged_model_is_changed_by_the_job_that_logged_it_alone(ask: Ask, run: str):
    model = logged_model(ask, OWN_JOB, run)
    metric = {"run_id": OTHERS[0], "metrics": [{"key": "m", "value": 1.0, "model_id": model}]}
    for method, route, arguments in (
        ("POST", f"logged-models/{model}/params", {"params": [{"key": "k", "value": "v"}]}),
        ("PATCH", f"logged-models/{model}/tags", {"tags": [{"key": "k", "value": "v"}]}),
        ("PATCH", f"logged-models/{model}", {"status": "LOGGED_MODEL_READY"}),
        ("POST", "logged-models/metrics", metric),
        ("DELETE", f"logged-models/{model}/tags/k", {}),
        ("DELETE", f"logged-models/{model}", {}),
    ):
        assert code(lambda m=method, r=route, a=arguments: ask(OTHER_JOB, m, r, **a)) == DENIED, route
        assert code(lambda m=method, r=route, a=arguments: ask(OWN_JOB, m, r, **a)) == "", route


def test_no_model_is_logged_for_the_run_of_another_job(ask: Ask):
    assert code(lambda: logged_model(ask, OWN_JOB, OTHERS[0])) == DENIED


def removed(store: MemoryMetricStore, scope: WriteScope | None, path: str) -> str:
    return code(lambda: artifacts.remove(Call({"path": path}, store, NoFiles(), make_rows(), scope=scope)))


@pytest.mark.parametrize("scope", [OWN_JOB, ADA, USER])
@pytest.mark.parametrize("path", ["models", "/models/"])
def test_artifacts_of_all_logged_models_cannot_be_removed_at_once(
    store: MemoryMetricStore, scope: WriteScope | None, path: str
):
    assert removed(store, scope, path) == INVALID


def test_artifacts_are_written_and_removed_by_the_job_whose_they_are(store: MemoryMetricStore, ask: Ask):
    theirs, own = logged_model(ask, OTHER_JOB), logged_model(ask, OWN_JOB)
    paths = {
        f"{OWN[0]}/artifacts/a": "", f"{OWN[0]}/models/m/a": "", f"models/{own}/a": "",
        f"{OTHERS[0]}/artifacts/a": DENIED, f"{OTHERS[0]}/artifacts": DENIED, f"{OUTSIDE[0]}/artifacts/a": DENIED,
        f"models/{theirs}/a": DENIED, "models/unknown/a": "RESOURCE_DOES_NOT_EXIST",
    }  # fmt: skip
    assert {path: removed(store, OWN_JOB, path) for path in paths} == paths

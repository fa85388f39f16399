"""What each role may ask: every route of the API, and the addresses of MLflow."""

import json
from pathlib import Path

import pytest

from drumbeat.model.principal import Principal, Role
from drumbeat.server.access.permissions import is_reading, job_changed, refusal

OWNER, CONTRIBUTOR, READER = (Principal(name, Role(name)) for name in ("owner", "contributor", "reader"))
MLFLOW = "/mlflow/api/2.0/mlflow"


def may(principal: Principal, request: str) -> bool:
    method, path = request.split()
    return refusal(principal, method, path) is None


@pytest.mark.feature("X3")
@pytest.mark.parametrize(
    "request_",
    ["GET /api/v1/jobs", "HEAD /api/v1/jobs/a/files/x", "POST /api/v1/plan", "POST /api/v1/storage/file",
     "POST /api/v1/page/links", f"POST {MLFLOW}/runs/search", "POST /mlflow/ajax-api/2.0/mlflow/experiments/search",
     "GET /api/v1/tokens"],
)  # fmt: skip
def test_request_that_changes_nothing_is_open_to_readers(request_: str) -> None:
    assert all(may(one, request_) for one in (OWNER, CONTRIBUTOR, READER))


@pytest.mark.feature("X3")
@pytest.mark.parametrize(
    "request_",
    ["POST /api/v1/jobs", "POST /api/v1/jobs/a/cancel", "DELETE /api/v1/jobs/a", "PUT /api/v1/storage/file",
     "POST /api/v1/storage/manifest", "PUT /api/v1/plan", f"POST {MLFLOW}/runs/create", f"POST {MLFLOW}/runs/search/x",
     "PATCH /mlflow/api/2.0/mlflow/model-versions/update", "CONNECT /api/v1/anything", "POST /api/v1/plan/x",
     "PUT /mlflow/api/2.0/mlflow-artifacts/artifacts/runs/search"],
)  # fmt: skip
def test_request_that_changes_something_is_refused_to_readers(request_: str) -> None:
    assert [may(one, request_) for one in (OWNER, CONTRIBUTOR, READER)] == [True, True, False]


@pytest.mark.feature("X3")
@pytest.mark.parametrize(
    "request_", ["POST /api/v1/tokens", "DELETE /api/v1/tokens/ada", "PUT /api/v1/quotas/person/ada",
                 "POST /api/v1/stop", "PUT /api/v1/retention", "PUT /api/v1/idle-stop",
                 "PUT /api/v1/mlflow-server", "POST /api/v1/prune"],
)  # fmt: skip
def test_request_about_the_server_is_open_to_owners_only(request_: str) -> None:
    assert [may(one, request_) for one in (OWNER, CONTRIBUTOR, READER)] == [True, False, False]


def test_refusal_names_the_person_the_role_and_the_way_out() -> None:
    told = str(refusal(Principal("ada", Role.READER), "POST", "/api/v1/jobs"))
    assert told.startswith("ada is a reader here, and readers change nothing. An owner of the server can give")


@pytest.mark.parametrize(
    "request_",
    ["POST /api/v1/jobs/a/cancel", "DELETE /api/v1/jobs/a", "POST /api/v1/jobs/a/archive",
     "POST /api/v1/jobs/a/restore", "POST /api/v1/jobs/a/sessions", "POST /api/v1/jobs/a/sessions/s/input",
     "POST /api/v1/jobs/a/services/s/links",
     "PUT /api/v1/jobs/a/whatever/comes", "CONNECT /api/v1/jobs/a"],
)  # fmt: skip
def test_routes_that_change_a_job_are_for_its_owners(request_: str) -> None:
    assert job_changed(*request_.split()) == "a"


@pytest.mark.parametrize(
    "request_", ["GET /api/v1/jobs/a", "POST /api/v1/jobs", "POST /api/v1/plan", "POST /api/v1/data"]
)
def test_submitting_and_looking_change_no_job(request_: str) -> None:
    assert job_changed(*request_.split()) == ""


SHARED = (
    "aliases",
    "batch-deployments",
    "batch-endpoints",
    "components",
    "computes",
    "data",
    "datastores",
    "environments",
    "models",
    "registries",
    "snapshots",
    "storage",
)
"""What contributors make and change for all: none of it is one user's."""
OWN_TOKEN = "/api/v1/token"
OWN_CHECK = ("/api/v1/experiments/", "/api/v1/online-endpoints/", "/api/v1/schedules")
"""Their handlers ask whose it is, or whose the experiment's jobs are."""


@pytest.mark.feature("X3")
def test_audit_log_is_read_by_owners_and_own_token_ended_by_all() -> None:
    assert [may(one, "GET /api/v1/audit") for one in (OWNER, CONTRIBUTOR, READER)] == [True, False, False]
    assert [may(one, "DELETE /api/v1/token") for one in (OWNER, CONTRIBUTOR, READER)] == [True] * 3


@pytest.mark.feature("X3")
def test_every_route_that_changes_something_is_owners_or_of_an_own_job_or_shared() -> None:
    """A new route has to be one of these, or contributors would change by it what is another user's."""
    paths = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text())["paths"]
    asked = [(method.upper(), path) for path, one in paths.items() for method in one if path.startswith("/api/v1/")]
    changing = [one for one in asked if not is_reading(*one) and refusal(CONTRIBUTOR, *one) is None]
    open_ones = {path for method, path in changing if not job_changed(method, path) and not path.startswith(OWN_CHECK)}
    assert {path for path in open_ones if path.split("/")[3] not in SHARED} == {
        OWN_TOKEN,
        "/api/v1/jobs",
        "/api/v1/job-batches",
    }, "to submit"

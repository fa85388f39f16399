"""Which deployment an invocation of a batch endpoint runs, and which can be deleted."""

from __future__ import annotations

import pytest

from drumbeat.jobfile.batch.default_deployment import choose_deployment, require_not_default
from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView
from drumbeat.model.errors import ConflictError, NotFoundError, SpecError

pytestmark = pytest.mark.feature("R3")

BLUE, GREEN = (BatchDeploymentView(name, "digits", "model", "azureml:c:1") for name in ("blue", "green"))
BARE, WITH_DEFAULT = BatchEndpointView("digits"), BatchEndpointView("digits", "blue")


@pytest.mark.parametrize(
    ("endpoint", "deployments", "name", "chosen"),
    [
        (BARE, [BLUE], "", BLUE),
        (BARE, [BLUE, GREEN], "green", GREEN),
        (WITH_DEFAULT, [BLUE, GREEN], "", BLUE),
        (WITH_DEFAULT, [BLUE, GREEN], "green", GREEN),
    ],
)
def test_invocation_runs_the_named_the_default_or_the_only_deployment(endpoint, deployments, name, chosen):
    assert choose_deployment(endpoint, deployments, name) is chosen


@pytest.mark.parametrize(
    ("endpoint", "deployments", "name", "error", "says"),
    [
        (BARE, [], "", SpecError, r"batch endpoint digits has no default deployment; deployments: none"),
        (
            BARE,
            [BLUE, GREEN],
            "",
            SpecError,
            r"deployments: blue, green\..*defaults.deployment_name=NAME",
        ),
        (BARE, [BLUE], "red", NotFoundError, r"batch endpoint digits has no deployment red; deployments: blue"),
        (WITH_DEFAULT, [GREEN], "", NotFoundError, r"batch endpoint digits has no deployment blue; deployments: green"),
    ],
)
def test_invocation_without_a_deployment_to_run_is_refused(endpoint, deployments, name, error, says):
    with pytest.raises(error, match=says):
        choose_deployment(endpoint, deployments, name)


def test_default_deployment_is_deleted_last():
    with pytest.raises(ConflictError, match="blue is the default deployment of digits"):
        require_not_default(WITH_DEFAULT, [BLUE, GREEN], "blue")
    require_not_default(WITH_DEFAULT, [BLUE], "blue")
    require_not_default(WITH_DEFAULT, [BLUE, GREEN], "green")

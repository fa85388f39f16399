"""The unmodified `azure-ai-ml` in three releases, with a drumbeat server in the place of Azure."""

from __future__ import annotations

import pytest

from drumbeat.model.states import State

from . import azure_clients
from .azure_clients import OLDER, prepare, run_script

pytestmark = [pytest.mark.real, pytest.mark.feature("A1")]


def test_unchanged_script_submits_streams_and_downloads_a_job_of_two_nodes(own_house):
    prepare(own_house)
    name = run_script(own_house, "thread").stdout.split()[-1]
    job = own_house.client.get(name)
    assert (job.state, job.world_size, job.experiment) == (State.COMPLETED, 4, "azure-thread")
    unset = own_house.run("azure", "env", "--unset").stdout.split()
    assert unset[0] == "unset"
    assert {*azure_clients.variables(own_house)} <= {*unset[1:]}


@pytest.mark.thorough
@pytest.mark.parametrize("version", OLDER)
def test_unchanged_script_does_the_same_with_an_earlier_release(own_house, version):
    prepare(own_house)
    run_script(own_house, "thread", version)

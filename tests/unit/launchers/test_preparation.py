"""The preparation command as a node runs it."""

import pytest

from drumbeat.launchers import ranks, render
from drumbeat.launchers.preparation import preparation
from drumbeat.model.plan import InputPlan, Plan, PythonEnvironment
from drumbeat.model.roster import Member, Roster


def a_plan(**more: object) -> Plan:
    return Plan("j", "e", "pytorch", 2, 2, "python t.py", ranks("pytorch", 2, 2), **more)


MEMBER = Member(1, "b", "10.0.0.2", "/n/1", "/c")


@pytest.mark.feature("L12")
def test_a_job_without_one_has_none():
    assert preparation(a_plan(), MEMBER, 1, 1) is None


@pytest.mark.feature("L12")
def test_preparation_has_the_nodes_variables_and_no_rank():
    inputs = (InputPlan("data", "uri_folder", "file:///my data", "ro_mount"),)
    plan = a_plan(prepare="ls ${{inputs.data}}", inputs=inputs, variables={"A": "1"}, path_first=("/e/bin",))
    spec = preparation(plan, MEMBER, 2, 1)
    assert spec is not None
    assert spec.argv == ("/bin/bash", "-c", "ls '/my data'")
    assert (spec.cwd, spec.log) == ("/n/1/code", "logs/2.1/1/node.log")
    members = (Member(0, "a", "10.0.0.1", "/n/0", "/c"), MEMBER)
    rank = render(plan, Roster(2, 1, members, 29500), 1)[0]
    assert {name for name in rank.set if name not in spec.set} == {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
        "AZ_BATCH_HOST_LIST", "AZ_BATCHAI_JOB_MASTER_NODE_IP", "DRUMBEAT_ROUND", "DLTS_HOSTFILE",
    }  # fmt: skip
    assert all(rank.set[name] == value for name, value in spec.set.items())
    assert spec.environment({"PATH": "/bin", "RANK": "7"})["PATH"] == "/e/bin:/bin"


@pytest.mark.feature("L12")
def test_compute_s_preparation_that_names_an_input_is_left_to_its_shell():
    spec = preparation(a_plan(prepare="echo ${{inputs.no}} ${{outputs.no}}"), MEMBER, 1, 1)
    assert spec is not None
    assert spec.argv[-1] == "echo ${{inputs.no}} ${{outputs.no}}"


@pytest.mark.feature("E1")
def test_a_python_of_the_jobs_own_does_not_see_modules_of_another():
    for python, kept in ((None, {"PYTHONPATH": "/x"}), (PythonEnvironment("k", "mine"), {})):
        plan = a_plan(prepare="true", python=python)
        spec = preparation(plan, MEMBER, 1, 1)
        assert spec is not None
        assert {n: v for n, v in spec.environment({"PYTHONPATH": "/x"}).items() if n == "PYTHONPATH"} == kept

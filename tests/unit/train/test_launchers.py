"""Which rank of how many a process is, by the variables of each launcher."""

from __future__ import annotations

import json

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.train.launchers import first_host, read_identity, tasks_on
from drumbeat.train.rank_identity import RankIdentity

pytestmark = pytest.mark.feature("T1", "L10")

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1", "MASTER_ADDR": "10.0.0.4", "MASTER_PORT": "29400",
}  # fmt: skip
DRUMBEAT = {
    "DRUMBEAT_JOB": "j", "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "NODE_RANK": "1",
    "GROUP_RANK": "1", "MASTER_ADDR": "10.1.0.1", "MASTER_PORT": "31007",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_NODE_RANK": "1", "PMIX_NAMESPACE": "prterun-a-77@1",
}  # fmt: skip
ONE_HOST = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
DRUMBEAT_MPI = {
    **OPEN_MPI, "DRUMBEAT_JOB": "j", "AZ_BATCH_MASTER_NODE": "10.1.0.1:31007", "AZ_BATCHAI_MPI_MASTER_NODE": "10.1.0.1",
}  # fmt: skip
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_PORT": "a:4"}
SLURM = {
    "SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_JOB_ID": "912",
    "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu[03-04]", "SLURM_STEP_TASKS_PER_NODE": "3,2",
}  # fmt: skip
CLUSTER = {"chief": ["10.0.0.4:2222"], "worker": ["10.0.0.5:2222", "10.0.0.5:2223"], "ps": ["10.0.0.4:2223"]}
BATCH_AI = {
    "AZ_BATCHAI_TASK_INDEX": "1", "AZ_BATCH_HOST_LIST": "10.0.0.4,10.0.0.5",
    "AZ_BATCHAI_PYTORCH_INIT_METHOD": "tcp://10.0.0.4:23456",
}  # fmt: skip


def tf_config(kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, RankIdentity("none", 0, 1, 0, 1, 0, "127.0.0.1", 0)),
        (TORCHRUN, RankIdentity("torchrun", 3, 4, 1, 2, 1, "10.0.0.4", 29400)),
        (DRUMBEAT, RankIdentity("drumbeat", 5, 8, 1, 4, 1, "10.1.0.1", 31007)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, RankIdentity("torch", 0, 1, 0, None, None, "127.0.0.1", 0)),
        (DRUMBEAT_MPI, RankIdentity("drumbeat", 3, 4, 1, 2, None, "10.1.0.1", 31007)),
        ({**OPEN_MPI, "AZ_BATCH_MASTER_NODE": "a:6000"}, RankIdentity("Open MPI", 3, 4, 1, 2, None, "a", 6000)),
        ({**OPEN_MPI, "AZ_BATCHAI_MPI_MASTER_NODE": "a"}, RankIdentity("Open MPI", 3, 4, 1, 2, None, "a", 54965)),
        (
            {**OPEN_MPI, "MASTER_ADDR": "a", "MASTER_PORT": "9"},
            RankIdentity("Open MPI", 3, 4, 1, 2, None, "a", 9),
        ),
        (
            {**ONE_HOST, "AZ_BATCHAI_MPI_MASTER_NODE": "localhost"},
            RankIdentity("Open MPI", 3, 4, 3, 4, 0, "localhost", 54965),
        ),
        (tf_config("chief", 0), RankIdentity("TF_CONFIG", 0, 3, 0, 1, 0, "10.0.0.4", 2222)),
        (tf_config("worker", 1), RankIdentity("TF_CONFIG", 2, 3, 1, 2, 1, "10.0.0.4", 2222)),
        (BATCH_AI, RankIdentity("Batch AI", 1, 2, 0, 1, 1, "10.0.0.4", 23456)),
    ],
)
def test_variables_of_a_launcher_give_the_rank(variables: dict[str, str], expected: RankIdentity):
    assert read_identity(variables) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (OPEN_MPI, RankIdentity("Open MPI", 3, 4, 1, 2, None, "")),
        (ONE_HOST, RankIdentity("Open MPI", 3, 4, 3, 4, 0, "127.0.0.1")),
        (HYDRA, RankIdentity("hydra", 1, 2, 1, 2, 0, "127.0.0.1")),
        (SLURM, RankIdentity("Slurm", 4, 5, 1, 2, 1, "gpu03")),
        (
            {**BATCH_AI, "WORLD_SIZE": "4", "AZ_BATCHAI_PYTORCH_INIT_METHOD": "file:///mnt/shared/x"},
            RankIdentity("Batch AI", 1, 4, 1, 2, 0, "10.0.0.4", 0, "file:///mnt/shared/x"),
        ),
    ],
)
def test_launcher_without_a_port_gives_all_ranks_the_same(variables: dict[str, str], expected: RankIdentity):
    identity = read_identity(variables)
    assert identity.master_port in range(15000, 31000)
    assert identity.master_port == read_identity(dict(variables)).master_port
    assert identity == RankIdentity(**{**vars(expected), "master_port": identity.master_port})


def test_mpirun_over_several_nodes_says_no_nodes_number():
    # mpirun --map-by node: rank 2 of 4 is the second on node 0, rank 1 the first on node 1.
    for rank, local in enumerate("0011"):
        identity = read_identity(
            {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": local, "MASTER_ADDR": "a"}
        )
        assert identity.node_rank is None
        assert not {"NODE_RANK", "GROUP_RANK"} & set(identity.torch_variables())


def test_two_mpiruns_on_a_host_meet_at_different_ports():
    other = {**ONE_HOST, "PMIX_NAMESPACE": "prterun-a-78@1"}
    assert read_identity(ONE_HOST).master_port != read_identity(other).master_port


@pytest.mark.parametrize(
    ("variables", "launcher"),
    [
        ({**OPEN_MPI, **TORCHRUN}, "torchrun"),
        ({**SLURM, **TORCHRUN}, "torchrun"),
        ({**DRUMBEAT, **TORCHRUN}, "torchrun"),
        ({**DRUMBEAT, **OPEN_MPI}, "Open MPI"),
        ({**SLURM, **OPEN_MPI}, "Open MPI"),
        ({**SLURM, **HYDRA}, "hydra"),
        ({**BATCH_AI, **OPEN_MPI}, "Open MPI"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, "none"),
    ],
)
def test_innermost_launcher_counts(variables: dict[str, str], launcher: str):
    assert read_identity(variables).launcher == launcher


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "RANK is 1 of WORLD_SIZE 2, but MASTER_ADDR or MASTER_PORT isn't set"),
        ({**TORCHRUN, "RANK": "4"}, "torchrun says that this is rank 4 of 4"),
        ({**TORCHRUN, "RANK": "one"}, "RANK is 'one'"),
        ({**HYDRA, "PMI_SIZE": ""}, "PMI_SIZE isn't set"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG gives this task no rank"),
        (tf_config("ps", 0), "parameter servers and evaluators don't run torch"),
        ({"AZ_BATCHAI_TASK_INDEX": "1"}, "Set WORLD_SIZE or AZ_BATCH_HOST_LIST"),
    ],
)
def test_incomplete_variables_are_refused_with_a_remedy(variables: dict[str, str], sentence: str):
    with pytest.raises(RefusedError) as caught:
        read_identity(variables)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("environment variables: ")


def test_variables_for_torch_are_those_of_torchrun():
    variables = read_identity(SLURM).torch_variables()
    assert variables.pop("MASTER_PORT").isdecimal()
    assert variables == {
        "RANK": "4", "WORLD_SIZE": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1",
        "GROUP_RANK": "1", "MASTER_ADDR": "gpu03",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "host"),
    [("gpu03", "gpu03"), ("gpu[03-05,9],x", "gpu03"), ("a[1-2]-ib[7,8]", "a1-ib7"), ("x,gpu[1-2]", "x"), ("", "")],
)
def test_first_host_of_a_slurm_list(nodes: str, host: str):
    assert first_host(nodes) == host


@pytest.mark.parametrize(("node", "tasks"), [(0, 2), (2, 2), (3, 1), (4, None)])
def test_tasks_of_a_node_by_a_slurm_list(node: int, tasks: int | None):
    assert tasks_on("2(x3),1", node) == tasks

"""How many GPUs each node of a job gets: by its ranks, its instance type, or the launcher in its command."""

from __future__ import annotations

import pytest

from drumbeat.core.planning.node_resources import InlineLauncher, InstanceType, Size, find_launcher, parse_kind, size_up
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.model.errors import SpecError, UnknownNameError
from drumbeat.model.plan import Rank

pytestmark = [pytest.mark.feature("L11")]


@pytest.mark.parametrize(
    ("command", "nodes", "found"),
    [
        ("torchrun --nnodes 2 --nproc-per-node 8 train.py", 2, InlineLauncher("torchrun", 8, "--nproc-per-node 8")),
        ("torchrun --nproc_per_node=4 train.py", 1, InlineLauncher("torchrun", 4, "--nproc_per_node 4")),
        ("cd src && /opt/torchrun --nproc-per-node gpu t.py", 1,
         InlineLauncher("torchrun", None, "--nproc-per-node gpu")),
        ("torchrun --nproc-per-node $GPUS t.py", 1, InlineLauncher("torchrun", None, "--nproc-per-node $GPUS")),
        ("torchrun --nproc-per-node cpu t.py", 1, None),
        ("torchrun train.py", 1, InlineLauncher("torchrun", 1)),
        ("python -m torch.distributed.run --nproc-per-node 2 t.py", 1,
         InlineLauncher("torchrun", 2, "--nproc-per-node 2")),
        ("python -m torch.distributed.launch --nproc_per_node 2 t.py", 1,
         InlineLauncher("torchrun", 2, "--nproc_per_node 2")),
        ("accelerate launch --num_processes 16 t.py", 2, InlineLauncher("accelerate", 8, "--num_processes 16")),
        ("accelerate launch t.py", 2, InlineLauncher("accelerate", None)),
        ("accelerate launch --cpu --num_processes 4 t.py", 2, None),
        ("[ $NODE_RANK != 0 ] || deepspeed --hostfile $DLTS_HOSTFILE t.py", 2, InlineLauncher("deepspeed", None)),
        ("deepspeed --num_gpus 4 t.py; rm x", 1, InlineLauncher("deepspeed", 4, "--num_gpus 4")),
        ("horovodrun --gloo -np 5 -H a:4,b:4 python t.py", 2, InlineLauncher("horovodrun", 3, "-np 5")),
        ("torchrun \\\n  --nproc-per-node 4 \\\n  t.py", 1, InlineLauncher("torchrun", 4, "--nproc-per-node 4")),
        ("torchrun a.py\ntorchrun --nproc-per-node 4 b.py", 1, InlineLauncher("torchrun", 1)),
        pytest.param("\n" * 300_000 + "A=;" * 100_000 + "\ntorchrun t.py", 1, InlineLauncher("torchrun", 1), id="long"),
        ("torchrun t.py && deepspeed --num_gpus 4 t.py", 1, InlineLauncher("torchrun", 1)),
        ("python train.py --deepspeed ds.json --num_processes 4", 1, None),
        ("pip install deepspeed accelerate; python train.py", 1, None),
        ("python train.py --launcher torchrun --nproc 4", 1, None),
        ("A=1 OMP_NUM_THREADS=2 torchrun --nproc_per_node 4 t.py", 1,
         InlineLauncher("torchrun", 4, "--nproc_per_node 4")),
        ("if true; then conda run -n e torchrun t.py; fi", 1, InlineLauncher("torchrun", 1)),
        ("exec torchrun --nproc_per_node=8 t.py", 1, InlineLauncher("torchrun", 8, "--nproc_per_node 8")),
        ("nohup torchrun --nproc_per_node=8 t.py", 1, InlineLauncher("torchrun", 8, "--nproc_per_node 8")),
        ("time accelerate launch --num_processes 8 t.py", 2, InlineLauncher("accelerate", 4, "--num_processes 8")),
        ("env A=1 torchrun t.py", 1, InlineLauncher("torchrun", 1)),
        ("if torchrun t.py; then echo; fi", 1, InlineLauncher("torchrun", 1)),
        ("{ torchrun --nproc_per_node=8 t.py; }", 1, InlineLauncher("torchrun", 8, "--nproc_per_node 8")),
        ("torchrun --nproc_per_node=\"4\" t.py", 1, InlineLauncher("torchrun", 4, "--nproc_per_node 4")),
        ("torchrun --nproc_per_node '4' t.py", 1, InlineLauncher("torchrun", 4, "--nproc_per_node 4")),
        ("torchrun \"--nproc_per_node=4\" t.py", 1, InlineLauncher("torchrun", 4, "--nproc_per_node 4")),
        ("torchrun --nproc_per_node='cpu' t.py", 1, None),
        ("sometime torchrun t.py", 1, None),
        ("", 1, None),
    ],
)  # fmt: skip
def test_launcher_in_a_command_is_found_with_its_count_per_node(command: str, nodes: int, found: InlineLauncher | None):
    assert find_launcher(command, nodes) == found


def table(nodes: int, per_node: int) -> list[Rank]:
    return [Rank(n, n // per_node, n % per_node) for n in range(nodes * per_node)]


TWO = [(16, 8), (16, 8)]
EIGHT, ALL = InlineLauncher("torchrun", 8, "--nproc-per-node 8"), InlineLauncher("deepspeed", None)


@pytest.mark.parametrize(
    ("shape", "machines", "kind", "launcher", "gpus"),
    [
        ((2, 4), TWO, InstanceType(), None, 4),
        ((2, 1), TWO, InstanceType(), None, 1),
        ((2, 1), TWO, InstanceType(), EIGHT, 8),
        ((2, 1), TWO, InstanceType(), ALL, 8),
        ((4, 1), TWO, InstanceType(), ALL, 4),
        ((1, 1), [(16, 8), (4, 0)], InstanceType(), ALL, 8),
        ((1, 1), TWO, InstanceType(), InlineLauncher("torchrun", 1), 1),
        ((2, 2), TWO, InstanceType(), EIGHT, 2),
        ((2, 1), TWO, InstanceType("cpu"), EIGHT, 0),
        ((2, 1), TWO, InstanceType("gpu", 4), EIGHT, 4),
        ((1, 1), TWO, InstanceType("gpu", 2), None, 2),
        ((1, 1), [(2, 0)], InstanceType(), EIGHT, 0),
        ((1, 1), [(2, 0)], InstanceType("gpu"), EIGHT, 8),
        ((1, 1), [(2, 0)], InstanceType("gpu"), ALL, 1),
        ((1, 1), [(2, 1)], InstanceType(), EIGHT, 0),
    ],
)
def test_a_node_has_the_gpus_that_its_processes_need(
    shape: tuple[int, int], machines: list[Size], kind: InstanceType, launcher: InlineLauncher | None, gpus: int
):
    need, _ = size_up(shape[0], table(*shape), machines, kind, launcher)
    alone = shape[0] * shape[1] > sum(cpus for cpus, _ in machines)
    assert need == Need(shape[0], shape[1], gpus, alone=alone)


FEW = (
    "torchrun starts 8 processes on each node (--nproc-per-node 8), and no node can have more than 1 GPU: they run on "
    "CPUs and see no GPU (resources.instance_type: gpu insists)"
)


def test_chosen_number_of_gpus_is_noted():
    said = [
        size_up(1, table(1, 1), machines, InstanceType(), launcher)[1]
        for machines, launcher in ((TWO, EIGHT), (TWO, ALL), ([(2, 1)], EIGHT), ([(2, 0)], EIGHT), (TWO, None))
    ]
    assert said == [
        ["each node gets 8 GPUs: torchrun's --nproc-per-node 8 says so"],
        ["each node gets 8 GPUs: deepspeed takes all that it finds"],
        [FEW],
        [],
        [],
    ]  # fmt: skip


def test_an_instance_type_is_cpu_or_gpu_or_so_many_of_them():
    assert [parse_kind("n", meaning) for meaning in ("cpu", "GPU", "gpu:8")] == [
        InstanceType("cpu"), InstanceType("gpu"), InstanceType("gpu", 8)
    ]  # fmt: skip
    for meaning in ("cpu:2", "gpu:0", "gpu:", "gpus", "Standard_NC6", "gpu:1000"):
        with pytest.raises(UnknownNameError, match="instance types: cpu, gpu and gpu:N"):
            parse_kind("Standard_NC6", meaning)


def test_fewer_gpus_than_ranks_are_refused():
    with pytest.raises(SpecError, match=r"gpu:2 is a node with 2 GPUs, and the job starts 4 ranks on a node"):
        size_up(1, table(1, 4), TWO, InstanceType("gpu", 2), None)

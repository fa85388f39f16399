"""What `drumbeat bench` measures, in which order, and by which jobs."""

from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.bench.cases import Benchmark, Case, cases, check, job, lab, nodes
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("B1")

CODE = Path("/recipe")


def test_each_repeat_takes_every_network_and_number_of_ranks():
    benchmark = Benchmark(ranks=(1, 2), networks=("200mbit", "unshaped"), repeats=2)
    assert cases(benchmark) == [
        Case(repeat, network, ranks) for repeat in (1, 2) for network in ("200mbit", "unshaped") for ranks in (1, 2)
    ]


def test_cases_without_networks_run_on_the_named_compute():
    benchmark = Benchmark(compute="rack", ranks=(1, 8), ranks_per_node=4, repeats=1)
    alone, many = (job(benchmark, case, CODE) for case in cases(benchmark))
    assert (alone["compute"], many["compute"]) == ("rack", "rack")
    assert (alone["resources"], many["resources"]) == ({"instance_count": 1}, {"instance_count": 2})
    assert many["distribution"] == {"type": "pytorch", "process_count_per_instance": 4}


def test_fewer_ranks_than_a_node_has_run_on_one_node():
    benchmark = Benchmark(ranks=(1, 2, 8), ranks_per_node=4)
    assert [nodes(benchmark, ranks) for ranks in benchmark.ranks] == [1, 1, 2]
    assert job(benchmark, Case(1, "", 2), CODE)["distribution"] == {"type": "pytorch", "process_count_per_instance": 2}


def test_a_network_is_a_netlab_with_a_node_for_each_rank():
    benchmark = Benchmark(ranks=(1, 2, 4), networks=("1gbit", "unshaped"))
    assert lab(benchmark, "1gbit") == {"name": "bench-1gbit", "type": "netlab", "nodes": 4, "bandwidth": "1gbit"}
    assert lab(benchmark, "unshaped") == {"name": "bench-unshaped", "type": "netlab", "nodes": 4}
    assert job(benchmark, Case(1, "1gbit", 2), CODE)["compute"] == "bench-1gbit"


def test_a_folder_of_images_is_an_input_of_the_job():
    made = job(Benchmark(data="/images"), Case(1, "", 2), CODE)
    assert made["inputs"] == {"images": {"type": "uri_folder", "path": "/images"}}
    assert "--train ${{inputs.images}}" in str(made["command"])
    assert "--fake" in str(job(Benchmark(), Case(1, "", 2), CODE)["command"])


@pytest.mark.parametrize(
    ("framework", "backend", "environment", "launcher"),
    [
        ("pytorch", "ddp", None, "pytorch"),
        ("pytorch", "horovod", "horovod-jpeg", "mpi"),
        ("keras", "horovod", "horovod-tf", "mpi"),
        ("tensorflow", "horovod", "horovod-tf", "mpi"),
    ],
)
def test_each_framework_has_its_script_environment_and_launcher(framework, backend, environment, launcher):
    made = job(Benchmark(framework=framework, backend=backend), Case(1, "", 2), CODE)
    assert made.get("environment") == environment
    assert str(made["command"]).startswith(f"python train_{framework}.py --model resnet50")
    assert made["distribution"] == {"type": launcher, "process_count_per_instance": 1}


def test_options_for_gpus_reach_the_script():
    benchmark = Benchmark(precision="bf16", channels_last=True, compile=True)
    assert "--precision bf16 --channels-last --compile" in str(job(benchmark, Case(1, "", 1), CODE)["command"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": "resnet18"}, "--model: 'resnet18' is unknown. Choose one of resnet50, resnet101"),
        ({"framework": "jax"}, "--framework: 'jax' is unknown. Choose one of pytorch, keras, tensorflow."),
        ({"framework": "keras", "backend": "ddp"}, "--backend: 'ddp' is unknown. Choose one of horovod."),
        ({"precision": "fp8"}, "--precision: 'fp8' is unknown"),
        ({"framework": "keras", "backend": "horovod", "compile": True}, "--framework: keras can only be measured"),
        ({"ranks": (2, 1)}, "--ranks: 2,1 aren't valid numbers of ranks"),
        ({"ranks": (0, 1)}, "--ranks: 0,1 aren't valid numbers of ranks"),
        ({"ranks": (1, 3), "ranks_per_node": 2}, "--ranks-per-node: 3 ranks don't fill nodes of 2"),
        ({"steps": 0}, "--steps: 0 is too few. Give at least 1."),
        ({"batch_size": -1}, "--batch-size: -1 is too few"),
    ],
)
def test_an_invalid_benchmark_is_refused_with_what_to_do(wrong, said):
    with pytest.raises(SpecError) as refused:
        check(replace(Benchmark(), **wrong))
    assert said in str(refused.value)


def test_a_valid_benchmark_is_accepted():
    check(Benchmark(ranks=(1, 2, 4, 8), ranks_per_node=4, networks=("200mbit",)))

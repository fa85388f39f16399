"""What a job takes of its compute: slots for all ranks, GPUs for those that compute."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.plan import PlanFacts, Planned, Sources
from drumbeat.core.scheduling.elastic_sizes import resized
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.errors import SpecError
from drumbeat.model.plan import Elastic
from tests.support.messages import Messages


def planned(cpus: int, gpus: int, **keys: Any) -> Planned:
    facts = PlanFacts(computes={"local": (cpus, gpus)})
    return planning.make(CommandJob.made({"command": "x", **keys}), "j", "e", Sources(), facts)


def tasks(workers: int, servers: int, nodes: int, **more: Any) -> dict[str, Any]:
    distribution = {"type": "tensorflow", "worker_count": workers, "parameter_server_count": servers}
    return {"distribution": distribution, "resources": {"instance_count": nodes, **more}}


@pytest.mark.feature("C5")
def test_job_that_names_no_compute_is_planned_for_the_default_one():
    facts = PlanFacts(computes={"cluster": (64, 8), "local": (4, 0)})
    jobs = [CommandJob.made({"command": "x", **keys}) for keys in ({}, {"compute": "cluster"})]
    assert [planning.make(job, "j", "e", Sources(), facts).plan.compute for job in jobs] == ["local", "cluster"]


@pytest.mark.feature("L5")
def test_every_node_is_requested_with_the_size_of_the_largest():
    made = planned(8, 0, **tasks(3, 1, 2))
    assert made.need == Need(2, 3)
    assert (made.plan.processes_per_node, made.plan.world_size) == (3, 5)


@pytest.mark.feature("L5", "L11")
def test_gpus_are_for_the_workers_alone():
    made = planned(16, 4, **tasks(4, 2, 2))
    assert made.need == Need(2, 4, 2)
    assert made.plan.gpus_per_node == 2


@pytest.mark.feature("L11")
def test_note_on_missing_gpus_counts_the_ranks_without_one(messages: Messages):
    made = planned(16, 3, **tasks(4, 2, 2))
    assert made.need == Need(2, 4)
    messages.check(made.notes[0])


def test_job_that_requires_gpus_waits_for_them():
    assert planned(16, 3, **tasks(4, 2, 2, instance_type="gpu")).need.gpus == 2


def test_every_computing_rank_has_a_slot_and_a_gpu():
    distribution = {"type": "pytorch", "process_count_per_instance": 2}
    assert planned(8, 4, distribution=distribution, resources={"instance_count": 2}).need == Need(2, 2, 2)


def test_more_ranks_than_slots_run_alone():
    made = planned(2, 0, **tasks(2, 1, 1))
    assert made.need == Need(1, 4, alone=True)
    assert "4 ranks share 2 CPU slots, so the job runs alone on its compute" in made.notes


@pytest.mark.feature("L5", "J4")
def test_implicit_chief_is_noted():
    (note,) = planned(8, 0, **tasks(2, 1, 2)).notes
    assert note.startswith("rank 0 is TensorFlow's chief")
    assert "drumbeat.tensorflow_chief: false" in note
    assert planned(8, 0, **tasks(2, 1, 2), drumbeat={"tensorflow_chief": False}).notes == ()
    assert planned(8, 0, **tasks(2, 0, 2)).notes == ()


@pytest.mark.feature("J1")
def test_container_settings_without_effect_are_noted():
    resources = {"shm_size": "2g", "docker_args": "--ipc=host"}
    (shm, args) = planned(8, 0, resources=resources).notes
    assert shm.startswith("resources.shm_size changes nothing")
    assert args.startswith("resources.docker_args change nothing")
    in_image = planned(8, 0, resources=resources, environment={"image": "x"})
    assert in_image.plan.container is not None
    assert in_image.plan.container.args == ("--ipc=host",)
    assert [note for note in in_image.notes if "docker_args" in note] == []


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("given", "args"),
    [
        ("--shm-size=16g --cap-add X", ("--cap-add", "X")),
        (["--cap-add", "X", "--shm-size", "16g"], ("--cap-add", "X")),
        ("--ipc=host --shm-size=16g", ("--ipc=host",)),
        ("--shm-size=16g --ipc=private", ("--shm-size=16g", "--ipc=private")),
        ("--ipc private --shm-size 16g", ("--ipc", "private", "--shm-size", "16g")),
    ],
)
def test_size_of_dev_shm_is_left_out_where_it_is_the_nodes_own(given: str | list[str], args: tuple[str, ...]):
    made = planned(8, 0, resources={"docker_args": given}, environment={"image": "x"})
    assert made.plan.container is not None
    assert made.plan.container.args == args
    told = [note for note in made.notes if note.startswith("--shm-size in resources.docker_args changes nothing")]
    assert bool(told) == ("--shm-size" not in " ".join(args))


def test_words_for_the_engine_that_no_shell_reads_are_refused():
    with pytest.raises(SpecError, match=r"resources\.docker_args: cannot parse this as a shell command"):
        planned(8, 0, resources={"docker_args": "--env 'A=1"}, environment={"image": "x"})


@pytest.mark.feature("L12")
def test_preparation_in_a_separate_container_is_noted(messages: Messages):
    prepare, image = {"prepare": "apt-get install -y x"}, {"image": "x"}
    assert planned(8, 0, drumbeat=prepare).notes == ()
    assert planned(8, 0, environment=image).notes == ()
    (note,) = planned(8, 0, drumbeat=prepare, environment=image).notes
    messages.check(note)


@pytest.mark.feature("L11")
def test_number_of_processes_in_an_input_counts_the_gpus():
    command = "torchrun --nproc_per_node ${{inputs.n}} train.py"
    assert planned(8, 4, command=command, inputs={"n": 2}).need.gpus == 2


@pytest.mark.feature("F8")
@pytest.mark.parametrize(
    ("given", "most", "least"),
    [({"max_nodes": 3}, 3, 2), ({"min_nodes": 1}, 2, 1), ({"min_nodes": 1, "max_nodes": 3}, 3, 1)],
)
def test_elastic_job_is_planned_for_its_requested_nodes(given: dict[str, int], most: int, least: int):
    made = planned(8, 0, resources={"instance_count": 2}, drumbeat=given)
    assert made.need == Need(2, 1, min_nodes=least, max_nodes=most)
    assert made.plan.elastic == Elastic(least, 2, most)
    assert made.notes[0].startswith(
        f"the job runs on {least} to {most} nodes and starts again from its last checkpoint"
    )
    fixed = planned(8, 0, resources={"instance_count": 2}, drumbeat={**dict.fromkeys(given, 2), "grow": "at_once"})
    assert (fixed.plan.elastic, fixed.need) == (None, Need(2, 1))
    assert fixed.notes[0].startswith("drumbeat.grow changes nothing")


@pytest.mark.feature("F8", "J5")
def test_a_plan_for_another_number_of_nodes_has_the_ranks_of_that_number():
    resources = {"instance_count": 2, "max_instance_count": 3}
    for distribution, ranks in (
        ({"type": "pytorch", "process_count_per_instance": 2}, 6),
        ({"type": "mpi", "process_count_per_instance": 2}, 6),
        ({"type": "tensorflow"}, 3),
        ({"type": "ray"}, 4),
    ):
        plan = planned(8, 0, resources=resources, distribution=distribution).plan
        grown = resized(plan, 3)
        again = planned(8, 0, resources={"instance_count": 3}, distribution=distribution).plan
        assert (grown.nodes, len(grown.ranks), grown.ranks) == (3, ranks, again.ranks)


@pytest.mark.feature("F2")
@pytest.mark.parametrize(
    ("keys", "delays_s"),
    [
        ({}, (10, 300)),
        ({"max_retry_delay_s": 5}, (5, 5)),
        ({"retry_delay_s": 400}, (400, 400)),
        ({"retry_delay_s": 20, "max_retry_delay_s": 30}, (20, 30)),
    ],
    ids=["none set", "maximum below the default", "delay above the default", "both set"],
)
def test_default_retry_delay_gives_way_to_the_one_that_is_set(keys: dict[str, float], delays_s: tuple[float, float]):
    policy = planned(2, 0, drumbeat=keys).policy
    assert (policy.retry_delay_s, policy.max_retry_delay_s) == delays_s


@pytest.mark.feature("F4")
def test_rendezvous_is_strict_where_the_job_sets_its_time():
    default, own = planned(2, 0).plan, planned(2, 0, drumbeat={"rendezvous_timeout_s": 300}).plan
    assert (default.rendezvous_timeout_s, default.is_rendezvous_strict) == (300, False)
    assert (own.rendezvous_timeout_s, own.is_rendezvous_strict) == (300, True)


@pytest.mark.feature("F2")
def test_retries_set_by_the_job_are_distinguished_from_the_default():
    policies = [planned(4, 0, **keys).policy for keys in ({}, {"drumbeat": {"max_retries": 3}})]
    assert [(one.max_retries, one.is_retry_asked) for one in policies] == [(3, False), (3, True)]


def test_command_or_environment_too_long_for_a_process_is_noted_with_its_size(messages: Messages):
    notes = planned(4, 0, command="echo ${{inputs.prompt}}", inputs={"prompt": "x" * 140_000}).notes
    messages.check(*[note for note in notes if "Linux takes 131,071" in note])

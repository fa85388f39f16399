"""The line that runs a rank in a container."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from drumbeat.launchers.container_command import (
    LABEL,
    RANK_LABEL,
    ContainerEngine,
    ImageServer,
    contained,
    server_command,
)
from drumbeat.model.plan import Container, InputPlan, OutputPlan, Plan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.shares import SharePlan

from .test_render import a_plan, a_roster, processes

pytestmark = pytest.mark.feature("E1")

PODMAN = ContainerEngine("/usr/bin/podman", "podman", "0:0", files=20000, processes=30000)


def in_podman(
    plan: Plan, engine: ContainerEngine = PODMAN, *, gpus: tuple[str, ...] = ()
) -> tuple[ProcessSpec, list[str]]:
    first = processes(plan)[0]
    member = replace(a_roster(1).members[0], gpus=gpus)
    found = contained(first, plan, member, engine, ["/cache/data"])
    return first, list(found.argv)


def after(words: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(words) if name == option]


def test_command_of_the_rank_follows_the_image():
    first, words = in_podman(a_plan(1, 1, container=Container("ghcr.io/a/b:1", ("--cap-add", "SYS_PTRACE"))))
    assert words[:2] == ["/usr/bin/podman", "run"]
    assert words[-6:] == ["--cap-add", "SYS_PTRACE", "ghcr.io/a/b:1", *first.argv]
    assert after(words, "--workdir") == [first.cwd]
    assert after(words, "--label") == [f"{LABEL}=/n/0", f"{RANK_LABEL}=0"]
    assert after(words, "--ulimit") == ["nofile=20000:20000", "nproc=30000:30000"]


@pytest.mark.feature("M10")
def test_containers_beside_the_ranks_have_no_rank():
    first = replace(processes(a_plan(1, 1))[0], rank=-1)
    found = contained(first, a_plan(1, 1, container=Container("i")), a_roster(1).members[0], PODMAN)
    assert after(list(found.argv), "--label") == [f"{LABEL}=/n/0"]


def test_variables_go_by_name_so_that_no_list_of_processes_shows_them():
    first, words = in_podman(a_plan(1, 2, container=Container("i"), variables={"TOKEN": "secret"}))
    assert {*first.set, *first.defaulted, "DRUMBEAT_KEEPER"} == set(after(words, "--env"))
    assert "secret" not in " ".join(words)


def test_the_job_s_folders_can_be_written_and_its_inputs_only_be_read():
    inputs = (
        InputPlan("here", "uri_folder", "file:///data/a%20b", "ro_mount"),
        InputPlan("sent", "uri_folder", "snapshot:0", "ro_mount"),
        InputPlan("far", "uri_folder", "https://host/x", "direct"),
    )
    _, words = in_podman(a_plan(1, 1, container=Container("i"), inputs=inputs))
    assert after(words, "--volume") == [
        "/n/0:/n/0", "/keep:/keep", "/data/a b:/data/a b:ro", "/cache/data:/cache/data:ro",
    ]  # fmt: skip


@pytest.mark.feature("D9")
def test_shares_are_mounted_read_only_unless_jobs_may_write_to_them():
    shares = (SharePlan("nfs", "nfs", "/mnt/nfs"), SharePlan("out", "path", "/mnt/out/", writable=True))
    _, words = in_podman(a_plan(1, 1, container=Container("i"), shares=shares))
    assert after(words, "--volume") == [
        "/mnt/nfs:/mnt/nfs:ro", "/mnt/out:/mnt/out", "/n/0:/n/0", "/keep:/keep", "/cache/data:/cache/data:ro",
    ]  # fmt: skip


@pytest.mark.feature("D9")
@pytest.mark.parametrize(
    "args",
    [
        ("-v", "/mnt/nfs:/mnt/nfs"),
        ("--volume=/elsewhere:/mnt/nfs/:rw",),
        ("--mount", "type=bind,source=/x,target=/mnt/nfs"),
        ("--mount=type=bind,dst=/mnt/nfs,source=/x",),
    ],
)
def test_no_path_of_a_share_is_mounted_twice(args: tuple[str, ...]):
    shares = (SharePlan("nfs", "nfs", "/mnt/nfs"), SharePlan("in", "path", "/in"), SharePlan("k", "path", "/keep"))
    inputs = (
        InputPlan("whole", "uri_folder", "file:///in", "ro_mount"),
        InputPlan("part", "uri_folder", "file:///mnt/nfs/part", "ro_mount"),
    )
    _, words = in_podman(a_plan(1, 1, container=Container("i", args), shares=shares, inputs=inputs))
    ours = words[: words.index(args[0])]
    assert after(ours, "--volume") == [
        "/in:/in:ro", "/n/0:/n/0", "/keep:/keep", "/mnt/nfs/part:/mnt/nfs/part:ro", "/cache/data:/cache/data:ro",
    ]  # fmt: skip


@pytest.mark.feature("D2")
def test_requested_paths_are_mounted():
    inputs = (InputPlan("d", "uri_folder", "snapshot:0", "ro_mount", appears="/data/x"),)
    outputs = (OutputPlan("m", "uri_folder", "rw_mount", appears="/out"),)
    _, words = in_podman(a_plan(1, 1, container=Container("i"), inputs=inputs, outputs=outputs))
    assert after(words, "--volume")[-2:] == ["/n/0/inputs/d:/data/x:ro", "/n/0/outputs/m:/out"]


@pytest.mark.feature("D2")
@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_a_path_with_a_colon_is_mounted_by_the_option_that_takes_one(kind: str):
    inputs = (
        InputPlan("taken", "uri_folder", "file:///data/2026-01-01T10%3A30%3A00", "ro_mount"),
        InputPlan("odd", "uri_folder", "file:///data/a,b%3Ac%22d", "ro_mount"),
        InputPlan("plain", "uri_folder", "file:///data/a,b", "ro_mount", appears="/at/10:30"),
    )
    outputs = (OutputPlan("m", "uri_folder", "rw_mount", appears="/out/10:30"),)
    plan = a_plan(1, 1, container=Container("i"), inputs=inputs, outputs=outputs)
    _, words = in_podman(plan, replace(PODMAN, kind=kind))
    assert after(words, "--volume") == [
        "/n/0:/n/0",
        "/keep:/keep",
        "/data/a,b:/data/a,b:ro",
        "/cache/data:/cache/data:ro",
    ]
    assert after(words, "--mount") == [
        "type=bind,source=/data/2026-01-01T10:30:00,target=/data/2026-01-01T10:30:00,readonly",
        'type=bind,"source=/data/a,b:c""d","target=/data/a,b:c""d",readonly',
        'type=bind,"source=/data/a,b",target=/at/10:30,readonly',
        "type=bind,source=/n/0/outputs/m,target=/out/10:30",
    ]


def test_gpus_are_passed_by_each_engines_own_option():
    plan = a_plan(1, 2, container=Container("i"))
    _, words = in_podman(plan, gpus=("0", "3"))
    assert after(words, "--device") == ["nvidia.com/gpu=0", "nvidia.com/gpu=3"]
    _, words = in_podman(plan, replace(PODMAN, kind="docker"), gpus=("0", "3"))
    assert after(words, "--gpus") == ['"device=0,3"']


@pytest.mark.feature("L11")
@pytest.mark.parametrize(
    "words", ["--privileged", "--gpus all", "--device nvidia.com/gpu=all", "--device=/dev/nvidia0"]
)
def test_a_container_that_was_given_more_sees_the_nodes_own_numbers(words: str):
    rank = replace(processes(a_plan(1, 1))[0], set={"CUDA_VISIBLE_DEVICES": "2,3"})
    member = replace(a_roster(1).members[0], gpus=("2", "3"))
    plan = a_plan(1, 1, container=Container("i", tuple(words.split())))
    assert contained(rank, plan, member, PODMAN).set["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.feature("L11")
@pytest.mark.parametrize(
    ("given", "seen", "inside"),
    [("2,3", "2,3", "0,1"), ("10,9", "10", "1"), ("3", "", ""), ("GPU-1,GPU-2", "GPU-2", "GPU-2")],
)
def test_in_a_container_cuda_counts_the_gpus_that_it_was_given(given: str, seen: str, inside: str):
    rank = replace(processes(a_plan(1, 1))[0], set={"CUDA_VISIBLE_DEVICES": seen})
    member = replace(a_roster(1).members[0], gpus=tuple(given.split(",")))
    found = contained(rank, a_plan(1, 1, container=Container("i")), member, PODMAN)
    assert found.set["CUDA_VISIBLE_DEVICES"] == inside


def test_rootless_engine_keeps_the_user():
    plan = a_plan(1, 1, container=Container("i"))
    assert after(in_podman(plan)[1], "--user") == ["0:0"]
    assert after(in_podman(plan, replace(PODMAN, is_rootless=True))[1], "--userns") == ["keep-id"]


def test_without_an_image_nothing_changes():
    plan = a_plan(1, 1)
    first = processes(plan)[0]
    assert contained(first, plan, a_roster(1).members[0], PODMAN) is first


@pytest.mark.feature("R2")
@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_images_own_command_has_a_network_of_its_own_and_nothing_of_the_rank_s(kind: str):
    inputs = (InputPlan("model", "uri_folder", "snapshot:0", "ro_mount", appears="/models/m/1/weights"),)
    plan = a_plan(1, 1, container=Container("ghcr.io/a/b:1", ("--cap-add", "SYS_PTRACE")), inputs=inputs)
    first = processes(plan)[0]
    words = list(
        server_command(first, plan, a_roster(1).members[0], replace(PODMAN, kind=kind), ImageServer(8501, 4711)).argv
    )
    assert words[-3:] == ["--cap-add", "SYS_PTRACE", "ghcr.io/a/b:1"]
    assert after(words, "--publish") == ["127.0.0.1:4711:8501"]
    assert after(words, "--volume")[-1] == "/n/0/inputs/model:/models/m/1/weights:ro"
    assert not {"--network", "--pid", "--entrypoint", "--workdir"} & set(words)
    written = ImageServer(8501, 4711, ("/bin/sh", "-c", "serve"))
    words = list(server_command(first, plan, a_roster(1).members[0], PODMAN, written).argv)
    assert words[-4:] == ["ghcr.io/a/b:1", "/bin/sh", "-c", "serve"]
    assert (after(words, "--entrypoint"), after(words, "--workdir")) == ([""], [first.cwd])

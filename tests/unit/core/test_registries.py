"""Which registry an image comes from, and whose credentials it takes."""

from __future__ import annotations

import pytest

from drumbeat.core.planning.containers import plan_container
from drumbeat.core.planning.environments import ResolvedEnvironment
from drumbeat.core.planning.registries import repository, used
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.plan import BUILT, ImageBuild

pytestmark = pytest.mark.feature("E5")

KNOWN = {"hub": "docker.io", "acme": "ghcr.io/acme", "all": "ghcr.io", "near": "localhost:5000"}


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ("ubuntu", "docker.io/library/ubuntu"),
        ("ubuntu:24.04", "docker.io/library/ubuntu"),
        ("acme/train:3", "docker.io/acme/train"),
        ("ghcr.io/acme/train:3", "ghcr.io/acme/train"),
        ("ghcr.io/acme/train@sha256:00", "ghcr.io/acme/train"),
        ("localhost:5000/a/b:1@sha256:00", "localhost:5000/a/b"),
        ("localhost/mine", "localhost/mine"),
    ],
)
def test_a_name_without_a_host_is_of_docker_hub(image: str, place: str):
    assert repository(image) == place


@pytest.mark.parametrize(
    ("images", "names"),
    [
        (["ubuntu"], ("hub",)),
        (["ghcr.io/acme/train:3"], ("acme",)),
        (["ghcr.io/acmetoo/train:3", "ghcr.io/acme/x"], ("all", "acme")),
        (["localhost:5000/a", "localhost:5000/b"], ("near",)),
        (["localhost:50001/a", "quay.io/a/b"], ()),
    ],
)
def test_the_closest_address_counts_each_once(images: list[str], names: tuple[str, ...]):
    assert used(images, KNOWN) == names


@pytest.mark.parametrize(
    ("push_target", "pushed_as", "names"),
    [
        ("", "", ("hub",)),
        ("acme", f"ghcr.io/acme/drumbeat:{'k' * 32}", ("hub", "acme")),
        ("hub", f"docker.io/drumbeat:{'k' * 32}", ("hub",)),
    ],
)
def test_built_image_has_a_name_in_the_registry_that_builds_are_pushed_to(
    push_target: str, pushed_as: str, names: tuple[str, ...]
):
    build = ImageBuild("k" * 64, "c" * 64, bases=("python:3.11",))
    found = ResolvedEnvironment(image=f"{BUILT}:{'k' * 32}", build=build)
    made = plan_container(CommandJob.made({"command": "x"}), found, KNOWN, push_target)
    assert made is not None
    assert made.build is not None
    assert (made.image, made.build.pushed_as, made.registries) == (found.image, pushed_as, names)


def test_image_that_is_pulled_is_pushed_nowhere():
    made = plan_container(CommandJob.made({"command": "x"}), ResolvedEnvironment(image="python:3.11"), KNOWN, "acme")
    assert made is not None
    assert (made.build, made.registries) == (None, ("hub",))

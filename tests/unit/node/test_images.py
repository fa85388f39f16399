"""What is said of an image that couldn't be built, and what one is known by."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from drumbeat.model.plan import ImageBuild
from drumbeat.node.images.build_errors import explain
from drumbeat.node.images.container_engine import Access
from drumbeat.node.images.inspection import read

BUILD = ImageBuild("k" * 64, "c" * 64, "Dockerfile", "docker/Dockerfile")
TEXT = """\
FROM localhost/base:1

COPY hello.txt /hello.txt
RUN touch /x && \\
    cat   /nothere
RUN true
RUN true
"""


def said(text: str, tool: str = "podman") -> str:
    return explain(BUILD, TEXT, tool, text, 1)


@pytest.mark.feature("E4")
def test_failed_command_is_reported_with_its_line_and_output():
    told = """\
STEP 1/6: FROM localhost/base:1
STEP 2/6: COPY hello.txt /hello.txt
--> e8ace5eeb04
STEP 3/6: RUN touch /x &&     cat   /nothere
cat: can't open '/nothere': No such file or directory
Error: building at STEP "RUN touch /x &&     cat   /nothere": while running runtime: exit status 3
"""
    assert said(told) == (
        "docker/Dockerfile, line 4 (RUN touch /x && cat /nothere): its command ended with exit code 3: "
        "cat: can't open '/nothere': No such file or directory"
    )


@pytest.mark.feature("E4")
def test_failed_command_is_found_among_equal_ones():
    told = (
        "STEP 4/6: RUN true\n--> 1\nSTEP 5/6: RUN true\nError: building at STEP: while running runtime: exit status 9\n"
    )
    assert said(told).startswith("docker/Dockerfile, line 7 (RUN true): its command ended with exit code 9")


@pytest.mark.feature("E4")
@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            "STEP 1/2: FROM localhost:1/x\nError: creating build container: pinging localhost:1: connection refused\n",
            "docker/Dockerfile (FROM localhost:1/x): podman build says: creating build container: pinging",
        ),
        (
            'Error: parsing main Dockerfile: dockerfile parse error on line 3: Unknown instruction "COPI"\n',
            "docker/Dockerfile, line 3 (COPY hello.txt /hello.txt): podman build says: parsing main Dockerfile",
        ),
        (
            "STEP 1/6: FROM localhost/base:1\nwrite /x: no space left on device\n",
            "podman build: no space left on device",
        ),
        ("killed\n", "docker/Dockerfile: podman build ended with exit code 1: killed"),
        ("", "docker/Dockerfile: podman build ended with exit code 1"),
    ],
)
def test_other_failures_quote_the_tool(told: str, says: str):
    assert says in said(told)


@pytest.mark.feature("E4")
def test_errors_of_docker_are_parsed():
    told = """\
#7 [3/5] RUN cat /nothere
#7 0.312 cat: can't open '/nothere': No such file or directory
------
Dockerfile:4
--------------------
ERROR: failed to solve: process "/bin/sh -c cat /nothere" did not complete successfully: exit code: 1
"""
    assert said(told, "docker").startswith(
        "docker/Dockerfile, line 4 (RUN touch /x && cat /nothere): its command ended"
    )


INSPECTED: dict[str, Any] = {
    "Id": "f0f97a06d182",
    "RepoDigests": ["ghcr.io/a/b@sha256:5d1e"],
    "RootFS": {"Layers": ["sha256:1", "sha256:2"]},
    "Config": {"Env": ["PATH=/bin"]},
    "Architecture": "amd64",
    "Size": 7,
}


def changed(**keys: object) -> dict[str, Any]:
    return {**copy.deepcopy(INSPECTED), **keys}


@pytest.mark.feature("E5")
def test_an_image_is_known_by_its_registry_s_digest_else_by_its_id():
    assert read(INSPECTED, "ghcr.io/a/b:1").digest == "sha256:5d1e"
    assert read(changed(RepoDigests=[]), "ghcr.io/a/b:1").digest == "sha256:f0f97a06d182"
    assert read(changed(Id="sha256:ff"), "localhost/b:1").digest == "sha256:ff"


@pytest.mark.feature("E5")
def test_the_same_content_has_the_same_layers_wherever_it_was_imported():
    first = read(INSPECTED, "x").layers
    assert read(changed(Id="another", RepoDigests=[], Created="later"), "x").layers == first
    for other in ({"RootFS": {"Layers": ["sha256:1"]}}, {"Config": {"Env": []}}, {"Architecture": "arm64"}):
        assert read(changed(**other), "x").layers != first


@pytest.mark.feature("E5")
def test_only_insecure_registries_are_called_without_tls():
    access = Access(insecure=("localhost:5000",))
    assert access.is_insecure("localhost:5000/a:1")
    assert not access.is_insecure("localhost:50001/a:1")
    assert Access().variables() == {}

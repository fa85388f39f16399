"""What a node asks its container engine; the engine is a program that answers from a list of containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drumbeat.launchers.container_command import LABEL, RANK_LABEL, ContainerEngine
from drumbeat.model.errors import EngineError
from drumbeat.node.images.container_engine import NOTE, find_container, full_name

ENGINE = """#!/bin/sh
wanted=
for word; do case "$word" in label=*) wanted="$wanted ${word#label=}";; esac; done
while read -r id labels; do
  for one in $wanted; do case " $labels " in *" $one "*) ;; *) continue 2;; esac; done
  echo "$id"
done < "$0.containers"
"""
"""`ps` of Podman and Docker: a container is listed that has all labels of the filters."""


@pytest.mark.feature("M10")
def test_container_of_a_rank_is_found_beside_those_of_services_and_of_other_ranks(tmp_path: Path):
    root = f"{tmp_path}/attempt"
    program = tmp_path / "podman"
    program.write_text(ENGINE)
    program.chmod(0o755)
    (tmp_path / "podman.containers").write_text(
        f"aa {LABEL}={root}\n"
        f"b0 {LABEL}={root} {RANK_LABEL}=0\n"
        f"b1 {LABEL}={root} {RANK_LABEL}=1\n"
        f"c1 {LABEL}=/other {RANK_LABEL}=1\n"
    )
    (tmp_path / NOTE).write_text(json.dumps({"program": str(program)}))
    assert find_container(root, 0) == (str(program), "b0")
    assert find_container(root, 1) == (str(program), "b1")
    with pytest.raises(EngineError, match="the container of rank 2 is unclear"):
        find_container(root, 2)


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("library/python", "docker.io/library/python"),
        ("python:3.12-slim", "docker.io/library/python:3.12-slim"),
        ("mcr.microsoft.com/a/b:1", "mcr.microsoft.com/a/b:1"),
        ("localhost:5000/a", "localhost:5000/a"),
        ("built-here", "built-here"),
    ],
)
def test_short_name_of_an_image_is_of_docker_hub_for_podman(tmp_path: Path, image: str, name: str):
    program = tmp_path / "podman"
    program.write_text('#!/bin/sh\nfor last; do :; done\ntest "$last" = built-here\n')
    program.chmod(0o755)
    assert full_name(ContainerEngine(str(program), "podman", "0:0"), image) == name
    assert full_name(ContainerEngine(str(program), "docker", "0:0"), image) == image

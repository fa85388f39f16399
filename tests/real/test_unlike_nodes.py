"""Nodes that have something else under the same name: found before any rank starts, on a real Slurm cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobView
from tools.slurmlab import SlurmLab

from .boxes import IMAGE, a_podman, make_image
from .places import BARE_PYTHON, Place, slurm
from .registry_server import PASSWORD, USER, a_registry


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Each node has a Python of its own at one path, and a Podman of its own; the second node's have other contents."""
    folder = tmp_path_factory.mktemp("unlike")
    with a_podman(tmp_path_factory.mktemp("podman")) as podman:

        def furnish(cluster: SlurmLab) -> None:
            for number, name in enumerate(cluster.names):
                version = "2.0" if number == 1 else "1.0"
                give_python(cluster, name, version, folder / "python")
                give_image(cluster, name, version, podman["CONTAINERS_CONF"])
            with (cluster.folder / "prolog").open("a") as prolog:
                prolog.write(f"echo export CONTAINERS_CONF={podman['CONTAINERS_CONF']}\n")
                prolog.write(
                    f"echo export CONTAINERS_STORAGE_CONF={cluster.folder}/podman/$SLURMD_NODENAME/storage.conf\n"
                )

        with slurm(folder, furnish) as there:
            spec = there.house.client.compute(there.compute).spec
            there.house.client.create_compute({**spec, "name": "mixed", "programs": f"{folder}/python/bin"})
            yield there


def give_python(cluster: SlurmLab, name: str, version: str, seen: Path) -> None:
    """An environment with this version of `tiny`, which this node alone sees at the path `seen`."""
    own = cluster.folder / "pythons" / name
    subprocess.run([BARE_PYTHON, "-m", "venv", "--without-pip", str(own)], check=True)
    packages = next(own.glob("lib/python3*/site-packages"))
    (packages / f"tiny-{version}.dist-info").mkdir()
    (packages / f"tiny-{version}.dist-info" / "METADATA").write_text(f"Name: tiny\nVersion: {version}\n")
    seen.mkdir(exist_ok=True)
    cluster.on(name, "mount", "--bind", str(own), str(seen))


def give_image(cluster: SlurmLab, name: str, version: str, conf: str) -> None:
    """A storage with an image of the one name, in which this version stands."""
    own = cluster.folder / "podman" / name
    own.mkdir(parents=True)
    (own / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{own}/root"\nrunroot = "{own}/run"\n'
    )
    make_image(own / "image.tar", {"version": version.encode()})
    settings = [f"CONTAINERS_STORAGE_CONF={own}/storage.conf", f"CONTAINERS_CONF={conf}"]
    cluster.on(name, "env", *settings, "podman", "import", str(own / "image.tar"), IMAGE)


def run(place: Place, nodes: int, **keys: str) -> JobView:
    path = place.house.job_file(
        **{
            "command": "echo began",
            "distribution": "{type: pytorch, process_count_per_instance: 1}",
            "resources": f"{{instance_count: {nodes}}}",
            "drumbeat": "{max_retries: 3}",
            **keys,
        }
    )
    found = place.house.client.wait(place.house.client.submit(path).name, 180)
    assert found is not None
    return found


def nothing_began(place: Place, found: JobView) -> bool:
    story = place.house.client.story(found.name)
    logs = place.house.logs(found.name)
    return not any("started" in line.sentence for line in story) and "began" not in "".join(logs.values())


@pytest.mark.feature("E3")
@pytest.mark.thorough
def test_pythons_that_differ_in_a_package_end_the_job_by_name(place: Place):
    found = run(place, 3, compute="mixed")
    assert (found.state, found.reason) == ("failed", "environments_differ"), found.sentence
    first, second = place.nodes[1:3]  # The first one is the head.
    says = f"the nodes have different environments: tiny 1.0 on node 0 ({first}), 2.0 on node 1 ({second})"
    assert says in found.sentence
    assert nothing_began(place, found)


@pytest.mark.feature("E3")
def test_one_of_them_is_no_difference(place: Place):
    assert run(place, 1, compute="mixed").state == "completed"


@pytest.mark.feature("E3")
def test_images_of_one_name_that_differ_end_the_job_by_their_digests(place: Place):
    image = f"{{image: '{IMAGE}'}}"
    found = run(place, 3, compute="cluster", environment=image)
    assert (found.state, found.reason) == ("failed", "environments_differ"), found.sentence
    assert "the nodes have different images of the same name: sha256:" in found.sentence
    assert f"on node 1 ({place.nodes[2]})" in found.sentence
    assert nothing_began(place, found)


@pytest.mark.feature("E5")
@pytest.mark.thorough
def test_image_of_a_folder_is_built_by_one_node_and_pulled_by_the_others(place: Place, tmp_path: Path):
    folder = place.house.folder / "job" / "docker"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN cp /version /built\n")
    with a_registry(tmp_path, place.lab.gateway) as registry:
        credentials = {"username": USER, "password": PASSWORD}
        target = f"{registry.address}/team"
        place.house.client.create_registry(
            {"name": "near", "target": target, "insecure": True, "credentials": credentials, "push_builds": True}
        )
        keys = {"compute": "cluster", "environment": "{build: {path: docker}}", "command": "'cat /built; echo'"}
        found = run(place, 3, **keys)
        logs = place.house.logs(found.name)
        assert found.state == "completed", (found.sentence, logs)
        # The second node's image of the name that the Dockerfile is made from has another version in it.
        assert [logs[rank] for rank in range(3)] == ["1.0\n"] * 3
        assert logs[-1].count("STEP 2/2") == 1
        assert logs[-1].count(f"was pulled as {target}/drumbeat:") == 2
        shown = place.house.run("plan", place.house.folder / "job" / "job.yml").stdout
        assert f"built by node 0 from docker/Dockerfile and pushed to {target}" in shown
    place.house.client.delete_registry("near")

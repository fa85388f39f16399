"""Images that the nodes build of a Dockerfile: real Podman."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from drumbeat.model.api.jobs import JobView
from drumbeat.node.environments.garbage_collection import collect
from drumbeat.node.images import container_engine
from drumbeat.node.images.image_builder import ImagePlace, record_folder

from .boxes import IMAGE, a_podman, podman
from .house import House, a_house
from .started import free_ports

pytestmark = [pytest.mark.feature("E1", "E5")]

DOCKERFILE = f"""\
FROM {IMAGE}
COPY words.txt /words.txt
RUN echo "made $(cat /words.txt)" > /made; \\
    sleep 1
"""


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with a_podman(tmp_path_factory.mktemp("podman")) as variables:
        yield variables


@pytest.fixture
def house(storage: dict[str, str], tmp_path: Path) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**storage, "DRUMBEAT_CACHE": str(tmp_path / "cache")}.items():
            patch.setenv(name, value)  # The server that the house starts passes them on.
        with a_house(tmp_path) as there:
            yield there
    assert podman(storage, "ps", "--all", "--quiet").stdout == ""


def folder(house: House, dockerfile: str = DOCKERFILE, words: str = "here") -> Path:
    place = house.folder / "job" / "docker"
    place.mkdir(parents=True, exist_ok=True)
    (place / "Dockerfile").write_text(dockerfile)
    (place / "words.txt").write_text(words)
    return place


def job_file(house: House, **keys: str) -> Path:
    return house.job_file(
        **{
            "command": 'echo "rank $RANK, $(cat /made)"',
            "environment": "{build: {path: docker}}",
            "distribution": "{type: pytorch, process_count_per_instance: 2}",
            "drumbeat": "{max_retries: 0, grace_s: 2}",
            **keys,
        }
    )


def ended(house: House, job: JobView, state: str = "completed") -> JobView:
    found = house.client.wait(job.name, 180)
    assert found is not None
    assert found.state == state, (found.sentence, house.logs(job.name))
    return found


def built(storage: dict[str, str]) -> list[str]:
    """Digests of the images that were built."""
    listed = podman(storage, "images", "--no-trunc", "--format", "{{.ID}} {{.Repository}}").stdout
    return [line.split()[0] for line in listed.splitlines() if line.endswith("localhost/drumbeat")]


def clean(storage: dict[str, str]) -> None:
    podman(storage, "image", "rm", "--force", *(one.removeprefix("sha256:") for one in built(storage)))


@pytest.mark.feature("E4")
def test_a_folder_is_built_once_for_all_jobs_and_plan_and_story_say_so(house: House, storage: dict[str, str]):
    folder(house)
    path = job_file(house)
    shown = house.run("plan", path).stdout
    assert re.search(r"container +localhost/drumbeat:[0-9a-f]{32}", shown), shown
    assert "built on each node from docker/Dockerfile" in shown
    assert f"which needs {IMAGE}" in shown
    jobs = [house.client.submit(path) for _ in range(3)]
    assert [house.logs(ended(house, job).name)[1] for job in jobs] == ["rank 1, made here\n"] * 3
    assert len(built(storage)) == 1
    logs = [house.logs(job.name).get(-1, "") for job in jobs]
    assert sum("STEP 3/3: RUN echo" in log for log in logs) == 1, "who waits for it doesn't build it"
    digest = built(storage)[0]
    for job in jobs:
        story = " ".join(line.sentence for line in house.client.story(job.name))
        assert "in containers of localhost/drumbeat:" in story
        assert f"({digest[:19]})" in story
    clean(storage)


@pytest.mark.thorough
def test_other_content_is_another_image_and_one_that_was_removed_is_built_again(house: House, storage: dict[str, str]):
    path = job_file(house)
    for words in ("one", "two", "one"):
        folder(house, words=words)
        assert house.logs(ended(house, house.client.submit(path)).name)[0] == f"rank 0, made {words}\n"
    assert len(built(storage)) == 2
    clean(storage)
    assert house.logs(ended(house, house.client.submit(path)).name)[0] == "rank 0, made one\n"
    clean(storage)


@pytest.mark.feature("E4")
@pytest.mark.parametrize(
    ("dockerfile", "says"),
    [
        (
            f"FROM {IMAGE}\n\nRUN true && \\\n    cat /nothere\n",
            "docker/Dockerfile, line 3 (RUN true && cat /nothere): its command ended with exit code 1: cat: can't open",
        ),
        pytest.param(
            f"FROM {IMAGE}\nCOPY nothere /x\n",
            "docker/Dockerfile, line 2 (COPY nothere /x): podman build says: building",
            marks=pytest.mark.thorough,
        ),
        pytest.param(f"FROM {IMAGE}\nRUNN x\n", "docker/Dockerfile, line 2", marks=pytest.mark.thorough),
        pytest.param(
            "FROM localhost:1/nobody/nothing:1\n",
            "podman can't pull image localhost:1/nobody/nothing:1: ",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_build_that_fails_is_told_with_its_line_and_its_own_words(house: House, dockerfile: str, says: str):
    folder(house, dockerfile)
    found = ended(house, house.client.submit(job_file(house)), "failed")
    assert says in found.sentence


@pytest.mark.thorough
def test_a_build_whose_agent_is_killed_goes_on_and_one_that_is_killed_is_built_by_the_next_job(
    house: House, storage: dict[str, str]
):
    for who in ("drumbeat.node.supervisor.node_task_process", "drumbeat.node.agent"):
        (port,) = free_ports(1)
        waits = f"bash -c 'read < /dev/tcp/127.0.0.1/{port}'; echo there > /made"  # Builds have the node's network.
        folder(house, f"FROM {IMAGE}\nRUN echo first\nRUN {waits}\n")
        with socket.create_server(("127.0.0.1", port)) as door:
            job = house.client.submit(job_file(house))
            door.settimeout(120)
            with door.accept()[0]:
                for process in house.processes():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if who in process.cmdline():
                            process.kill()
        if who == "drumbeat.node.supervisor.node_task_process":
            assert "image build was ended from outside" in ended(house, job, "failed").sentence
            job = house.client.submit(job_file(house))
        assert house.logs(ended(house, job).name)[0] == "rank 0, there\n"
    assert len(built(storage)) == 2
    clean(storage)


@pytest.mark.feature("F5")
@pytest.mark.thorough
def test_an_agent_killed_before_a_build_is_noted_is_followed_by_one_that_notes_it(
    house: House, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    fault = house.folder / "fault"
    monkeypatch.setenv("DRUMBEAT_FAULT", f"@{fault}")
    fault.write_text("image.built")
    folder(house)
    job = house.client.submit(job_file(house))
    assert house.logs(ended(house, job).name)[0] == "rank 0, made here\n"
    assert not fault.exists(), "it was never passed"
    assert len(built(storage)) == 1
    assert len([*(house.folder / "cache").rglob("made")]) == 1
    again = house.client.submit(job_file(house))
    assert house.logs(ended(house, again).name)[0] == "rank 0, made here\n"
    assert "building image" not in house.logs(again.name).get(-1, "")
    clean(storage)


@pytest.mark.thorough
def test_a_registered_one_is_known_by_name_and_made_ahead(house: House, storage: dict[str, str]):
    place = folder(house)
    (place.parent / "env.yml").write_text("name: boxed\nbuild: {path: docker}\n")
    made = house.run("environment", "create", "-f", place.parent / "env.yml")
    assert "environment boxed:1 created: built from docker/Dockerfile" in made.stdout, made.stderr
    assert "built from docker/Dockerfile" in house.run("environment", "list").stdout
    shown = house.run("environment", "show", "boxed").stdout
    assert f"FROM {IMAGE}" in shown
    done = house.run("environment", "build", "boxed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "STEP 3/3" in done.stdout, "the build's own words, live"
    (place / "Dockerfile").unlink()  # The server has all of it.
    job = house.client.submit(job_file(house, environment="azureml:boxed:1"))
    assert house.logs(ended(house, job).name)[0] == "rank 0, made here\n"
    assert len(built(storage)) == 1
    clean(storage)


def test_an_image_that_nobody_has_used_for_long_is_removed_unless_a_job_holds_it(
    storage: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {**storage, "DRUMBEAT_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    engine = container_engine.find()
    folder_of = record_folder(engine)
    made = [ImagePlace(f"{folder_of}/{name}", engine) for name in ("held", "old", "new")]
    now = time.time()
    for place, days in zip(made, (40, 40, 1), strict=True):
        image = f"localhost/drumbeat:{Path(place.folder).name}"
        podman(storage, "tag", IMAGE, image)
        Path(place.folder).mkdir(parents=True)
        place.mark_made({"image": image, "size": 1})
        if place is made[0]:
            place.use(str(tmp_path))
        os.utime(f"{place.folder}/made", (now - days * 86400,) * 2)
    assert collect(folder_of, now, open_folder=partial(ImagePlace, engine=engine)) == [made[1].folder]
    assert [place.made() is not None for place in made] == [True, False, True]
    assert container_engine.has(engine, IMAGE), "only the name is taken away"
    podman(storage, "rmi", "localhost/drumbeat:held", "localhost/drumbeat:new")

"""kill -9 while outputs are uploaded and put into a store, perhaps closed or slow: whole, once, never half."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.folder_layout import MANIFEST
from drumbeat.server.data.manifests import ManifestDataAccess, find
from drumbeat.server.data.stores import StoreAccess
from tests.real.house import until
from tests.real.store_servers import Azurite, an_azurite

from .gate import Gate, a_gate
from .mortal import Mortal, nothing_is_left

pytestmark = [pytest.mark.feature("D3", "F5")]

FILES = {f"part{n}/{n}.bin": bytes([n]) * (50_000 + n) for n in range(6)}
WRITES = (
    "import os, pathlib\n"
    "for n in range(6):\n"
    "    place = pathlib.Path(os.environ['AZURE_ML_OUTPUT_model'], f'part{n}', f'{n}.bin')\n"
    "    place.parent.mkdir()\n"
    "    place.write_bytes(bytes([n]) * (50_000 + n))\n"
)
SERVERS = ("publish.file:4",)
LATE = ("publish.copied", "publish.registered", "effect.published")
AGENTS = ("agent.output_sent:4", "agent.before_commit")
ELSEWHERE = (
    "publish.file", "store.outputs_shown", "store.outputs_moved", "agent.output_sent", "agent.after_commit",
)  # fmt: skip
"""LATE are points after a copy; ELSEWHERE, points near the others, or passed
in test_every_point.py by a job whose outputs stay here."""


@dataclass
class Place:
    """Where outputs go: a container of Azurite's behind a gate."""

    azurite: Azurite
    container: str
    gate: Gate

    def access(self) -> StoreAccess:
        """Not through the gate, and with no server of ours."""
        here = self.azurite.datastore("results", self.container)
        return StoreAccess(lambda: {"results": here})


@dataclass
class Reader:
    """Looks at a folder again and again, as anybody may; seen: each list that it was given as whole."""

    place: Place
    uri: str
    seen: list[dict[str, int]] = field(default_factory=list)
    refused: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        thread = threading.Thread(target=self._read)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _read(self) -> None:
        access = self.place.access()
        while not self._over.wait(0.02):
            try:
                self.seen.append(
                    {one.path: one.size for one in ManifestDataAccess(access).listing(self.uri, is_file=False).files}
                )
            except DrumbeatError:  # What counts is what is seen.
                self.refused += 1
        access.close()


@pytest.fixture(scope="module")
def place(mortal: Mortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with an_azurite(tmp_path_factory.mktemp("azurite")) as azurite, a_gate(azurite.endpoint) as gate:
        made = Place(azurite, azurite.container(), gate)
        file = mortal.house.folder / "results.yml"
        file.write_text(json.dumps({
            "name": "results", "type": "azure_blob", "account_name": azurite.account, "container_name": made.container,
            "endpoint": f"http://127.0.0.1:{gate.port}", "credentials": {"account_key": azurite.key},
        }))  # fmt: skip
        mortal.house.client.create_datastore(file)
        yield made


@pytest.mark.parametrize(
    "point", [*SERVERS, *AGENTS, *(pytest.param(one, marks=pytest.mark.thorough) for one in (*LATE, *ELSEWHERE))]
)
def test_an_output_is_whole_once_whoever_died(mortal: Mortal, place: Place, point: str):
    mortal.light(point)
    try:
        name, reader = publish(mortal, place)
        assert mortal.has_burnt, f"nobody came to {point}"
    finally:
        mortal.put_out()
    check(mortal, place, name, reader)


@pytest.mark.feature("F10")
@pytest.mark.parametrize("point", ["publish.file:3", pytest.param("publish.copied", marks=pytest.mark.thorough)])
def test_a_store_that_is_closed_when_the_server_comes_back_has_it_later(mortal: Mortal, place: Place, point: str):
    mortal.light(point)
    try:
        job, reader = submit(mortal), Reader(place, "")
        reader.uri = uri_of(job)
        with reader.reading():
            until(lambda: mortal.has_burnt, 120, f"the death at {point}")
            place.gate.mode = "closed"
            until(lambda: "isn't in its place yet" in mortal.job(job).progress, 120, "a try")
            assert mortal.job(job).state == "completed"
            assert "no answer from" in mortal.job(job).progress
            assert reader.seen == []
            place.gate.mode = "open"
            until(lambda: is_in_place(mortal, job), 120, "the end of publishing")
    finally:
        place.gate.mode = "open"
        mortal.put_out()
    check(mortal, place, job, reader)


@pytest.mark.feature("F10")
@pytest.mark.thorough
def test_a_slow_store_has_it_whole_once_when_the_server_died_in_the_middle(mortal: Mortal, place: Place):
    place.gate.mode = "slow"
    mortal.light("publish.file:5")
    try:
        name, reader = publish(mortal, place)
        assert mortal.has_burnt
    finally:
        place.gate.mode = "open"
        mortal.put_out()
    check(mortal, place, name, reader)


def submit(mortal: Mortal) -> str:
    name = f"publishes-{mortal.count}"
    output = {"model": {"path": "azureml://datastores/results/paths/${{name}}", "name": f"model-{mortal.count}"}}
    keys = {"code": ".", "command": "python t.py", "outputs": json.dumps(output)}
    path = mortal.house.job_file(name, **keys)
    mortal.house.script(WRITES, job=name)
    mortal.ask(lambda: mortal._submit(path, name))
    return name


def is_in_place(mortal: Mortal, name: str) -> bool:
    """Whether the server says so."""
    return [one.place for one in mortal.job(name).outputs] == ["in_place"]


def uri_of(name: str) -> str:
    return f"azureml://datastores/results/paths/{name}"


def publish(mortal: Mortal, place: Place) -> tuple[str, Reader]:
    """Runs a job and waits until its output is in its place."""
    name = submit(mortal)
    reader = Reader(place, uri_of(name))
    with reader.reading():
        until(lambda: mortal.job(name).has_ended, 120, f"the end of {name}")
        until(lambda: is_in_place(mortal, name), 120, "the end of publishing")
    return name, reader


def check(mortal: Mortal, place: Place, name: str, reader: Reader) -> None:
    """All of it is there, once; it was never shown as less, and never taken back."""
    job, sizes = mortal.job(name), {path: len(content) for path, content in FILES.items()}
    assert job.state == "completed", job.sentence
    assert all(one == sizes for one in reader.seen), reader.seen
    said = [line.sentence for line in mortal.house.client.story(name) if "known as azureml:" in line.sentence]
    assert len(said) == 1, said
    (version,) = mortal.house.client.data(f"model-{name.partition('-')[2]}")
    assert (version.made_by, version.files, version.size) == (name, len(FILES), sum(sizes.values()))
    access = place.access()
    with contextlib.closing(access):
        manifest = find(access, uri_of(name))
        assert manifest is not None
        assert manifest.is_complete
        assert manifest.files == {path: (len(one), sha256(one).hexdigest()) for path, one in FILES.items()}
        listed = access.listing(uri_of(name), is_file=False)
        assert {one.path for one in listed.files} == {*FILES, MANIFEST}
        assert {
            one.path: b"".join(access.read(uri_of(name), one)) for one in listed.files if one.path in FILES
        } == FILES
    kept = Path(mortal.house.home, "jobs", name, "outputs", "model")
    assert {str(one.relative_to(kept)): one.read_bytes() for one in kept.rglob("*.bin")} == FILES
    nothing_is_left(mortal, name)

"""Children whose planning fails after their parent was submitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import (
    AwayError,
    CertificateError,
    DrumbeatError,
    ForbiddenError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link
from drumbeat.model.states import State
from drumbeat.ports.data import DataAccess
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

from .house import House, until

MODEL = {"type": "uri_file", "mode": "direct", "path": "s3://models/${{name}}.pt"}
SWEEP: dict[str, object] = {
    "type": "sweep",
    "sampling_algorithm": "random",
    "search_space": {"lr": {"type": "uniform", "min_value": 0.0, "max_value": 1.0}},
    "objective": {"goal": "minimize", "primary_metric": "loss"},
    "limits": {"max_total_trials": 2, "max_concurrent_trials": 1},
    "outputs": {"model": MODEL},
    "trial": {"command": "python t.py ${{search_space.lr}} ${{outputs.model}}"},
}
TAKES_A = {"type": "uri_folder", "path": "${{parent.jobs.a.outputs.o}}"}
PIPELINE: dict[str, object] = {
    "type": "pipeline",
    "jobs": {
        "a": {"type": "command", "command": "true", "outputs": {"o": {"type": "uri_folder"}}},
        "b": {
            "type": "command",
            "command": "python t.py ${{inputs.i}} ${{outputs.model}}",
            "inputs": {"i": TAKES_A},
            "outputs": {"model": MODEL},
        },
    },
}
KINDS = pytest.mark.parametrize(
    ("document", "first", "second"),
    [(SWEEP, "p_0", "p_1"), (PIPELINE, "p_a", "p_b")],
    ids=["sweep", "pipeline"],
)


class OlderRequests(MemoryStore):
    """A store whose requests are read by a newer server, which no longer takes one of their steps."""

    refused = ""

    def request(self, name: str) -> JobRequest:
        made = super().request(name)
        if not self.refused or "jobs" not in made.document:
            return made
        jobs = {**made.document["jobs"], self.refused: {"type": "spark"}}
        return replace(made, document={**made.document, "jobs": jobs})


class SigningStore(DataAccess):
    """A store of data that makes links for uploads, until it has trouble."""

    trouble: DrumbeatError | None = None

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        if self.trouble:
            raise self.trouble
        return Link(uri)


@pytest.fixture
def data() -> SigningStore:
    return SigningStore()


@pytest.fixture
def house(tmp_path: Path, data: SigningStore) -> Iterator[House]:
    there = House(tmp_path, MemoryStore(), FakeEngine(), data=data)
    yield there
    there.control.stop()


def run_first(
    house: House, document: dict[str, object], first: str, data: SigningStore, trouble: DrumbeatError
) -> None:
    """Runs the first child of a new parent to its end; then the other one can't be planned."""
    house.control.jobs.submit(JobRequest({**document, "name": "p"}))
    house.gang(first)
    data.trouble = trouble
    house.run_to_end(first)


@KINDS
@pytest.mark.parametrize("kind", [ForbiddenError, CertificateError])
def test_child_that_may_not_write_is_refused_and_its_parent_ends(
    house: House, data: SigningStore, document: dict[str, object], first: str, second: str, kind: type[DrumbeatError]
):
    run_first(house, document, first, data, kind("the server's environment has no credentials"))
    until(lambda: house.state("p").is_terminal)
    parent = house.store.load("p").job
    children = parent.sweep.trials if parent.sweep else parent.pipeline.steps  # pyright: ignore[reportOptionalMemberAccess]
    assert children[1].state is State.FAILED
    assert "output model can't be direct: the server's environment has no credentials" in children[1].sentence


@pytest.mark.feature("F10")
@KINDS
@pytest.mark.parametrize("kind", [UnreachableError, StorageError])
def test_child_waits_with_a_reason_for_a_store_without_an_answer(
    house: House, data: SigningStore, document: dict[str, object], first: str, second: str, kind: type[DrumbeatError]
):
    run_first(house, document, first, data, kind("the bucket doesn't answer"))
    until(lambda: "wait" in house.store.load("p").job.sentence)
    assert "output model can't be direct: the bucket doesn't answer" in house.store.load("p").job.sentence
    assert house.state("p") is State.RUNNING
    data.trouble = None
    house.gang(second)


@pytest.mark.feature("F10")
@KINDS
def test_parent_of_a_child_that_waits_for_a_store_can_be_canceled(
    house: House, data: SigningStore, document: dict[str, object], first: str, second: str
):
    run_first(house, document, first, data, UnreachableError("the bucket doesn't answer"))
    until(lambda: "the bucket doesn't answer" in house.store.load("p").job.sentence)
    house.control.jobs.cancel("p", "me")
    until(lambda: house.state("p") is State.CANCELED)


@pytest.mark.feature("F10")
def test_database_that_is_away_is_not_written_into_the_story_of_the_parent(house: House, data: SigningStore):
    run_first(house, SWEEP, "p_0", data, AwayError("the database is starting"))
    until(lambda: bool([one for one in house.store.outbox() if one.tries]))
    assert not any("the database" in line.sentence for line in house.store.events("p"))
    data.trouble = None
    house.gang("p_1")


def test_pipeline_with_an_outdated_stored_request_fails_with_the_reason(tmp_path: Path):
    store = OlderRequests()
    house = House(tmp_path, store, FakeEngine())
    after_a = {"command": "ls ${{inputs.i}}", "inputs": {"i": TAKES_A}}
    first = {"command": "true", "outputs": {"o": {"type": "uri_folder"}}}
    try:
        house.control.jobs.submit(JobRequest({"type": "pipeline", "name": "p", "jobs": {"a": first, "b": after_a}}))
        house.gang("p_a")
        store.refused = "b"
        house.reopen()  # The next server has no graph in memory.
        house.run_to_end("p_a")
        until(lambda: house.state("p") is State.FAILED)
        pipeline = store.load("p").job.pipeline
        assert pipeline is not None
        assert "reads `spark` steps but doesn't run them" in pipeline.steps[1].sentence
    finally:
        house.control.stop()


# --- trials whose requests can't be made ------------------------------------------------------------------------
def test_trial_with_a_command_broken_by_its_value_is_refused_and_the_sweep_continues(house: House):
    sweep: dict[str, object] = {
        "type": "sweep",
        "name": "p",
        "sampling_algorithm": "grid",
        "search_space": {"x": {"type": "choice", "values": ["b[c[0]]", "a"]}},
        "objective": {"goal": "minimize", "primary_metric": "loss"},
        "limits": {"max_total_trials": 2, "max_concurrent_trials": 1},
        "inputs": {"o": 1},
        "trial": {"command": "t $[[--x ${{search_space.x}} --o ${{inputs.o}}]]"},
    }
    house.control.jobs.submit(JobRequest(sweep))
    house.run_to_end("p_1")
    until(lambda: house.state("p") is State.COMPLETED)
    progress = house.store.load("p").job.sweep
    assert progress is not None
    assert [one.state for one in progress.trials] == [State.FAILED, State.COMPLETED]
    assert "]]" in progress.trials[0].sentence


class RefusedSweeps(MemoryStore):
    """A store whose requests are read by a newer server, which no longer takes their sweeps."""

    is_newer = False

    def request(self, name: str) -> JobRequest:
        made = super().request(name)
        return replace(made, document={**made.document, "sampling_algorithm": "tarot"}) if self.is_newer else made


def test_sweep_with_an_outdated_stored_request_fails_with_the_reason(tmp_path: Path):
    store = RefusedSweeps()
    house = House(tmp_path, store, FakeEngine(), data=SigningStore())
    try:
        house.control.jobs.submit(JobRequest({**SWEEP, "name": "p"}))
        house.gang("p_0")
        store.is_newer = True
        house.run_to_end("p_0")
        until(lambda: house.state("p").is_terminal)
        assert "no further trials can be proposed" in house.store.load("p").job.sentence
        assert "tarot" in house.store.load("p").job.sentence
    finally:
        house.control.stop()

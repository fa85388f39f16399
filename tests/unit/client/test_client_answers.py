from datetime import UTC, datetime

from drumbeat.client.responses import view
from drumbeat.model.api.computes import Machine
from drumbeat.model.api.jobs import EventView
from drumbeat.model.states import State

LINE = {
    "n": 1, "at": "2026-01-02T12:00:00Z", "state": "running", "reason": "ranks_running", "sentence": "4 ranks run",
    "attempt": 1, "round": 1,
}  # fmt: skip


def test_answer_is_read_as_typed_values() -> None:
    line = view(EventView, LINE)
    assert line.state is State.RUNNING
    assert line.at == datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_keys_and_words_of_a_newer_server_are_tolerated() -> None:
    line = view(EventView, {**LINE, "state": "hibernating", "reason": "it_is_winter", "color": "white"})
    assert (line.state, line.reason) == ("hibernating", "it_is_winter")
    machine = {"name": "a", "cpus": 1, "gpus": [], "memory_mib": 1, "state": "asleep", "word": "", "unusable": ""}
    assert view(Machine, machine).state == "asleep"

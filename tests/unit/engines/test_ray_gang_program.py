"""What the program on a Ray cluster says of machines on which a gang is ended."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from drumbeat.engines.ray.gang_program import result_of

pytestmark = pytest.mark.feature("C4")


class RayError(Exception):
    """As in `ray.exceptions`."""


class GetTimeoutError(RayError):
    """As in `ray.exceptions`."""


class OutOfMemoryError(RayError):
    """As in `ray.exceptions`."""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A Ray with one machine that lives and one that doesn't; references are what `get` returns or raises."""

    def get(reference: object, timeout: float) -> object:
        assert timeout > 0
        if isinstance(reference, Exception):
            raise reference
        return reference

    module = ModuleType("ray")
    nodes = [
        {"NodeID": "id1", "Alive": True, "NodeManagerHostname": "n1"},
        {"NodeID": "id2", "Alive": False, "NodeManagerHostname": "n2"},
    ]
    errors = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)
    module.__dict__.update(get=get, nodes=lambda: nodes, exceptions=errors)
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("answer", "machine", "said"),
    [
        ("", "id1", ""),
        ("process 17 can't be killed", "id1", "process 17 can't be killed"),
        (OutOfMemoryError(), "id1", "its processes on machine n1 can't be ended now (OutOfMemoryError)"),
        (OutOfMemoryError(), "id2", ""),
        (RayError(), "gone", ""),
        (GetTimeoutError(), "id1", "a machine doesn't answer"),
    ],
)
def test_only_a_machine_that_is_lost_counts_as_ended_where_the_ending_failed(answer: object, machine: str, said: str):
    assert result_of(answer, machine) == said

"""What a Ray cluster's ranks say when one of them, or a part of Ray, fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.blame import verdict
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import ended

pytestmark = pytest.mark.feature("F1")

NAMES = {0: "driver", 1: "head", 2: "node"}
IN_AN_ACTOR = """Traceback (most recent call last):
  File "/n/0/root/code/t.py", line 22, in <module>
    ray.get(parts[1].fail.remote())
  File "/e/ray/_private/worker.py", line 3009, in get
    raise value
ray.exceptions.RayTaskError(ValueError): \x1b[36mray::Part.fail()\x1b[39m (pid=614251, ip=127.0.0.3)
  File "/n/1/root/code/t.py", line 16, in fail
    raise ValueError("never")
ValueError: never
"""
ACTOR_GONE = """Traceback (most recent call last):
  File "/n/0/root/code/t.py", line 22, in <module>
    ray.get(parts[1].stay.remote())
ray.exceptions.ActorDiedError: The actor died because its node has died.
\tclass_name: Part
"""
RAYLET_GONE = """2026-11-22 04:50:01,123\tERR scripts.py:1299 -- Some Ray subprocesses exited unexpectedly:
2026-11-22 04:50:01,123\tERR scripts.py:87 -- raylet [exit code=-9]
2026-11-22 04:50:01,124\tERR scripts.py:1307 -- Remaining processes will be killed.
"""


AFTER_ITS_LOG = """[2026-11-22 04:49:58,001 I 614 614] (raylet) node_manager.cc:100: alive
2026-11-22 04:50:01,124\tERR scripts.py:133 -- ----- END raylet.out tail (exit code(s)=-9 (signal 9)) -----
2026-11-22 04:50:01,124\tERR scripts.py:1315 -- Remaining processes will be killed.
"""


def test_error_in_an_actor_is_quoted_as_raised_there(messages: Messages):
    found = verdict([(0, ended(0, 1, tail=IN_AN_ACTOR))], 3, NAMES)
    messages.check(found.sentence)
    assert found.place == "t.py:16 ValueError"


@pytest.mark.parametrize("tail", [RAYLET_GONE, AFTER_ITS_LOG])
def test_ended_part_of_ray_is_named_with_its_node(tail: str, messages: Messages):
    found = verdict([(1, ended(2, 1, tail=tail))], 3, NAMES)
    messages.check(found.sentence)


def test_driver_that_lost_its_actors_node_is_a_symptom():
    exits = [(0, ended(0, 1, at=5.0, tail=ACTOR_GONE)), (1, ended(2, 1, at=5.9, tail=RAYLET_GONE))]
    assert verdict(exits, 3, NAMES).node == 1


def test_killed_raylet_is_named_even_if_its_driver_ended_first():
    node = replace(ended(2, 1, at=5.9, tail=RAYLET_GONE), is_stopped=True)
    assert verdict([(0, ended(0, 1, at=5.0, tail=ACTOR_GONE)), (1, node)], 3, NAMES).node == 1


def test_a_driver_whose_actor_died_alone_is_the_cause():
    found = verdict([(0, ended(0, 1, tail=ACTOR_GONE))], 3, NAMES)
    assert (found.rank, found.reason) == (0, Reason.RANK_FAILED)
    assert "ActorDiedError" in found.sentence
    assert found.place == ""

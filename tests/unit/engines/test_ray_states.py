"""What Ray says becomes what drumbeat says: texts of Ray 2.60."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.ray.names import actor_name, job_name, parse_actor, parse_job, prefix
from drumbeat.engines.ray.states import GangView, judged, stuck_reason, verdict

pytestmark = pytest.mark.feature("C4")

NODES = {"a": {"node_name": "n1", "state": "ALIVE"}, "b": {"node_name": "n2", "state": "ALIVE"}}
FAILED = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"


def actor(state: str = "ALIVE", reason: str = "", message: str = "", node: str = "a") -> dict[str, Any]:
    context = {"reason": reason, "error_message": message}
    return {"state": state, "node_id": node, "death_cause": {"actor_died_error_context": context} if reason else None}


def dead_node(message: str) -> dict[str, dict[str, str]]:
    return {"a": {"node_name": "n1", "state": "DEAD", "state_message": message}}


def view(job: str = "", group: dict[str, Any] | None = None, message: str = "", **actors: Any) -> GangView:
    made = {int(name[1:]): one for name, one in actors.items()}
    return GangView({"status": job, "message": message} if job else None, group, made, NODES)


@pytest.mark.parametrize(
    ("message", "loss", "what"),
    [
        (
            "Unexpected termination: health check failed due to missing too many heartbeats",
            Loss.LOST,
            "machine n1 is lost (Unexpected termination: health check failed due to missing too many heartbeats)",
        ),
        (
            "Terminated due to preemption: spot",
            Loss.PREEMPTED,
            "machine n1 was taken away (Terminated due to preemption: spot)",
        ),
        (
            "Expected termination: Terminated by autoscaler.",
            Loss.PREEMPTED,
            "machine n1 was taken out of the cluster (Expected termination: Terminated by autoscaler)",
        ),
        (
            "Terminated due to idle (no Ray activity): idle for 15 s",
            Loss.PREEMPTED,
            "machine n1 was scaled down (Terminated due to idle (no Ray activity): idle for 15 s)",
        ),
        ("Something new", Loss.LOST, "machine n1 is lost (Something new)"),
        ("", Loss.LOST, "machine n1 is lost"),
    ],
)
def test_end_of_a_machine_is_judged_by_its_message(message: str, loss: Loss, what: str):
    for one in (actor(), actor("DEAD", "NODE_DIED"), actor("DEAD", "WORKER_DIED")):
        judgement = verdict(one, dead_node(message))
        assert (judgement.why, judgement.loss) == (what, loss)


def test_end_of_an_unlisted_machine_is_judged_by_its_actor():
    one = actor("DEAD", "NODE_DIED")
    one["death_cause"]["actor_died_error_context"]["node_death_info"] = {
        "reason_message": "health check failed due to missing too many heartbeats"
    }
    judgement = verdict(one, {})
    assert judgement.loss is Loss.LOST
    assert judgement.why == "its machine is lost (health check failed due to missing too many heartbeats)"


@pytest.mark.parametrize(
    ("reason", "message", "loss", "what"),
    [
        (
            "INTENDED_USER_EXIT",
            "The actor exited by exit_actor()",
            Loss.LOST,
            "its actor on machine n1 ended: its agent left",
        ),
        ("RAY_KILL", "The actor was killed by `ray.kill`", Loss.CANCELED, "was killed, and not by drumbeat"),
        (
            "INTENDED_SYSTEM_EXIT",
            "Worker exits because its placement group was removed",
            Loss.CANCELED,
            "its placement group was removed, and not by drumbeat (machine n1)",
        ),
    ],
)
def test_end_of_an_actor_is_judged_by_its_reason(reason: str, message: str, loss: Loss, what: str):
    judgement = verdict(actor("DEAD", reason, message), NODES)
    assert what in judgement.why
    assert judgement.loss is loss


@pytest.mark.parametrize("reason", ["WORKER_DIED", "OUT_OF_MEMORY", "SOMETHING_NEW"])
def test_worker_that_died_says_nothing_of_the_agent(reason: str):
    judgement = verdict(actor("DEAD", reason, "Worker exits unexpectedly"), NODES)
    assert judgement.why == ""
    assert judgement.word == f"its actor is gone ({reason}), its agent may continue"


# --- a whole gang ---------------------------------------------------------------------------------------------------
def test_gang_runs_when_all_actors_live():
    sighting = judged(view("SUCCEEDED", {"state": "CREATED"}, n0=actor(), n1=actor(node="b")), 2)
    assert (sighting.word, sighting.waits, sighting.gone) == ("ALIVE", False, {})


@pytest.mark.parametrize(
    ("scheduling", "word"),
    [
        ("NO_RESOURCES", "NO_RESOURCES: all machines that could hold it are in use"),
        ("INFEASIBLE", "INFEASIBLE: no machine of the cluster could hold it at present"),
        ("NEW_WORD", "NEW_WORD: Ray has no machines for it"),
    ],
)
def test_group_without_machines_waits_with_rays_state(scheduling: str, word: str):
    group = {"state": "PENDING", "stats": {"scheduling_state": scheduling}}
    for job in ("RUNNING", "SUCCEEDED"):
        sighting = judged(view(job, group), 2)
        assert (sighting.word, sighting.waits, sighting.gone) == (word, True, {})


def test_gang_whose_job_waits_or_runs_is_being_started():
    assert judged(view("PENDING"), 2).waits
    sighting = judged(view("RUNNING", {"state": "CREATED"}, n0=actor()), 2)
    assert (sighting.word, sighting.waits) == ("RUNNING: Ray is starting its nodes, 1 of 2 nodes", False)


def test_group_that_lost_a_machine_before_its_nodes_ran_is_lost():
    sighting = judged(view("RUNNING", {"state": "RESCHEDULING"}), 2)
    assert (sorted(sighting.gone), sighting.cause) == ([0, 1], Loss.LOST)


def test_gang_unknown_to_ray_is_gone():
    assert judged(view(), 2).gone == dict.fromkeys((0, 1), "Ray doesn't know it")


def test_only_the_node_that_ended_is_gone():
    sighting = judged(view("SUCCEEDED", None, n0=actor(), n1=actor("DEAD", "INTENDED_USER_EXIT", node="b")), 2)
    assert list(sighting.gone) == [1]
    assert sighting.word == "1 ALIVE, 1 INTENDED_USER_EXIT"


def test_refusal_of_a_machine_is_found_among_other_lines():
    said = f"(raylet) a line\n{json.dumps({'event': 'refused', 'node': 1, 'why': 'no space left on device'})}\n[1, 2]"
    sighting = judged(view("FAILED", message=FAILED + said), 2)
    assert sighting.cause is Loss.FAILED
    assert sighting.gone[0] == "node 1 can't be started on its machine: no space left on device"


@pytest.mark.parametrize(
    ("message", "last"),
    [
        (FAILED + "ConnectionError: no cluster", "ConnectionError: no cluster"),
        ("Unexpected error occurred: The actor died because its node has died.", "its node has died."),
        ("", "Ray gives no reason"),
    ],
)
def test_job_that_failed_by_itself_loses_the_gang(message: str, last: str):
    sighting = judged(view("FAILED", message=message), 1)
    assert sighting.cause is Loss.LOST
    assert sighting.gone[0].startswith("the Ray job that starts its nodes failed: ")
    assert sighting.gone[0].endswith(last)


def test_machine_that_was_drained_and_goes_before_its_deadline_is_preempted():
    lost = {0: actor("DEAD", "NODE_DIED")}
    seen = GangView(None, None, lost, dead_node("Unexpected termination: health check failed"), frozenset({0}))
    assert judged(seen, 1).cause is Loss.PREEMPTED


def test_job_that_failed_after_a_machine_died_tells_of_the_machine():
    seen = GangView({"status": "FAILED", "message": ""}, None, {0: actor("DEAD", "NODE_DIED")}, dead_node("Unexpected"))
    assert judged(seen, 2).gone == {0: "machine n1 is lost (Unexpected)"}


def test_reason_why_a_gang_cant_be_ended_is_its_programs():
    said = json.dumps({"event": "stuck", "why": "process 17 can't be killed"})
    assert stuck_reason({"message": FAILED + said}) == "process 17 can't be killed"
    assert stuck_reason({"message": None}) == "Ray gives no reason"


def test_names_are_read_back():
    name = prefix("rack", "ab12cd") + "cifar_10.2"
    assert parse_actor(actor_name(name, 3)) == (name, "", 3)
    assert parse_actor(f"{name}/leaving/3") == (name, "leaving", 3)
    assert parse_actor("somebody's") is None
    assert parse_job(job_name(name, "stop", 12)) == (name, "stop", 12)
    assert parse_job(name) is None
    assert parse_job("raysubmit_x") is None

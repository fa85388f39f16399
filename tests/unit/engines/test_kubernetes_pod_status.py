"""What Kubernetes says of a pod, and what drumbeat makes of it: each row with the text that was seen."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.gang_status import gang_word
from drumbeat.engines.kubernetes.pod_status import PodVerdict, explained, hindrance, judged, own_events

pytestmark = pytest.mark.feature("C4")

Json = dict[str, Any]
DELETED = "2026-11-20T10:00:00Z"


def pod(
    phase: str = "Pending",
    *,
    state: Json | None = None,
    conditions: list[Json] | None = None,
    deleted: str = "",
    machine: str = "n1",
    **status: Any,
) -> Json:
    containers = [{"name": "agent", "state": state}] if state is not None else []
    metadata = {"name": "cifar-1-0a1b2c3d-0", **({"deletionTimestamp": deleted} if deleted else {})}
    said = {"phase": phase, "conditions": conditions or [], "containerStatuses": containers, **status}
    return {"metadata": metadata, "spec": {"nodeName": machine} if machine else {}, "status": said}


def scheduled(reason: str = "", message: str = "") -> Json:
    if not reason:
        return {"type": "PodScheduled", "status": "True"}
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def disrupted(reason: str, message: str) -> Json:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, reason: str, message: str = "") -> Json:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


NO_ROOM_1_20 = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
NO_ROOM_1_36 = (
    "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes are "
    "available: 2 No preemption victims found for incoming pod."
)
SELECTOR_1_20 = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity."
SELECTOR_1_36 = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
GATED = "Scheduling is blocked due to non-empty scheduling gates"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Unschedulable", NO_ROOM_1_20),
        ("Unschedulable", NO_ROOM_1_36),
        ("Unschedulable", SELECTOR_1_20),
        ("Unschedulable", SELECTOR_1_36),
        ("SchedulingGated", GATED),
    ],
)
def test_pod_without_a_machine_waits_with_the_schedulers_message(reason: str, message: str):
    verdict = judged(pod(conditions=[scheduled(reason, message)], machine=""), ())
    assert verdict.waits
    assert not verdict.why
    assert verdict.word == f"{reason} ({message.rstrip('.')})"


def test_pod_that_the_scheduler_has_not_seen_waits():
    assert judged(pod(machine=""), ()) == PodVerdict("Pending", waits=True)


def test_pod_whose_volume_is_missing_starts_and_its_event_says_why():
    verdict = judged(pod(conditions=[scheduled()], state=waiting("ContainerCreating")), ())
    assert verdict == PodVerdict("ContainerCreating")
    event = {
        "type": "Warning",
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed for volume "drumbeat-enrolment" : secret "cifar-1-0a1b2c3d" not found',
    }
    assert hindrance([{"type": "Normal", "reason": "Scheduled"}, event]).startswith("FailedMount (MountVolume.SetUp")
    assert hindrance([]) == ""


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", 'rpc error: code = NotFound desc = failed to pull and unpack image "r/i:1": not found'),
        ("ImagePullBackOff", 'Back-off pulling image "r/i:1"'),
        ("ErrImageNeverPull", 'Container image "r/i:1" is not present with pull policy of Never'),
        ("InvalidImageName", 'Failed to apply default image tag "r/I:1": couldn\'t parse image reference'),
        ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        ("CreateContainerError", "failed to generate spec: unresolvable CDI devices nvidia.com/gpu=all"),
        ("RunContainerError", "failed to start container: OCI runtime create failed"),
        ("RegistryUnavailable", "registry is unavailable"),
        ("ImageInspectError", "failed to inspect image"),
    ],
)
def test_pod_with_an_unresolvable_waiting_reason_is_stuck(reason: str, message: str):
    verdict = judged(pod(conditions=[scheduled()], state=waiting(reason, message)), ())
    assert verdict == PodVerdict(reason, f"can't start: {reason} ({message})", Loss.FAILED, is_stuck=True)


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_pod_with_a_machine_is_no_longer_waited_for(phase: str):
    assert judged(pod(phase, conditions=[scheduled()], state={"running": {}}), ()) == PodVerdict(phase)


NO_PYTHON = 'exec: "python3": executable file not found in $PATH'


@pytest.mark.parametrize(
    ("status", "loss", "why"),
    [
        ({"state": terminated(128, "StartError", NO_PYTHON)}, Loss.FAILED, f"could not start its agent ({NO_PYTHON})"),
        ({"state": terminated(128, "ContainerCannotRun", "x")}, Loss.FAILED, "could not start its agent (x)"),
        (
            {"state": terminated(1, "Error", "drumbeat needs Python 3.11 or newer; /usr/bin/python3 is 3.9.2\n")},
            Loss.FAILED,
            "ended with exit code 1 (drumbeat needs Python 3.11 or newer; /usr/bin/python3 is 3.9.2)",
        ),
        ({"state": terminated(68, "Error", "no x")}, Loss.UNHEARD, "can't find the server (no x)"),
        ({"state": terminated(3, "Error")}, Loss.LOST, "ended: its agent was replaced"),
        ({"state": terminated(143, "Error")}, Loss.LOST, "was told to stop (SIGTERM), and not by drumbeat"),
        ({"state": terminated(137, "Error")}, Loss.FAILED, "was killed (exit code 137)"),
        (
            {"state": terminated(255, "Unknown")},
            Loss.LOST,
            "ended unobserved: its machine was restarted",
        ),
        (
            {"state": terminated(137, "ContainerStatusUnknown", "The container could not be located")},
            Loss.LOST,
            "ended unobserved: its machine was restarted (The container could not be located)",
        ),
        ({"state": terminated(255, "Error")}, Loss.FAILED, "ended with exit code 255"),
        ({"state": terminated(137, "OOMKilled")}, Loss.OUT_OF_MEMORY, "was killed at its memory limit"),
        (
            {"reason": "Evicted", "message": 'Usage of EmptyDir volume "drumbeat-work" exceeds the limit "1Gi". '},
            Loss.FAILED,
            'was evicted (Usage of EmptyDir volume "drumbeat-work" exceeds the limit "1Gi")',
        ),
        (
            {"reason": "Evicted", "message": 'Container rank exceeded its local ephemeral storage limit "2Gi". '},
            Loss.FAILED,
            'was evicted (Container rank exceeded its local ephemeral storage limit "2Gi")',
        ),
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory. "},
            Loss.PREEMPTED,
            "was evicted (The node was low on resource: memory)",
        ),
        (
            {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"},
            Loss.TIMED_OUT,
            "reached its `activeDeadlineSeconds` (Pod was active on the node longer than the specified deadline)",
        ),
        (
            {"reason": "OutOfcpu", "message": "Pod Node didn't have enough resource: cpu, requested: 4000"},
            Loss.LOST,
            "was refused by its machine: OutOfcpu (Pod Node didn't have enough resource: cpu, requested: 4000)",
        ),
        ({"reason": "OutOfmemory"}, Loss.LOST, "was refused by its machine: OutOfmemory"),
        ({"reason": "NodeAffinity"}, Loss.LOST, "no longer matched its machine's labels when it arrived"),
        ({"reason": "UnexpectedAdmissionError"}, Loss.LOST, "was refused by its machine"),
        ({}, Loss.LOST, "ended, and Kubernetes doesn't report how"),
    ],
)
def test_pod_that_failed_says_why(status: Json, loss: Loss, why: str):
    verdict = judged(pod("Failed", conditions=[scheduled()], **status), ())
    assert (verdict.loss, verdict.why, verdict.is_over) == (loss, why, True)


@pytest.mark.parametrize("reason", ["NodeShutdown", "Terminated", "Shutdown"])
def test_graceful_shutdown_of_a_machine_is_a_preemption_and_no_failure(reason: str):
    """kubeflow/training-operator 1570."""
    target = disrupted("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown.")
    for conditions in ([], [target]):
        one = pod("Failed", conditions=conditions, reason=reason, state=terminated(143, "Error"))
        assert judged(one, ()).loss is Loss.PREEMPTED


@pytest.mark.parametrize(
    ("reason", "message", "loss"),
    [
        (
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
            Loss.PREEMPTED,
        ),
        ("EvictionByEvictionAPI", "Eviction API: evicting", Loss.PREEMPTED),
        ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", Loss.LOST),
        ("DeletionByPodGC", "PodGC: node no longer exists", Loss.LOST),
        ("TerminationByKubelet", "The node was low on resource: memory.", Loss.LOST),
    ],
)
def test_disrupted_pod_has_its_cause_while_it_saves_and_when_it_has_ended(reason: str, message: str, loss: Loss):
    target = disrupted(reason, message)
    dying = judged(pod("Running", conditions=[target], deleted=DELETED), ())
    assert (dying.word, dying.loss, dying.is_over) == ("Terminating", loss, False)
    for phase, code in (("Succeeded", 0), ("Failed", 137)):
        over = judged(pod(phase, conditions=[target], state=terminated(code, "x"), deleted=DELETED), ())
        assert (over.why, over.loss, over.is_over) == (dying.why, loss, True)


def test_unexplained_deletion_requests_the_pods_events():
    verdict = judged(pod("Running", state={"running": {}}, deleted=DELETED), ())
    assert verdict == PodVerdict("Terminating", "was deleted, and not by drumbeat", Loss.LOST, is_unexplained=True)


@pytest.mark.parametrize(
    ("reason", "message", "loss"),
    [
        ("Preempted", "Preempted by tests/rival on node n1", Loss.PREEMPTED),
        ("TaintManagerEviction", "Marking for deletion Pod tests/cifar-1-0a1b2c3d-0", Loss.LOST),
    ],
)
def test_event_tells_on_old_clusters_why_a_pod_is_deleted(reason: str, message: str, loss: Loss):
    """1.20 has no DisruptionTarget."""
    found = explained([{"reason": "Scheduled"}, {"reason": "Killing"}, {"reason": reason, "message": message}])
    assert found
    assert found[0] is loss
    assert message in found[1]


def test_eviction_that_was_called_off_explains_no_deletion():
    """Seen on 1.20: the machine answered again, and a rival preempted the pod later."""
    revoked = {"reason": "TaintManagerEviction", "message": "Cancelling deletion of Pod tests/cifar-1-0a1b2c3d-0"}
    assert explained([revoked]) is None
    found = explained([revoked, {"reason": "Preempted", "message": "Preempted by tests/rival on node n1"}])
    assert found
    assert found[0] is Loss.PREEMPTED


def test_events_of_an_earlier_pod_of_the_same_name_are_left_out():
    earlier = {"involvedObject": {"uid": "a"}, "reason": "Preempted", "lastTimestamp": "2026-11-20T10:00:00Z"}
    without_uid: dict[str, Any] = {
        "involvedObject": {},
        "reason": "TaintManagerEviction",
        "lastTimestamp": "2026-11-20T10:01:00Z",
    }
    own = {"involvedObject": {"uid": "b"}, "reason": "Scheduled", "lastTimestamp": "2026-11-20T11:00:00Z"}
    metadata = {"uid": "b", "creationTimestamp": "2026-11-20T11:00:00Z"}
    assert own_events([earlier, without_uid, own], metadata) == [own]
    later = {**without_uid, "lastTimestamp": "2026-11-20T11:02:00Z"}
    assert own_events([later], metadata) == [later]


def test_drain_on_old_clusters_looks_like_any_deletion():
    assert explained([{"reason": "Killing", "message": "Stopping container agent"}]) is None


def test_pod_on_a_lost_machine_is_over_although_it_is_still_called_running():
    """kubeflow/trainer 2072, 2185: jobs hung on dead nodes."""
    verdict = judged(pod("Running", state={"running": {}}, deleted=DELETED), {"n1"})
    assert (verdict.loss, verdict.is_over) == (Loss.LOST, True)
    assert verdict.why == "is lost: its machine n1 doesn't answer Kubernetes"


def test_containers_beside_the_agent_dont_count():
    statuses: list[dict[str, Any]] = [
        {"name": "a-sidecar", "state": terminated(0, "Completed")},
        {"name": "agent", "state": {"running": {}}},
    ]
    assert judged(pod("Running", containerStatuses=statuses), ()) == PodVerdict("Running")


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        (
            terminated(137, "OOMKilled"),
            PodVerdict("OOMKilled", "was killed at its memory limit", Loss.OUT_OF_MEMORY, True),
        ),
        (
            terminated(1, "Error", "no x"),
            PodVerdict("Error", "ended with exit code 1 (no x)", Loss.FAILED, is_over=True),
        ),
        (terminated(0, "Completed"), PodVerdict("Completed", "ended: its agent left", is_over=True)),
        (
            terminated(143, ""),
            PodVerdict("Terminated", "was told to stop (SIGTERM), and not by drumbeat", is_over=True),
        ),
    ],
)
def test_pod_is_over_when_its_agent_ended_beside_another_container(state: Json, verdict: PodVerdict):
    """As a service mesh adds one to each pod."""
    statuses: list[Json] = [{"name": "istio-proxy", "state": {"running": {}}}, {"name": "agent", "state": state}]
    one = pod("Running", conditions=[scheduled()], containerStatuses=statuses)
    assert judged(one, ()) == verdict
    one["spec"]["restartPolicy"] = "OnFailure"
    assert judged(one, ()) == PodVerdict("Running")


def test_gang_status_counts_the_pods_statuses():
    assert gang_word(["Running", "Running"]) == "Running"
    assert gang_word(["Running", "Pending", "Running"]) == "2 Running, 1 Pending"

"""The pods of a gang, and what they mount."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.agent_archive import AgentArchive
from drumbeat.engines.contract import a_gang
from drumbeat.engines.kubernetes.names import gang_name, owner
from drumbeat.engines.kubernetes.own_pod_keys import merged
from drumbeat.engines.kubernetes.render import PodScope, agent_map, pods, rendered, secret
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import EngineError
from drumbeat.model.plan import Container, ImageBuild
from drumbeat.ports.engines import Gang

pytestmark = pytest.mark.feature("C4")

ARCHIVE = AgentArchive(b"zip", "0123456789abcdef0000")
SITE = PodScope(owner("rack", "ab12cd"), "ml")
NAME = gang_name(SITE.owner, "cifar.1")


def spec(**keys: Any) -> KubernetesCompute:
    return KubernetesCompute.model_validate({"name": "rack", "type": "kubernetes", "image": "r/train:1", **keys})


def gang(nodes: int = 2, cpus: int = 1, gpus: int = 0) -> Gang:
    slots = tuple(Slot(node, "", cpus, tuple(map(str, range(gpus)))) for node in range(nodes))
    return replace(a_gang("cifar", nodes), slots=slots)


def pod(one: Gang | None = None, node: int = 0, **keys: Any) -> dict[str, Any]:
    return pods(spec(**keys), one or gang(), SITE, ARCHIVE)[node]


def test_pod_of_a_plain_compute():
    assert pod(node=1) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{NAME}-1",
            "namespace": "ml",
            "labels": {
                "app.kubernetes.io/name": "drumbeat",
                "drumbeat/owner": SITE.owner,
                "drumbeat/gang": NAME,
                "drumbeat/node": "1",
            },
            "annotations": {"drumbeat/job": "cifar.1"},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 31,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 600,
                },
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 600,
                },
            ],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": {"matchLabels": {"drumbeat/gang": NAME}},
                            "topologyKey": "kubernetes.io/hostname",
                        }
                    ]
                }
            },
            "volumes": [
                {"name": "drumbeat-agent", "configMap": {"name": "drumbeat-agent-0123456789abcdef"}},
                {
                    "name": "drumbeat-enrolment",
                    "secret": {
                        "secretName": NAME,
                        "defaultMode": 0o400,
                        "items": [
                            {"key": "gang.json", "path": "gang.json"},
                            {"key": "1.json", "path": "node.json"},
                        ],
                    },
                },
                {"name": "drumbeat-work", "emptyDir": {}},
                {"name": "drumbeat-shm", "emptyDir": {"medium": "Memory"}},
            ],
            "containers": [
                {
                    "name": "agent",
                    "image": "r/train:1",
                    "command": [
                        "python3",
                        "-I",
                        "/drumbeat/agent/agent.pyz",
                        "drumbeat.node.host.pod_start",
                        "/drumbeat/enrolment",
                        "/drumbeat/work",
                        "/drumbeat/work/checkpoints",
                    ],
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                    "volumeMounts": [
                        {"name": "drumbeat-agent", "mountPath": "/drumbeat/agent", "readOnly": True},
                        {"name": "drumbeat-enrolment", "mountPath": "/drumbeat/enrolment", "readOnly": True},
                        {"name": "drumbeat-work", "mountPath": "/drumbeat/work"},
                        {"name": "drumbeat-shm", "mountPath": "/dev/shm"},
                    ],
                }
            ],
        },
    }


def test_everything_that_a_compute_can_say_is_in_its_pods():
    made = pod(
        gang(1, cpus=8, gpus=4),
        python="/opt/py/bin/python3",
        image_pull_secrets=["regcred"],
        cpus_per_node=96,
        memory="512Gi",
        shared_memory="64Gi",
        folder="/data/drumbeat",
        volumes=[
            {"name": "data", "mount_path": "/data", "source": {"persistentVolumeClaim": {"claimName": "data"}}},
            {
                "name": "sets", "mount_path": "/sets", "sub_path": "a", "writable": False,
                "source": {"nfs": {"server": "nas", "path": "/sets"}},
            },
        ],
        node_selector={"gpu": "h100"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        priority_class="high",
        scheduler="volcano",
        service_account="trainer",
        labels={"kueue.x-k8s.io/queue-name": "ml"},
        annotations={"team": "vision"},
        share_machines=True,
        gpu_resource="amd.com/gpu",
    )  # fmt: skip
    inner, container = made["spec"], made["spec"]["containers"][0]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "ml"
    assert made["metadata"]["annotations"] == {"team": "vision", "drumbeat/job": "cifar.1"}
    assert inner["nodeSelector"] == {"gpu": "h100"}
    assert inner["tolerations"][-1] == {"key": "gpu", "operator": "Exists"}
    assert (inner["priorityClassName"], inner["schedulerName"]) == ("high", "volcano")
    assert (inner["serviceAccountName"], inner["imagePullSecrets"]) == ("trainer", [{"name": "regcred"}])
    assert "affinity" not in inner
    assert inner["volumes"][3:] == [
        {"name": "drumbeat-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "sets", "nfs": {"server": "nas", "path": "/sets"}},
    ]
    assert container["volumeMounts"][4:] == [
        {"name": "data", "mountPath": "/data"},
        {"name": "sets", "mountPath": "/sets", "subPath": "a", "readOnly": True},
    ]
    assert container["resources"] == {
        "requests": {"cpu": "96", "memory": "512Gi"},
        "limits": {"cpu": "96", "memory": "512Gi", "amd.com/gpu": "4"},
    }
    assert container["command"][0] == "/opt/py/bin/python3"
    assert container["command"][-1] == f"/data/drumbeat/jobs/{SITE.owner}-cifar/checkpoints"


def test_pod_of_a_job_with_a_deleted_jobs_name_has_a_name_and_checkpoints_of_its_own():
    volume = {"name": "data", "mount_path": "/data", "source": {"persistentVolumeClaim": {"claimName": "data"}}}
    gangs = [replace(gang(), first_version=version) for version in (1, 3)]
    first, second = (pod(one, folder="/data", volumes=[volume]) for one in gangs)
    assert second["metadata"]["annotations"]["drumbeat/job"] == "cifar~3.1"
    assert second["metadata"]["name"].startswith("cifar-1-")
    assert second["metadata"]["name"] != first["metadata"]["name"]
    (container,) = second["spec"]["containers"]
    assert container["command"][-1] == f"/data/jobs/{SITE.owner}-cifar~3/checkpoints"


def test_pod_with_gpus_tolerates_the_taint_that_keeps_other_pods_from_them():
    taint = {"operator": "Exists", "effect": "NoSchedule"}
    inner = pod(gang(1, gpus=1))["spec"]
    assert inner["tolerations"][-1] == {"key": "nvidia.com/gpu", **taint}
    inner = pod(gang(1, gpus=1), gpu_resource="amd.com/gpu", tolerations=[{"key": "team"}])["spec"]
    assert inner["tolerations"][2:] == [{"key": "amd.com/gpu", **taint}, {"key": "team"}]
    assert not [one for one in pod()["spec"]["tolerations"] if one["key"] == "nvidia.com/gpu"]


def test_pod_with_a_user_satisfies_the_restricted_standard():
    """The fields that PodSecurity lists when it refuses; fsGroup, so that the user can read a key of mode 0400."""
    inner = pod(user=1000)["spec"]
    assert inner["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert inner["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(user=1000, group=50)["spec"]["securityContext"]["fsGroup"] == 50


def test_own_keys_are_merged_last_and_named_entries_by_name():
    made = pod(
        pod={
            "metadata": {"labels": {"team": "vision"}},
            "spec": {
                "hostNetwork": True,
                "enableServiceLinks": None,
                "tolerations": [{"key": "spot"}],
                "containers": [
                    {"name": "agent", "imagePullPolicy": "Never", "resources": {"limits": {"rdma/hca": 1}}},
                    {"name": "proxy", "image": "p"},
                ],
            },
        }
    )
    inner = made["spec"]
    assert made["metadata"]["labels"]["team"] == "vision"
    assert inner["hostNetwork"] is True
    assert "enableServiceLinks" not in inner
    assert [one.get("key") for one in inner["tolerations"]][-1] == "spot"
    agent, proxy = inner["containers"]
    assert (agent["image"], agent["imagePullPolicy"]) == ("r/train:1", "Never")
    assert agent["resources"]["limits"] == {"cpu": "1", "rdma/hca": 1}
    assert proxy == {"name": "proxy", "image": "p"}


def test_mounts_merge_by_their_path():
    mounts = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    own = {"volumeMounts": [{"name": "big", "mountPath": "/dev/shm"}, {"name": "big", "mountPath": "/x"}]}
    assert merged(mounts, own) == {
        "volumeMounts": [{"name": "big", "mountPath": "/dev/shm"}, {"name": "big", "mountPath": "/x"}]
    }


def test_gated_pods_have_drumbeats_scheduling_gate_beside_those_of_the_overlay():
    own = spec(pod={"spec": {"schedulingGates": [{"name": "team/budget"}]}})
    first, second = pods(own, gang(2), SITE, ARCHIVE, is_gated=True)
    assert first["spec"]["schedulingGates"] == [{"name": "drumbeat/gang"}, {"name": "team/budget"}]
    assert second["spec"]["schedulingGates"] == first["spec"]["schedulingGates"]
    assert "schedulingGates" not in pods(spec(), gang(2), SITE, ARCHIVE)[0]["spec"]


def test_one_pod_has_no_gate_of_drumbeats():
    assert "schedulingGates" not in pods(spec(), gang(1), SITE, ARCHIVE, is_gated=True)[0]["spec"]


def test_plan_prints_the_first_pod_and_no_secret():
    text = rendered(spec(), gang(3), SITE, ARCHIVE)
    first, _, rest = text.partition("\n")
    assert first == "# Pods of nodes 1 to 2 differ only in that number."
    assert json.loads(rest) == pod(gang(3))
    assert gang().node_secret(0) not in text


def test_secret_has_a_key_for_each_node_and_names_neither_root_nor_container():
    one = gang(2)
    plan = replace(one.plan, container=Container("r/job:2"))
    made = secret(spec(), replace(one, plan=plan), SITE)
    assert made["metadata"]["name"] == NAME
    texts = {key: json.loads(text) for key, text in made["stringData"].items()}
    assert texts["1.json"] == {"node": 1, "secret": one.node_secret(1), "gpus": []}
    assert sorted(texts) == ["0.json", "1.json", "gang.json"]
    enrolment = wire.from_wire(Enrolment, {**texts["gang.json"], **texts["1.json"]})
    assert (enrolment.job, enrolment.node, enrolment.secret) == ("cifar", 1, one.node_secret(1))
    assert enrolment.plan.container is None, "the ranks are in the image already"


@pytest.mark.feature("C13")
def test_secret_of_a_gang_of_4096_nodes_is_one_that_kubernetes_takes():
    made = secret(spec(), replace(gang(4096), ca="c" * 2048), SITE)
    assert sum(map(len, made["stringData"].values())) < 1 << 20


def test_jobs_image_comes_before_the_computes():
    plan = replace(gang().plan, container=Container("r/job:2"))
    assert pod(replace(gang(), plan=plan))["spec"]["containers"][0]["image"] == "r/job:2"


@pytest.mark.parametrize(
    ("container", "image", "says"),
    [
        (None, None, "no image is set for the pods of job cifar. Set `image`"),
        (Container("b", build=ImageBuild("k", "c", source="Dockerfile")), "x", "pods can't build images. Push it"),
        (
            Container("b", registries=("acr",)),
            "x",
            "needs credentials, which pods take from the cluster. Set",
        ),
        (
            Container("b", args=("--ipc=host",)),
            "x",
            "don't apply to pods: --ipc=host. Set the same options in the compute's `pod`",
        ),
    ],
)
def test_image_that_pods_cant_have_is_refused(container: Container | None, image: str | None, says: str):
    one = replace(gang(), plan=replace(gang().plan, container=container))
    with pytest.raises(EngineError) as caught:
        pod(one, image=image)
    assert says in str(caught.value)


def test_agent_is_an_immutable_map_named_by_its_content():
    made = agent_map(ARCHIVE, SITE)
    assert (made["metadata"]["name"], made["immutable"]) == ("drumbeat-agent-0123456789abcdef", True)
    assert base64.b64decode(made["binaryData"]["agent.pyz"]) == b"zip"


@pytest.mark.parametrize(
    ("gang", "begins"),
    [
        ("cifar.1", "cifar-1-"),
        ("My_Job.12", "my-job-12-"),
        ("7days.1", "j7days-1-"),
        ("___.1", "job-1-"),
        (f"{'x' * 200}.1", "x" * 36 + "-1-"),
    ],
)
def test_object_name_is_readable_and_fits_a_dns_label(gang: str, begins: str):
    name = gang_name(SITE.owner, gang)
    assert name.startswith(begins)
    assert len(f"{name}-9999") <= 63
    assert name == gang_name(SITE.owner, gang)


def test_names_that_would_read_alike_differ():
    names = {gang_name(SITE.owner, one) for one in ("my_job.1", "my-job.1", "My-Job.1", "my.job.1")}
    names |= {gang_name(owner(*each), "my-job.1") for each in (("rack", "ffffff"), ("other", "ab12cd"))}
    assert len(names) == 6

"""The Kubernetes objects of a gang, as the API takes them: pure.

A pod contains no secret; it mounts its node's key of the gang's Secret, and the key with what all nodes are told.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from drumbeat.engines.agent_archive import AgentArchive
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.kubernetes.machines import gpu_toleration
from drumbeat.engines.kubernetes.names import GANG, JOB, NODE, OWNER, gang_name, pod_name
from drumbeat.engines.kubernetes.own_pod_keys import Json, merged
from drumbeat.engines.kubernetes.scheduling_gates import GATE
from drumbeat.jobfile.compute.kubernetes import OWN_FOLDER, KubernetesCompute
from drumbeat.model.errors import EngineError
from drumbeat.model.programs import POD_START
from drumbeat.ports.engines import Gang

AGENT_FOLDER, ENROLMENT_FOLDER, WORK = f"{OWN_FOLDER}/agent", f"{OWN_FOLDER}/enrolment", f"{OWN_FOLDER}/work"
GANG_KEY = "gang.json"
"""The key of the Secret with what all nodes of a gang are told."""
OF_ONE_NODE = ("node", "secret", "gpus")
"""The keys of an enrolment that differ between the nodes of a gang."""
UPLOAD_S = 30
"""The time after the job's grace time in which a node delivers logs and results before Kubernetes kills it."""
CONTAINER = "agent"


@dataclass(frozen=True)
class PodScope:
    """The namespace of a compute's objects, and the label that marks this server's."""

    owner: str
    """The label's value: it identifies this server's compute."""
    namespace: str


def agent_map(archive: AgentArchive, scope: PodScope) -> Json:
    """The ConfigMap with the agent, shared by all gangs of all servers with the same version of drumbeat."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": agent_map_name(archive), "namespace": scope.namespace, "labels": _labels()},
        "immutable": True,
        "binaryData": {"agent.pyz": base64.b64encode(archive.content).decode()},
    }


def agent_map_name(archive: AgentArchive) -> str:
    """The name of the ConfigMap: each version of the agent has its own."""
    return f"drumbeat-agent-{archive.sha256[:16]}"


def secret(spec: KubernetesCompute, gang: Gang, scope: PodScope) -> Json:
    """The Secret with the enrolments: what all nodes are told is one key, and what only one is told another.

    Kubernetes refuses Secrets above 1 MiB, which a plan for each of some hundred nodes would exceed.
    """
    name = gang_name(scope.owner, gang.name)
    own = _in_its_image(spec, gang)
    shared: Json = json.loads(enrolment(own, own.slots[0].node, root=WORK, checkpoints=""))
    texts = {GANG_KEY: json.dumps({key: value for key, value in shared.items() if key not in OF_ONE_NODE})}
    for slot in own.slots:
        node = (slot.node, own.node_secret(slot.node), slot.gpus)
        texts[f"{slot.node}.json"] = json.dumps(dict(zip(OF_ONE_NODE, node, strict=True)))
    labels = {**_labels(), OWNER: scope.owner, GANG: name}
    metadata = {"name": name, "namespace": scope.namespace, "labels": labels, "annotations": {JOB: gang.name}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": texts}


def _in_its_image(spec: KubernetesCompute, gang: Gang) -> Gang:
    """The gang as its agents see it: they already run in the job's image, so they start no containers."""
    pod_image(spec, gang)
    return replace(gang, plan=replace(gang.plan, container=None))


def pod_image(spec: KubernetesCompute, gang: Gang) -> str:
    """The image of the pods: the job's, else the compute's. Raises EngineError."""
    container = gang.plan.container
    if container is None:
        if spec.image:
            return spec.image
        what = f"no image is set for the pods of job {gang.job}"
        raise EngineError(what, where="image", fix="Set `image` in the compute's file, or in the job's environment.")
    if container.build is not None:
        what = f"the image of job {gang.job} is built from {container.build.source}, and pods can't build images"
        raise EngineError(what, where="environment", fix="Push it to a registry, and set it as `image`.")
    if container.registries:
        what = f"the image of job {gang.job} needs credentials, which pods take from the cluster"
        raise EngineError(what, where="environment", fix="Set a secret in the compute's `image_pull_secrets`.")
    if container.args:
        what = f"arguments for the container engine don't apply to pods: {' '.join(container.args)}"
        raise EngineError(what, where="docker_args", fix="Set the same options in the compute's `pod`.")
    return container.image


def pods(
    spec: KubernetesCompute, gang: Gang, scope: PodScope, archive: AgentArchive, *, is_gated: bool = False
) -> list[Json]:
    """The pod of each node, with the user's own keys merged last.

    is_gated: pods of a gang of several nodes get drumbeat's scheduling gate.
    """
    made = [_pod(spec, gang, slot.node, scope, archive) for slot in gang.slots]
    for one in made if is_gated and len(made) > 1 else ():
        one["spec"]["schedulingGates"] = [{"name": GATE}]
    return [merged(one, spec.pod) for one in made]


def rendered(
    spec: KubernetesCompute, gang: Gang, scope: PodScope, archive: AgentArchive, *, is_gated: bool = False
) -> str:
    """What `drumbeat plan` prints: the pod of node 0."""
    first = pods(spec, gang, scope, archive, is_gated=is_gated)[0]
    others = f"# Pods of nodes 1 to {len(gang.slots) - 1} differ only in that number.\n" if len(gang.slots) > 1 else ""
    return f"{others}{json.dumps(first, indent=2)}\n"


def _pod(spec: KubernetesCompute, gang: Gang, node: int, scope: PodScope, archive: AgentArchive) -> Json:
    name = gang_name(scope.owner, gang.name)
    labels = {**spec.labels, **_labels(), OWNER: scope.owner, GANG: name, NODE: str(node)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name, node),
            "namespace": scope.namespace,
            "labels": labels,
            "annotations": {**spec.annotations, JOB: gang.name},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": math.ceil(gang.plan.grace_s) + UPLOAD_S,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **_placing(spec, gang, name),
            **_security(spec),
            "volumes": _volumes(spec, node, name, archive),
            "containers": [_container(spec, gang, node, scope)],
        },
    }


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": "drumbeat"}


def _placing(spec: KubernetesCompute, gang: Gang, name: str) -> Json:
    """Where the pods may run, and what happens to them when their machine stops answering."""
    lost_after_s = math.ceil(gang.plan.lost_after_s)
    silent: list[Json] = [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": lost_after_s,
        }
        for what in ("not-ready", "unreachable")
    ]
    apart = {"labelSelector": {"matchLabels": {GANG: name}}, "topologyKey": "kubernetes.io/hostname"}
    own = [gpu_toleration(spec)] if any(slot.gpus for slot in gang.slots) else []
    placing: Json = {"tolerations": [*silent, *own, *spec.tolerations]}
    if not spec.share_machines:
        placing["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    optional: Mapping[str, Any] = {
        "nodeSelector": dict(spec.node_selector),
        "priorityClassName": spec.priority_class,
        "schedulerName": spec.scheduler,
        "serviceAccountName": spec.service_account,
        "imagePullSecrets": [{"name": one} for one in spec.image_pull_secrets],
    }
    return {**placing, **{key: value for key, value in optional.items() if value}}


def _security(spec: KubernetesCompute) -> Json:
    """The pod's part of the `restricted` pod security standard."""
    if spec.user is None:
        return {}
    group = spec.user if spec.group is None else spec.group
    # Without fsGroup, a file of mode 0400 in a volume belongs to root, and the agent couldn't read its enrolment.
    own: Json = {"runAsUser": spec.user, "runAsGroup": group, "fsGroup": group}
    return {
        "securityContext": {
            **own,
            **({"runAsNonRoot": True} if spec.user else {}),
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    }


def _volumes(spec: KubernetesCompute, node: int, name: str, archive: AgentArchive) -> list[Json]:
    shared: Json = {"medium": "Memory", **({"sizeLimit": spec.shared_memory} if spec.shared_memory else {})}
    items = [{"key": GANG_KEY, "path": GANG_KEY}, {"key": f"{node}.json", "path": "node.json"}]
    return [
        {"name": "drumbeat-agent", "configMap": {"name": agent_map_name(archive)}},
        {"name": "drumbeat-enrolment", "secret": {"secretName": name, "defaultMode": 0o400, "items": items}},
        {"name": "drumbeat-work", "emptyDir": {}},
        {"name": "drumbeat-shm", "emptyDir": shared},  # The default of 64 MB breaks data loaders with bus errors.
        *({"name": one.name, **one.source} for one in spec.volumes),
    ]


def _container(spec: KubernetesCompute, gang: Gang, node: int, scope: PodScope) -> Json:
    start = [
        f"{AGENT_FOLDER}/agent.pyz",
        POD_START,
        ENROLMENT_FOLDER,
        WORK,
        _checkpoints(spec, gang, scope),
    ]
    spec_: Json = {
        "name": CONTAINER,
        "image": pod_image(spec, gang),
        "command": [spec.python, "-I", *start],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": _resources(spec, gang, node),
        "volumeMounts": [
            {"name": "drumbeat-agent", "mountPath": AGENT_FOLDER, "readOnly": True},
            {"name": "drumbeat-enrolment", "mountPath": ENROLMENT_FOLDER, "readOnly": True},
            {"name": "drumbeat-work", "mountPath": WORK},
            {"name": "drumbeat-shm", "mountPath": "/dev/shm"},  # noqa: S108 - a mount path in the pod
            *(_mount(spec, number) for number in range(len(spec.volumes))),
        ],
    }
    if spec.user is not None:
        spec_["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return spec_


def _checkpoints(spec: KubernetesCompute, gang: Gang, scope: PodScope) -> str:
    """The folder of the job's checkpoints in the pod."""
    if spec.folder is None:
        return f"{WORK}/checkpoints"
    return f"{spec.folder.rstrip('/')}/jobs/{scope.owner}-{gang.unique_job}/checkpoints"


def _mount(spec: KubernetesCompute, number: int) -> Json:
    one = spec.volumes[number]
    mount: Json = {"name": one.name, "mountPath": one.mount_path}
    if one.sub_path:
        mount["subPath"] = one.sub_path
    if not one.writable:
        mount["readOnly"] = True
    return mount


def _resources(spec: KubernetesCompute, gang: Gang, node: int) -> Json:
    """Resources of the pod: requests equal limits, so that the kubelet evicts it last. GPUs appear only in limits."""
    slot = next(one for one in gang.slots if one.node == node)
    amounts = {"cpu": str(max(spec.cpus_per_node or 1, slot.cpus)), **({"memory": spec.memory} if spec.memory else {})}
    gpus = {spec.gpu_resource: str(len(slot.gpus))} if slot.gpus else {}
    return {"requests": amounts, "limits": {**amounts, **gpus}}

"""A compute on a Kubernetes cluster: each node of a job is a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from drumbeat.jobfile.compute.compute_keys import CheckpointScope
from drumbeat.jobfile.compute.compute_values import Absolute
from drumbeat.jobfile.compute.remote_compute import RemoteCompute
from drumbeat.jobfile.reading.error_messages import nearest, shown, words
from drumbeat.jobfile.reading.field_types import AsText, Count, Filled, OneLine, Seconds, Table, Whole, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model

DnsLabel = Annotated[
    str, pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "lower-case letters, digits and `-`, at most 63")
]
Quantity = Annotated[AsText, pattern(r"[1-9][0-9]*(\.[0-9]+)?([KMGTP]i?|k)?", "an amount like `64Gi` or `500M`")]
UserId = Annotated[Whole, Field(ge=0, le=2**31 - 1)]

POD_PARTS = ("metadata", "spec")
FIXED = (("metadata", "name"), ("metadata", "namespace"), ("spec", "restartPolicy"))
"""Keys of a pod by which drumbeat finds its pods and judges how they ended."""
OWN_FOLDER = "/drumbeat"
"""The folder in each pod that belongs to drumbeat."""


class KubernetesVolume(Model):
    """A volume that each pod mounts."""

    noun: ClassVar[str] = "the volume"

    name: DnsLabel = Field(description="Name of the volume.")
    mount_path: Absolute = Field(description="Path in the pods.")
    source: Table = Field(
        description="Volume source, in Kubernetes' own words, like `persistentVolumeClaim: {claimName: data}`."
    )
    sub_path: OneLine | None = Field(default=None, description="Path within the volume; its root when not set.")
    writable: bool = Field(default=True, description="Whether pods may write to it.")

    def contradictions(self) -> Iterator[Contradiction]:
        if len(self.source) != 1:
            what = f"a volume has one source, got {words(self.source) or 'none'}"
            yield Contradiction(("source",), what, "Write one, like `persistentVolumeClaim: {claimName: data}`.")
        if self.name.startswith("drumbeat-"):
            yield Contradiction(("name",), f"{shown(self.name)} is a name of drumbeat's own", "Take another name.")
        if is_below(self.mount_path, OWN_FOLDER):
            what = f"{shown(self.mount_path)} lies in the folder that is drumbeat's own in each pod"
            yield Contradiction(("mount_path",), what, f"Mount it outside {OWN_FOLDER}.")


class KubernetesCompute(RemoteCompute):
    """A Kubernetes cluster on which the server creates one pod for each node of a job."""

    type: Annotated[Literal["kubernetes"], AnyCase()] = Field(default="kubernetes", description="Always `kubernetes`.")
    namespace: DnsLabel | None = Field(
        default=None, description="Namespace of the pods; the one of the kubeconfig's context when not set."
    )
    kubeconfig: OneLine | None = Field(
        default=None,
        description="Kubeconfig on the server's machine, relative to this file; when not set, the pod's own service "
        "account, `$KUBECONFIG` or `~/.kube/config`.",
    )
    context: Filled | None = Field(default=None, description="Context of the kubeconfig; its current one when not set.")
    image: Filled | None = Field(
        default=None, description="Image of the pods for jobs whose environment names none; it has Python 3.11."
    )
    image_pull_secrets: list[DnsLabel] = Field(
        default_factory=list[str], description="Names of secrets with which images are pulled."
    )
    nodes: Annotated[Whole, Field(ge=1, le=10_000)] | None = Field(
        default=None,
        description="Most nodes of one job, where the cluster grows or its nodes can't be listed; the cluster's nodes "
        "when not set.",
    )
    cpus_per_node: Count | None = Field(
        default=None, description="CPUs that each pod requests; as many as the job's ranks need when not set."
    )
    gpus_per_node: Annotated[Whole, Field(ge=0, le=1000)] | None = Field(
        default=None, description="GPUs of a node; what its Kubernetes node reports when not set."
    )
    gpu_resource: Filled = Field(default="nvidia.com/gpu", description="Name of the resource that counts GPUs.")
    memory: Quantity | None = Field(
        default=None, description="Memory that each pod requests and may use, like `64Gi`; unlimited when not set."
    )
    shared_memory: Quantity | None = Field(
        default=None, description="Most that `/dev/shm` may hold; as much as the pod's memory when not set."
    )
    folder: Absolute | None = Field(
        default=None,
        description="Folder in the pods, on one of `volumes`, that keeps checkpoints between attempts; without it, "
        "they vanish with the pods.",
    )
    volumes: list[KubernetesVolume] = Field(
        default_factory=list[KubernetesVolume], description="Volumes that each pod mounts."
    )
    node_selector: dict[str, AsText] = Field(
        default_factory=dict, description="Labels that Kubernetes nodes must have."
    )
    tolerations: list[Table] = Field(
        default_factory=list[Table],
        description="Taints of Kubernetes nodes that the pods tolerate; pods with GPUs also tolerate `gpu_resource`.",
    )
    priority_class: Filled | None = Field(default=None, description="Priority class of the pods.")
    scheduler: Filled | None = Field(default=None, description="Name of the scheduler; the default one when not set.")
    service_account: Filled | None = Field(
        default=None, description="Service account of the pods; its token isn't mounted."
    )
    labels: dict[str, AsText] = Field(default_factory=dict, description="Additional labels of the pods.")
    annotations: dict[str, AsText] = Field(default_factory=dict, description="Additional annotations of the pods.")
    user: UserId | None = Field(
        default=None,
        description="User id in the pods. With it they satisfy the `restricted` pod security standard; the image's "
        "user when not set.",
    )
    group: UserId | None = Field(default=None, description="Group id in the pods; the same number as `user`.")
    share_machines: bool = Field(
        default=False, description="Whether nodes of one job may share a machine; otherwise each has its own."
    )
    schedule_timeout: Seconds = Field(
        default=600.0,
        description="Seconds after which a job gives its nodes back when some of its pods run and others still wait.",
    )
    image_timeout: Seconds = Field(
        default=180.0, description="Seconds after which an image that can't be pulled fails the job."
    )
    pod: Table = Field(
        default_factory=dict,
        description="Anything else of a pod (`metadata`, `spec`), merged last; the container is called `agent`.",
    )

    @property
    def checkpoint_scope(self) -> CheckpointScope:
        return CheckpointScope.COMPUTE if self.folder else CheckpointScope.NODE

    def contradictions(self) -> Iterator[Contradiction]:
        yield from self._wrong_volumes()
        yield from self._wrong_overlay()
        if self.folder and not self.pod and not any(is_below(self.folder, one.mount_path) for one in self.volumes):
            what = f"{shown(self.folder)} is on none of `volumes`, so its files would vanish with each pod"
            yield Contradiction(("folder",), what, "Name a folder below a volume's `mount_path`.")

    def _wrong_volumes(self) -> Iterator[Contradiction]:
        for key in ("name", "mount_path"):
            seen: set[str] = set()
            for place, one in enumerate(self.volumes):
                value = getattr(one, key)
                if value in seen:
                    what = f"two volumes have the {key} {shown(value)}"
                    yield Contradiction(("volumes", place), what, "Remove one, or change it.")
                seen.add(value)

    def _wrong_overlay(self) -> Iterator[Contradiction]:
        for part, value in self.pod.items():
            if part not in POD_PARTS:
                fix = nearest(part, POD_PARTS) or f"A pod has {words(POD_PARTS)}."
                yield Contradiction(("pod", part), f"a pod has no {shown(part)} to set", fix)
            elif not isinstance(value, dict):
                yield Contradiction(("pod", part), f"{part} is a mapping, got {shown(value)}")
        for part, key in FIXED:
            if isinstance(inner := self.pod.get(part), dict) and key in cast("dict[str, Any]", inner):
                yield Contradiction(("pod", part, key), f"drumbeat sets {part}.{key} of its pods itself", "Remove it.")


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return path.rstrip("/") == folder.rstrip("/") or path.startswith(folder.rstrip("/") + "/")

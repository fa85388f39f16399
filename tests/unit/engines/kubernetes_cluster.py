"""A cluster's API in memory, as far as the engine asks for it: objects, deletion with grace, events, quotas, roles."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from drumbeat.engines.kubernetes.connection import counts_as_success, refusal
from drumbeat.model.errors import UnreachableError

Json = dict[str, Any]
CHANGED_QUOTA = (
    'Operation cannot be fulfilled on resourcequotas "quota": the object has been modified; please apply your changes '
    "to the latest version and try again"
)


class FakeCluster:
    """Behaves like an API server with a scheduler and kubelets that need no time. Its lock is the interpreter's."""

    namespace = "ml"

    def __init__(self, machines: int = 3) -> None:
        self.server: tuple[str, int] = ("10.0.0.1", 6443)
        self.nodes: dict[str, Json] = {f"n{number + 1}": _node(f"n{number + 1}") for number in range(machines)}
        self.objects: dict[str, dict[str, Json]] = {"pods": {}, "secrets": {}, "configmaps": {}}
        self.events: list[Json] = []
        self.requests: list[tuple[str, str]] = []
        self.quota: int | None = None
        self.version = {"major": "1", "minor": "20"}
        self.may_patch = True
        self.unpatched = ""
        """A part of the names of pods that an admission webhook lets nobody change."""
        self.conflicting = ""
        """A pattern of kind/name of the objects at whose creation somebody else has just changed the quota."""
        self.forbidden: set[str] = set()
        """Resources that the user may not list."""
        self.is_away = False
        self.is_full = False
        """A machine has room for one pod."""
        self.is_slow_to_end = False
        """Pods stay in their grace time."""
        self.page = 2
        self._uids = itertools.count()

    @property
    def is_old(self) -> bool:
        """It drops fields that it doesn't know."""
        return int(self.version["minor"].rstrip("+")) < 27

    @property
    def pods(self) -> dict[str, Json]:
        return self.objects["pods"]

    # --- the API ----------------------------------------------------------------------------------------------
    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        also: frozenset[int] = frozenset(),
    ) -> Json:
        if self.is_away:
            raise UnreachableError("the Kubernetes API server at 10.0.0.1:6443 doesn't answer: timed out")
        self.requests.append((method, path))
        if path == "/version":
            return dict(self.version)
        if path.endswith("/selfsubjectaccessreviews"):
            return {"status": {"allowed": self.may_patch}}
        status, answer = self._answer(method, path.strip("/").split("/")[2:], copy.deepcopy(body), query or {})
        if counts_as_success(status, answer.get("reason", ""), also):
            return {}
        if status >= 400:
            raise refusal(status, answer["message"], f"{method} {path}")
        return copy.deepcopy(answer)

    def close(self) -> None:
        """Nothing is open."""

    def _answer(self, method: str, parts: list[str], body: Any, query: Mapping[str, str | int]) -> tuple[int, Json]:
        if parts == ["nodes"]:
            return self._list("nodes", self.nodes, query)
        _, namespace, what, *name = parts
        assert namespace == self.namespace
        if method == "GET":
            if what == "events":
                found = {
                    str(n): one for n, one in enumerate(self.events) if _is_about(one, str(query["fieldSelector"]))
                }
                return self._list(what, found, query)
            return self._list(what, self.objects[what], query)
        if method == "PATCH":
            return self._ungate(name[0], body)
        return self._create(what, body) if method == "POST" else self._delete(what, name[0], body)

    def _ungate(self, name: str, patch: Json) -> tuple[int, Json]:
        if not self.may_patch:
            return 403, {"message": f'pods "{name}" is forbidden: User "drumbeat" cannot patch resource "pods"'}
        if self.unpatched and self.unpatched in name:
            return 400, {"message": 'admission webhook "labels" denied the request: a team is needed'}
        pod = self.pods[name]
        pod["spec"].update(patch["spec"])
        self._place(pod)
        return 200, pod

    def _list(self, what: str, objects: Mapping[str, Json], query: Mapping[str, str | int]) -> tuple[int, Json]:
        if what in self.forbidden:
            user = f'{what} is forbidden: User "drumbeat" cannot list resource "{what}" in API group ""'
            return 403, {"message": user}
        wanted = dict(one.split("=") for one in str(query.get("labelSelector", "")).split(",") if one)
        found = [
            one for one in objects.values() if wanted.items() <= (one.get("metadata", {}).get("labels") or {}).items()
        ]
        begin = int(query.get("continue", 0))
        page, left = found[begin : begin + self.page], len(found) - begin - self.page
        more = {"continue": str(begin + self.page)} if left > 0 else {}
        return 200, {"items": page, "metadata": more}

    def _create(self, what: str, body: Json) -> tuple[int, Json]:
        name = body["metadata"]["name"]
        if name in self.objects[what]:
            return 409, {"reason": "AlreadyExists", "message": f'{what} "{name}" already exists'}
        if self.conflicting and re.search(self.conflicting, f"{what}/{name}"):
            return 409, {"reason": "Conflict", "message": CHANGED_QUOTA}
        if what == "pods":
            if self.quota is not None and len(self.pods) >= self.quota:
                used = f"requested: pods=1, used: pods={len(self.pods)}, limited: pods={self.quota}"
                return 403, {"message": f'pods "{name}" is forbidden: exceeded quota: small, {used}'}
            body["metadata"]["uid"] = str(next(self._uids))
            body["status"] = {"phase": "Pending"}
            self._place(body)
        self.objects[what][name] = body
        return 201, body

    def _place(self, pod: Json) -> None:
        gang = pod["metadata"]["labels"]["drumbeat/gang"]
        if self.is_old:
            pod["spec"].pop("schedulingGates", None)
        if pod["spec"].get("schedulingGates"):
            pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
            return
        taken = {one["spec"].get("nodeName") for one in self.pods.values() if self.is_full or _gang(one) == gang}
        free = [name for name in self.nodes if name not in taken]
        if free:
            pod["spec"]["nodeName"] = free[0]
            pod["status"] = running()
        else:
            message = f"0/{len(self.nodes)} nodes are available: didn't match pod affinity/anti-affinity rules."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"]["conditions"] = [condition]

    def _delete(self, what: str, name: str, options: Json | None) -> tuple[int, Json]:
        if name not in self.objects[what]:
            return 404, {"message": f'{what} "{name}" not found'}
        one = self.objects[what][name]
        grace = (options or {}).get("gracePeriodSeconds", one.get("spec", {}).get("terminationGracePeriodSeconds", 0))
        is_silent = one.get("spec", {}).get("nodeName") in self.silent
        if what == "pods" and grace and (is_silent or self.is_slow_to_end):
            one["metadata"].setdefault("deletionTimestamp", stamp(grace))
        else:
            del self.objects[what][name]
        return 200, {}

    # --- what happens to it -----------------------------------------------------------------------------------
    @property
    def silent(self) -> set[str]:
        return {name for name, one in self.nodes.items() if one["status"]["conditions"][0]["status"] == "Unknown"}

    def silence(self, machine: str) -> None:
        """Its kubelet reports no more; its pods stay `Running`."""
        self.nodes[machine]["status"]["conditions"][0]["status"] = "Unknown"

    def pod(self, node: int) -> Json:
        return next(one for name, one in self.pods.items() if name.endswith(f"-{node}"))

    def doom(self, node: int, reason: str = "", grace_s: float = 30) -> None:
        """Somebody else deletes a pod. reason: of its DisruptionTarget."""
        pod = self.pod(node)
        pod["metadata"]["deletionTimestamp"] = stamp(grace_s)
        if reason:
            target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "seen"}
            pod["status"].setdefault("conditions", []).append(target)

    def say(self, node: int, reason: str, message: str) -> None:
        self.events.append(
            {
                "involvedObject": {"name": self.pod(node)["metadata"]["name"]},
                "type": "Warning",
                "reason": reason,
                "message": message,
            }
        )


def stamp(in_s: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=in_s)).isoformat(timespec="seconds")


def running() -> Json:
    return {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "agent", "state": {"running": {}}}],
    }


def ended(code: int, reason: str = "Error", message: str = "") -> Json:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"name": "agent", "state": state}]}


def waiting(reason: str, message: str = "") -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {**running(), "phase": "Pending", "containerStatuses": [{"name": "agent", "state": state}]}


def _node(name: str) -> Json:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "3920m", "memory": "16Gi", "nvidia.com/gpu": "2"},
        },
    }


def _gang(pod: Json) -> str:
    return pod["metadata"]["labels"]["drumbeat/gang"]


def _is_about(event: Json, selector: str) -> bool:
    return f"involvedObject.name={event['involvedObject']['name']}," in selector

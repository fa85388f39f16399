"""The objects of one server's gangs in Kubernetes: created, listed by label, deleted.

Every request stays within the namespace, except the list of nodes, which the engine can do without.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from drumbeat.engines.agent_archive import AgentArchive
from drumbeat.engines.kubernetes import render
from drumbeat.engines.kubernetes.names import GANG, JOB, NODE, OWNER, gang_name, pod_name
from drumbeat.engines.kubernetes.node_states import Occupant
from drumbeat.engines.kubernetes.render import PodScope
from drumbeat.engines.kubernetes.scheduling_gates import released_spec, supports_gates
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError
from drumbeat.ports.engines import Gang

Json = dict[str, Any]
GONE, EXISTS = frozenset({404}), frozenset({409})
END_GRACE_S = 15
"""The grace time of pods whose attempt is over: their ranks have stopped, and their results are saved."""
OVERDUE = timedelta(seconds=60)
"""How long after its grace time a pod is deleted by force: its machine's kubelet doesn't end it."""
PAGE = 500


class Api(Protocol):
    """The API of a cluster, as one of its users."""

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        ...

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of the API server."""
        ...

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        also: frozenset[int] = frozenset(),
    ) -> Json:
        """The API server's answer. also: status codes that count as success, with {} as the answer; of 409, only
        AlreadyExists.

        Raises EngineError, UnreachableError.
        """
        ...

    def close(self) -> None:
        """Closes the connection; a later request opens another."""
        ...


class Pods:
    """The pods, Secrets and ConfigMaps of one server's compute."""

    def __init__(self, api: Api, scope: PodScope) -> None:
        self._api, self.scope = api, scope
        self._path = f"/api/v1/namespaces/{scope.namespace}"

    # --- create -----------------------------------------------------------------------------------------------
    def create(self, spec: KubernetesCompute, gang: Gang, archive: AgentArchive, *, is_gated: bool = False) -> None:
        """Creates all missing objects of the gang, or none. is_gated: several pods wait for `release`.

        Raises EngineError, UnreachableError.
        """
        name = gang_name(self.scope.owner, gang.name)
        wanted = render.pods(spec, gang, self.scope, archive, is_gated=is_gated)
        present = self._listed({GANG: name})
        if dying := [one["metadata"]["name"] for one in present if "deletionTimestamp" in one["metadata"]]:
            raise UnreachableError(f"pod {dying[0]} of an earlier start is still ending")
        self._api.call("POST", f"{self._path}/configmaps", render.agent_map(archive, self.scope), also=EXISTS)
        if present:
            self._api.call("POST", f"{self._path}/secrets", render.secret(spec, gang, self.scope), also=EXISTS)
        else:
            self.renew_secret(spec, gang)
        names = {one["metadata"]["name"] for one in present}
        self._create_pods([one for one in wanted if one["metadata"]["name"] not in names], name)

    def _create_pods(self, missing: list[Json], secret: str) -> None:
        created: list[str] = []
        try:
            for one in missing:
                self._api.call("POST", f"{self._path}/pods", one, also=EXISTS)
                created.append(one["metadata"]["name"])
        except DrumbeatError:
            # All or none: the pods created so far would hold machines for nothing.
            for name in created:
                self._api.call("DELETE", f"{self._path}/pods/{name}", _grace(0), also=GONE)
            if len(created) < len(missing):
                self._api.call("DELETE", f"{self._path}/secrets/{secret}", also=GONE)
            raise

    def has_gates(self) -> bool:
        """Whether the cluster has scheduling gates, and its user may remove them. Raises UnreachableError."""
        attributes = {"namespace": self.scope.namespace, "verb": "patch", "resource": "pods"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            if not supports_gates(self._api.call("GET", "/version")):
                return False
            answer = self._api.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        except EngineError:  # Without the permission to ask, the engine does without gates.
            return False
        return bool(answer.get("status", {}).get("allowed"))

    def release(self, pod: Mapping[str, Any]) -> None:
        """Removes a pod's gate, so that Kubernetes places it. Raises EngineError, UnreachableError."""
        self._api.call("PATCH", f"{self._path}/pods/{pod['metadata']['name']}", released_spec(pod), also=GONE)

    def renew_secret(self, spec: KubernetesCompute, gang: Gang) -> None:
        """Replaces the gang's Secret; needs no permission to read or change Secrets."""
        made = render.secret(spec, gang, self.scope)
        self._api.call("DELETE", f"{self._path}/secrets/{made['metadata']['name']}", also=GONE)
        self._api.call("POST", f"{self._path}/secrets", made)

    # --- list -------------------------------------------------------------------------------------------------
    def by_gang(self) -> dict[str, dict[int, Json]]:
        """All pods by their gang's object name and their node."""
        pods: dict[str, dict[int, Json]] = {}
        for pod in self._listed({OWNER: self.scope.owner}):
            labels = pod["metadata"]["labels"]
            pods.setdefault(labels[GANG], {})[int(labels[NODE])] = pod
        return pods

    def gangs(self) -> set[str]:
        """Drumbeat's names of the gangs that have pods."""
        listed = self._listed({OWNER: self.scope.owner})
        annotations: list[dict[str, str]] = [pod["metadata"].get("annotations") or {} for pod in listed]
        return {each[JOB] for each in annotations if JOB in each}

    def nodes(self) -> list[Json] | None:
        """The cluster's nodes; None = the cluster's user may not list them."""
        try:
            return self._all("/api/v1/nodes", {})
        except EngineError as error:
            if "is forbidden: User" in error.what:
                return None
            raise

    def events(self, gang_object: str, node: int) -> list[Json]:
        """The events of a pod, oldest first; empty if the user may not list them."""
        selector = f"involvedObject.name={pod_name(gang_object, node)},involvedObject.kind=Pod"
        try:
            return self._all(f"{self._path}/events", {"fieldSelector": selector})
        except EngineError:
            return []

    def _listed(self, labels: Mapping[str, str]) -> list[Json]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self._all(f"{self._path}/pods", {"labelSelector": selector})

    def _all(self, path: str, query: Mapping[str, str]) -> list[Json]:
        items: list[Json] = []
        more = ""
        while True:
            asked: dict[str, str | int] = {**query, "limit": PAGE, **({"continue": more} if more else {})}
            answer = self._api.call("GET", path, query=asked)
            items += answer.get("items") or []
            more = answer.get("metadata", {}).get("continue", "")
            if not more:
                return items

    # --- delete -----------------------------------------------------------------------------------------------
    def are_running(self, gang: str, lost: Collection[str]) -> bool:
        """Whether a pod of the gang runs on a reachable machine and isn't being deleted."""
        return any(
            one.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in one["metadata"]
            and one["spec"].get("nodeName") not in lost
            for one in self._listed({GANG: gang_name(self.scope.owner, gang)})
        )

    def delete(self, gang: str, lost: Collection[str]) -> list[str]:
        """Deletes the gang's pods; returns the names of those that still exist.

        Call it only after the attempt is over: on a partitioned machine, a pod that was deleted by force continues to
        run.
        """
        present = self._listed({GANG: gang_name(self.scope.owner, gang)})
        for one in present:
            name = one["metadata"]["name"]
            if one["spec"].get("nodeName") in lost or _is_overdue(one):
                self._api.call("DELETE", f"{self._path}/pods/{name}", _grace(0), also=GONE)
            elif "deletionTimestamp" not in one["metadata"]:
                self._api.call("DELETE", f"{self._path}/pods/{name}", _grace(END_GRACE_S), also=GONE)
        return [one["metadata"]["name"] for one in present]

    def delete_all(self, gangs: Collection[str]) -> None:
        """Begins to end all pods of these gangs."""
        for gang in gangs:
            self.delete(gang, ())

    def delete_secret(self, gang: str) -> None:
        """Deletes the Secret with which the gang's pods enrolled."""
        self._api.call("DELETE", f"{self._path}/secrets/{gang_name(self.scope.owner, gang)}", also=GONE)


def occupants(pods: Mapping[str, Mapping[int, Json]]) -> dict[str, list[Occupant]]:
    """The job nodes by machine. pods: by gang and node, as listed."""
    by_machine: dict[str, list[Occupant]] = {}
    for node, pod in ((node, pod) for each in pods.values() for node, pod in each.items()):
        machine, status = pod["spec"].get("nodeName"), pod.get("status", {})
        if machine and status.get("phase") not in ("Failed", "Succeeded"):
            annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
            began = status.get("startTime")
            since = datetime.fromisoformat(began) if began else None
            by_machine.setdefault(machine, []).append(Occupant(annotations.get(JOB, ""), node, since))
    return by_machine


def _grace(seconds: int) -> Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds}


def _is_overdue(pod: Json) -> bool:
    until = pod["metadata"].get("deletionTimestamp")
    return until is not None and datetime.now(UTC) > datetime.fromisoformat(until) + OVERDUE

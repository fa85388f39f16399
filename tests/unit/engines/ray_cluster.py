"""A Ray cluster's dashboard in memory, as far as the engine asks it: jobs, packages, actors, groups and nodes."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Callable
from typing import Any

import httpx

Json = dict[str, Any]


class FakeRay:
    """Behaves like a dashboard whose jobs need no time. Its lock is the interpreter's."""

    def __init__(self, machines: int = 3) -> None:
        self.session = "session_1"
        self.nodes: dict[str, Json] = {f"id{n}": _node(f"id{n}", f"n{n}") for n in range(1, machines + 1)}
        self.groups: list[Json] = []
        self.actors: list[Json] = []
        self.jobs: dict[str, Json] = {}
        self.packages: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.token = ""
        self.is_away = False
        self.is_busy = False
        """Jobs wait to be run."""
        self.refuses = ""
        """Why a node can't be started."""
        self.refuses_survey = False
        self.stuck = ""
        self.survey = '{"event": "autoscaler", "config": null}\n'
        self._numbers = itertools.count(1)
        self._driver = ""

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.is_away:
            raise httpx.ConnectError("connection refused")
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return httpx.Response(403, text="Forbidden: Invalid authentication token")
        self.requests.append((request.method, request.url.path))
        parts = [one for one in request.url.path.split("/") if one][1:]
        return self._routes[parts[0]](request, parts[1:])

    @property
    def _routes(self) -> dict[str, Callable[[httpx.Request, list[str]], httpx.Response]]:
        return {"version": self._version, "packages": self._packages, "jobs": self._jobs, "v0": self._list}

    def _version(self, *_: object) -> httpx.Response:
        return httpx.Response(200, json={"session_name": self.session, "ray_version": "2.60.0"})

    def _packages(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        if request.method == "PUT":
            self.packages[parts[1]] = request.content
        return httpx.Response(200 if parts[1] in self.packages else 404)

    # --- jobs -------------------------------------------------------------------------------------------------
    def _jobs(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        if not parts:
            return self._submit(request) if request.method == "POST" else self._listing()
        job = self.jobs.get(parts[0])
        if job is None:
            return httpx.Response(404, text=f"Job {parts[0]} does not exist")
        if parts[1:] == ["stop"]:
            job["status"] = "STOPPED"
        if parts[1:] == ["logs"]:
            return httpx.Response(200, json={"logs": self.survey})
        if request.method == "DELETE":
            if job["status"] in ("PENDING", "RUNNING"):
                return httpx.Response(500, text="it is in a non-terminal state")
            del self.jobs[parts[0]]
        return httpx.Response(200, json=job)

    def _listing(self) -> httpx.Response:
        return httpx.Response(200, json=[*self.jobs.values(), {"submission_id": None, "status": "RUNNING"}])

    def _submit(self, request: httpx.Request) -> httpx.Response:
        body: Json = json.loads(request.content)
        name = body["submission_id"]
        if self.refuses_survey and name.endswith(".survey"):
            return httpx.Response(500, text="no more jobs are taken")
        if name in self.jobs:
            trace = f"Traceback (most recent call last):\nValueError: Job with submission_id {name} already exists."
            return httpx.Response(500, text=trace)
        self.jobs[name] = {"submission_id": name, "status": "PENDING", "message": "", "request": body}
        if not self.is_busy:
            self.run(name)
        return httpx.Response(200, json={"submission_id": name})

    def run(self, name: str) -> None:
        """Runs a job that waits."""
        job = self.jobs[name]
        job["job_id"] = self._driver = f"{next(self._numbers):02}000000"
        package = job["request"]["runtime_env"]["working_dir"].removeprefix("gcs://")
        with zipfile.ZipFile(io.BytesIO(self.packages[package])) as archive:
            gang: Json = json.loads(archive.read("gang.json")) if "gang.json" in archive.namelist() else {}
        verb = job["request"]["entrypoint"].split()[-1]
        verbs = {"start": self._start, "stop": self._stop}
        said = verbs[verb](gang) if verb in verbs else ""
        job["status"] = "FAILED" if said else "SUCCEEDED"
        job["message"] = f"Job entrypoint command failed with exit code 1, last available logs:\n{said}" if said else ""

    def _start(self, gang: Json) -> str:
        group = self.group(gang["name"])
        if group is None:
            group = {"name": gang["name"], "state": "PENDING", "bundles": gang["bundles"], "stats": {}}
            self.groups.append(group)
        self.place(group)
        if group["state"] != "CREATED":
            return ""
        if self.refuses:
            self.remove_group(gang["name"])
            return json.dumps({"event": "refused", "node": 1, "why": self.refuses})
        for node, place in enumerate(group["places"]):
            self.actors.append(_actor(f"{gang['name']}/{node}", place) | {"job_id": self._driver})
        return ""

    def place(self, group: Json) -> None:
        """Gives a group machines, if there are enough."""
        taken = {place for one in self.groups for place in one.get("places", ()) if one["name"] == group["name"]}
        free = [place for place, one in self.nodes.items() if one["state"] == "ALIVE" and place not in taken]
        if len(free) >= len(group["bundles"]):
            group |= {"state": "CREATED", "places": free[: len(group["bundles"])]}
        else:
            group["stats"] = {"scheduling_state": "INFEASIBLE"}

    def _stop(self, gang: Json) -> str:
        name = gang["name"]
        if self.stuck:
            return json.dumps({"event": "stuck", "why": self.stuck})
        for actor in self.actors:
            if actor["name"].rpartition("/")[0] == name and actor["state"] == "ALIVE":
                kill(actor, "RAY_KILL")
        self.remove_group(name)
        return ""

    # --- state ------------------------------------------------------------------------------------------------
    def _list(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        listed = {"nodes": [*self.nodes.values()], "actors": self.actors, "placement_groups": self.groups}[parts[0]]
        query = request.url.params
        for key, predicate, value in zip(
            query.get_list("filter_keys"),
            query.get_list("filter_predicates"),
            query.get_list("filter_values"),
            strict=True,
        ):
            listed = [one for one in listed if (str(one[key]) == value) is (predicate == "=")]
        return httpx.Response(200, json={"result": True, "data": {"result": {"result": listed}}})

    # --- what happens to it -----------------------------------------------------------------------------------
    @property
    def running_jobs(self) -> list[str]:
        return [name for name, one in self.jobs.items() if one["status"] in ("PENDING", "RUNNING")]

    def group(self, name: str) -> Json | None:
        return next((one for one in self.groups if one["name"] == name and one["state"] != "REMOVED"), None)

    def remove_group(self, name: str) -> None:
        if group := self.group(name):
            group["state"] = "REMOVED"

    def actor(self, node: int) -> Json:
        holders = [one for one in self.actors if one["class_name"] == "BundleHolder"]
        return next(one for one in reversed(holders) if one["name"].endswith(f"/{node}"))

    def lose(self, node: int, message: str = "Unexpected termination: health check failed") -> None:
        """The machine of a node dies."""
        actor = self.actor(node)
        self.nodes[actor["node_id"]] |= {"state": "DEAD", "state_message": message}
        kill(actor, "NODE_DIED")

    def drain(self, node: int) -> None:
        """The machine of a node is drained: its actor says so."""
        gang = self.actor(node)["name"].rpartition("/")[0]
        notice = _actor(f"{gang}/leaving/{node}", "id1") | {"class_name": "DrainNotice", "state": "DEAD"}
        self.actors.append(notice)

    def leave(self, gang: str) -> None:
        """The agents of a gang leave, and so do its actors; the last one removes the group."""
        for actor in self.actors:
            if actor["name"].rpartition("/")[0] == gang:
                kill(actor, "INTENDED_USER_EXIT")
        self.remove_group(gang)

    def restart(self) -> None:
        """The head starts anew, without what it knew."""
        self.session = f"session_{next(self._numbers) + 1}"
        self.groups, self.actors, self.jobs = [], [], {}


def kill(actor: Json, reason: str, message: str = "") -> None:
    """An actor ends."""
    context = {"reason": reason, "error_message": message}
    actor |= {"state": "DEAD", "death_cause": {"actor_died_error_context": context}}


def _node(number: str, name: str) -> Json:
    resources = {"CPU": 4.0, "GPU": 2.0, "memory": 16 * 2.0**30}
    return {
        "node_id": number,
        "node_name": name,
        "state": "ALIVE",
        "state_message": None,
        "resources_total": resources,
    }


def _actor(name: str, node: str) -> Json:
    return {"name": name, "node_id": node, "state": "ALIVE", "class_name": "BundleHolder", "ray_namespace": "drumbeat"}

"""The program that a Ray job runs on the cluster: it starts or ends the nodes of one gang.

    python gang_program.py start | stop        beside `gang.json` and the agent's file, `agent.pyz`

`render.py` writes `gang.json`, with the bundles and their placement (`share_machines` in `jobfile/compute/ray.py`).

It runs with the cluster's own Python (3.9 or newer) and Ray, and imports nothing of drumbeat. Placement group and
actors are detached: they outlive this job, which ends as soon as it has done its part. Its output is lines of JSON.

`start` creates the group if it doesn't exist; once the group has its machines, it creates an actor for each node, which
starts the agent as a daemon and holds the node's bundle until that has left. While the group has no machines, the job
ends, and the server submits it again later: a waiting job would cost the head 200 MiB.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PLACED_WITHIN_S = 10.0
"""How long `start` waits for machines before its job ends."""
LOOK_S, DRAIN_LOOK_S, NODES_A_SECOND = 0.5, 2.0, 50
"""How often an actor checks its agent, and asks Ray whether its machine is drained: rarely in large gangs."""
AGENT_TIMEOUT_S, END_TIMEOUT_S, REMOVE_TIMEOUT_S = 60.0, 45.0, 10.0
OF_RAY = ("RAY_", "PYTHONPATH", "PYTHONUNBUFFERED", "OMP_NUM_THREADS")
"""Prefixes of variables that Ray sets for its own processes."""
AGENT_FILE = "agent.pyz"


def ray_module() -> Any:
    """The module `ray`, which only the cluster has."""
    return importlib.import_module("ray")


def say(**line: object) -> None:
    """Prints a line for the server, which Ray keeps with the job."""
    print(json.dumps(line), flush=True)  # noqa: T201 (the job's log)


# --- on a machine ---------------------------------------------------------------------------------------------------
def own_folder() -> Path:
    """The machine's folder; the same as in `drumbeat.node.host.node_holder`."""
    return Path(tempfile.gettempdir(), f"drumbeat-{os.getuid()}-{os.uname().nodename}")


def require_private(folder: Path) -> None:
    """Raises PermissionError where another user created the folder or has access to it: its files are executed."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(1, "the folder isn't private: remove it, or `chmod 700` it if it's yours", str(folder))


def agent_folder(gang: str, *node: str) -> Path:
    """The folder of the agent's file of a gang, or of one of its nodes."""
    return Path(own_folder(), ".agents", gang, *node)


def ask_agent_module(command: list[str], request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a module in the agent's file to a request: JSON, or {"error": …}."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(OF_RAY)}
    try:
        done = subprocess.run(
            command, input=json.dumps(request), env=variables, capture_output=True, text=True,
            timeout=AGENT_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    with contextlib.suppress(ValueError):
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}


class BundleHolder:
    """The actor of one node, which holds its bundle."""

    def __init__(self, gang: str, node: int, size: int) -> None:
        self.gang, self.node, self.size = gang, node, size
        self.folder, self.python, self.is_drained = "", "", False

    def begin(self, python: str, archive: bytes, enrolment: str) -> str:
        """Starts the node unless it runs; returns why it can't be started, "" = it runs."""
        self.python = python
        if self.folder:
            return ""
        ray = ray_module()
        address = ray.util.get_node_ip_address()
        request = {
            "enrolment": enrolment,
            "gpus": [str(one) for one in ray.get_runtime_context().get_accelerator_ids().get("GPU", [])],
            "address": "" if address.startswith("127.") else address,
        }
        try:
            file = self._keep(archive)
        except OSError as error:
            return str(error)
        words = [python or sys.executable, "-I", file, "drumbeat.node.host.ray_node", self.gang, str(self.node)]
        answer = ask_agent_module(words, request)
        if "error" in answer:
            return str(answer["error"])
        self.folder = str(answer["folder"])
        threading.Thread(target=self._watch, daemon=True).start()
        return ""

    def _keep(self, archive: bytes) -> str:
        """Copies the agent's file: Ray removes a job's files some time after the job, but the agent lives longer."""
        own, place = own_folder(), agent_folder(self.gang, str(self.node))
        own.mkdir(0o700, parents=True, exist_ok=True)
        require_private(own)
        place.mkdir(parents=True, exist_ok=True)
        part = place / f"part.{os.getpid()}"
        part.write_bytes(archive)
        part.replace(place / AGENT_FILE)
        return str(place / AGENT_FILE)

    def _watch(self) -> None:
        """Ends the actor when its node has ended."""
        pause, next_look = max(DRAIN_LOOK_S, self.size / NODES_A_SECOND), 0.0
        while Path(self.folder).is_dir():
            time.sleep(LOOK_S)
            if not self.is_drained and time.monotonic() >= next_look:
                next_look = time.monotonic() + pause
                with contextlib.suppress(Exception):  # The next check follows.
                    self._look_for_drain()
        ray_module().get_runtime_context().current_actor.leave.remote()

    def _look_for_drain(self) -> None:
        """Reports once that this machine is being drained, by an actor whose name is the message: the server lists
        names.
        """
        if is_drained(ray_module().get_runtime_context().get_node_id()):
            self.is_drained = True
            brief_actor(DrainNotice, f"{self.gang}/leaving/{self.node}").leave.remote()

    def end(self) -> str:
        """Ends all processes of the gang on this machine; returns what can't be ended, "" = nothing."""
        return end_node(self.gang, self.python, str(agent_folder(self.gang, str(self.node)) / AGENT_FILE))

    def leave(self) -> None:
        """Ends this actor; the last one of a gang has its group removed."""
        if len(living_holders(self.gang)) <= 1:
            brief_actor(GroupRemover, f"{self.gang}/over/{self.node}").remove.remote(self.gang)
        shutil.rmtree(agent_folder(self.gang, str(self.node)), ignore_errors=True)
        ray_module().actor.exit_actor()


class DrainNotice:
    """An actor whose name says that a machine is being drained."""

    def leave(self) -> None:
        """Ends this actor; Ray continues to list it."""
        ray_module().actor.exit_actor()


class GroupRemover:
    """An actor outside a gang's group that removes the group."""

    def remove(self, gang: str) -> None:
        """Waits until the gang's own actors have ended."""
        await_no_holders(gang)
        remove_group(gang)
        ray_module().actor.exit_actor()


def brief_actor(kind: type, name: str) -> Any:
    """Creates an actor that needs no resources."""
    return ray_module().remote(kind).options(name=name, num_cpus=0, lifetime="detached").remote()


def end_node(gang: str, python: str = "", file: str = "") -> str:
    """Ends all processes of a gang on this machine; returns what can't be ended, "" = nothing.

    python: the interpreter of its agents, "" = this one. file: the agent's file, if it isn't the one beside this
    program.
    """
    own = own_folder()
    with contextlib.suppress(FileNotFoundError):
        if own.lstat().st_uid != os.getuid():
            return ""  # Nothing was started in the folder of another user.
        try:
            require_private(own)
        except PermissionError as error:
            return str(error)
    file = file or str(Path(AGENT_FILE).absolute())
    request = {"folder": str(own), "gang": gang, "leave_s": 0.0}
    answer = ask_agent_module([python or sys.executable, "-I", file, "drumbeat.node.host", "stop"], request)
    shutil.rmtree(agent_folder(gang), ignore_errors=True)
    if "error" in answer and not Path(own, gang).exists():
        return ""  # A missing interpreter has started nothing.
    return str(answer.get("error") or answer.get("stuck", {}).get(gang, ""))


# --- on the cluster -------------------------------------------------------------------------------------------------
def living_holders(gang: str) -> list[str]:
    """The names of the gang's living actors."""
    names: list[str] = [one["name"] for one in ray_module().util.list_named_actors(all_namespaces=True)]
    return [one for one in names if one.rpartition("/")[0] == gang]


def await_no_holders(gang: str) -> None:
    """Waits a moment until none of the gang's actors lives."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while living_holders(gang) and time.monotonic() < deadline:
        time.sleep(0.1)


def remove_group(gang: str) -> None:
    """Removes the gang's group, if there is one."""
    util = ray_module().util
    with contextlib.suppress(ValueError):
        util.remove_placement_group(util.get_placement_group(gang))


def placed_group(gang: dict[str, Any]) -> Any:
    """The gang's placement group, None while it has no machines."""
    util = ray_module().util
    try:
        group = util.get_placement_group(gang["name"])
    except ValueError:
        group = util.placement_group(gang["bundles"], strategy=gang["strategy"], name=gang["name"], lifetime="detached")
    return group if group.wait(PLACED_WITHIN_S) else None


def start(gang: dict[str, Any]) -> int:
    """Starts the gang. Returns 0 if its nodes run or its group waits, 1 if a node can't be started (and prints why)."""
    group, ray = placed_group(gang), ray_module()
    if group is None:
        say(event="waits")
        return 0
    archive = ray.put(Path(AGENT_FILE).read_bytes())
    holders = [holder(gang, group, node) for node in range(len(gang["bundles"]))]
    begun = [one.begin.remote(gang["python"], archive, gang["enrolments"][node]) for node, one in enumerate(holders)]
    refusals = [(node, why) for node, why in enumerate(ray.get(begun)) if why]
    for node, why in refusals[:1]:
        stop(gang)
        say(event="refused", node=node, why=why)
    return 1 if refusals else 0


def holder(gang: dict[str, Any], group: Any, node: int) -> Any:
    """The actor of a node: the living one, else a new one in its bundle."""
    ray, name, bundle = ray_module(), f"{gang['name']}/{node}", gang["bundles"][node]
    with contextlib.suppress(ValueError):
        return ray.get_actor(name)
    placing = importlib.import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
    options = {
        "name": name,
        "lifetime": "detached",
        "max_restarts": 0,
        "num_cpus": bundle["CPU"],
        "num_gpus": bundle.get("GPU", 0),
        "resources": {key: value for key, value in bundle.items() if key not in ("CPU", "GPU")},
        "scheduling_strategy": placing(group, placement_group_bundle_index=node),
    }
    return ray.remote(BundleHolder).options(**options).remote(gang["name"], node, len(gang["bundles"]))


def stop(gang: dict[str, Any]) -> int:
    """Ends the gang. Returns 0 if nothing of it is left, 1 if a process can't be ended (and prints which)."""
    ray, name = ray_module(), gang["name"]
    groups = [one for one in ray.util.placement_group_table().values() if one["name"] == name]
    machines = {place for one in groups for place in one["bundles_to_node_id"].values()}
    machines &= {one["NodeID"] for one in ray.nodes() if one["Alive"]}
    placing = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    task, options = ray.remote(end_node), {"num_cpus": 0, "max_retries": 0}
    ends = {
        one: task.options(**options, scheduling_strategy=placing(one, soft=False)).remote(name, gang["python"])
        for one in sorted(machines)
    }
    stuck = [why for machine, reference in ends.items() if (why := end_result(name, reference, machine, groups))]
    if stuck:
        say(event="stuck", why=stuck[0])
        return 1
    for one in living_holders(name):
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(one))
    remove_group(name)
    await_no_holders(name)
    return 0


def end_result(gang: str, reference: Any, machine: str, groups: list[dict[str, Any]]) -> str:
    """The result of ending a gang on a machine (a node id of Ray): what can't be ended, "" = nothing. A machine that
    was lost meanwhile has nothing left to end.

    A drained machine accepts no tasks, yet methods of its actors can still be called. If none of the gang's actors
    lives there, the gang's nodes have left it: an actor ends only after its node.
    """
    ray = ray_module()
    try:
        try:
            return str(ray.get(reference, timeout=END_TIMEOUT_S))
        except ray.exceptions.RayError as error:
            if type(error).__name__ != "TaskUnschedulableError" or not is_drained(machine):
                raise
            holders = holders_on(gang, machine, groups)
            return str(ray.get(holders[0].end.remote(), timeout=END_TIMEOUT_S)) if holders else ""
    except ray.exceptions.GetTimeoutError:
        return "a machine doesn't answer"
    except ray.exceptions.RayError as error:
        living = {one["NodeID"]: one.get("NodeManagerHostname", machine) for one in ray.nodes() if one["Alive"]}
        if machine not in living:
            return ""
        return f"its processes on machine {living[machine]} can't be ended now ({type(error).__name__})"


def is_drained(machine: str) -> bool:
    """Whether Ray is draining a machine; False, too, where its version doesn't report it."""
    with contextlib.suppress(Exception):
        return machine in importlib.import_module("ray._private.state").state.get_draining_nodes()
    return False


def holders_on(gang: str, machine: str, groups: list[dict[str, Any]]) -> list[Any]:
    """The gang's living actors on a machine that can end its nodes; actors of an earlier drumbeat can't."""
    places = {str(node): place for one in groups for node, place in one["bundles_to_node_id"].items()}
    actors: list[Any] = []
    for name in living_holders(gang):
        if places.get(name.rpartition("/")[2]) == machine:
            with contextlib.suppress(ValueError):
                actors.append(ray_module().get_actor(name))
    return [one for one in actors if hasattr(one, "end")]


def main() -> int:
    """Runs `start` or `stop`, and returns the exit code."""
    gang: dict[str, Any] = json.loads(Path("gang.json").read_text(encoding="utf-8"))
    ray_module().init(address="auto", log_to_driver=False, namespace=gang["namespace"], logging_level="ERROR")
    return {"start": start, "stop": stop}[sys.argv[1]](gang)


if __name__ == "__main__":
    sys.exit(main())

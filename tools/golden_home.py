"""Makes a home that a version leaves behind when its server is killed in the middle of everything, as golden files.

Run with that version's code on PYTHONPATH (tests/golden/README.md), as root: the server runs under another name of its
machine. The paths of this Python and of that code get into the files. The server is asked over HTTP alone, so that
nothing here depends on where any version has its classes; `STORES` is a program of that version's own, for rows that
only several servers leave.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import httpx

HOME = Path("/srv/drumbeat")
"""The server's home, which golden files name."""
MACHINE = "box"
CORES = "import os; os.sched_getaffinity = lambda pid: set(range(12))"
"""For the server's Python: the machine seems to have room for all jobs that are to run at once."""
CLONE_NEWUTS = 0x04000000

RUN = "0123456789abcdef0123456789abcdef"
STORE = {"type": "azure_blob", "account_name": "acme", "container_name": "train"}
BUCKET = {"type": "s3", "bucket": "train", "endpoint": "http://127.0.0.1:9"}
CATALOG: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "aliases/compute/gpu-cluster", {"target": "local"}),
    ("PUT", "aliases/environment/azureml:train:1", {"target": "current"}),
    ("POST", "datastores", {"check": False, "document": {
        "name": "blobs", **STORE, "description": "training data", "tags": {"team": "a"},
        "credentials": {"account_key": "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="}}}),
    ("POST", "datastores", {"check": False, "document": {
        "name": "away", **BUCKET, "credentials": {"access_key_id": "ada", "secret_access_key": "the secret"}}}),
    ("POST", "registries", {"document": {
        "name": "acme", "target": "ghcr.io/acme", "description": "images", "credentials": {
            "username": "ada", "password": "the registry's password"}}}),
    ("POST", "notices", {"document": {
        "name": "hook", "type": "webhook", "jobs": "named", "on": ["failed"], "description": "the team's channel",
        "credentials": {"url": "http://127.0.0.1:9/hook"}}}),
    ("POST", "notices", {"document": {
        "name": "mail", "type": "mail", "host": "127.0.0.1", "port": 9, "sender": "drumbeat@example.org",
        "to": ["ada@example.org"], "credentials": {"username": "ada", "password": "the mail's password"}}}),
    ("POST", "computes", {"document": {
        "name": "pair", "type": "ssh", "hosts": [{"address": "127.0.0.1", "port": 9, "name": "one", "cpus": 4}],
        "description": "two machines under a desk"}}),
    ("POST", "environments", {"document": {
        "name": "tools", "version": "3", "description": "what jobs use", "tags": {"team": "a"},
        "conda_file": {"dependencies": ["python=3.11", {"pip": ["einops==0.8.1"]}]}}}),
    ("POST", "environments", {"document": {"name": "image", "image": "docker.io/library/python:3.12"}}),
    ("POST", "components", {"document": {
        "name": "count", "version": "2", "type": "command", "display_name": "Count", "command": "echo ${{inputs.n}}",
        "inputs": {"n": {"type": "integer", "default": 3}}, "environment": "current", "is_deterministic": True}}),
    ("POST", "data", {"document": {
        "name": "digits", "version": "1", "type": "uri_folder", "description": "ten of them",
        "tags": {"kind": "images"}, "path": "azureml://datastores/workspaceblobstore/paths/digits/"}}),
    ("PUT", "quotas/person/*", {"slots": 50, "gpus": 4, "waiting": 30}),
    ("PUT", "quotas/experiment/digits", {"slots": 20}),
    ("PUT", "quotas/half-life", {"half_life_s": 86400}),
    ("PUT", "retention", {"retain_s": 2_592_000}),
    ("POST", "tokens", {"person": "ada", "role": "contributor"}),
    ("POST", "tokens", {"person": "grace", "role": "reader"}),
]  # fmt: skip
MLFLOW: list[tuple[str, dict[str, Any]]] = [
    ("experiments/create", {"name": "by hand", "tags": [{"key": "team", "value": "a"}]}),
    ("registered-models/create", {"name": "net", "description": "the net", "tags": [{"key": "k", "value": "v"}]}),
    ("model-versions/create", {"name": "net", "source": f"runs:/{RUN}/model", "description": "the first"}),
    ("model-versions/create", {"name": "net", "source": f"runs:/{RUN}/model", "description": "the second"}),
    ("registered-models/alias", {"name": "net", "alias": "champion", "version": "1"}),
]
WAIT = "while ! test -e /nowhere; do sleep 0.5; done"
METRICS = (
    "import drumbeat; from drumbeat.rank.parameters import log_parameters; log_parameters({'lr': 0.1});"
    " [drumbeat.log(loss=1 / (step + 1), accuracy=step / 100, step=step) for step in range(70)]"
)


def command(name: str, line: str, **keys: Any) -> dict[str, Any]:
    """A job file."""
    drumbeat = {"environment": "current", "max_retries": 0, "system_metrics": False, **keys.pop("drumbeat", {})}
    return {"name": name, "command": line, "experiment_name": "digits", "drumbeat": drumbeat, **keys}


TRAINED = {
    "display_name": "trained well", "description": "the first net", "tags": {"team": "a", "ü": "ß"},
    "distribution": {"type": "pytorch", "process_count_per_instance": 2},
    "inputs": {"digits": {"type": "uri_folder", "path": "azureml:digits:1"}, "epochs": 3},
    "outputs": {"model": {
        "type": "uri_folder", "name": "weights", "path": "azureml://datastores/workspaceblobstore/paths/weights/"}},
    "properties": {"owner": "ada"},
}  # fmt: skip
SWEEP = {
    "type": "sweep", "name": "search", "experiment_name": "searches", "sampling_algorithm": "grid",
    "trial": {"command": 'python -c "import drumbeat; drumbeat.log(accuracy=${{search_space.lr}})"; '
              f"test ${{{{search_space.lr}}}} = 0.1 || {WAIT}"},
    "search_space": {"lr": {"type": "choice", "values": [0.1, 0.2, 0.3]}},
    "objective": {"goal": "maximize", "primary_metric": "accuracy"},
    "limits": {"max_total_trials": 3, "max_concurrent_trials": 1},
    "drumbeat": {"environment": "current", "system_metrics": False},
}  # fmt: skip
PIPELINE = {
    "type": "pipeline", "name": "chain", "experiment_name": "chains", "inputs": {"n": 7},
    "outputs": {"counted": {"type": "uri_folder"}},
    "jobs": {
        "write": {"type": "command", "command": "echo ${{inputs.n}} > ${{outputs.out}}/n",
                  "environment": "current", "inputs": {"n": "${{parent.inputs.n}}"},
                  "outputs": {"out": {"type": "uri_folder"}}},
        "hold": {"type": "command", "command": f"{WAIT}; cat ${{{{inputs.n}}}}/n", "environment": "current",
                 "drumbeat": {"system_metrics": False}, "inputs": {"n": "${{parent.jobs.write.outputs.out}}"},
                 "outputs": {"counted": "${{parent.outputs.counted}}"}},
        "later": {"type": "command", "component": "azureml:count:2", "inputs": {"n": 1}},
    },
}  # fmt: skip
ENDED: list[tuple[dict[str, Any], str]] = [
    (command("trained", f'python -c "{METRICS}" && echo 1 > ${{{{outputs.model}}}}/$RANK', **TRAINED), "completed"),
    (command("broken", "echo a last word; exit 3", drumbeat={"notify": ["hook"]}), "failed"),
    (command("hidden", "true"), "completed"),
    (command("gone", "true"), "completed"),
    (command("leaving", "true"), "completed"),
    (command("unsent", "echo 1 > ${{outputs.out}}/n", outputs={"out": {
        "type": "uri_folder", "path": "azureml://datastores/away/paths/out/"}}), "completed"),
]  # fmt: skip
"""Jobs with the state that each is to come to, one after the other."""
HELD: list[tuple[dict[str, Any], str]] = [
    (command("training", f'python -c "{METRICS}"; {WAIT}', resources={"instance_count": 2}), "running"),
    (command("preparing", "true", drumbeat={"prepare": WAIT}), "staging"),
    (command("canceled", WAIT), "running"),
    (command("stopping", f"trap '' TERM; {WAIT}", drumbeat={"grace_s": 3600}), "running"),
    (SWEEP, "running"),
    (PIPELINE, "running"),
]  # fmt: skip
QUEUED: list[tuple[dict[str, Any], str]] = [
    (command("first", "true", resources={"instance_count": 3}, queue_settings={"priority": "low"}, distribution={
        "type": "pytorch", "process_count_per_instance": 4}), "queued"),
    (command("second", "true", compute="pair"), "queued"),
]  # fmt: skip
STARTING = command("starting", "true", experiment_name="starting")
"""The one at whose start the server is killed."""
STORES = """
import hashlib, pathlib, sys
from drumbeat.core.life.events import CancelRequested
from drumbeat.ports import Ownership
from drumbeat.stores.sql import make_store
home = pathlib.Path(sys.argv[1])
store = make_store(home / "drumbeat.db")
store.agreed("key", hashlib.sha256(b"fingerprint" + (home / "key").read_bytes()).hexdigest()[:16])
token = store.lease(Ownership.SHARED, address="http://127.0.0.1:9")
store.show_doors(token, {"pair": ("https://127.0.0.1:9",)})
store.delete_job(token, "leaving", "")
store.post("first", CancelRequested("grace"))
store.close()
"""
READ = (
    "aliases", "components", "components/count/versions/2", "data", "data/digits/versions/1", "data/weights",
    "datastores", "environments", "environments/tools/versions/3", "environments/image", "notices", "registries",
    "quotas", "tokens", "experiments?archived=true", "job-counts?parent=search", "jobs?experiment=digits&archived=true",
    "jobs?experiment=searches&parent=search", "pipelines/chain", "sweeps/search", "ledger?job=trained",
    "compare?job=trained&job=hidden", "computes/pair",
)  # fmt: skip
MOMENTARY = {"problem", "machines"}
"""Keys whose values a server has in its memory: how a notice went, since when a machine is away."""
READ_OF_JOBS = (
    "jobs/{}", "jobs/{}/story", "jobs/{}/definition", "jobs/{}/logs", "jobs/{}/files", "jobs/{}/metrics",
)  # fmt: skip
READ_OF_RUNS = (
    "registered-models/get?name=net", "registered-models/alias?name=net&alias=champion",
    "model-versions/get?name=net&version=1", "runs/get?run_id={run}", "experiments/get-by-name?experiment_name=by hand",
    "metrics/get-history?run_id={run}&metric_key=loss",
)  # fmt: skip


class Api:
    """The server's API with the token of its home."""

    def __init__(self, home: Path) -> None:
        self.url: str = json.loads((home / "server.json").read_text())["url"]
        token = (home / "token").read_text().strip()
        self._http = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def close(self) -> None:
        """Ends its connections."""
        self._http.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer. Raises RuntimeError."""
        answer = self._http.request(method, path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.text}")
        return answer.json() if answer.content else None

    def get(self, path: str) -> Any:
        """What a client reads."""
        return self.ask("GET", path)

    def submit(self, document: dict[str, Any]) -> str:
        """Sends a job, and returns its name."""
        return str(self.ask("POST", "/api/v1/jobs", {"document": document, "key": document["name"]})["name"])

    def state(self, job: str) -> str:
        """The state of a job, "" = it isn't there yet."""
        answer = self._http.get(f"/api/v1/jobs/{job}")
        return str(answer.json()["state"]) if answer.is_success else ""

    def wait(self, job: str, state: str) -> None:
        """Until the job is in that state."""
        until(lambda: self.state(job) == state, f"{job} {state}")


def until(condition: Callable[[], object], what: str) -> None:
    """Waits for some minutes. Raises TimeoutError."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)


@contextlib.contextmanager
def served(folder: Path) -> Generator[tuple[subprocess.Popen[bytes], Path]]:
    """The version's server over an empty home, and the file that names the failpoint at which it dies."""
    (folder / "sitecustomize.py").write_text(CORES)
    fault = folder / "fault"
    path = f"{folder}:{os.environ['PYTHONPATH']}"
    variables = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/root", "PYTHONPATH": path, "USER": "ada",
        "DRUMBEAT_FAULT": f"@{fault}", "DRUMBEAT_HOME": str(HOME), "DRUMBEAT_SPARE_S": "0",
    }  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "-m", "drumbeat.server", "--home", str(HOME), "--idle-stop", "0"], env=variables
    )
    try:
        until((HOME / "server.json").exists, "the server")
        yield server, fault
    finally:
        server.kill()
        server.wait()
        end_processes()


def end_processes() -> None:
    """Kills what has the home in its command line or its variables."""
    for _ in range(100):
        found = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and is_of_home(one)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_of_home(process: Path) -> bool:
    """Whether a process is an agent, a supervisor or a rank of the home, and not this one."""
    with contextlib.suppress(OSError):
        words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        return process.name != str(os.getpid()) and os.fsencode(HOME) in words
    return False


def fill(api: Api) -> list[str]:
    """Brings every table its rows; returns the names of the jobs."""
    digits = HOME / "datastores/workspaceblobstore/digits"
    digits.mkdir(parents=True)
    (digits / "one").write_text("1")
    for method, path, body in CATALOG:
        api.ask(method, f"/api/v1/{path}", body)
    for document, state in ENDED:
        api.wait(api.submit(document), state)
    for route, body in MLFLOW:
        api.ask("POST", f"/mlflow/api/2.0/mlflow/{route}", body)
    log_runs(api)
    api.ask("POST", "/api/v1/jobs/hidden/archive")
    api.ask("DELETE", "/api/v1/jobs/gone")
    for document, state in HELD:
        api.wait(api.submit(document), state)
    for child in ("search_1", "chain_hold"):
        until(lambda job=child: api.state(job) == "running", child)
    for document, state in QUEUED:
        api.wait(api.submit(document), state)
    for name in ("stopping", "canceled"):
        api.ask("POST", f"/api/v1/jobs/{name}/cancel")
    api.wait("stopping", "stopping")
    api.wait("canceled", "canceled")
    children = ["search_0", "search_1", "chain_write", "chain_hold"]
    return [one["name"] for one, _ in (*ENDED, *HELD, *QUEUED) if one["name"] not in ("gone", "leaving")] + children


def log_runs(api: Api) -> None:
    """A run outside of jobs, and one that is deleted."""
    mlflow, at = "/mlflow/api/2.0/mlflow", 1_800_000_000_000
    experiment = api.get(f"{mlflow}/experiments/get-by-name?experiment_name=by hand")["experiment"]["experiment_id"]
    runs = [
        api.ask("POST", f"{mlflow}/runs/create", {"experiment_id": experiment, "run_name": name, "start_time": at})
        for name in ("by hand", "deleted")
    ]
    kept, deleted = (one["run"]["info"]["run_id"] for one in runs)
    metrics = [{"key": "loss", "value": 1 / (n + 1), "timestamp": at + n, "step": n} for n in range(3)]
    api.ask("POST", f"{mlflow}/runs/log-batch", {
        "run_id": kept, "metrics": metrics, "params": [{"key": "lr", "value": "0.1"}],
        "tags": [{"key": "team", "value": "a"}]})  # fmt: skip
    dataset = {"name": "digits", "digest": "abc", "source_type": "local", "source": "{}"}
    context = [{"key": "mlflow.data.context", "value": "training"}]
    api.ask("POST", f"{mlflow}/runs/log-inputs", {"run_id": kept, "datasets": [{"dataset": dataset, "tags": context}]})
    api.ask("POST", f"{mlflow}/runs/delete", {"run_id": deleted})
    api.ask("DELETE", f"{mlflow}/model-versions/delete", {"name": "net", "version": "2"})


def answers(api: Api, jobs: list[str]) -> dict[str, Any]:
    """What clients read, by path: as far as it is the same when it is read again after a while."""
    found = api.get("/mlflow/api/2.0/mlflow/experiments/get-by-name?experiment_name=by hand")["experiment"]
    search = {"experiment_ids": [found["experiment_id"]], "filter": "", "max_results": 100}
    (run,) = api.ask("POST", "/mlflow/api/2.0/mlflow/runs/search", search)["runs"]
    paths = [f"/api/v1/{path}" for path in READ]
    paths += [f"/api/v1/{path.format(job)}" for job in jobs for path in READ_OF_JOBS]
    paths += [f"/mlflow/api/2.0/mlflow/{path.format(run=run['info']['run_id'])}" for path in READ_OF_RUNS]
    first = {path: api.get(path) for path in paths}
    time.sleep(5)
    return {path: same_in(first[path], api.get(path)) for path in paths}


def same_in(first: Any, second: Any) -> Any:
    """What two answers have in common: how long something has lasted is another number each time."""
    if isinstance(first, dict) and isinstance(second, dict):
        one, other = cast("dict[str, Any]", first), cast("dict[str, Any]", second)
        return {key: same_in(one[key], other[key]) for key in one if is_lasting(key, one[key], other[key])}
    if isinstance(first, list) and isinstance(second, list):
        return [same_in(*both) for both in zip(cast("list[Any]", first), cast("list[Any]", second), strict=True)]
    return second


def is_lasting(key: str, first: Any, second: Any) -> bool:
    """Whether a value is the same, or has values that may be."""
    return key not in MOMENTARY and (first == second or isinstance(first, dict | list))


def dump(file: Path) -> str:
    """The database as SQL."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def files() -> dict[str, str]:
    """The files of the home that a server reads again, by path, in base64 where they aren't text."""
    kept = [HOME / "key", HOME / "token", *(HOME / "datastores").rglob("*"), *(HOME / "jobs").rglob("*")]
    return {str(one.relative_to(HOME)): text_of(one) for one in sorted(kept) if one.is_file()}


def text_of(file: Path) -> str:
    """The content of a file."""
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(file.read_bytes()).decode()


def main() -> None:
    """Writes the golden files into the folder that is named."""
    folder = Path(sys.argv[1])
    if HOME.exists():
        raise SystemExit(f"{HOME} is in the way")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS):
        raise SystemExit("needs root, for a name of the machine of its own")
    import socket

    socket.sethostname(MACHINE)
    with tempfile.TemporaryDirectory() as own, served(Path(own)) as (server, fault):
        api = Api(HOME)
        read = answers(api, fill(api))
        fault.write_text("effect.before")
        with contextlib.suppress(httpx.HTTPError):
            api.submit(STARTING)
        server.wait(60)
        end_processes()
        subprocess.run([sys.executable, "-c", STORES, str(HOME)], check=True)
        for name in ("drumbeat", "metrics"):
            (folder / f"{name}.sql").write_text(dump(HOME / f"{name}.db"))
        for name, made in (("answers", read), ("files", files())):
            (folder / f"{name}.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""Shows serving in one command: `make demo-serve`.

A job trains a small classifier and registers its model, an endpoint with two replicas serves it, clients send held-out
digits without a pause, and one replica is killed with -9 meanwhile. What the clients saw is drawn in the terminal and
as an SVG. The endpoint is removed at the end; on a terminal after Enter, with KEEP=yes not at all.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from drumbeat import Client
from drumbeat.model.api.endpoints import DeploymentView
from drumbeat.model.errors import DrumbeatError, NotFoundError
from tools.serve_picture import Request, print_charts, summary, write_svg

ROOT = Path(__file__).parents[1]
DRUMBEAT = ".venv/bin/drumbeat"
RECIPE = "recipes/fashion_mnist"
ENDPOINT, DEPLOYMENT, MODEL = "demo-serve", "blue", "demo-digits"
REPLICAS, CLIENTS = 2, 4
PAUSE_S = 0.02
"""Of a client between an answer and its next request: the replicas share this machine with everything else."""
STEADY_S = 3.0
"""How long clients send requests before the kill, and after the replica is back."""
TIMEOUT_S = 30.0
BACK_WITHIN_S = 180.0


def say(text: str) -> None:
    """Prints a line of the demo."""
    print(f"\ndemo-serve: {text}", flush=True)


def drumbeat(*arguments: str) -> None:
    """Prints a command and runs it. Raises CalledProcessError."""
    say(shlex.join(["drumbeat", *arguments]))
    subprocess.run([DRUMBEAT, *arguments], check=True)


@dataclass
class Clients:
    """Clients that send digits until `is_ending`, and what they saw."""

    url: str
    key: str
    digits: list[tuple[bytes, int]]
    """Bodies of requests, and the label of each."""
    requests: list[Request] = field(default_factory=list[Request])
    right: int = 0
    is_ending: bool = False
    started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now_s(self) -> float:
        """Seconds since the first request."""
        return time.monotonic() - self.started

    def send(self, seed: int) -> None:
        """Sends one request after the other, on a connection that is kept."""
        draw = random.Random(seed)
        address = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(address.netloc, timeout=TIMEOUT_S)
        while not self.is_ending:
            body, label = draw.choice(self.digits)
            begun, failure, answer = time.monotonic(), "", b""
            try:
                connection.request("POST", address.path, body, headers)
                response = connection.getresponse()
                answer = response.read()
                failure = "" if response.status == http.HTTPStatus.OK else f"{response.status} {answer[:200]!r}"
            except (OSError, http.client.HTTPException) as error:
                failure = repr(error)
                connection.close()
            took = time.monotonic() - begun
            with self._lock:
                self.requests.append(Request(self.now_s(), took, failure))
                self.right += not failure and json.loads(answer)["labels"] == [label]
            time.sleep(PAUSE_S)
        connection.close()

    @contextmanager
    def running(self) -> Generator[None]:
        """Has the clients send until the end of the block."""
        threads = [threading.Thread(target=self.send, args=(seed,)) for seed in range(CLIENTS)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self.is_ending = True
            for one in threads:
                one.join()


def held_out_digits(folder: Path) -> list[tuple[bytes, int]]:
    """Returns requests of one digit each, which the training has not seen, and their labels."""
    sys.path.insert(0, str(ROOT / RECIPE))
    from idx import load_split

    images, labels = load_split(folder, "t10k")
    return [
        (json.dumps({"data": [image]}).encode(), label)
        for image, label in zip(images.tolist(), labels.tolist(), strict=True)
    ]


def scoring_processes(job: str) -> dict[int, str]:
    """Returns the processes that score for a deployment, by id, with the job of the replica that each belongs to."""
    found: dict[int, str] = {}
    for process in psutil.process_iter():
        try:
            if "drumbeat.scoring" in process.cmdline():
                found[process.pid] = process.environ().get("DRUMBEAT_JOB", "")
        except psutil.Error:
            continue
    return {pid: name for pid, name in found.items() if name.startswith(f"{job}_")}


def await_replicas(show: Callable[[], DeploymentView], without: int) -> None:
    """Waits until all replicas are ready, none of them by that process. Raises SystemExit after BACK_WITHIN_S."""
    deadline = time.monotonic() + BACK_WITHIN_S
    while True:
        shown = show()
        processes = scoring_processes(shown.job)
        if shown.ready == REPLICAS and len(processes) >= REPLICAS and without not in processes:
            return
        if time.monotonic() > deadline:
            sys.exit(f"demo-serve: the replica isn't back after {BACK_WITHIN_S:g} s: {shown.state}, {shown.sentence}")
        time.sleep(0.1)


def train(name: str, data: Path) -> None:
    """Trains and registers the model. Raises CalledProcessError."""
    subprocess.run([sys.executable, f"{RECIPE}/make_digits.py", str(data)], check=True)
    output = ("outputs.model.type=custom_model", f"outputs.model.name={MODEL}")
    sets = (f"inputs.data={data.resolve()}", *output)
    drumbeat("run", f"{RECIPE}/job.yml", *(word for one in sets for word in ("--set", one)), "--name", name)
    drumbeat("model", "show", MODEL)


def deploy() -> None:
    """Creates the endpoint and waits for both replicas. Raises CalledProcessError."""
    drumbeat("online-endpoint", "create", ENDPOINT)
    drumbeat("online-deployment", "create", "-f", f"{RECIPE}/deployment.yml", "--all-traffic")


def remove(client: Client) -> None:
    """Removes the endpoint with its replicas, if it is there."""
    try:
        client.delete_online_endpoint(ENDPOINT)
    except NotFoundError:
        return
    client.wait_until_gone(ENDPOINT)


def kill_one_under_load(client: Client, clients: Clients) -> tuple[float, float]:
    """Kills a replica while clients send requests. Returns when that was, and when both were ready again."""

    def show() -> DeploymentView:
        return client.online_deployment(ENDPOINT, DEPLOYMENT)

    with clients.running():
        time.sleep(STEADY_S)
        pid, replica = min(scoring_processes(show().job).items())
        killed_s = clients.now_s()
        say(f"kill -9 {pid}, which is the replica {replica}; {CLIENTS} clients go on")
        os.kill(pid, 9)
        await_replicas(show, without=pid)
        ready_s = clients.now_s()
        say(f"both replicas are ready again, {ready_s - killed_s:.1f} s after the kill")
        time.sleep(STEADY_S)
    return killed_s, ready_s


def report(name: str, clients: Clients, killed_s: float, ready_s: float) -> int:
    """Draws and prints what clients saw. Returns how many requests failed."""
    folder = Path("demo") / name
    folder.mkdir(parents=True, exist_ok=True)
    print()
    print_charts(clients.requests, killed_s)
    write_svg(folder / "requests.svg", clients.requests, killed_s, ready_s)
    failures = [one for one in clients.requests if one.failure]
    for one in failures[:5]:
        print(f"  failed at {one.ended_s:.1f} s: {one.failure}")
    body = "'{\"data\": [[[0, 0], [0, 255]]]}'"
    print(f"""demo-serve: {summary(clients.requests)}
  accuracy   {clients.right / len(clients.requests):.1%} of the digits that were sent
  picture    {folder / "requests.svg"}
  address    {clients.url}
  try        {DRUMBEAT} online-endpoint show {ENDPOINT}
             {DRUMBEAT} online-endpoint invoke {ENDPOINT} --data {body}
             {DRUMBEAT} online-deployment get-logs {DEPLOYMENT} -e {ENDPOINT}
             {DRUMBEAT} model verify {MODEL}
             {DRUMBEAT} show {name}""", flush=True)  # fmt: skip
    return len(failures)


def leave(client: Client) -> None:
    """Removes the endpoint, unless KEEP says otherwise; a user at a terminal says when."""
    if os.environ.get("KEEP"):
        say(f"the endpoint stays; remove it: {DRUMBEAT} online-endpoint delete {ENDPOINT}")
        return
    if sys.stdin.isatty():
        say("press Enter to remove the endpoint; until then it answers")
        sys.stdin.readline()
    remove(client)
    say(f"the endpoint and its replicas are gone; the job and the model {MODEL} stay (KEEP=yes keeps the endpoint)")


def main() -> int:
    """Runs the demo. Returns 1 when a request failed."""
    os.chdir(ROOT)
    name, data = time.strftime("demo-serve-%Y%m%d-%H%M%S"), Path(".cache/digits")
    with Client() as client:
        is_left = False
        try:
            remove(client)  # What an earlier run has kept: its replicas hold slots that the training needs.
            train(name, data)
            deploy()
            endpoint = client.online_endpoint(ENDPOINT)
            clients = Clients(
                endpoint.scoring_uri, client.online_endpoint_keys(ENDPOINT).primary, held_out_digits(data)
            )
            failed = report(name, clients, *kill_one_under_load(client, clients))
            is_left = True
            leave(client)
        except subprocess.CalledProcessError as error:
            print(f"demo-serve: `{shlex.join(map(str, error.cmd))}` ended with {error.returncode}", file=sys.stderr)
            return 1
        except DrumbeatError as error:
            print(f"demo-serve: {error}", file=sys.stderr)
            return 1
        finally:
            if not is_left:
                remove(client)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a scored request costs: servers of models beside drumbeat's, and its router beside HAProxy.

    python -m bench.serve --write docs/bench/serve.md

CPU is that of a server's whole process tree, per request; latencies are wrk's. Servers take turns within a round, and
ratios are taken within a round, since the machine may be busy. Needs wrk and haproxy (apt).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

import psutil

from bench.serve_programs import SCORE, TORCH
from bench.start import describe_machine
from drumbeat.model.routing_table import (
    DeploymentRoute,
    EndpointRoute,
    RouterListener,
    RoutingTable,
    digest,
    write_table,
)
from tools.kept_programs import INFERENCE_SERVER, LITSERVE, MLFLOW, KeptProgram

CONNECTIONS = (1, 16, 64)
KEY = "k" * 32
PAGE = """\
# Serving: what a request costs

<!-- Written by `make bench-serve`. -->

CPU milliseconds of the server's whole process tree per request, and p50 of its answers in ms, by the number of
connections; medians of {rounds} rounds of {seconds} s in which all take turns. Machine: {machine}.

## Servers of models

A scikit-learn pipeline whose prediction itself takes {model_ms:.2f} ms of CPU; one row a request. *Beyond the
model*: CPU at 16 connections without the prediction, as a ratio to drumbeat's, taken within a round.

{servers}

Goal: the cheapest of these.

## Batches

A torch model (64 → 2048 → 2048 → 10) on one thread; `run_batch` with up to 16 requests.

{batches}

Goal: 5 times the requests a second at 64 connections. Reached: {gain}.

## The router

A key check, a split of 90 to 10, and a replica that answers at once, behind both: drumbeat's router gets it by
connections that the replica dials, HAProxy by TCP. CPU microseconds of the router alone per request.

{routers}

Goals: CPU at most 1.6 × HAProxy's, and at most 1 ms more at p50. Reached: {router_goal}.
"""


@dataclass(frozen=True)
class Sample:
    """Of one turn. cpu_ms: per request."""

    cpu_ms: float
    p50_ms: float
    per_s: float
    errors: int


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process and its descendants."""
    total = 0.0
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            times = one.cpu_times()
            total += times.user + times.system
    return total


class Server:
    """A server of the benchmark, once it answers."""

    def __init__(self, name: str, command: list[str], port: int, path: str = "/score", **variables: str) -> None:
        self.name, self.port, self.path = name, port, path
        given = {**os.environ, **variables}
        self.process = psutil.Popen(
            command, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.started.append(self)
        self.await_port()

    started: ClassVar[list[Server]] = []

    def await_port(self) -> None:
        """Waits until it listens."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise SystemExit(f"{self.name} doesn't listen")

    def load(self, script: Path, connections: int, seconds: int) -> Sample:
        """Sends requests by wrk."""
        before = cpu_s(self.process)
        done = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", str(script),
             f"http://127.0.0.1:{self.port}{self.path}"], capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        used = cpu_s(self.process) - before
        count, taken = re.search(r"(\d+) requests in ([\d.]+)(m?s)", done).group(1, 2)  # type: ignore[union-attr]
        errors = sum(int(one) for one in re.findall(r"Non-2xx or 3xx responses: (\d+)", done))
        value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", done).groups()  # type: ignore[union-attr]
        p50_ms = float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
        requests = max(1, int(count))
        return Sample(used * 1e3 / requests, p50_ms, requests / float(taken), errors)

    def close(self) -> None:
        """Ends it and what it has started."""
        with suppress(psutil.Error):
            for one in [*self.process.children(recursive=True), self.process]:
                with suppress(psutil.Error):
                    one.kill()
        self.process.wait()


def wrk_script(folder: Path, name: str, body: str, **headers: str) -> Path:
    """A script for wrk that posts a body."""
    lines = [f"wrk.method = 'POST'\nwrk.body = '{body}'", "wrk.headers['Content-Type'] = 'application/json'"]
    lines += [f"wrk.headers['{key}'] = '{value}'" for key, value in headers.items()]
    script = folder / f"{name}.lua"
    script.write_text("\n".join(lines))
    return script


def turns(servers: list[Server], script: Path, rounds: int, seconds: int) -> dict[tuple[str, int], list[Sample]]:
    """Samples by server and number of connections."""
    for server in servers:  # Each one's first requests are slower.
        server.load(script, 4, 1)
    samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for number in range(rounds):
        for connections in CONNECTIONS:
            for server in servers:
                sample = server.load(script, connections, seconds)
                samples[server.name, connections].append(sample)
                print(number, connections, server.name, sample, flush=True)
    return samples


def close_all() -> None:
    """Ends every server, whatever became of the measurement."""
    while Server.started:
        Server.started.pop().close()


def folder_of(program: KeptProgram) -> str:
    """The folder of a kept program's modules."""
    return str(program.fetch().parents[1])


def make_model(folder: Path) -> float:
    """Writes the model as a pickle and as an MLflow model; returns the CPU ms of one prediction."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 8))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, rows[:, 0] > 0)
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    (folder / "score.py").write_text(SCORE)
    saving = (
        "import mlflow.sklearn, pickle, sys; model = pickle.load(open(sys.argv[1], 'rb'));"
        "mlflow.sklearn.save_model(model, sys.argv[2], serialization_format='pickle')"
    )
    variables = {**os.environ, "PYTHONPATH": folder_of(MLFLOW)}
    subprocess.run([sys.executable, "-c", saving, folder / "model.pkl", folder / "mlflow"], env=variables, check=True)
    begin = time.process_time()
    for _ in range(500):
        model.predict([[0.5] * 8]).tolist()
    return (time.process_time() - begin) * 2


def model_servers(folder: Path) -> list[Server]:
    """Each server with the scikit-learn model."""
    python, script = sys.executable, str(folder / "score.py")
    model = {"BENCH_MODEL": str(folder / "model.pkl")}
    programs = [python, "-m", "bench.serve_programs"]
    microsoft = "from azureml_inference_server_http.amlserver import run; run()"
    ports = [free_port() for _ in range(5)]
    own = [python, "-m", "drumbeat.scoring", "--script", script, "--listen", f"127.0.0.1:{ports[0]}"]
    azure = [python, "-c", microsoft, "--entry_script", script, "--port", str(ports[4])]
    return [
        Server("drumbeat", own, ports[0], **model),
        Server("uvicorn + starlette", [*programs, "starlette", str(ports[1]), str(folder)], ports[1], **model),
        Server("LitServe", [python, "-m", "bench.serve_litserve", str(ports[2]), str(folder)], ports[2],
               PYTHONPATH=folder_of(LITSERVE), **model),
        Server("azureml-inference-server-http", azure, ports[4], PYTHONPATH=folder_of(INFERENCE_SERVER),
               AML_APP_ROOT=str(folder), **model),
    ]  # fmt: skip


def mlflow_server(folder: Path) -> Server:
    """MLflow's server, as `mlflow models serve` runs it."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(folder / "mlflow"), "-p", str(port),
               "--env-manager", "local"]  # fmt: skip
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # It looks for uvicorn there.
    return Server("mlflow models serve", command, port, "/invocations", PYTHONPATH=folder_of(MLFLOW), PATH=path)


def bench_servers(folder: Path, rounds: int, seconds: int) -> tuple[str, float]:
    """The table of servers, and the model's own CPU ms."""
    model_ms = make_model(folder)
    rows = json.dumps([[0.5] * 8])
    # MLflow's server takes `inputs`, the others `data`: both are in the body, and each reads its own.
    script = wrk_script(folder, "rows", f'{{"data": {rows}, "inputs": {rows}}}')
    servers = [*model_servers(folder), mlflow_server(folder)]
    samples = turns(servers, script, rounds, seconds)
    names = [one.name for one in servers]
    close_all()
    lines = ["| server | CPU ms c=1 | c=16 | c=64 | p50 ms c=1 | c=16 | c=64 | beyond the model | errors |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    own = [one.cpu_ms - model_ms for one in samples["drumbeat", 16]]
    for name in names:
        cpu = [f"{median(one.cpu_ms for one in samples[name, count]):.2f}" for count in CONNECTIONS]
        p50 = [f"{median(one.p50_ms for one in samples[name, count]):.1f}" for count in CONNECTIONS]
        beyond = [(one.cpu_ms - model_ms) / mine for one, mine in zip(samples[name, 16], own, strict=True)]
        errors = sum(one.errors for count in CONNECTIONS for one in samples[name, count])
        spread = f"{median(beyond):.1f} ({min(beyond):.1f}–{max(beyond):.1f})"
        lines.append(f"| {name} | {' | '.join(cpu)} | {' | '.join(p50)} | {spread} | {errors} |")
    return "\n".join(lines), model_ms


def bench_batches(folder: Path, rounds: int, seconds: int) -> tuple[str, str]:
    """The table of batches, and the gain at 64 connections."""
    (folder / "score.py").write_text(TORCH)
    script = wrk_script(folder, "torch", json.dumps({"data": [[0.5] * 64]}))
    servers: list[Server] = []
    for name, more in (("one by one", []), ("batches of up to 16", ["--batch", "16"])):
        port = free_port()
        command = [sys.executable, "-m", "drumbeat.scoring", "--script", str(folder / "score.py"), *more]
        servers.append(Server(name, [*command, "--listen", f"127.0.0.1:{port}"], port, OMP_NUM_THREADS="1"))
    samples = turns(servers, script, rounds, seconds)
    close_all()
    lines = ["| | CPU ms c=1 | c=16 | c=64 | requests/s c=64, ratio |", "|---|---|---|---|---|"]
    single = [one.per_s for one in samples["one by one", 64]]
    gains: list[float] = []
    for server in servers:
        cpu = [f"{median(one.cpu_ms for one in samples[server.name, count]):.2f}" for count in CONNECTIONS]
        gains = [one.per_s / base for one, base in zip(samples[server.name, 64], single, strict=True)]
        lines.append(f"| {server.name} | {' | '.join(cpu)} | {median(gains):.1f} ({min(gains):.1f}–{max(gains):.1f}) |")
    return "\n".join(lines), f"{median(gains):.1f} times"


HAPROXY = """\
global
    nbthread 1
    maxconn 4096
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
    http-reuse always
frontend clients
    bind 127.0.0.1:{port}
    http-request deny deny_status 401 unless {{ req.hdr(authorization) -m str "Bearer {key}" }}
    http-request del-header authorization
    use_backend green if {{ req.hdr(azureml-model-deployment) -m str green }}
    use_backend green if {{ rand(100) lt 10 }}
    default_backend blue
backend blue
    server one 127.0.0.1:{behind} maxconn 64
backend green
    server one 127.0.0.1:{behind} maxconn 64
"""


def bench_routers(folder: Path, rounds: int, seconds: int) -> tuple[str, str]:
    """The table of routers, and whether the goals are reached."""
    home = folder / "router"
    home.mkdir(mode=0o700)
    port, haproxy_port, behind = free_port(), free_port(), free_port()
    deployment = DeploymentRoute(concurrency=64, replicas={"r": digest("s")})
    endpoint = EndpointRoute(keys=(digest(KEY), digest("other")), traffic={"blue": 90, "green": 10},
                             deployments={"blue": deployment, "green": deployment})  # fmt: skip
    write_table(str(home), RoutingTable({"e": endpoint}, (RouterListener("127.0.0.1", port),)))
    (folder / "haproxy.cfg").write_text(HAPROXY.format(port=haproxy_port, behind=behind, key=KEY))
    own = Server("drumbeat", [sys.executable, "-m", "drumbeat.router", str(home)], port, "/endpoints/e/score")
    responder = Server(
        "direct", [sys.executable, "-m", "bench.serve_programs", "respond", str(behind), str(home)], behind
    )
    other = Server("HAProxy", ["haproxy", "-f", str(folder / "haproxy.cfg")], haproxy_port)
    time.sleep(1)  # Until the replicas have dialed.
    script = wrk_script(folder, "quick", json.dumps({"data": [[0.0, 1.0]]}), Authorization=f"Bearer {KEY}")
    servers = [own, other, responder]
    samples = turns(servers, script, rounds, seconds)
    lines = ["| | CPU µs c=1 | c=16 | c=64 | p50 ms c=1 | c=16 | c=64 | requests/s c=64 | errors |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for server in servers:
        name = server.name
        cpu = [f"{median(one.cpu_ms for one in samples[name, count]) * 1e3:.0f}" for count in CONNECTIONS]
        p50 = [f"{median(one.p50_ms for one in samples[name, count]):.2f}" for count in CONNECTIONS]
        errors = sum(one.errors for count in CONNECTIONS for one in samples[name, count])
        rate = median(one.per_s for one in samples[name, 64])
        lines.append(f"| {name} | {' | '.join(cpu)} | {' | '.join(p50)} | {rate:,.0f} | {errors} |")
    shown: list[str] = []
    for count in CONNECTIONS:
        pairs = list(zip(samples["drumbeat", count], samples["HAProxy", count], strict=True))
        ratios = [mine.cpu_ms / theirs.cpu_ms for mine, theirs in pairs]
        added = [mine.p50_ms - theirs.p50_ms for mine, theirs in pairs]
        shown.append(
            f"{median(ratios):.2f} × ({min(ratios):.2f}–{max(ratios):.2f}) and {median(added):+.2f} ms at {count}"
        )
    return "\n".join(lines), "; ".join(shown)


def main() -> None:
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", choices=["servers", "batches", "router"])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    for program in ("wrk", "haproxy"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is needed: apt-get install {program}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            parts = {
                part: measure(folder, options.rounds, options.seconds)
                for part, measure in (("servers", bench_servers), ("batches", bench_batches), ("router", bench_routers))
                if options.only in {None, part}
            }
        finally:
            close_all()
    for text, fact in parts.values():
        print(text, fact, sep="\n")
    if options.write:
        page = PAGE.format(
            rounds=options.rounds, seconds=options.seconds, machine=describe_machine(), servers=parts["servers"][0],
            model_ms=parts["servers"][1], batches=parts["batches"][0], gain=parts["batches"][1],
            routers=parts["router"][0], router_goal=parts["router"][1],
        )  # fmt: skip
        options.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

"""A node's metrics endpoint in processes of its own, and a server that may be away."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psutil

from drumbeat.model import home_socket, wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.metric_lines import spooled
from drumbeat.model.metrics import MetricRecord, Point, PointsLogged, run_id
from drumbeat.model.plan import Plan, Rank
from drumbeat.node.metrics.folder import MetricsFolder, end_endpoint
from tests.support.agent_server import HomeSocketServer

from .house import until

AGENT = """
import sys
from drumbeat.node.metrics.endpoint_supervisor import MetricsSupervisor
from drumbeat.model import home_socket, wire
from drumbeat.model.agent import Enrolment
enrolment = wire.loads(Enrolment, open(sys.argv[1]).read())
supervisor = MetricsSupervisor(enrolment, lambda text: print(text, file=sys.stderr))
supervisor.begin()
print(supervisor.address, flush=True)
sys.stdin.read()
supervisor.drain()
supervisor.end()
"""
PLAN = Plan("j", "exp", "pytorch", 1, 2, "true", (Rank(0, 0, 0), Rank(1, 0, 1)))


class FakeServer:
    """The agents' route for metrics, as the server has it; answers 503 while `is_away`."""

    def __init__(self, home: Path) -> None:
        self.records: list[MetricRecord] = []
        self.offset, self.is_away, self.lock = 0, False, threading.Lock()
        self.files: dict[str, bytes] = {}
        """Artifacts that came before the outputs, by their path."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                status, answer = owner.take(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST  # noqa: N815 (http.server's names)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.address = home_socket.address_in(home)
        self.http = HomeSocketServer(home_socket.socket_path(self.address), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if not self.is_away and (place := urlsplit(path).path.partition("/mlflow-artifacts/artifacts/")[2]):
                self.files[unquote(place)] = body
                return 200, {}
            if self.is_away or "/metrics" not in path:
                return 503, {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "away"}
            offset = int(parse_qs(urlsplit(path).query)["offset"][0])
            new = [one for one in spooled(body, offset) if one.end > self.offset] if offset <= self.offset else []
            self.records += [one.record for one in new]
            self.offset = max([self.offset, *(one.end for one in new)])
            return 200, {"offset": self.offset}

    def points(self, rank: int = 0) -> list[Point]:
        with self.lock:
            records = [one for one in self.records if isinstance(one, PointsLogged) and one.rank == rank]
            return [point for record in records for point in record.points]


class Node:
    """One node: what its agent does for metrics runs in a process that can be killed."""

    def __init__(self, root: Path, plan: Plan = PLAN) -> None:
        self.root, self.server = root / "root", FakeServer(root)
        self.root.mkdir()
        self.fault, self.folder = root / "fault", MetricsFolder(str(self.root))
        enrolment = Enrolment("j", 1, 0, (self.server.address,), "s", str(self.root), str(root / "keep"), plan)
        (root / "enrolment.json").write_text(wire.dumps(enrolment))
        self._arguments = [sys.executable, "-c", AGENT, str(root / "enrolment.json")]
        self.agent, self.address = self.begin_agent()

    def begin_agent(self) -> tuple[subprocess.Popen[str], str]:
        """Starts an agent; returns it, and the address that it gives to the ranks."""
        environment = {"DRUMBEAT_FAULT": f"@{self.fault}"}
        self.agent = subprocess.Popen(
            self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.agent.stdout
        self.address = self.agent.stdout.readline().strip()
        return self.agent, self.address

    def kill_agent(self) -> None:
        self.agent.kill()
        self.agent.communicate()

    def kill_endpoint(self) -> None:
        psutil.Process(self.folder.endpoint_pid()).kill()

    def post(self, path: str, body: dict[str, Any], rank: int = 0) -> tuple[int, dict[str, Any]]:
        """Sends a request as MLflow's client does: again, until it is answered."""
        parts, answer = urlsplit(self.address), list[tuple[int, dict[str, Any]]]()
        text = json.dumps(body)

        def is_answered() -> bool:
            line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
            with suppress(OSError, http.client.HTTPException):
                line.request("POST", f"{parts.path}/{rank}{path}", text)
                response = line.getresponse()
                answer.append((response.status, json.loads(response.read())))
            line.close()
            return bool(answer)

        until(is_answered, what="an answer")
        return answer[0]

    def log_metric(self, name: str, value: float, step: int, rank: int = 0) -> int:
        body = {"run_id": run_id("j"), "key": name, "value": value, "timestamp": 1000 + step, "step": step}
        return self.post("/api/2.0/mlflow/runs/log-metric", body, rank)[0]

    def finish(self) -> None:
        """Has the agent forward all and leave."""
        self.agent.communicate(timeout=60)

    def close(self) -> None:
        if self.agent.poll() is None:
            self.agent.send_signal(signal.SIGKILL)
            self.agent.communicate()
        end_endpoint(str(self.root))
        self.server.http.shutdown()
        self.server.http.server_close()


@contextmanager
def a_node(root: Path, plan: Plan = PLAN) -> Iterator[Node]:
    node = Node(root, plan)
    try:
        yield node
    finally:
        node.close()
        until(lambda: not node.folder.endpoint_pid(), what="the end of the endpoint")

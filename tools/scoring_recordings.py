"""Plays scoring cases to the servers of Microsoft and MLflow, and keeps their answers for `make test`.

    python -m tools.scoring_recordings [azure] [mlflow]

Microsoft's is azureml-inference-server-http in a folder of its own (tools/kept_programs.py), run by gunicorn as it runs
itself; tests/support/scoring_cases.py has the scripts and requests, tests/golden/scoring/ the answers.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.scoring_cases import BROKEN, CASES, SCORING_TIMEOUT_MS, SCRIPTS, Case, normalized
from tools.kept_programs import INFERENCE_SERVER, KeptProgram

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "scoring"
START_S = 60.0


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def environment(program: KeptProgram) -> dict[str, str]:
    """The variables with which a program of a folder of its own finds its modules."""
    folder = program.path.parents[1]
    return {**os.environ, "PYTHONPATH": str(folder), "SCORING_TIMEOUT_MS": str(SCORING_TIMEOUT_MS)}


@contextmanager
def running(command: list[str], variables: dict[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, once it listens or has ended; it is ended afterwards."""
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(port: int, case: Case) -> dict[str, object]:
    """The answer to a case."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(case.method, case.path, case.body or None, case.headers)
        response = connection.getresponse()
        return normalized(response.status, response.getheaders(), response.read())
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "headers": [], "body": type(error).__name__}
    finally:
        connection.close()


def inference_server(script: Path, port: int) -> list[str]:
    """The command of Microsoft's server."""
    main = "import sys; from azureml_inference_server_http.amlserver import run; run()"
    return [sys.executable, "-c", main, "--entry_script", str(script), "--port", str(port)]


def record_azure() -> None:
    """Writes the answers of Microsoft's server."""
    variables = {**environment(INFERENCE_SERVER), "HTTP_X_MS_SERVER_VERSION": "azmlinfsrv/1.5.1"}
    INFERENCE_SERVER.fetch()
    answers: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, source in SCRIPTS.items():
            script, port = Path(folder, f"{name}.py"), free_port()
            script.write_text(source)
            with running(inference_server(script, port), {**variables, "AML_APP_ROOT": folder}, port):
                answers |= {case.name: ask(port, case) for case in CASES if case.script == name}
            print(f"{name}: {sum(case.script == name for case in CASES)} answers", flush=True)
        ends: dict[str, object] = {}
        for name, source in BROKEN.items():
            script, port = Path(folder, "broken.py"), free_port()
            script.write_text(source)
            with running(inference_server(script, port), {**variables, "AML_APP_ROOT": folder}, port) as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                ends[name] = process.poll()
            print(f"{name}: exit code {ends[name]}", flush=True)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"answers": answers, "ends": ends}, indent=1, ensure_ascii=False, sort_keys=True)
    (GOLDEN / "azure.json").write_text(text + "\n", encoding="utf-8")


def main(*what: str) -> None:
    """Records what is named, else all."""
    if not what or "azure" in what:
        record_azure()


if __name__ == "__main__":
    main(*sys.argv[1:])

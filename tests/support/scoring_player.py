"""Plays the scoring cases to drumbeat's scoring server: a forked process for each script, answers as JSON.

A process of its own, since scripts change what is imported: `python -m tests.support.scoring_player`.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drumbeat.scoring.__main__ import main as scoring_main
from drumbeat.scoring.connection import LoopCalls, ScoringConnection
from drumbeat.scoring.script import ScoringScript, ScriptPlace
from drumbeat.scoring.server import LOOK_S
from drumbeat.scoring.worker_threads import WorkerThreads, WorkRules
from tests.support.scoring_cases import BROKEN, CASES, SCORING_TIMEOUT_MS, SCRIPTS, Case, normalized


def in_child(action: Callable[[], Any]) -> Any:
    """What an action returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(action()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def asked(port: int, case: Case) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(case.method, case.path, case.body or None, case.headers)
    response = connection.getresponse()
    answer = normalized(response.status, response.getheaders(), response.read())
    connection.close()
    return answer


async def answers(folder: str, name: str, cases: list[Case]) -> dict[str, object]:
    """The answers of one script's server to its cases."""
    scorer = ScoringScript(ScriptPlace(folder, f"{name}.py"))
    scorer.init()
    loop = asyncio.get_running_loop()
    threads, calls = WorkerThreads(scorer, WorkRules(timeout_ms=SCORING_TIMEOUT_MS)), LoopCalls(loop)
    server = await loop.create_server(lambda: ScoringConnection(scorer, threads, calls), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]

    async def watch() -> None:
        while True:
            threads.end_overdue()
            await asyncio.sleep(LOOK_S)

    watching = loop.create_task(watch())
    try:
        return await loop.run_in_executor(None, lambda: {case.name: asked(port, case) for case in cases})
    finally:
        watching.cancel()
        server.close()


def end_of(folder: str) -> int:
    """The exit code of the program for a script that can't be served."""
    return scoring_main(["--script", f"{folder}/broken.py", "--listen", "127.0.0.1:0"])


def main() -> None:
    played: dict[str, object] = {}
    ends: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, source in SCRIPTS.items():
            Path(folder, f"{name}.py").write_text(source)
            cases = [case for case in CASES if case.script == name]
            played |= in_child(lambda name=name, cases=cases: asyncio.run(answers(folder, name, cases)))
        for name, source in BROKEN.items():
            Path(folder, "broken.py").write_text(source)
            ends[name] = in_child(lambda: end_of(folder))
    json.dump({"answers": played, "ends": ends, "threads": threading.active_count()}, sys.stdout)


if __name__ == "__main__":
    main()

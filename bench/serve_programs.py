"""What the servers of bench/serve.py run: `python -m bench.serve_programs NAME PORT FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

SCORE = """
import json, os, pickle
def init():
    global model
    with open(os.environ["BENCH_MODEL"], "rb") as file:
        model = pickle.load(file)
def run(data):
    return model.predict(json.loads(data)["data"]).tolist()
"""
TORCH = """
import json, torch
def init():
    global model
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = torch.nn.Linear
    relu = torch.nn.ReLU()
    model = torch.nn.Sequential(layers(64, 2048), relu, layers(2048, 2048), relu, layers(2048, 10))
def predict(rows):
    with torch.inference_mode():
        return model(torch.tensor(rows)).tolist()
def run(data):
    return predict(json.loads(data)["data"])
def run_batch(inputs):
    parts = [json.loads(one)["data"] for one in inputs]
    rows = iter(predict([row for part in parts for row in part]))
    return [[next(rows) for _ in part] for part in parts]
"""
QUICK = "def init(): pass\ndef run(data): return [1.0]\n"


def load(folder: Path) -> Any:
    """The function of the script, loaded."""
    space: dict[str, Any] = {}
    exec((folder / "score.py").read_text(), space)  # noqa: S102 - written by this benchmark
    space["init"]()
    return space["run"]


def starlette(port: int, folder: Path) -> None:
    """A handler of starlette under uvicorn, with the model on a thread, as its documentation has it."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    run = load(folder)

    async def score(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(run, await request.body()))

    app = Starlette(routes=[Route("/score", score, methods=["POST"])])
    uvicorn.run(app, port=port, access_log=False, log_level="error")


ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-ms-run-fn-exec-ms: 0.004\r\nContent-Length: 5\r\n\r\n[1.0]"
)


class Responder(asyncio.Protocol):
    """Answers whatever comes at once: what is behind the routers that are measured."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - asyncio's
        self.transport.write(ANSWER)


class Replica(Responder):
    """The same, dialing drumbeat's router."""

    hello = (
        b"GET /replica HTTP/1.1\r\nUpgrade: drumbeat-replica/1\r\nAuthorization: Bearer s\r\nDrumbeat-Endpoint: e\r\n"
        b"Drumbeat-Deployment: %b\r\nDrumbeat-Replica: r\r\n\r\n"
    )

    def __init__(self, deployment: bytes) -> None:
        self.deployment, self.is_in = deployment, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(self.hello % self.deployment)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - asyncio's
        if self.is_in:
            self.transport.write(ANSWER)
        else:
            self.is_in = True


async def respond(port: int, folder: Path) -> None:
    """Listens for HAProxy and, with a folder, dials drumbeat's router by 64 connections for each deployment."""
    loop = asyncio.get_running_loop()
    await loop.create_server(Responder, "127.0.0.1", port, backlog=1024)
    if (folder / "replicas/router.sock").exists():
        for deployment in (b"blue", b"green"):
            for _ in range(64):
                await loop.create_unix_connection(
                    lambda name=deployment: Replica(name), str(folder / "replicas/router.sock")
                )
    await asyncio.Event().wait()


def main(name: str, port: str, folder: str) -> None:
    """Runs one of them."""
    if name == "respond":
        import uvloop

        uvloop.run(respond(int(port), Path(folder)))
    else:
        starlette(int(port), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])

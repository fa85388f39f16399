"""Azure's API over a control room in this process: real stores and files, no TLS, no agents' machines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient

from drumbeat.model.principal import Role
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.signed_tokens import SignedTokens
from drumbeat.server.azure import sas
from drumbeat.server.azure.app import azure_app
from drumbeat.server.context import Identity, ServerContext
from drumbeat.server.control import Control, Setting
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.metrics.metrics import MetricPlace
from drumbeat.wiring import SystemClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_metrics import MemoryMetricStore
from tests.support.memory_store import MemoryStore
from tests.support.simulation.routers import SimulatedRouter

HOST = "azure.test:7443"
TOKEN = "the-token"
WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


@dataclass
class AzureHouse:
    """What Azure's clients call, and what it stands on."""

    control: Control
    context: ServerContext
    tokens: SignedTokens
    http: TestClient
    folder: Path

    def bearer(self, digest: str = "") -> dict[str, str]:
        """The header of a user's request."""
        return {"Authorization": f"Bearer {self.tokens.new_token(digest, 600).text}"}

    def ask(self, method: str, path: str, body: Any = None, *, digest: str = "", **options: Any) -> httpx.Response:
        """A request below the workspace."""
        given = {"json": body} if body is not None else {}
        return self.http.request(method, f"{WORKSPACE}/{path}", headers=self.bearer(digest), **given, **options)

    def person(self, name: str, role: Role) -> str:
        """Gives a user a token, and returns its digest."""
        return self.context.callers.token_digest(self.control.tokens.create(name, role))  # type: ignore[union-attr]

    def sas(self, container: str, digest: str = "", *, may_write: bool = True) -> str:
        """The query of a signed address."""
        return sas.blob_query(self.tokens, container, digest, may_write=may_write)

    def blob(
        self, method: str, path: str, query: str = "", container: str = "workspaceblobstore", **options: Any
    ) -> httpx.Response:
        """A request for a blob, with a signature for its container."""
        url = f"/blob/ws/{container}/{path}?{self.sas(container)}{'&' if query else ''}{query}"
        return self.http.request(method, url, **options)


@contextlib.contextmanager
def azure_house(folder: Path) -> Iterator[AzureHouse]:
    """A server with an empty store, and a router without replicas; its files lie in the folder."""
    for name in ("workspaceblobstore", "workspaceartifactstore"):
        (folder / "stores" / name).mkdir(parents=True)
    store = MemoryStore()
    datastores = Datastores(store, b"k" * 32, str(folder / "stores"))
    access = StoreAccess(datastores.all)
    engine, artifacts = FakeEngine(cpus=100), FolderArtifacts(folder / "home")
    router: RouterProgram = SimulatedRouter(list)  # type: ignore[assignment] (as much of it as the server uses)
    metrics = MemoryMetricStore()
    setting = Setting(
        store, artifacts, {"local": engine}, SystemClock(), b"k" * 32, data=access, datastores=datastores,
        router=router, metrics=MetricPlace(lambda: metrics, lambda: True),
    )  # fmt: skip
    control = Control(setting)
    control.start()
    try:
        context = ServerContext(control, Identity(home=str(folder)), folder=str(folder))
        context.callers = Callers(TOKEN, "owner", control.tokens.principal)
        tokens = context.azure_tokens = SignedTokens(TOKEN)
        app = azure_app(context, tokens, lambda: frozenset({HOST}))
        http = TestClient(app, base_url=f"https://{HOST}")
        with start_blocking_portal() as http.portal:
            yield AzureHouse(control, context, tokens, http, folder)
    finally:
        control.stop()
        access.close()

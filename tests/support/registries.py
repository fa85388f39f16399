"""The registry of models for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from drumbeat.core.models.statement import new_key
from drumbeat.ports.clock import Clock
from drumbeat.ports.data import DataAccess
from drumbeat.server.database import SqlStore
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.models.lineage import LineageReader
from drumbeat.server.models.mlflow_rows import ModelRows
from drumbeat.server.models.models import Models, Scanner
from drumbeat.server.models.scan import Scan
from tests.support.fake_clock import FakeClock
from tests.support.memory_data import MemoryData
from tests.support.memory_store import MemoryStore

KEY = cache(new_key)


def find_nothing(_root: Path, _paths: Sequence[str]) -> Scan:
    """Scans as picklescan does where there is nothing, in no process of its own."""
    return Scan("clean", "a scanner")


class NoArtifacts(FolderArtifacts):
    """The artifacts of a server that has none."""

    def __init__(self) -> None:
        pass


def make_models(
    store: SqlStore,
    data: DataAccess,
    clock: Clock | None = None,
    artifacts: FolderArtifacts | None = None,
    scanner: Scanner | None = None,
) -> Models:
    """Returns a registry over a store, with a key of its own."""
    lineage = LineageReader(store, artifacts or NoArtifacts())
    return Models(store, data, lineage, KEY, clock=clock or FakeClock(), scanner=scanner or find_nothing)


def make_rows() -> ModelRows:
    """Returns the rows of an empty registry for MLflow's handlers."""
    store, data = MemoryStore(), MemoryData()
    return ModelRows(store, make_models(store, data), data)

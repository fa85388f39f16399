"""One cell: the job of a row on a compute, to its end."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumbeat import Client
from tools.matrix.row import Row

PATIENCE_S = 600


@dataclass(frozen=True)
class Cell:
    """What came of a run. trouble: "" = it trained."""

    accuracy: float = 0.0
    seconds: float = 0.0
    trouble: str = ""


class Material:
    """What the rows have prepared, each once, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[object, ...], Any] = {}

    def of(self, row: Row) -> Any:
        """What the row's jobs are made from; rows that prepare alike share it."""
        key = (row.prepare,)
        if key not in self._made:
            folder = self._folder / f"material-{len(self._made)}"
            folder.mkdir(parents=True)
            self._made[key] = row.prepare(folder)
        return self._made[key]


def run(client: Client, row: Row, job: dict[str, Any], results: Path) -> Cell:
    """Trains, and reads the accuracy that the job itself wrote."""
    began = time.monotonic()
    name = client.submit(job).name
    ended = client.wait(name, PATIENCE_S)
    if ended is None:
        stuck = client.get(name)
        client.cancel(name, discard=True)
        return Cell(trouble=f"{stuck.state} after {PATIENCE_S} s: {stuck.sentence}")
    if ended.state != "completed":
        return Cell(trouble=f"{ended.state}: {ended.sentence}")
    seconds = time.monotonic() - began
    accuracy = read_accuracy(client, name, results)
    return Cell(accuracy, seconds, "" if accuracy >= row.enough else f"accuracy {accuracy:.1%}")


def read_accuracy(client: Client, name: str, results: Path) -> float:
    """On held-out data, as the job itself wrote it."""
    client.download(name, results / name, under="outputs/model/metrics.json")
    return json.loads(next((results / name).rglob("metrics.json")).read_text())["test"]["accuracy"]

"""The file of a benchmark's measurements: written after each case, and read by a run that resumes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.bench.cases import Benchmark, Case
from drumbeat.model.errors import ConflictError, SpecError

FORMAT = 1


@dataclass(frozen=True)
class Block:
    """One block of steps: images per second over all ranks, and the parts of a step of the slowest rank."""

    images_per_s: float
    step_ms: float
    data_ms: float
    """Waiting for images."""
    compute_ms: float
    """The step without the other ranks."""
    sync_ms: float
    """The time that averaging the gradients adds to the step."""


@dataclass(frozen=True)
class Measurement:
    """The measurements of one job."""

    case: Case
    job: str
    blocks: tuple[Block, ...]
    parameters: int
    device: str
    busy: float
    """The share of this machine's processors that other programs used just before the job."""


@dataclass
class Results:
    """The measurements of a benchmark so far."""

    benchmark: Benchmark
    machine: str
    """Processor, cores, memory and versions, but no name of the machine."""
    measurements: list[Measurement] = field(default_factory=list[Measurement])

    def done(self) -> set[Case]:
        """Returns the cases that have been measured."""
        return {measurement.case for measurement in self.measurements}

    def as_json(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        return {
            "format": FORMAT,
            "benchmark": asdict(self.benchmark),
            "machine": self.machine,
            "measurements": [asdict(measurement) for measurement in self.measurements],
        }

    def save(self, file: Path) -> None:
        """Writes the file atomically."""
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        part.write_text(json.dumps(self.as_json(), indent=1), encoding="utf-8")
        part.replace(file)


def load(file: Path) -> Results | None:
    """Returns the results in a file, None if it doesn't exist. Raises SpecError if the file holds something else."""
    if not file.exists():
        return None
    try:
        return _results(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{file} doesn't contain results of a benchmark ({type(error).__name__}: {error})"
        raise SpecError(what, where="--to", fix="Name another folder, or remove the file.") from None


def load_or_begin(file: Path, benchmark: Benchmark, machine: str) -> Results:
    """Returns the results to resume. Raises ConflictError if they belong to another benchmark."""
    results = load(file)
    if results is None:
        return Results(benchmark, machine)
    mine, theirs = asdict(benchmark), asdict(results.benchmark)
    differs = [f"{name} {theirs[name]} (now {value})" for name, value in mine.items() if value != theirs[name]]
    if differs:
        what = f"{file} contains results of another benchmark: {', '.join(differs)}"
        raise ConflictError(what, where="--to", fix="Name another folder, or repeat the options of that benchmark.")
    return results


def _results(read: dict[str, Any]) -> Results:
    if read["format"] != FORMAT:
        raise ValueError(f"format {read['format']}")
    given: dict[str, Any] = read["benchmark"]
    given |= {name: tuple(given[name]) for name in ("ranks", "networks")}
    measurements = [_measurement(one) for one in read["measurements"]]
    return Results(Benchmark(**given), read["machine"], measurements)


def _measurement(read: dict[str, Any]) -> Measurement:
    return read_measurement(Case(**read["case"]), read["job"], read, read["busy"])


def read_measurement(case: Case, job: str, measured: dict[str, Any], busy: float) -> Measurement:
    """Returns what a job wrote (`recipes/imagenet/measure.py`) as a measurement."""
    blocks = tuple(Block(**block) for block in measured["blocks"])
    return Measurement(case, job, blocks, int(measured["parameters"]), str(measured["device"]), busy)

"""The logs of jobs under the names by which Azure's clients look for them.

`user_logs/std_log.txt` is the log of the only rank, `user_logs/std_log_process_00.txt` that of rank 0 of several, all
rounds one after another, so that a reader of a log that grows never sees it shrink. A sweep's or pipeline's log is its
story.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.errors import NotFoundError
from drumbeat.model.logs import LogName
from drumbeat.model.states import JobKind
from drumbeat.server.control import Control

PIECE = 1 << 20
RANKS = "user_logs/"
STORIES = {JobKind.PIPELINE: "logs/azureml/executionlogs.txt", JobKind.SWEEP: "azureml-logs/hyperdrive.txt"}


@dataclass(frozen=True)
class LogFiles:
    """The files of which a log consists, in order."""

    files: tuple[Path, ...] = ()
    text: bytes = b""

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.text) + sum(one.stat().st_size for one in self.files)

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yields the bytes of a part."""
        left, skipped = end - start, start
        if self.text:
            yield self.text[start:end]
            return
        for one in self.files:
            size = one.stat().st_size
            if skipped >= size:
                skipped -= size
                continue
            with one.open("rb") as file:
                file.seek(skipped)
                skipped = 0
                while left > 0 and (piece := file.read(min(left, PIECE))):
                    left -= len(piece)
                    yield piece

    def whole_lines(self, *, is_ended: bool) -> bytes:
        """Returns what is shown of a log that may grow: only whole lines, as the reader prints each once."""
        text = b"".join(self.pieces(0, self.size))
        return text if is_ended else text[: text.rfind(b"\n") + 1]


def is_log(path: str) -> bool:
    """Whether a path in the artifacts of a job is that of a log under its name here."""
    return path.startswith(RANKS) or path in STORIES.values()


def log_name(rank: int, world_size: int) -> str:
    """Returns the name of a rank's log. The client prints only names whose number is zero."""
    if world_size <= 1:
        return f"{RANKS}std_log.txt"
    return f"{RANKS}std_log_process_{rank:0{max(2, len(str(world_size - 1)))}d}.txt"


def logs(control: Control, job: str) -> dict[str, LogFiles]:
    """Returns the logs of a job's ranks, by name; of a parent its story. Raises NotFoundError."""
    record = control.store.load(job).job
    if record.kind in STORIES:
        lines = [f"{one.at:%Y-%m-%d %H:%M:%S} {one.sentence}\n" for one in control.store.events(job)]
        return {STORIES[record.kind]: LogFiles(text="".join(lines).encode())}
    rounds: dict[int, list[LogName]] = {}
    for file in control.jobs.files(job):
        try:
            name = LogName.from_path(file.path)
        except ValueError:
            continue
        if name.rank >= 0:
            rounds.setdefault(name.rank, []).append(name)
    size = max(record.plan.world_size, max(rounds, default=0) + 1)
    return {
        log_name(rank, size): LogFiles(tuple(control.jobs.open_file(job, one.path) for one in sorted(names)))
        for rank, names in sorted(rounds.items())
    }


def find(control: Control, job: str, name: str) -> LogFiles:
    """Returns one log. Raises NotFoundError."""
    log = logs(control, job).get(name)
    if log is None:
        raise NotFoundError(f"job {job} has no log {name[:100]}")
    return log

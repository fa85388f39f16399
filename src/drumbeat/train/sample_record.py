"""The samples that a rank reads, batch by batch, in a file: `drumbeat rehearse` compares it with another run's."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "DRUMBEAT_SAMPLE_RECORD"
"""The folder of the files; without it nothing is recorded."""


class SampleRecord:
    """The file of one rank: a line for each batch that the script has been given."""

    def __init__(self, path: Path | None, attempt: int, number: int) -> None:
        """path: None = nothing is recorded. number: the round's."""
        self._path, self._start = path, {"attempt": attempt, "round": number}
        self._drawn = deque[list[int]]()

    @classmethod
    def for_rank(cls, variables: Mapping[str, str], rank: int) -> SampleRecord:
        """Returns the record that the variables of a rank request."""
        folder = variables.get(VARIABLE, "")
        attempt, number = (int(variables.get(f"DRUMBEAT_{name}", "0")) for name in ("ATTEMPT", "ROUND"))
        return cls(Path(folder) / f"{rank}.jsonl" if folder else None, attempt, number)

    @property
    def is_kept(self) -> bool:
        """Whether anything is recorded."""
        return self._path is not None

    def begin(self) -> None:
        """Drops batches that workers have read for an abandoned iteration."""
        self._drawn.clear()

    def draw(self, samples: list[int]) -> None:
        """Remembers a batch that will be read; workers may be some batches ahead of the script."""
        self._drawn.append(samples)

    def write(self, epoch: int, first: int) -> None:
        """Records that the script gets the next batch. Errors never end a training.

        first: how many samples of the epoch come before the batch.
        """
        if self._path is None or not self._drawn:
            return
        line = json.dumps({**self._start, "epoch": epoch, "first": first, "samples": self._drawn.popleft()})
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

"""The records of a supervisor on disk, for later agents and supervisors: the round, and the exits of its ranks."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from drumbeat.model import wire
from drumbeat.model.supervisor import SupervisedExit, exit_to_wire
from drumbeat.node.host.machine import boot


class Records:
    """`round.json` (replaced as a whole) and `exits.jsonl` (appended), both synced before an agent is informed."""

    def __init__(self, folder: str) -> None:
        self._round = os.path.join(folder, "round.json")
        self._exits = os.path.join(folder, "exits.jsonl")

    def clear(self) -> None:
        """Removes all records. Raises OSError."""
        for path in (self._round, self._exits):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def write_round(  # noqa: PLR0913 (what the file has)
        self, number: int, *, over: bool, lost: bool = False, abandoned: bool = False, ranks: int = 0,
        is_restarted: bool = False,
    ) -> None:  # fmt: skip
        """Records which round was started, with how many ranks, and its outcome as a whole."""
        record = {
            "round": number,
            "over": over,
            "lost": lost,
            "abandoned": abandoned,
            "ranks": ranks,
            "boot": boot(),
            "restarted": is_restarted,
        }
        part = self._round + ".part"
        _write(part, json.dumps(record), os.O_TRUNC)
        os.replace(part, self._round)

    def add_exit(self, number: int, ended: SupervisedExit) -> None:
        """Records the exit of one rank of the round."""
        # The leading newline separates it from a line that a crash left unfinished.
        _write(self._exits, "\n" + json.dumps({"round": number, **exit_to_wire(ended)}) + "\n", os.O_APPEND)

    def read_round(self) -> dict[str, Any] | None:
        """Returns the last record of `write_round`; None = no round was ever started."""
        try:
            with open(self._round, encoding="utf-8") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None

    def read_exits(self, number: int) -> list[SupervisedExit]:
        """Returns the exits of a round, in order. A line that a crash left unfinished is skipped."""
        try:
            with open(self._exits, encoding="utf-8") as file:
                lines = file.read().split("\n")
        except FileNotFoundError:
            return []
        records = [json.loads(line) for line in lines if line.endswith("}")]
        return [wire.from_wire(SupervisedExit, each) for each in records if each["round"] == number]


def _write(path: str, text: str, how: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    try:
        rest = text.encode()
        while rest:  # A disk that is filling up accepts a part, and refuses only the next.
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)

"""What a keeper has on disk, so that whoever comes after it knows: the round, and how its ranks ended."""

from __future__ import annotations

import json
import os
from typing import Any

Exit = dict[str, Any]
"""rank, code, signal, at, order, told, error: as in `protocol.agent.RankExit`, without the tail."""


class Records:
    """`round.json` (written whole) and `exits.jsonl` (appended), both on disk before anybody is told."""

    def __init__(self, folder: str) -> None:
        self._round = os.path.join(folder, "round.json")
        self._exits = os.path.join(folder, "exits.jsonl")

    def write_round(self, number: int, *, over: bool, lost: bool = False, ranks: int = 0) -> None:
        """The round that was started with so many ranks, and whether all of it has ended."""
        part = self._round + ".part"
        _write(part, json.dumps({"round": number, "over": over, "lost": lost, "ranks": ranks}), os.O_TRUNC)
        os.replace(part, self._round)

    def add_exit(self, number: int, ended: Exit) -> None:
        """How one rank of the round ended."""
        # The newline before it parts it from a line that a crash left half written.
        _write(self._exits, "\n" + json.dumps({"round": number, **ended}) + "\n", os.O_APPEND)

    def read_round(self) -> dict[str, Any] | None:
        """What `write_round` wrote last; None = no round was ever started."""
        try:
            with open(self._round, encoding="utf-8") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None

    def read_exits(self, number: int) -> list[Exit]:
        """The exits of a round, in order. A line that a crash left half written isn't one."""
        try:
            with open(self._exits, encoding="utf-8") as file:
                lines = file.read().split("\n")
        except FileNotFoundError:
            return []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [_without_round(each) for each in found if each["round"] == number]


def _without_round(line: dict[str, Any]) -> Exit:
    return {name: value for name, value in line.items() if name != "round"}


def _write(path: str, text: str, how: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    try:
        rest = text.encode()
        while rest:  # A disk that is filling up takes a part, and refuses only the next.
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)

"""Runs the program that reads event files."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from drumbeat.model.metrics import value_from_json
from drumbeat.model.programs import EVENT_FILES

log = logging.getLogger(__name__)


class Scalar(NamedTuple):
    """A value of a tag. file: index among the given files."""

    file: int
    tag: str
    value: float
    step: int
    at_ms: int


class TensorBoardReader:
    """Reads the scalars of event files, by TensorBoard's loader."""

    @property
    def is_installed(self) -> bool:
        """Whether the library for event files is installed."""
        return find_spec("tensorboard") is not None

    def scalars(self, files: Sequence[Path]) -> Iterator[Scalar]:
        """Yields the scalars, file by file, in a fixed order. Skips unreadable files."""
        command = [sys.executable, "-m", EVENT_FILES, *map(str, files)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/") as reader:
            try:
                for line in reader.stdout or ():
                    number, tag, value, step, at_ms = json.loads(line)
                    yield Scalar(number, tag, value_from_json(value), step, at_ms)
            finally:
                reader.kill()
        if reader.returncode:
            log.warning("the reader of %d event files ended with exit code %d", len(files), reader.returncode)

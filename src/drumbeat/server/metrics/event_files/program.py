"""`python -m drumbeat.server.metrics.event_files.program FILE…` prints the scalars of TensorBoard's event files.

Each scalar is a line of JSON: [index of the file, tag, value, step, milliseconds since 1970].
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

SCALARS = "scalars"


def main() -> int:
    """Prints the scalars of all files. An unreadable file is reported on stderr and skipped."""
    warnings.simplefilter("ignore")
    for number, path in enumerate(sys.argv[1:]):
        try:
            for scalar in scalars(path):
                sys.stdout.write(json.dumps([number, *scalar]) + "\n")
        except Exception as error:  # noqa: BLE001 (a file that was cut or damaged must not take the others along)
            sys.stderr.write(f"{path}: {type(error).__name__}: {error}\n")
    return 0


def scalars(path: str) -> Iterator[tuple[str, float | str, int, int]]:
    """Yields tag, value, step and time of each scalar, in the order of the file."""
    # Imported by name, so that types can be checked without it.
    loader = import_module("tensorboard.backend.event_processing.event_file_loader")
    tensors: Any = import_module("tensorboard.util.tensor_util")
    for event in loader.EventFileLoader(path).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == SCALARS:
                number = float(tensors.make_ndarray(value.tensor).item())
                shown = number if math.isfinite(number) else str(number)
                yield value.tag, shown, int(event.step), int(1000 * event.wall_time)


if __name__ == "__main__":
    sys.exit(main())

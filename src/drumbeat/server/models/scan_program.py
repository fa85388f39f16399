"""Reads the pickles among files with picklescan, in a process of its own.

Standard input: a JSON list of paths. Standard output: a JSON object by path of lists of `[safety, name]`.
"""

from __future__ import annotations

import importlib
import json
import logging
import resource
import sys
from typing import Any

MAX_MEMORY = 4 << 30
"""Bytes of memory that the process may use: archives may be made to unpack to much more."""
MAX_CPU_S = 1800


def main() -> None:
    """Reads the list, scans, and prints what was found."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    logging.disable(logging.CRITICAL)  # It complains of each file that is no pickle.
    scanner: Any = importlib.import_module("picklescan.scanner")
    globals_by_path: dict[str, list[tuple[str, str]]] = {}
    for path in json.load(sys.stdin):
        result = scanner.scan_file_path(path)
        globals_by_path[path] = sorted({(one.safety.value, f"{one.module}.{one.name}") for one in result.globals})
    json.dump(globals_by_path, sys.stdout)


if __name__ == "__main__":
    main()

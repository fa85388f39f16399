"""Prints values as JSON for other programs."""

from __future__ import annotations

import json

from drumbeat.model.wire import to_wire


def print_json(value: object) -> None:
    """Prints a value, indented, with every character outside ASCII escaped: safe for any terminal and any reader."""
    print(json.dumps(to_wire(value), indent=2))

"""The rows, a file for each kind of script; each has its `ROWS`."""

from __future__ import annotations

from tools.matrix.row import Row
from tools.matrix.rows import deepspeed, digits, horovod, launchers, ray, tensorflow

ROWS: dict[str, Row] = {
    row.name: row for module in (digits, launchers, deepspeed, horovod, ray, tensorflow) for row in module.ROWS
}

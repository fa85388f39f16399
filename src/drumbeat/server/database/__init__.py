"""Jobs and all that must be durable with them, in SQL: SQLite in a file by default, PostgreSQL by URL.

The store imports every subject's tables, and these import the schema beside it. So it is loaded when it is first asked
for, and not with the schema: any of these modules can be the first that a program imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drumbeat.server.database.store import SqlStore as SqlStore
    from drumbeat.server.database.store import make_store as make_store
    from drumbeat.server.loop.lease_tables import LeaseRules as LeaseRules

_PLACES = {
    "LeaseRules": "drumbeat.server.loop.lease_tables",
    "SqlStore": "drumbeat.server.database.store",
    "make_store": "drumbeat.server.database.store",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

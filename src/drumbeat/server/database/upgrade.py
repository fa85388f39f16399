"""Brings a database to the revision of this code. Alembic is only imported when there is something to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from drumbeat.model.errors import AwayError, VersionError
from drumbeat.server.database.database import Database
from drumbeat.server.database.schema import HEAD

TABLE_S, PAUSE_S, TRIES = 2, 3.0, 12
"""How long one try waits for a table, how long the pause after it is, and how many tries there are."""
IDLE_S = 60
"""How long an upgrade may stand still between two statements, which may be on a machine that is busy."""
_KEPT_WAITING = ("55P03", "40P01")
"""What PostgreSQL calls a lock that isn't had in time, and two that wait for each other."""
_ONE_AT_A_TIME = 7_310_579_113
"""PostgreSQL's advisory lock under which servers that start together upgrade one after the other; any number."""


@dataclass(frozen=True)
class Revisions:
    """The revisions of one set of tables."""

    folder: Path
    """Where Alembic's scripts lie."""
    head: str
    """The revision of this code."""


JOBS = Revisions(Path(__file__).parent / "migrations", HEAD)


def upgrade(database: Database, revisions: Revisions = JOBS) -> None:
    """Creates or alters the tables. Raises VersionError when a newer drumbeat has written the database; AwayError when
    another program locks the tables for long (as a backup does).
    """
    for is_last in (*[False] * TRIES, True):
        try:
            _upgrade(database, revisions)
        except AwayError as error:
            state = getattr(getattr(error.__cause__, "orig", None), "sqlstate", None)
            if is_last or state not in _KEPT_WAITING:
                raise
            time.sleep(PAUSE_S)
        else:
            return


def _upgrade(database: Database, revisions: Revisions) -> None:
    with database.read() as connection:
        if _revision(connection) == revisions.head:
            return
    migrate = _migration(database.where, revisions)
    with database.write() as connection:
        if not database.is_sqlite:
            # Another server's upgrade, and ours, take as long as they take.
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _ONE_AT_A_TIME})
            # But a session that waits for a table blocks all others behind it: servers would miss their heartbeats.
            connection.execute(text(f"SET LOCAL lock_timeout = '{TABLE_S}s'"))
        if _revision(connection) != revisions.head:
            migrate(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(text("SELECT version_num FROM alembic_version"))


def _migration(where: str, revisions: Revisions) -> Callable[[Connection], None]:
    """Returns what alters the tables. It reads all files before, so that no transaction stays open meanwhile."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(revisions.folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    revisions_here = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}

    def migrate(connection: Connection) -> None:
        current = _revision(connection)
        if current is not None and current not in revisions_here:
            fix = "Use that version of drumbeat, or name another database."
            raise VersionError(
                f"the database was written by a newer drumbeat (revision {current})", where=where, fix=fix
            )
        config.attributes["connection"] = connection
        command.upgrade(config, revisions.head)

    return migrate

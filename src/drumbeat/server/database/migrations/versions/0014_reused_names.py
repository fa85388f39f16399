"""Keeps out earlier versions, which drop the `first_version` of a job whenever they write it.

Without it a job that has the name of a deleted one is taken for that one.
"""

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Alters no table: the number alone has earlier versions refuse the database."""

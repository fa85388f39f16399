"""Keeps out earlier versions, which don't know the secrets that nodes have since.

They would refuse the agents of the jobs that run, and drop `node_secrets_since` of each job that they write.
"""

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Alters no table: the number alone has earlier versions refuse the database."""

"""Environments and data by name and version, who used them, and datastores."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Adds three tables."""
    op.create_table(
        "assets",
        sa.Column("number", SERIAL, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_assets"),
        sa.UniqueConstraint("kind", "name", "version", name="uq_assets_kind_name_version"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "asset_uses",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asset_uses"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_asset_uses_job"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_asset_uses_job", "asset_uses", ["job"])
    op.create_index("ix_asset_uses_kind_name_version", "asset_uses", ["kind", "name", "version"])
    op.create_table(
        "datastores",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_datastores"),
    )

"""What several services on one hub share: rates of clients, wishes to cancel a job, and the count of changes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "limits",
        sa.Column("key", sa.String(120), primary_key=True),
        sa.Column("tokens", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        prefixes=["UNLOGGED"] if op.get_bind().dialect.name == "postgresql" else [],  # worth nothing after a crash
    )
    op.create_index("ix_limits_at", "limits", ["at"])
    op.add_column("jobs", sa.Column("cancelled", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("hub", sa.Column("changes", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("ix_models_base", "models", ["base"])

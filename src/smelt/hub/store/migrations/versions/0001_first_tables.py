"""The first tables: hub, graphs, models, files, labels, jobs, tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "graphs",
        sa.Column("version", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("pictures", sa.Integer, nullable=False),
        sa.Column("added", _TIME, nullable=False),
    )
    op.create_table(
        "hub",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("embedder", sa.String(500), nullable=False),
        sa.Column("embedder_config", sa.Text, nullable=False),
        sa.Column("node_text", sa.String(20), nullable=False),
        sa.Column("graph", sa.String(64), sa.ForeignKey("graphs.version"), nullable=False),
        sa.Column("mark", sa.String(32), nullable=False),
        sa.Column("created", _TIME, nullable=False),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("hash", sa.String(64), nullable=False, index=True),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("copied", sa.Boolean, nullable=False),
        sa.Column("base", sa.Text, nullable=False),
        sa.Column("family", sa.String(50), nullable=False),
        sa.Column("architecture", sa.String(200), nullable=False),
        sa.Column("parameters", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("preprocess", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("licence", sa.String(200), nullable=False),
        sa.Column("submitted_by", sa.String(100), nullable=False),
        sa.Column("added", _TIME, nullable=False),
    )
    op.create_table(
        "files",
        sa.Column("model_id", sa.Integer, sa.ForeignKey("models.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", sa.String(300), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False, index=True),
        sa.Column("size", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "labels",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("model", sa.String(64), nullable=False, index=True),
        sa.Column("graph", sa.String(64), nullable=False, index=True),
        sa.Column("text", sa.String(20), nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("made", _TIME, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("model", sa.String(100), nullable=False, index=True),
        sa.Column("status", sa.String(20), nullable=False, index=True),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("beat", _TIME),
        sa.Column("created", _TIME, nullable=False),
        sa.Column("started", _TIME),
        sa.Column("finished", _TIME),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("public", sa.String(32), nullable=False, unique=True),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("created", _TIME, nullable=False),
        sa.Column("revoked", _TIME),
    )

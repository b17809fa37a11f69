"""Run the migrations on the connection that cuprof hands over, or on the one of `alembic -x url=…`."""

from alembic import context

from cuprof.store.connection import make_engine, parse_url
from cuprof.store.migrate import VERSION_TABLE
from cuprof.store.tables import METADATA


def run(connection):
    """Run what was asked for in the transaction that is open on the connection."""
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        version_table=VERSION_TABLE,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if (given := context.config.attributes.get("connection")) is not None:
    run(given)
else:
    url = context.get_x_argument(as_dictionary=True)["url"]
    with make_engine(parse_url(url)).begin() as opened:
        run(opened)

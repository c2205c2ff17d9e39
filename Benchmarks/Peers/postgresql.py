"""Durable job queues of Python on PostgreSQL, started by `bench`.

usage: postgresql.py procrastinate|procrastinate-10|pgqueuer install|work|push COUNT

install prints the name and the version, push the server's time after its commit. work runs jobs that do nothing until it is ended:
procrastinate one or ten at a time, pgqueuer in batches of a hundred.
"""

import asyncio
import datetime
import importlib.metadata
import sys

PAYLOAD = "x" * 100
NOW = "SELECT extract(epoch FROM clock_timestamp())::text"


async def procrastinate_queue(action, count, concurrency):
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector())

    @app.task(name="work")
    async def work(payload):
        pass

    async with app.open_async():
        if action == "install":
            await app.schema_manager.apply_schema_async()
        elif action == "push":
            await work.batch_defer_async(*({"payload": PAYLOAD} for _ in range(count)))
            print((await app.connector.execute_query_one_async(NOW + " AS now"))["now"])
        else:
            await app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)


async def pgqueuer_queue(action, count):
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(server_settings={"application_name": action})
    driver = AsyncpgDriver(connection)
    if action == "install":
        await Queries(driver).install()
    elif action == "push":
        await Queries(driver).enqueue(["work"] * count, [PAYLOAD.encode()] * count, [0] * count)
        print(await connection.fetchval(NOW))
    else:
        queue = PgQueuer(driver)

        @queue.entrypoint("work")
        async def work(job):
            pass

        await queue.run(batch_size=100, log_aggregation_interval=datetime.timedelta(0))


def main():
    name, action = sys.argv[1:3]
    count = int(sys.argv[3]) if action == "push" else 0
    if name == "pgqueuer":
        queue = pgqueuer_queue(action, count)
    elif name in ("procrastinate", "procrastinate-10"):
        queue = procrastinate_queue(action, count, 10 if name == "procrastinate-10" else 1)
    else:
        sys.exit(__doc__)
    try:
        import uvloop
    except ImportError:
        asyncio.run(queue)
    else:
        uvloop.run(queue)
    if action == "install":
        name = name.split("-")[0]
        print(name, importlib.metadata.version(name))


main()

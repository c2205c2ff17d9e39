"""Durable job queues of Python on SQLite, started by `bench`: pushes jobs that do nothing, one commit each, then runs them.

usage: jobs.py huey|huey-fsync|persist-queue COUNT DIRECTORY

Prints the version, the value of PRAGMA synchronous, the seconds of all pushes, and those from the start of the one worker to the
end of the last job.
"""

import importlib.metadata
import sys
import threading
import time


def measure_huey(count, path, **options):
    import huey

    queue = huey.SqliteHuey(filename=path, **options)
    done = threading.Event()
    ended = 0

    @queue.task()
    def work(payload):
        nonlocal ended
        ended += 1
        if ended == count:
            done.set()

    payload = b"x" * 100
    start = time.perf_counter()
    for _ in range(count):
        work(payload)
    pushed = time.perf_counter() - start
    # The defaults of huey_consumer, on a queue that is never empty meanwhile.
    consumer = queue.create_consumer(workers=1, periodic=False)
    start = time.perf_counter()
    consumer.start()
    done.wait()
    ran = time.perf_counter() - start
    synchronous = queue.storage.sql("pragma synchronous", results=True)[0][0]
    consumer.stop()
    return "huey", synchronous, pushed, ran


def measure_persist_queue(count, path):
    import persistqueue

    queue = persistqueue.SQLiteAckQueue(path)
    payload = b"x" * 100
    start = time.perf_counter()
    for _ in range(count):
        queue.put(payload)
    pushed = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(count):
        # By its row: an equal object would be searched for among all others.
        item = queue.get(block=False, raw=True)
        queue.ack(id=item["pqid"])
    ran = time.perf_counter() - start
    synchronous = queue._putter.execute("pragma synchronous").fetchone()[0]
    return "persist-queue", synchronous, pushed, ran


def main():
    name, count, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if name == "huey":
        result = measure_huey(count, f"{directory}/huey.db")
    elif name == "huey-fsync":
        result = measure_huey(count, f"{directory}/huey.db", fsync=True)
    elif name == "persist-queue":
        result = measure_persist_queue(count, f"{directory}/persist-queue")
    else:
        sys.exit(__doc__)
    package, synchronous, pushed, ran = result
    print(f"{importlib.metadata.version(package)} {synchronous} {pushed} {ran}")


main()

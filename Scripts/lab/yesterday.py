"""A day of history for pictures: outages as they happen, in the file of a service."""
import sqlite3
import time

# Hours before now, and minutes: the outages with their reason, cause and the cause of their end, and a time without a service.
BEGIN = 23.2
DEFAULT = "route 0.0.0.0/0 via 192.0.2.1 dev eth0 was"
CABLE = ("noCarrier", "eth0 lost carrier", "eth0 got carrier")
DAY = [
    (20.1, 6.5, *CABLE), (16.4, 0.3, *CABLE), (16.38, 0.4, *CABLE), (13.6, 41.0, "noRoute", f"{DEFAULT} removed", f"{DEFAULT} set"),
    (9.5, 95.0, None, None, None),
    (5.2, 2.2, "noAddress", "192.0.2.10/24 was removed from eth0", "192.0.2.10/24 was added to eth0"), (1.4, 3.0, *CABLE),
]


def write(file, scopes=("internet",), times=1):
    """Puts the day into the file of a service that has run and ended: once, or that many times in a row and as much shorter."""
    now = time.time()
    database = sqlite3.connect(file)
    # The short run that has made the file is not part of the day.
    database.execute("DELETE FROM observations")
    database.execute("DELETE FROM runs")
    for number in range(times):
        write_one(database, scopes, now - (times - 1 - number) * 86_400 / times, 1 / times)
    database.commit()
    database.close()


def write_one(database, scopes, now, scale):
    def moment(hours, minutes=0.0):
        return int((now - (hours * 3600 - minutes * 60) * scale) * 1e9)

    def begin(start):
        return database.execute("INSERT INTO runs (started, alive) VALUES (?, ?)", (start, start)).lastrowid

    def add(run, sequence, at, reason=None, cause=None):
        first = ("baseline", "") if sequence == 0 else ("transition", "offline" if reason else "online")
        for scope in scopes:
            database.execute(
                "INSERT INTO observations (run, kind, kinds, time, scope, status, reason, interface, cause_kind, cause_detail,"
                " flap_penalty, sequence) VALUES (?, ?, ?, ?, ?, ?, ?, 'eth0', ?, ?, 0, ?)",
                (run, *first, at, scope, "unsatisfied" if reason else "satisfied", reason, cause and "linkDown", cause, sequence))

    def end(run, at):
        database.execute("UPDATE runs SET alive = ?1, ended = ?1 WHERE id = ?2", (at, run))

    start = moment(BEGIN)
    run, sequence = begin(start), 0
    add(run, 0, start)
    for hours, minutes, reason, cause, remedy in DAY:
        begun, ended = moment(hours), moment(hours, minutes)
        if reason is None:
            end(run, begun)
            run, sequence = begin(ended), 0
            add(run, 0, ended)
            continue
        add(run, sequence + 1, begun, reason, cause)
        add(run, sequence + 2, ended, cause=remedy)
        sequence += 2
    end(run, moment(0.005))

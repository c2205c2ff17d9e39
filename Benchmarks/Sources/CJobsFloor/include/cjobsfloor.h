// What the store of durable jobs asks of SQLite, in C: its floor.
#ifndef CJOBSFLOOR_H
#define CJOBSFLOOR_H

typedef struct jobs_floor jobs_floor;

/// Creates a database, and records from its first statement on what the next connection executes that this process opens, so that
/// both begin with an empty file; NULL if it fails. The connection has to be idle during other calls.
jobs_floor *floor_open(const char *path);
void floor_close(jobs_floor *);
/// Executes the statements since the last replay, with the same values; returns 0 or SQLite's code.
int floor_replay(jobs_floor *);
/// Executes other statements.
int floor_execute(const char *path, const char *sql);

#endif

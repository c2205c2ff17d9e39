// What the store of durable jobs asks of SQLite, in C: its floor.
#ifndef CJOBSFLOOR_H
#define CJOBSFLOOR_H

#include <stdint.h>

typedef struct floor_store floor_store;

/// Opens a database that a store has created, with one queue, one lane and a worker of this number; NULL if it fails.
floor_store *floor_open(const char *path, int64_t worker);
void floor_close(floor_store *store);
/// Each returns 0 or SQLite's code, and does one transaction.
int floor_push(floor_store *store, int count);
int floor_claim(floor_store *store, int count);
int floor_start(floor_store *store);
int floor_finish(floor_store *store);
/// Executes other statements.
int floor_execute(const char *path, const char *sql);

#endif

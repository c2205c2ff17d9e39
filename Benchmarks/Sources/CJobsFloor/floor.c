#include "cjobsfloor.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The statements of SQLiteTransaction, in the order of a transaction; those that find nothing to do are left out.
enum {
    BEGIN, COMMIT, META, SET_META, QUEUE, LANE, INSERT, PAYLOAD, UNFINISHED, WORKER, WORKERS, QUEUE_NAME, NEW_LANES, OPEN_LANE,
    OPEN_LANES, OUTAGES, DELAYED, HEADS, CLAIM, READ_PAYLOAD, START, FINISH, STATEMENTS
};

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [META] = "SELECT boot_id, boot, newest_wall, instant, last_position, last_worker, schema FROM reachable_meta",
    [SET_META] = "UPDATE reachable_meta SET boot_id = ?, boot = ?, newest_wall = ?, instant = ?, last_position = ?, "
                 "last_worker = ?",
    [QUEUE] = "SELECT id FROM reachable_queues WHERE name = ?",
    [LANE] = "SELECT id FROM reachable_lanes "
             "WHERE queue = ? AND kind = ? AND version = ? AND scope = ? AND destination IS ?",
    [INSERT] = "INSERT INTO reachable_jobs (position, id, queue, lane, kind, priority, rank, outage, due, age, is_blocked, "
               "not_before, deadline, unique_key, serial_key, continues, is_repeatable, idempotency_key, trace, created) "
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
    [PAYLOAD] = "INSERT INTO reachable_payloads (position, payload) VALUES (?, ?)",
    [UNFINISHED] = "UPDATE reachable_queues SET unfinished = unfinished + ? WHERE id = ? RETURNING unfinished",
    [WORKER] = "SELECT number, queue, node, boot_id, heartbeat, seen FROM reachable_workers WHERE number = ?",
    [WORKERS] = "SELECT number, queue, node, boot_id, heartbeat, seen FROM reachable_workers",
    [QUEUE_NAME] = "SELECT name, is_paused FROM reachable_queues WHERE id = ?",
    [NEW_LANES] = "SELECT id, kind, version, scope, destination FROM reachable_lanes NOT INDEXED WHERE id > ? AND "
                  "queue = ? ORDER BY id",
    [OPEN_LANE] = "SELECT id, kind, version, scope, destination, hold_until, open_time, open_since, open_by FROM reachable_lanes "
                  "WHERE id = ? AND queue = ?",
    [OPEN_LANES] = "SELECT id FROM reachable_lanes WHERE open_by = ?",
    [OUTAGES] = "SELECT number, node, first, last, last_until, is_closed FROM reachable_outages WHERE lane = ?",
    [DELAYED] = "SELECT 1 FROM reachable_jobs INDEXED BY reachable_delayed WHERE lane = ? AND due IS NOT NULL AND "
                "outage IS NULL LIMIT 1",
    [HEADS] = "SELECT rank, position FROM reachable_jobs INDEXED BY reachable_ready "
              "WHERE lane = ? AND outage = 0 AND (rank, position) > (-1, 0) ORDER BY rank, position LIMIT ?",
    [CLAIM] = "UPDATE reachable_jobs SET state = 1, worker = ?1, claim = claim + 1, is_started = 0, "
              "age = iif(rank = 2 AND outage = 0, ?2 - age, age), outage = NULL, due = NULL WHERE position = ?3 "
              "RETURNING id, position, priority, not_before, deadline, unique_key, serial_key, continues, is_repeatable, "
              "idempotency_key, trace, state, is_cancel_requested, started, charged, network_failures, failure_index, crashes, "
              "soft_until, soft_since, soft_network, hard_until, last_error, failure_reason, created, finished, is_blocked, claim",
    [READ_PAYLOAD] = "SELECT payload FROM reachable_payloads WHERE position = ?",
    [START] = "UPDATE reachable_jobs SET started = started + iif(is_started, 0, 1), is_started = 1 "
              "WHERE id = ? AND state = 1 AND worker = ? AND claim = ? AND NOT is_cancel_requested",
    [FINISH] = "UPDATE reachable_jobs SET state = 3, worker = NULL, is_started = 0, is_cancel_requested = 0, started "
               "= ?, charged = ?, "
               "network_failures = ?, failure_index = ?, last_error = ifnull(?, last_error), failure_reason = ?, ended = ?, "
               "finished = ? WHERE id = ? AND state = 1 AND worker = ? AND claim = ? "
               "RETURNING position, lane, queue, kind, serial_key, unique_key",
};

enum { MOST = 1000 };

struct floor_store {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    int64_t worker, position, claimed[MOST];
    char ids[MOST][33];
    int count, is_full;
};

static int run(floor_store *store, int statement) {
    int code;
    while ((code = sqlite3_step(store->statements[statement])) == SQLITE_ROW) {}
    sqlite3_reset(store->statements[statement]);
    return code == SQLITE_DONE ? 0 : code;
}

// Integers for all parameters, as many as there are.
static void bind(floor_store *store, int statement, int count, const int64_t *values) {
    for (int i = 0; i < count; i++) sqlite3_bind_int64(store->statements[statement], i + 1, values[i]);
}

static void bind_text(floor_store *store, int statement, int index, const char *text) {
    sqlite3_bind_text(store->statements[statement], index, text, -1, SQLITE_STATIC);
}

static int begin(floor_store *store, int is_full) {
    if (store->is_full != is_full) {
        sqlite3_exec(store->db, is_full ? "PRAGMA synchronous = 2" : "PRAGMA synchronous = 1", NULL, NULL, NULL);
        store->is_full = is_full;
    }
    int code = run(store, BEGIN);
    if (code) return code;
    if (sqlite3_step(store->statements[META]) == SQLITE_ROW) {
        store->position = sqlite3_column_int64(store->statements[META], 4);
    }
    sqlite3_reset(store->statements[META]);
    return 0;
}

static int set_meta(floor_store *store) {
    bind_text(store, SET_META, 1, "floor");
    for (int i = 2; i < 5; i++) sqlite3_bind_int64(store->statements[SET_META], i, store->position);
    sqlite3_bind_int64(store->statements[SET_META], 5, store->position);
    sqlite3_bind_int64(store->statements[SET_META], 6, store->worker);
    return run(store, SET_META);
}

static int unfinished(floor_store *store, int64_t change) {
    bind(store, UNFINISHED, 2, (int64_t[]){change, 1});
    return run(store, UNFINISHED);
}

floor_store *floor_open(const char *path, int64_t worker) {
    floor_store *store = calloc(1, sizeof *store);
    if (!store) return NULL;
    store->worker = worker;
    int code = sqlite3_open(path, &store->db);
    if (!code) code = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = 1", NULL, NULL, NULL);
    for (int i = 0; i < STATEMENTS && !code; i++) {
        code = sqlite3_prepare_v3(store->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i], NULL);
    }
    if (!code) return store;
    fprintf(stderr, "floor: %s\n", sqlite3_errmsg(store->db));
    floor_close(store);
    return NULL;
}

void floor_close(floor_store *store) {
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->db);
    free(store);
}

int floor_push(floor_store *store, int count) {
    int code = begin(store, 1);
    for (int i = 0; i < count && !code; i++) {
        if (i == 0) {
            bind_text(store, QUEUE, 1, "queue");
            run(store, QUEUE);
            bind(store, LANE, 3, (int64_t[]){1, 0, 1});
            bind_text(store, LANE, 2, "kind");
            bind_text(store, LANE, 4, "internet");
            run(store, LANE);
        }
        char id[33];
        uint64_t random[2];
        sqlite3_randomness(sizeof random, random);
        // Identities begin with the time.
        int64_t position = ++store->position;
        snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)position << 16 | (random[0] & 0xffff),
                 (unsigned long long)random[1]);
        bind(store, INSERT, 8, (int64_t[]){position, 0, 1, 1, 0, 1, 1, 0});
        bind_text(store, INSERT, 2, id);
        bind_text(store, INSERT, 5, "kind");
        sqlite3_bind_int64(store->statements[INSERT], 10, 0);
        sqlite3_bind_int64(store->statements[INSERT], 11, 0);
        sqlite3_bind_int64(store->statements[INSERT], 16, 0);
        sqlite3_bind_int64(store->statements[INSERT], 17, 1);
        sqlite3_bind_int64(store->statements[INSERT], 20, position);
        code = run(store, INSERT);
        static const char payload[100];
        sqlite3_bind_int64(store->statements[PAYLOAD], 1, position);
        sqlite3_bind_blob(store->statements[PAYLOAD], 2, payload, sizeof payload, SQLITE_STATIC);
        if (!code) code = run(store, PAYLOAD);
    }
    if (!code) code = unfinished(store, count);
    if (!code) code = set_meta(store);
    return code ? code : run(store, COMMIT);
}

int floor_claim(floor_store *store, int count) {
    int code = begin(store, 0);
    const int reads[] = {WORKER, WORKERS, QUEUE_NAME, NEW_LANES, OPEN_LANE, OPEN_LANES, OUTAGES, DELAYED, DELAYED};
    const int parameters[] = {1, 0, 1, 2, 2, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        bind(store, reads[i], parameters[i], (int64_t[]){1, 1});
        run(store, reads[i]);
    }
    int64_t positions[MOST];
    store->count = 0;
    bind(store, HEADS, 2, (int64_t[]){1, count + 1});
    while (sqlite3_step(store->statements[HEADS]) == SQLITE_ROW && store->count < count) {
        positions[store->count++] = sqlite3_column_int64(store->statements[HEADS], 1);
    }
    sqlite3_reset(store->statements[HEADS]);
    for (int i = 0; i < store->count && !code; i++) {
        sqlite3_stmt *claim = store->statements[CLAIM];
        bind(store, CLAIM, 3, (int64_t[]){store->worker, 0, positions[i]});
        if (sqlite3_step(claim) == SQLITE_ROW) {
            memcpy(store->ids[i], sqlite3_column_text(claim, 0), sizeof store->ids[i]);
            store->claimed[i] = sqlite3_column_int64(claim, 27);
        }
        sqlite3_reset(claim);
        bind(store, READ_PAYLOAD, 1, &positions[i]);
        code = run(store, READ_PAYLOAD);
    }
    return code ? code : run(store, COMMIT);
}

int floor_start(floor_store *store) {
    int code = begin(store, 0);
    bind(store, WORKER, 1, &store->worker);
    run(store, WORKER);
    for (int i = 0; i < store->count && !code; i++) {
        bind(store, START, 3, (int64_t[]){0, store->worker, store->claimed[i]});
        bind_text(store, START, 1, store->ids[i]);
        code = run(store, START);
    }
    return code ? code : run(store, COMMIT);
}

int floor_finish(floor_store *store) {
    int code = begin(store, 1);
    bind(store, WORKER, 1, &store->worker);
    run(store, WORKER);
    for (int i = 0; i < store->count && !code; i++) {
        bind(store, FINISH, 4, (int64_t[]){1, 0, 0, 0});
        sqlite3_bind_int64(store->statements[FINISH], 7, i);
        sqlite3_bind_int64(store->statements[FINISH], 8, i);
        bind_text(store, FINISH, 9, store->ids[i]);
        sqlite3_bind_int64(store->statements[FINISH], 10, store->worker);
        sqlite3_bind_int64(store->statements[FINISH], 11, store->claimed[i]);
        code = run(store, FINISH);
    }
    if (!code) code = unfinished(store, -store->count);
    if (!code) code = set_meta(store);
    return code ? code : run(store, COMMIT);
}

int floor_execute(const char *path, const char *sql) {
    sqlite3 *db = NULL;
    char *message = NULL;
    int code = sqlite3_open(path, &db);
    if (!code) code = sqlite3_exec(db, sql, NULL, NULL, &message);
    if (code) fprintf(stderr, "floor: %s\n", message ? message : sqlite3_errmsg(db));
    sqlite3_free(message);
    sqlite3_close(db);
    return code;
}

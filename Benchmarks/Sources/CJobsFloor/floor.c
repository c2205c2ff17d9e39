#include "cjobsfloor.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    // 0 for NULL.
    int type, length;
    sqlite3_int64 number;
    // Text, or a blob.
    char *bytes;
} parameter;

// Prepared once, as the store keeps its own.
typedef struct {
    char *sql;
    sqlite3_stmt *prepared;
} statement;

typedef struct {
    int statement, count;
    parameter *parameters;
} execution;

struct jobs_floor {
    // The connection that replays, and the one that is recorded while it is open.
    sqlite3 *db, *recorded;
    statement *statements;
    execution *executions;
    int statement_count, count, room, is_replayed, code;
};

static void *resized(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (!memory) abort();
    return memory;
}

// MARK: - Recording

// Reads a value as sqlite3_expanded_sql writes it; returns the text behind it, or NULL if it is no such value.
static const char *read_value(const char *text, parameter *value) {
    *value = (parameter){0};
    if (!strncmp(text, "NULL", 4)) return text + 4;
    int is_blob = text[0] == 'x';
    if (text[is_blob] != '\'') {
        char *end;
        value->type = SQLITE_INTEGER;
        value->number = strtoll(text, &end, 10);
        return end > text ? end : NULL;
    }
    value->type = is_blob ? SQLITE_BLOB : SQLITE_TEXT;
    value->bytes = resized(NULL, strlen(text));
    text += is_blob + 1;
    // A quote within a text is doubled.
    for (; *text && (text[0] != '\'' || text[1] == '\''); value->length++) {
        unsigned byte = (unsigned char)*text;
        if (is_blob && sscanf(text, "%2x", &byte) != 1) return NULL;
        text += is_blob || byte == '\'' ? 2 : 1;
        value->bytes[value->length] = (char)byte;
    }
    return *text ? text + 1 : NULL;
}

// Reads the parameters from the places that a statement's text and its expansion have in common; returns false if it cannot.
static int read_parameters(execution *execution, const char *sql, const char *expanded) {
    int last = 0;
    while (*sql) {
        if (*sql != '?') {
            if (*sql++ != *expanded++) return 0;
            continue;
        }
        char *end;
        int number = (int)strtol(sql + 1, &end, 10);
        if (end == sql + 1) number = last + 1;
        if (number > execution->count) return 0;
        parameter *parameter = &execution->parameters[number - 1];
        free(parameter->bytes);
        expanded = read_value(expanded, parameter);
        if (!expanded) return 0;
        if (number > last) last = number;
        sql = end;
    }
    return !*expanded;
}

static int find_statement(jobs_floor *floor, const char *sql) {
    int index = 0;
    while (index < floor->statement_count && strcmp(floor->statements[index].sql, sql)) index++;
    if (index == floor->statement_count) {
        floor->statements = resized(floor->statements, sizeof(statement) * (size_t)++floor->statement_count);
        floor->statements[index] = (statement){.sql = strdup(sql)};
    }
    return index;
}

static void forget_executions(jobs_floor *floor) {
    for (int i = 0; i < floor->count; i++) {
        for (int j = 0; j < floor->executions[i].count; j++) free(floor->executions[i].parameters[j].bytes);
        free(floor->executions[i].parameters);
    }
    floor->count = floor->is_replayed = 0;
}

// Called by SQLite when the recorded connection begins a statement, or ends.
static int record(unsigned event, void *context, void *object, void *text) {
    jobs_floor *floor = context;
    if (event == SQLITE_TRACE_CLOSE) {
        floor->recorded = NULL;
        return 0;
    }
    const char *sql = sqlite3_sql(object);
    // A part of another statement.
    if (text != sql) return 0;
    // Not after the replay, which is measured.
    if (floor->is_replayed) forget_executions(floor);
    if (floor->count == floor->room) {
        floor->room = floor->room * 2 + 1000;
        floor->executions = resized(floor->executions, sizeof(execution) * (size_t)floor->room);
    }
    execution *new = &floor->executions[floor->count++];
    *new = (execution){find_statement(floor, sql), sqlite3_bind_parameter_count(object), NULL};
    new->parameters = calloc((size_t)new->count + 1, sizeof(parameter));
    char *expanded = sqlite3_expanded_sql(object);
    if (!new->parameters || !expanded || !read_parameters(new, sql, expanded)) {
        fprintf(stderr, "floor: a statement cannot be recorded: %s\n", sql);
        floor->code = SQLITE_MISMATCH;
    }
    sqlite3_free(expanded);
    return 0;
}

// The floor that waits for a connection to record.
static jobs_floor *waiting;

// Called by SQLite for each connection that this process opens.
static int connected(sqlite3 *db, const char **message, const struct sqlite3_api_routines *api) {
    (void)message;
    (void)api;
    if (!waiting) return SQLITE_OK;
    waiting->recorded = db;
    int code = sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_CLOSE, record, waiting);
    waiting = NULL;
    return code;
}

jobs_floor *floor_open(const char *path) {
    jobs_floor *floor = calloc(1, sizeof *floor);
    if (!floor) return NULL;
    if (sqlite3_open(path, &floor->db) || sqlite3_auto_extension((void (*)(void))connected)) {
        fprintf(stderr, "floor: %s\n", sqlite3_errmsg(floor->db));
        floor_close(floor);
        return NULL;
    }
    return waiting = floor;
}

void floor_close(jobs_floor *floor) {
    if (waiting == floor) waiting = NULL;
    if (floor->recorded) sqlite3_trace_v2(floor->recorded, 0, NULL, NULL);
    forget_executions(floor);
    for (int i = 0; i < floor->statement_count; i++) {
        sqlite3_finalize(floor->statements[i].prepared);
        free(floor->statements[i].sql);
    }
    sqlite3_close(floor->db);
    free(floor->executions);
    free(floor->statements);
    free(floor);
}

// MARK: - Replaying

static int bind(sqlite3_stmt *statement, int index, const parameter *value) {
    switch (value->type) {
    case SQLITE_INTEGER: return sqlite3_bind_int64(statement, index, value->number);
    case SQLITE_TEXT: return sqlite3_bind_text(statement, index, value->bytes, value->length, SQLITE_STATIC);
    case SQLITE_BLOB: return sqlite3_bind_blob(statement, index, value->bytes, value->length, SQLITE_STATIC);
    default: return sqlite3_bind_null(statement, index);
    }
}

static int execute(sqlite3 *db, statement *statement, const execution *execution) {
    // Some of them take effect when they are prepared.
    if (!strncmp(statement->sql, "PRAGMA", 6)) return sqlite3_exec(db, statement->sql, NULL, NULL, NULL);
    int code = SQLITE_OK;
    if (!statement->prepared) {
        code = sqlite3_prepare_v3(db, statement->sql, -1, SQLITE_PREPARE_PERSISTENT, &statement->prepared, NULL);
    }
    for (int i = 0; i < execution->count && !code; i++) code = bind(statement->prepared, i + 1, &execution->parameters[i]);
    if (code) return code;
    while ((code = sqlite3_step(statement->prepared)) == SQLITE_ROW) {}
    sqlite3_reset(statement->prepared);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

int floor_replay(jobs_floor *floor) {
    int code = floor->code;
    for (int i = 0; i < floor->count && !code && !floor->is_replayed; i++) {
        statement *statement = &floor->statements[floor->executions[i].statement];
        code = execute(floor->db, statement, &floor->executions[i]);
        if (code) fprintf(stderr, "floor: %s: %s\n", sqlite3_errmsg(floor->db), statement->sql);
    }
    floor->is_replayed = 1;
    if (code || sqlite3_total_changes(floor->db) == sqlite3_total_changes(floor->recorded)) return code;
    fprintf(stderr, "floor: the store has not changed as many rows\n");
    return SQLITE_MISMATCH;
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

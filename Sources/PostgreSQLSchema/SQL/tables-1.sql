-- Version 1 of the tables. Programs call functions, and the functions alone use the tables: see roles.sql.
--
-- Each table has a primary key: without one a table that is replicated cannot be updated.

-- All times are nanoseconds of the store's clock, which begins at 0 and follows the server's wall clock, but never runs back.
-- `lease` is the clock of leases: it goes on by 15 s at most from one heartbeat to the next, and stands still while the server is
-- down, so that neither a step of the wall clock nor a restart ends a worker's lease.
CREATE TABLE reachable_clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- The identity of the store, which its functions have in their text: see rights.sql.
    store uuid NOT NULL DEFAULT gen_random_uuid(),
    wall bigint NOT NULL, instant bigint NOT NULL DEFAULT 0, lease bigint NOT NULL DEFAULT 0,
    -- The server's start before the last heartbeat.
    server_start timestamptz NOT NULL DEFAULT pg_postmaster_start_time()
);
INSERT INTO reachable_clock (wall) SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000;

CREATE TABLE reachable_paused (queue text PRIMARY KEY);

-- Rows that pushes change, of unique keys and of queues with a limit: two such pushes conflict whatever their snapshots are.
CREATE TABLE reachable_push_locks (name text PRIMARY KEY, changes bigint NOT NULL DEFAULT 0);

-- A lane gets its number when a worker first reads it: numbers are in the order of commits, identities are not. Two lanes may be
-- equal, if two transactions added them at the same time. A partial index makes no key: pushes lock the keys of lanes.
CREATE TABLE reachable_lanes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number bigint,
    queue text NOT NULL, kind text NOT NULL, version bigint NOT NULL, scope text NOT NULL, destination text
);
CREATE SEQUENCE reachable_lane_numbers;
CREATE INDEX reachable_lanes_name ON reachable_lanes (queue, kind, version, scope, destination);
CREATE UNIQUE INDEX reachable_lanes_number ON reachable_lanes (number) WHERE number IS NOT NULL;
CREATE INDEX reachable_lanes_new ON reachable_lanes (id) WHERE number IS NULL;

-- Servers' orders to leave a destination alone; it is '' for jobs without one.
CREATE TABLE reachable_holds (
    queue text, scope text, destination text, until bigint NOT NULL, PRIMARY KEY (queue, scope, destination)
);

-- `heartbeat` is a time of the lease clock, and `seen` the same instant on the store's clock. `process` names the process on its
-- machine, so that a worker of the same machine can tell that it has ended. `host` is for people.
CREATE TABLE reachable_workers (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL, node text NOT NULL, boot text NOT NULL, machine text NOT NULL, process text NOT NULL, host text,
    heartbeat bigint NOT NULL, seen bigint NOT NULL
);

-- state: 0 available, 1 running, 2 failed, 3 succeeded, 4 cancelled. priority: 0 bulk, 1 normal, 2 interactive.
-- due: the end of the delays that bind all workers, if a claim has not seen it yet; null also for blocked jobs.
-- is_blocked: an earlier job with one of its keys has to end first. A claim finds that out, so that no push has to wait for one;
-- until then it is false.
-- avoided_by: the node and boot of the worker whose network failed; avoided_since and avoided_until are of that boot's clock.
-- claim_call: the number of the worker's call that claimed it; a call whose answer was lost is taken back by it.
-- finisher: the worker whose result it has, for a result that comes again because the answer was lost.
CREATE SEQUENCE reachable_positions;
CREATE TABLE reachable_jobs (
    position bigint PRIMARY KEY DEFAULT nextval('reachable_positions'),
    id uuid NOT NULL UNIQUE,
    -- Columns of one size that are never null come first: only these have the same place in each row.
    lane bigint NOT NULL, claim bigint NOT NULL DEFAULT 0, pushed bigint NOT NULL,
    -- For people: nanoseconds since 1970.
    created bigint NOT NULL,
    started integer NOT NULL DEFAULT 0, charged integer NOT NULL DEFAULT 0, network_failures integer NOT NULL DEFAULT 0,
    failure_index integer NOT NULL DEFAULT 0, crashes integer NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0, priority smallint NOT NULL,
    is_blocked boolean NOT NULL DEFAULT false, is_cancel_requested boolean NOT NULL DEFAULT false,
    has_unknown_outcome boolean NOT NULL DEFAULT false, continues boolean NOT NULL, is_repeatable boolean NOT NULL,
    queue text NOT NULL, kind text NOT NULL,
    due bigint, worker bigint, claim_call bigint, finisher bigint, not_before bigint, deadline bigint,
    soft_until bigint, soft_since bigint, hard_until bigint, avoided_since bigint, avoided_until bigint, avoided_by text,
    ended bigint,
    finished bigint, -- For people, too.
    unique_key text, serial_key text,
    idempotency_key text, trace text, last_error text, failure_reason text,
    payload bytea NOT NULL
-- Room for a job's next version on its page. Claims walk past the index entries of claimed jobs until a vacuum removes them: it
-- comes as often as jobs end, however many are kept.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX reachable_ready ON reachable_jobs (lane, priority DESC, position) WHERE state = 0 AND NOT is_blocked AND due IS NULL;
-- All other unfinished ones.
CREATE INDEX reachable_waiting ON reachable_jobs (lane, due) WHERE state < 2 AND (state = 1 OR is_blocked OR due IS NOT NULL);
CREATE INDEX reachable_avoided ON reachable_jobs (lane) WHERE state = 0 AND avoided_by IS NOT NULL;
CREATE INDEX reachable_running ON reachable_jobs (worker, claim_call) WHERE worker IS NOT NULL;
CREATE INDEX reachable_serial ON reachable_jobs (queue, serial_key, position)
    WHERE serial_key IS NOT NULL AND (state < 2 OR state = 2 AND NOT continues);
CREATE INDEX reachable_serial_running ON reachable_jobs (queue, serial_key) WHERE serial_key IS NOT NULL AND state = 1;
CREATE INDEX reachable_unique ON reachable_jobs (queue, kind, unique_key, position) WHERE unique_key IS NOT NULL AND state < 2;
CREATE INDEX reachable_unique_running ON reachable_jobs (queue, kind, unique_key) WHERE unique_key IS NOT NULL AND state = 1;
CREATE INDEX reachable_deadline ON reachable_jobs (queue, deadline, position) WHERE deadline IS NOT NULL AND state = 0;
CREATE INDEX reachable_ended ON reachable_jobs (lane, state, ended) WHERE state > 1;

-- The positions of the jobs of a claim whose attempts have started. A start writes one row for all jobs of a claim, and no job
-- again. A worker's heartbeat removes the rows of claims that have ended.
CREATE TABLE reachable_starts (
    worker bigint, claim_call bigint, first bigint, positions bigint[] NOT NULL, PRIMARY KEY (worker, claim_call, first)
);

-- Keys whose next job could not be released, and claims that could not be ended, because a transaction that replaces the job was
-- open. Claims and heartbeats try again.
CREATE TABLE reachable_rechecks (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text, kind text, serial_key text, unique_key text, position bigint, claim bigint
);

INSERT INTO reachable_versions (version) VALUES (1);

-- The tables of a store of durable jobs, version 1. Everything has names that begin with reachable_, in the current schema.
--
--     psql --single-transaction --variable ON_ERROR_STOP=1 --file install.sql
--
-- Programs call functions, and the functions alone use the tables: see roles.sql.

-- The functions keep this path: no other schema's tables or temporary ones take the place of these.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- All times are nanoseconds of the store's clock, which begins at 0 and follows the server's wall clock, but never runs back.
-- `lease` is the clock of leases: it goes on by 15 s at most from one heartbeat to the next, and stands still while the server is
-- down, so that neither a step of the wall clock nor a restart ends a worker's lease.
CREATE TABLE IF NOT EXISTS reachable_clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    schema bigint NOT NULL,
    wall bigint NOT NULL, instant bigint NOT NULL DEFAULT 0,
    lease bigint NOT NULL DEFAULT 0,
    -- The server's start, and the lease clock when it was first seen.
    server_start bigint NOT NULL, server_started bigint NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS reachable_paused (queue text PRIMARY KEY);

-- A lane gets its number when a worker first reads it: numbers are in the order of commits, identities are not. Two lanes may be
-- equal, if two transactions added them at the same time.
-- open_since is the time from which the worker open_by has named the lane in its claims; open_time is the time before.
CREATE TABLE IF NOT EXISTS reachable_lanes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number bigint,
    queue text NOT NULL, kind text NOT NULL, version bigint NOT NULL, scope text NOT NULL, destination text,
    open_time bigint NOT NULL DEFAULT 0, open_since bigint, open_by bigint
);
CREATE SEQUENCE IF NOT EXISTS reachable_lane_numbers;
CREATE INDEX IF NOT EXISTS reachable_lanes_name ON reachable_lanes (queue, kind, version, scope, destination);
CREATE UNIQUE INDEX IF NOT EXISTS reachable_lanes_number ON reachable_lanes (number) WHERE number IS NOT NULL;
CREATE INDEX IF NOT EXISTS reachable_lanes_new ON reachable_lanes (id) WHERE number IS NULL;
CREATE INDEX IF NOT EXISTS reachable_lanes_open ON reachable_lanes (open_by) WHERE open_by IS NOT NULL;

-- Servers' orders to leave a destination alone.
CREATE TABLE IF NOT EXISTS reachable_holds (queue text NOT NULL, scope text NOT NULL, destination text, until bigint NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS reachable_holds_name ON reachable_holds (queue, scope, (coalesce('=' || destination, '')));

-- Network failures of one lane and node between two reconnects: a reconnect voids the delays of a whole group, without a write to
-- its jobs. A group without a node binds all nodes, and one with workers also these, which could not decode its jobs. Only these
-- are bound by a group without a first failure.
CREATE TABLE IF NOT EXISTS reachable_outages (
    lane bigint NOT NULL, number bigint NOT NULL,
    node text, workers bigint[],
    first bigint, last bigint, last_until bigint NOT NULL,
    is_closed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (lane, number)
);

-- `heartbeat` is a time of the lease clock, and `seen` the same instant on the store's clock. `process` names the machine's boot
-- and the process, so that a worker of the same machine can tell that it has ended. `host` is for people.
CREATE TABLE IF NOT EXISTS reachable_workers (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL, node text NOT NULL, machine text NOT NULL, process text NOT NULL, host text,
    heartbeat bigint NOT NULL, seen bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS reachable_workers_heartbeat ON reachable_workers (heartbeat);

-- state: 0 available, 1 running, 2 failed, 3 succeeded, 4 cancelled.
-- rank: 0 for interactive jobs, 1 for normal and 2 for bulk ones; it changes when a job has waited for long.
-- outage: 0 for jobs that may run, the group for those that only a network failure delays or that some workers cannot decode, and
-- null for all others. due: the time at which to look at `outage` again. undecodable: the group of the workers that could not
-- decode the job.
-- is_blocked: an earlier job with one of its keys has to end first. A claim finds that out, so that no push has to wait for one;
-- until then it is false.
-- claim_call: the number of the worker's call that claimed it; a call whose answer was lost is taken back by it.
-- finisher: the worker whose result it has, for a result that comes again because the answer was lost.
CREATE SEQUENCE IF NOT EXISTS reachable_positions;
CREATE TABLE IF NOT EXISTS reachable_jobs (
    position bigint PRIMARY KEY DEFAULT nextval('reachable_positions'),
    id uuid NOT NULL UNIQUE,
    -- Columns of one size that are never null come first: only these have the same place in each row.
    lane bigint NOT NULL, claim bigint NOT NULL DEFAULT 0, age bigint NOT NULL DEFAULT 0,
    -- For people: nanoseconds since 1970.
    created bigint NOT NULL,
    started integer NOT NULL DEFAULT 0, charged integer NOT NULL DEFAULT 0, network_failures integer NOT NULL DEFAULT 0,
    failure_index integer NOT NULL DEFAULT 0, crashes integer NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0, priority smallint NOT NULL, rank smallint NOT NULL,
    is_blocked boolean NOT NULL DEFAULT false,
    is_cancel_requested boolean NOT NULL DEFAULT false, soft_network boolean NOT NULL DEFAULT false,
    has_unknown_outcome boolean NOT NULL DEFAULT false, continues boolean NOT NULL DEFAULT false,
    is_repeatable boolean NOT NULL DEFAULT true,
    queue text NOT NULL, kind text NOT NULL,
    outage bigint, undecodable bigint, due bigint, worker bigint, claim_call bigint, finisher bigint,
    not_before bigint, deadline bigint,
    soft_until bigint, soft_since bigint, soft_outage bigint, hard_until bigint,
    ended bigint,
    finished bigint, -- For people, too.
    unique_key text, serial_key text,
    idempotency_key text, trace text, last_error text, failure_reason text,
    payload bytea NOT NULL
-- Room for a job's next version on its page. Claims walk past the index entries of claimed jobs until a vacuum removes them: it
-- comes as often as jobs end, however many are kept.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX IF NOT EXISTS reachable_ready ON reachable_jobs (lane, outage, rank, position) WHERE outage IS NOT NULL;
CREATE INDEX IF NOT EXISTS reachable_waiting ON reachable_jobs (lane, rank, due) WHERE state < 2 AND outage IS NULL;
CREATE INDEX IF NOT EXISTS reachable_cut_off ON reachable_jobs (lane, outage, due) WHERE outage <> 0;
CREATE INDEX IF NOT EXISTS reachable_undecodable ON reachable_jobs (lane, undecodable) WHERE undecodable IS NOT NULL AND state < 2;
CREATE INDEX IF NOT EXISTS reachable_bulk ON reachable_jobs (lane, age) WHERE rank = 2 AND outage = 0;
CREATE INDEX IF NOT EXISTS reachable_running ON reachable_jobs (worker, claim_call) WHERE worker IS NOT NULL;
CREATE INDEX IF NOT EXISTS reachable_serial ON reachable_jobs (queue, serial_key, position)
    WHERE serial_key IS NOT NULL AND (state < 2 OR state = 2 AND NOT continues);
CREATE INDEX IF NOT EXISTS reachable_unique ON reachable_jobs (queue, kind, unique_key, position)
    WHERE unique_key IS NOT NULL AND state < 2;
CREATE INDEX IF NOT EXISTS reachable_deadline ON reachable_jobs (queue, deadline) WHERE deadline IS NOT NULL AND state = 0;
CREATE INDEX IF NOT EXISTS reachable_ended ON reachable_jobs (lane, state, ended) WHERE state > 1;

-- The positions of the jobs of a claim whose attempts have started. A start writes one row for all jobs of a claim, and no job
-- again. A worker's heartbeat removes the rows of claims that have ended.
CREATE TABLE IF NOT EXISTS reachable_starts (worker bigint NOT NULL, claim_call bigint NOT NULL, places bigint[] NOT NULL);
CREATE INDEX IF NOT EXISTS reachable_starts_claim ON reachable_starts (worker, claim_call);

-- Blocked jobs that could not be released, because a transaction that replaced them was open.
CREATE TABLE IF NOT EXISTS reachable_doubts (position bigint PRIMARY KEY);

CREATE SEQUENCE jobs_v1.reachable_positions
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE jobs_v1.reachable_jobs (
    "position" bigint DEFAULT nextval('jobs_v1.reachable_positions'::regclass) NOT NULL,
    id uuid NOT NULL,
    lane bigint NOT NULL,
    claim bigint DEFAULT 0 NOT NULL,
    pushed bigint NOT NULL,
    created bigint NOT NULL,
    started integer DEFAULT 0 NOT NULL,
    charged integer DEFAULT 0 NOT NULL,
    network_failures integer DEFAULT 0 NOT NULL,
    failure_index integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    state smallint DEFAULT 0 NOT NULL,
    priority smallint NOT NULL,
    is_blocked boolean DEFAULT false NOT NULL,
    is_cancel_requested boolean DEFAULT false NOT NULL,
    has_unknown_outcome boolean DEFAULT false NOT NULL,
    continues boolean NOT NULL,
    is_repeatable boolean NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    due bigint,
    worker bigint,
    claim_call bigint,
    finisher bigint,
    not_before bigint,
    deadline bigint,
    soft_until bigint,
    soft_since bigint,
    hard_until bigint,
    avoided_since bigint,
    avoided_until bigint,
    avoided_by text,
    ended bigint,
    finished bigint,
    unique_key text,
    serial_key text,
    idempotency_key text,
    trace text,
    last_error text,
    failure_reason text,
    payload bytea NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE jobs_v1.reachable_lanes (
    id bigint NOT NULL,
    number bigint,
    queue text NOT NULL,
    kind text NOT NULL,
    version bigint NOT NULL,
    scope text NOT NULL,
    destination text
);
CREATE TABLE jobs_v1.reachable_starts (
    worker bigint NOT NULL,
    claim_call bigint NOT NULL,
    first bigint NOT NULL,
    positions bigint[] NOT NULL
);
CREATE TABLE jobs_v1.reachable_workers (
    number bigint NOT NULL,
    queue text NOT NULL,
    node text NOT NULL,
    boot text NOT NULL,
    machine text NOT NULL,
    process text NOT NULL,
    host text,
    heartbeat bigint NOT NULL,
    seen bigint NOT NULL
);
CREATE TABLE jobs_v1.reachable_clock (
    one boolean DEFAULT true NOT NULL,
    store uuid DEFAULT gen_random_uuid() NOT NULL,
    wall bigint NOT NULL,
    instant bigint DEFAULT 0 NOT NULL,
    lease bigint DEFAULT 0 NOT NULL,
    server_start timestamp with time zone DEFAULT pg_postmaster_start_time() NOT NULL,
    CONSTRAINT reachable_clock_one_check CHECK (one)
);
CREATE TABLE jobs_v1.reachable_holds (
    queue text NOT NULL,
    scope text NOT NULL,
    destination text NOT NULL,
    until bigint NOT NULL
);
CREATE SEQUENCE jobs_v1.reachable_lane_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER TABLE jobs_v1.reachable_lanes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME jobs_v1.reachable_lanes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE jobs_v1.reachable_paused (
    queue text NOT NULL
);
CREATE TABLE jobs_v1.reachable_push_locks (
    name text NOT NULL,
    changes bigint DEFAULT 0 NOT NULL
);
CREATE TABLE jobs_v1.reachable_rechecks (
    number bigint NOT NULL,
    queue text,
    kind text,
    serial_key text,
    unique_key text,
    "position" bigint,
    claim bigint
);
ALTER TABLE jobs_v1.reachable_rechecks ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME jobs_v1.reachable_rechecks_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE jobs_v1.reachable_versions (
    version bigint NOT NULL,
    applied timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE jobs_v1.reachable_workers ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME jobs_v1.reachable_workers_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO jobs_v1.reachable_clock (one, store, wall, instant, lease, server_start) VALUES (true, 'b63ade7c-7cb1-4c71-a8a3-97117bca9614', 1795946984764635000, 122807000, 122807000, '2026-11-29 09:48:46.690808+00');
INSERT INTO jobs_v1.reachable_holds (queue, scope, destination, until) VALUES ('default', 'internet', 'photos', 141038000);
INSERT INTO jobs_v1.reachable_jobs ("position", id, lane, claim, pushed, created, started, charged, network_failures, failure_index, crashes, state, priority, is_blocked, is_cancel_requested, has_unknown_outcome, continues, is_repeatable, queue, kind, due, worker, claim_call, finisher, not_before, deadline, soft_until, soft_since, hard_until, avoided_since, avoided_until, avoided_by, ended, finished, unique_key, serial_key, idempotency_key, trace, last_error, failure_reason, payload) VALUES (2, '01a226c8-3535-418d-b731-99babccf9b96', 2, 1, 115308000, 1795946984757144000, 1, 0, 1, 1, 0, 0, 2, false, false, false, false, true, 'default', 'upload', NULL, NULL, 2, 1, NULL, NULL, 60140038000, 140038000, NULL, 5, 60000000005, 'a node boot', NULL, NULL, 'u', NULL, NULL, NULL, 'no route to host', NULL, '\x6261636b73206f6666');
INSERT INTO jobs_v1.reachable_jobs ("position", id, lane, claim, pushed, created, started, charged, network_failures, failure_index, crashes, state, priority, is_blocked, is_cancel_requested, has_unknown_outcome, continues, is_repeatable, queue, kind, due, worker, claim_call, finisher, not_before, deadline, soft_until, soft_since, hard_until, avoided_since, avoided_until, avoided_by, ended, finished, unique_key, serial_key, idempotency_key, trace, last_error, failure_reason, payload) VALUES (3, '01a226c8-3537-4df6-bfcb-004c27813bb0', 3, 1, 117909000, 1795946984759746000, 1, 0, 0, 0, 0, 3, 1, false, false, false, false, true, 'default', 'upload', NULL, NULL, 2, 1, NULL, 86400117909000, NULL, NULL, NULL, NULL, NULL, NULL, 140038000, 1795946984781935000, NULL, NULL, NULL, NULL, NULL, NULL, '\x6861732072756e');
INSERT INTO jobs_v1.reachable_jobs ("position", id, lane, claim, pushed, created, started, charged, network_failures, failure_index, crashes, state, priority, is_blocked, is_cancel_requested, has_unknown_outcome, continues, is_repeatable, queue, kind, due, worker, claim_call, finisher, not_before, deadline, soft_until, soft_since, hard_until, avoided_since, avoided_until, avoided_by, ended, finished, unique_key, serial_key, idempotency_key, trace, last_error, failure_reason, payload) VALUES (5, '01a226c8-353b-45b7-84a3-1dcbbe789eab', 1, 0, 121337000, 1795946984763169000, 0, 0, 0, 0, 0, 0, 1, true, false, false, true, true, 'default', 'upload', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 's', NULL, NULL, NULL, NULL, '\x697320626c6f636b6564');
INSERT INTO jobs_v1.reachable_jobs ("position", id, lane, claim, pushed, created, started, charged, network_failures, failure_index, crashes, state, priority, is_blocked, is_cancel_requested, has_unknown_outcome, continues, is_repeatable, queue, kind, due, worker, claim_call, finisher, not_before, deadline, soft_until, soft_since, hard_until, avoided_since, avoided_until, avoided_by, ended, finished, unique_key, serial_key, idempotency_key, trace, last_error, failure_reason, payload) VALUES (4, '01a226c8-353a-49a9-8070-9e870a8c0465', 3, 1, 120249000, 1795946984762083000, 0, 0, 0, 0, 0, 0, 0, false, false, false, false, false, 'default', 'upload', NULL, NULL, 2, 1, 121249000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'once', NULL, NULL, NULL, '\x69732062756c6b');
INSERT INTO jobs_v1.reachable_jobs ("position", id, lane, claim, pushed, created, started, charged, network_failures, failure_index, crashes, state, priority, is_blocked, is_cancel_requested, has_unknown_outcome, continues, is_repeatable, queue, kind, due, worker, claim_call, finisher, not_before, deadline, soft_until, soft_since, hard_until, avoided_since, avoided_until, avoided_by, ended, finished, unique_key, serial_key, idempotency_key, trace, last_error, failure_reason, payload) VALUES (1, '01a226c8-352b-4712-a67c-ddfd090fcef5', 1, 1, 107869000, 1795946984749764000, 0, 0, 0, 0, 0, 0, 1, false, false, false, false, true, 'default', 'upload', NULL, NULL, 3, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 's', NULL, NULL, NULL, NULL, '\x7761697473');
INSERT INTO jobs_v1.reachable_lanes (id, number, queue, kind, version, scope, destination) OVERRIDING SYSTEM VALUE VALUES (1, 1, 'default', 'upload', 1, 'host=nas.local port=445', NULL);
INSERT INTO jobs_v1.reachable_lanes (id, number, queue, kind, version, scope, destination) OVERRIDING SYSTEM VALUE VALUES (2, 2, 'default', 'upload', 1, 'internet', 'photos');
INSERT INTO jobs_v1.reachable_lanes (id, number, queue, kind, version, scope, destination) OVERRIDING SYSTEM VALUE VALUES (3, 3, 'default', 'upload', 1, 'internet', NULL);
INSERT INTO jobs_v1.reachable_push_locks (name, changes) VALUES ('["default", "upload", "u"]', 0);
INSERT INTO jobs_v1.reachable_versions (version, applied) VALUES (1, '2026-11-29 10:09:44.636056+00');
SELECT pg_catalog.setval('jobs_v1.reachable_lane_numbers', 3, true);
SELECT pg_catalog.setval('jobs_v1.reachable_lanes_id_seq', 3, true);
SELECT pg_catalog.setval('jobs_v1.reachable_positions', 5, true);
SELECT pg_catalog.setval('jobs_v1.reachable_rechecks_number_seq', 1, false);
SELECT pg_catalog.setval('jobs_v1.reachable_workers_number_seq', 1, true);
ALTER TABLE ONLY jobs_v1.reachable_clock
    ADD CONSTRAINT reachable_clock_pkey PRIMARY KEY (one);
ALTER TABLE ONLY jobs_v1.reachable_holds
    ADD CONSTRAINT reachable_holds_pkey PRIMARY KEY (queue, scope, destination);
ALTER TABLE ONLY jobs_v1.reachable_jobs
    ADD CONSTRAINT reachable_jobs_id_key UNIQUE (id);
ALTER TABLE ONLY jobs_v1.reachable_jobs
    ADD CONSTRAINT reachable_jobs_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY jobs_v1.reachable_lanes
    ADD CONSTRAINT reachable_lanes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY jobs_v1.reachable_paused
    ADD CONSTRAINT reachable_paused_pkey PRIMARY KEY (queue);
ALTER TABLE ONLY jobs_v1.reachable_push_locks
    ADD CONSTRAINT reachable_push_locks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY jobs_v1.reachable_rechecks
    ADD CONSTRAINT reachable_rechecks_pkey PRIMARY KEY (number);
ALTER TABLE ONLY jobs_v1.reachable_starts
    ADD CONSTRAINT reachable_starts_pkey PRIMARY KEY (worker, claim_call, first);
ALTER TABLE ONLY jobs_v1.reachable_versions
    ADD CONSTRAINT reachable_versions_pkey PRIMARY KEY (version);
ALTER TABLE ONLY jobs_v1.reachable_workers
    ADD CONSTRAINT reachable_workers_pkey PRIMARY KEY (number);
CREATE INDEX reachable_avoided ON jobs_v1.reachable_jobs USING btree (lane) WHERE ((state = 0) AND (avoided_by IS NOT NULL));
CREATE INDEX reachable_deadline ON jobs_v1.reachable_jobs USING btree (queue, deadline, "position") WHERE ((deadline IS NOT NULL) AND (state = 0));
CREATE INDEX reachable_ended ON jobs_v1.reachable_jobs USING btree (lane, state, ended) WHERE (state > 1);
CREATE INDEX reachable_lanes_name ON jobs_v1.reachable_lanes USING btree (queue, kind, version, scope, destination);
CREATE INDEX reachable_lanes_new ON jobs_v1.reachable_lanes USING btree (id) WHERE (number IS NULL);
CREATE UNIQUE INDEX reachable_lanes_number ON jobs_v1.reachable_lanes USING btree (number) WHERE (number IS NOT NULL);
CREATE INDEX reachable_ready ON jobs_v1.reachable_jobs USING btree (lane, priority DESC, "position") WHERE ((state = 0) AND (NOT is_blocked) AND (due IS NULL));
CREATE INDEX reachable_running ON jobs_v1.reachable_jobs USING btree (worker, claim_call) WHERE (worker IS NOT NULL);
CREATE INDEX reachable_serial ON jobs_v1.reachable_jobs USING btree (queue, serial_key, "position") WHERE ((serial_key IS NOT NULL) AND ((state < 2) OR ((state = 2) AND (NOT continues))));
CREATE INDEX reachable_serial_running ON jobs_v1.reachable_jobs USING btree (queue, serial_key) WHERE ((serial_key IS NOT NULL) AND (state = 1));
CREATE INDEX reachable_unique ON jobs_v1.reachable_jobs USING btree (queue, kind, unique_key, "position") WHERE ((unique_key IS NOT NULL) AND (state < 2));
CREATE INDEX reachable_unique_running ON jobs_v1.reachable_jobs USING btree (queue, kind, unique_key) WHERE ((unique_key IS NOT NULL) AND (state = 1));
CREATE INDEX reachable_waiting ON jobs_v1.reachable_jobs USING btree (lane, due) WHERE ((state < 2) AND ((state = 1) OR is_blocked OR (due IS NOT NULL)));

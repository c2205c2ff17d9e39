-- Pushing jobs: by programs in batches, and by anyone in a transaction of their own.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- Returns the lane of a queue, kind, version, scope and destination, and adds it if it is new. It stays until the transaction ends.
CREATE OR REPLACE FUNCTION reachable_lane(queue_ text, kind_ text, version_ bigint, scope_ text, destination_ text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    found_ bigint;
BEGIN
    -- Shared with other pushes; who deletes lanes takes it alone.
    PERFORM pg_advisory_xact_lock_shared(1919246595, reachable_lane_lock(queue_, kind_, version_, scope_, destination_));
    SELECT id INTO found_ FROM reachable_lanes
    WHERE queue = queue_ AND kind = kind_ AND version = version_ AND scope = scope_
    AND destination IS NOT DISTINCT FROM destination_ ORDER BY id LIMIT 1;
    IF found_ IS NULL THEN
        INSERT INTO reachable_lanes (queue, kind, version, scope, destination)
        VALUES (queue_, kind_, version_, scope_, destination_) RETURNING id INTO found_;
    END IF;
    RETURN found_;
END $$;

CREATE OR REPLACE FUNCTION reachable_lane_lock(queue text, kind text, version bigint, scope text, destination text) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT reachable_lock(concat_ws(E'\n', queue, kind, version, scope, destination))
$$;

-- Adds an available job behind all others; false if one with its identity is there.
--
-- Positions of jobs with one key are in the order of commits: the caller holds the locks of the keys. clock: the reading of the
-- lane's clock.
CREATE OR REPLACE FUNCTION reachable_insert(j reachable_jobs, now bigint, clock bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    mine boolean := false;
    outage_ bigint;
BEGIN
    -- Behind a job of this transaction it is blocked for certain: no one else can end that one before the commit. All others are
    -- looked at by claims, which a transaction that stays open must not hold up.
    IF j.serial_key IS NOT NULL THEN
        SELECT o.xmin = pg_current_xact_id()::xid INTO mine FROM reachable_jobs o
        WHERE o.queue = j.queue AND o.serial_key = j.serial_key AND (o.state < 2 OR o.state = 2 AND NOT o.continues)
        ORDER BY o.position DESC LIMIT 1;
    END IF;
    j.is_blocked := coalesce(mine, false);
    outage_ := reachable_outage(j, now);
    j.age := reachable_age(j, outage_, clock);
    j.outage := outage_;
    j.due := reachable_due(j, now);
    j.position := nextval('reachable_positions');
    INSERT INTO reachable_jobs SELECT j.* ON CONFLICT (id) DO NOTHING;
    RETURN FOUND;
END $$;

-- Adds jobs in this order. Each result names the job that is there now, and what happened: added, kept, replaced or appended.
--
-- unique_rules: null, keep, replace or append. priorities: 0 bulk, 1 normal, 2 interactive. Times are nanoseconds.
-- maximum: the most unfinished jobs of a queue.
CREATE OR REPLACE FUNCTION reachable_push_batch(
    ids text[], queues text[], kinds text[], versions bigint[], payloads bytea[], scopes text[], destinations text[],
    priorities bigint[], delays bigint[], limits bigint[], unique_rules text[], unique_keys text[], serial_keys text[],
    continues_ boolean[], repeatable boolean[], idempotency_keys text[], traces text[], maximum bigint DEFAULT NULL
) RETURNS TABLE (job text, outcome text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint;
    wall bigint;
    outcomes text[];
    added text[] := '{}';
    has_keys boolean := EXISTS (SELECT FROM unnest(unique_keys || serial_keys) AS key WHERE key IS NOT NULL);
    lane_of jsonb := '{}';
    name text;
    lane_ bigint;
    clock bigint;
    r record;
    n record;
    j reachable_jobs;
    o reachable_jobs;
BEGIN
    IF EXISTS (SELECT FROM unnest(payloads) AS payload WHERE length(payload) > 1048576) THEN
        RAISE EXCEPTION 'the payload of a job has more than 1 MiB' USING ERRCODE = 'RE001';
    END IF;
    -- In the order that all use.
    PERFORM pg_advisory_xact_lock(1919246593, number) FROM (
        SELECT DISTINCT unnest(reachable_chain_locks(queues[i], kinds[i], serial_keys[i], unique_keys[i])) AS number
        FROM generate_subscripts(ids, 1) AS i WHERE has_keys ORDER BY 1) AS numbers;
    now := reachable_now();
    wall := reachable_wall();
    IF NOT has_keys THEN
        FOR r IN
            SELECT queue, kind, version, scope, destination
            FROM unnest(queues, kinds, versions, scopes, destinations)
                WITH ORDINALITY AS t (queue, kind, version, scope, destination, place)
            GROUP BY 1, 2, 3, 4, 5 ORDER BY min(place)
        LOOP
            lane_of := lane_of || jsonb_build_object(
                concat_ws(E'\n', r.queue, r.kind, r.version, r.scope, coalesce('=' || r.destination, '')),
                reachable_lane(r.queue, r.kind, r.version, r.scope, r.destination));
        END LOOP;
        -- No subscripts: each would walk through its array.
        WITH new AS (
            INSERT INTO reachable_jobs (id, queue, kind, lane, priority, rank, outage, due, age, not_before, deadline, continues,
                                        is_repeatable, idempotency_key, trace, created, payload)
            SELECT t.id, queue, kind, lane, priority, 2 - priority,
                   CASE WHEN coalesce(delay, 0) <= 0 THEN 0 END, CASE WHEN delay > 0 THEN now + delay END,
                   CASE WHEN priority = 0 AND coalesce(delay, 0) <= 0
                        THEN (SELECT reachable_lane_clock(l, now) FROM reachable_lanes l WHERE l.id = lane) ELSE 0 END,
                   now + delay, now + time_limit, continues, is_repeatable, idempotency_key, trace, wall, payload
            FROM unnest(ids::uuid[], queues, kinds, versions, payloads, scopes, destinations, priorities, delays, limits,
                        continues_, repeatable, idempotency_keys, traces) WITH ORDINALITY AS t (
                        id, queue, kind, version, payload, scope, destination, priority, delay, time_limit,
                        continues, is_repeatable, idempotency_key, trace, place),
                concat_ws(E'\n', queue, kind, version, scope, coalesce('=' || destination, '')) AS lane_name,
                CAST(lane_of ->> lane_name AS bigint) AS lane
            ORDER BY place
            ON CONFLICT (id) DO NOTHING RETURNING id)
        SELECT array_agg(CASE WHEN new.id IS NULL THEN 'kept' ELSE 'added' END ORDER BY t.place) INTO outcomes
        -- A full join: each identity would be compared with each otherwise.
        FROM unnest(ids::uuid[]) WITH ORDINALITY AS t (id, place) FULL JOIN new ON new.id = t.id;
        added := ARRAY(SELECT DISTINCT unnest(queues));
    ELSE
        outcomes := '{}';
        -- No subscripts here either.
        FOR n IN
            SELECT * FROM unnest(ids::uuid[], queues, kinds, versions, payloads, scopes, destinations, priorities, delays, limits,
                                 unique_rules, unique_keys, serial_keys, continues_, repeatable, idempotency_keys, traces)
                WITH ORDINALITY AS t (
                    id, queue, kind, version, payload, scope, destination, priority, delay, time_limit,
                    unique_rule, unique_key, serial_key, continues, is_repeatable, idempotency_key, trace, place)
            ORDER BY place
        LOOP
            o := NULL;
            IF n.unique_key IS NOT NULL THEN
                -- A push that is repeated, because its first answer was lost, changes nothing.
                IF EXISTS (SELECT FROM reachable_jobs WHERE id = n.id) THEN
                    outcomes[n.place] := 'kept';
                    CONTINUE;
                END IF;
                SELECT * INTO o FROM reachable_jobs
                WHERE queue = n.queue AND kind = n.kind AND unique_key = n.unique_key AND state < 2
                ORDER BY position DESC LIMIT 1;
                IF FOUND AND n.unique_rule = 'replace' THEN
                    -- Waits for a claim that is about to commit.
                    SELECT * INTO o FROM reachable_jobs WHERE position = o.position FOR UPDATE;
                    IF o.state > 1 THEN o := NULL; END IF;
                END IF;
                IF o.position IS NOT NULL AND n.unique_rule = 'keep' THEN
                    ids[n.place] := o.id::text;
                    outcomes[n.place] := 'kept';
                    CONTINUE;
                END IF;
                IF o.position IS NOT NULL AND n.unique_rule = 'replace' AND o.state = 0 AND o.started = 0 THEN
                    lane_ := reachable_lane(n.queue, n.kind, n.version, n.scope, n.destination);
                    -- Its age counts on the clock of its lane: leave the old one's. A claim finds out whether it is blocked.
                    SELECT reachable_lane_clock(l, now) INTO clock FROM reachable_lanes l WHERE l.id = o.lane;
                    UPDATE reachable_jobs u SET
                        age = reachable_age(u, NULL, clock), outage = NULL, due = NULL, undecodable = NULL, is_blocked = false,
                        lane = lane_, payload = n.payload, not_before = now + n.delay, deadline = now + n.time_limit,
                        idempotency_key = coalesce(n.idempotency_key, replace(n.id::text, '-', '')), trace = n.trace
                    WHERE u.position = o.position;
                    PERFORM reachable_schedule(ARRAY[o.position], now);
                    ids[n.place] := o.id::text;
                    outcomes[n.place] := 'replaced';
                    CONTINUE;
                END IF;
            END IF;
            lane_ := reachable_lane(n.queue, n.kind, n.version, n.scope, n.destination);
            SELECT reachable_lane_clock(l, now) INTO clock FROM reachable_lanes l WHERE l.id = lane_;
            SELECT n.id, n.queue, n.kind, lane_, 0, n.priority, 2 - n.priority, 0, false, false, false, n.continues,
                   n.is_repeatable, 0, 0, 0, 0, 0, 0, now + n.delay, now + n.time_limit, n.unique_key, n.serial_key,
                   n.idempotency_key, n.trace, wall, n.payload
            INTO j.id, j.queue, j.kind, j.lane, j.state, j.priority, j.rank, j.age, j.is_cancel_requested,
                 j.soft_network, j.has_unknown_outcome, j.continues, j.is_repeatable, j.started, j.charged, j.network_failures,
                 j.failure_index, j.crashes, j.claim, j.not_before, j.deadline, j.unique_key, j.serial_key,
                 j.idempotency_key, j.trace, j.created, j.payload;
            IF reachable_insert(j, now, clock) THEN
                outcomes[n.place] := CASE WHEN o.position IS NULL THEN 'added' ELSE 'appended' END;
                added := added || n.queue;
            ELSE
                outcomes[n.place] := 'kept';
            END IF;
        END LOOP;
    END IF;
    IF maximum IS NOT NULL THEN
        FOR name IN SELECT DISTINCT unnest(added) ORDER BY 1 LOOP
            -- Exact only if no one else pushes at the same time.
            PERFORM pg_advisory_xact_lock(1919246596, reachable_lock(name));
            IF (SELECT count(*) FROM (
                SELECT FROM reachable_lanes l, LATERAL (
                    (SELECT FROM reachable_jobs WHERE lane = l.id AND outage IS NOT NULL LIMIT maximum + 1) UNION ALL
                    (SELECT FROM reachable_jobs WHERE lane = l.id AND state < 2 AND outage IS NULL LIMIT maximum + 1)) AS u
                WHERE l.queue = name LIMIT maximum + 1) AS unfinished) > maximum
            THEN
                RAISE EXCEPTION 'the queue % would have more than % unfinished jobs', name, maximum USING ERRCODE = 'RE002';
            END IF;
        END LOOP;
    END IF;
    IF cardinality(added) > 0 OR 'replaced' = ANY(outcomes) THEN PERFORM reachable_wake(); END IF;
    RETURN QUERY SELECT lower(replace(t.id, '-', '')), t.result FROM unnest(ids, outcomes) AS t (id, result);
END $$;

-- Adds one job, from any client and in its own transaction: the job is there if the transaction commits, and only then.
--
--     SELECT reachable_push('upload', '{"file":"a.jpg"}', scope => 'host=photos.example.org port=443', serial_key => 'a.jpg');
--
-- payload: the parameters as the kind encodes them, JSON by default. unique_rule: keep, replace or append, with unique_key.
-- Returns the identity of the job that is there now.
CREATE OR REPLACE FUNCTION reachable_push(
    kind text, payload text, queue text DEFAULT 'default', scope text DEFAULT 'internet', destination text DEFAULT NULL,
    serial_key text DEFAULT NULL, unique_key text DEFAULT NULL, unique_rule text DEFAULT 'keep', priority text DEFAULT 'normal',
    delay interval DEFAULT NULL, time_limit interval DEFAULT NULL, version bigint DEFAULT 1, repeatable boolean DEFAULT true,
    continues boolean DEFAULT false, idempotency_key text DEFAULT NULL, maximum bigint DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    -- The first 48 bits are the time, as in identities that programs make.
    id text := lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20);
    step bigint := array_position(ARRAY['bulk', 'normal', 'interactive'], priority) - 1;
BEGIN
    IF step IS NULL THEN
        RAISE EXCEPTION 'there is no priority %', priority USING HINT = 'Write bulk, normal or interactive.', ERRCODE = '22023';
    END IF;
    IF unique_rule NOT IN ('keep', 'replace', 'append') THEN
        RAISE EXCEPTION 'there is no unique_rule %', unique_rule USING HINT = 'Write keep, replace or append.', ERRCODE = '22023';
    END IF;
    RETURN (SELECT job FROM reachable_push_batch(
        ARRAY[id], ARRAY[queue], ARRAY[kind], ARRAY[version], ARRAY[convert_to(payload, 'UTF8')], ARRAY[scope], ARRAY[destination],
        ARRAY[step], ARRAY[(extract(epoch FROM delay) * 1000000000)::bigint],
        ARRAY[(extract(epoch FROM time_limit) * 1000000000)::bigint], ARRAY[CASE WHEN unique_key IS NOT NULL THEN unique_rule END],
        ARRAY[unique_key], ARRAY[serial_key], ARRAY[continues], ARRAY[repeatable], ARRAY[idempotency_key], ARRAY[NULL::text],
        maximum));
END $$;

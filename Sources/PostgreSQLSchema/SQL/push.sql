-- Pushing jobs: by programs in batches, and by anyone in a transaction of their own, at any isolation level.
--
-- A snapshot may be older than what others have committed. What it would store wrong fails as a conflict (40001) of rows that such
-- pushes lock or change, and clients repeat it as any other conflict. Advisory locks only order positions.

-- Returns the lane of a queue, kind, version, scope and destination, and adds it if it is new. It stays until the transaction ends.
CREATE OR REPLACE FUNCTION reachable_lane(queue_ text, kind_ text, version_ bigint, scope_ text, destination_ text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    found_ bigint;
BEGIN
    SELECT id INTO found_ FROM reachable_lanes
    WHERE queue = queue_ AND kind = kind_ AND version = version_ AND scope = scope_
    AND destination IS NOT DISTINCT FROM destination_ ORDER BY id LIMIT 1 FOR KEY SHARE;
    IF found_ IS NULL THEN
        INSERT INTO reachable_lanes (queue, kind, version, scope, destination)
        VALUES (queue_, kind_, version_, scope_, destination_) RETURNING id INTO found_;
    END IF;
    RETURN found_;
END $$;

-- Changes the rows of names, in the order that all use, so that this push waits for others of a name, or conflicts with them.
CREATE OR REPLACE FUNCTION reachable_lock_pushes(names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reachable_push_locks AS l (name) SELECT DISTINCT unnest(names) ORDER BY 1
    ON CONFLICT (name) DO UPDATE SET changes = l.changes + 1;
END $$;

-- Fails if a queue has more unfinished jobs than it may have. Exact among pushes and retries that name a limit.
CREATE OR REPLACE FUNCTION reachable_check_room(queues text[], maximum bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    IF maximum IS NULL THEN RETURN; END IF;
    FOR name IN SELECT DISTINCT unnest(queues) ORDER BY 1 LOOP
        PERFORM reachable_lock_pushes(ARRAY[jsonb_build_array(name)::text]);
        IF (SELECT count(*) FROM (
            SELECT FROM reachable_lanes l, LATERAL (
                (SELECT FROM reachable_jobs WHERE lane = l.id AND state = 0 AND NOT is_blocked AND due IS NULL LIMIT maximum + 1)
                UNION ALL
                (SELECT FROM reachable_jobs WHERE lane = l.id AND state < 2 AND (state = 1 OR is_blocked OR due IS NOT NULL)
                 LIMIT maximum + 1)) AS u
            WHERE l.queue = name LIMIT maximum + 1) AS unfinished) > maximum
        THEN
            RAISE EXCEPTION 'the queue % would have more than % unfinished jobs', name, maximum
                USING HINT = 'Push again when jobs have ended, or raise the limit.', ERRCODE = 'RE002';
        END IF;
    END LOOP;
END $$;

-- Adds jobs in this order. Each result names the job that is there now, and what happened: added, kept, replaced or appended.
--
-- unique_rules: null, keep, replace or append. priorities: 0 bulk, 1 normal, 2 interactive. Times are nanoseconds.
-- maximum: the most unfinished jobs of a queue.
CREATE OR REPLACE FUNCTION reachable_push_batch(
    ids uuid[], queues text[], kinds text[], versions bigint[], payloads bytea[], scopes text[], destinations text[],
    priorities bigint[], delays bigint[], limits bigint[], unique_rules text[], unique_keys text[], serial_keys text[],
    continues_ boolean[], repeatable boolean[], idempotency_keys text[], traces text[], maximum bigint DEFAULT NULL,
    notify boolean DEFAULT true
) RETURNS TABLE (job uuid, outcome text) LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    now bigint := reachable_now();
    wall bigint := reachable_wall();
    sees_commits boolean := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
    outcomes text[] := '{}';
    -- The unique keys that this push has locked.
    locked text[];
    lane_of jsonb;
    name text;
    is_behind_own boolean;
    n record;
    o record;
BEGIN
    IF EXISTS (SELECT FROM unnest(payloads) AS payload WHERE length(payload) > 1048576) THEN
        RAISE EXCEPTION 'the payload of a job has more than 1 MiB'
            USING HINT = 'Store it in a file, and push the file''s name.', ERRCODE = 'RE001';
    ELSIF array_remove(unique_keys, NULL) = '{}' AND array_remove(serial_keys, NULL) = '{}' THEN
        SELECT jsonb_object_agg(t.name, reachable_lane(t.queue, t.kind, t.version, t.scope, t.destination)) INTO lane_of FROM (
            SELECT ROW(queue, kind, version, scope, destination)::text AS name, queue, kind, version, scope, destination
            FROM unnest(queues, kinds, versions, scopes, destinations)
                WITH ORDINALITY AS t (queue, kind, version, scope, destination, place)
            GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY min(place)) AS t;
        -- No subscripts: each would walk through its array.
        WITH new AS (
            INSERT INTO reachable_jobs (id, queue, kind, lane, priority, due, pushed, not_before, deadline, continues,
                                        is_repeatable, idempotency_key, trace, created, payload)
            SELECT t.id, queue, kind, (lane_of ->> ROW(queue, kind, version, scope, destination)::text)::bigint, priority,
                   CASE WHEN delay > 0 THEN now + delay END, now, now + delay, now + time_limit, continues, is_repeatable,
                   idempotency_key, trace, wall, payload
            FROM unnest(ids, queues, kinds, versions, payloads, scopes, destinations, priorities, delays, limits,
                        continues_, repeatable, idempotency_keys, traces) WITH ORDINALITY AS t (
                        id, queue, kind, version, payload, scope, destination, priority, delay, time_limit,
                        continues, is_repeatable, idempotency_key, trace, place)
            ORDER BY place
            ON CONFLICT (id) DO NOTHING RETURNING id)
        SELECT array_agg(CASE WHEN new.id IS NULL THEN 'kept' ELSE 'added' END ORDER BY t.place) INTO outcomes
        -- A full join: each identity would be compared with each otherwise.
        FROM unnest(ids) WITH ORDINALITY AS t (id, place) FULL JOIN new ON new.id = t.id;
    ELSE
        -- Positions of jobs with one serial key are in the order of commits. All locks in the order that all use.
        PERFORM pg_advisory_xact_lock(1919246593, number) FROM (
            SELECT DISTINCT unnest(reachable_chain_locks(queue, kind, serial_key, NULL)) AS number
            FROM unnest(queues, kinds, serial_keys) AS t (queue, kind, serial_key) ORDER BY 1) AS numbers;
        locked := ARRAY(
            SELECT jsonb_build_array(t.queue, t.kind, t.unique_key)::text
            FROM unnest(queues, kinds, unique_keys, unique_rules) AS t (queue, kind, unique_key, rule)
            WHERE t.unique_key IS NOT NULL AND NOT (t.rule = 'keep' AND EXISTS (
                SELECT FROM reachable_jobs u WHERE u.queue = t.queue AND u.kind = t.kind AND u.unique_key = t.unique_key
                AND u.state < 2 AND NOT u.is_cancel_requested)));
        PERFORM reachable_lock_pushes(locked);
    END IF;
    -- Jobs with keys, one after the other.
    FOR n IN
        SELECT * FROM unnest(ids, queues, kinds, versions, payloads, scopes, destinations, priorities, delays, limits,
                             unique_rules, unique_keys, serial_keys, continues_, repeatable, idempotency_keys, traces)
            WITH ORDINALITY AS t (
                id, queue, kind, version, payload, scope, destination, priority, delay, time_limit,
                unique_rule, unique_key, serial_key, continues, is_repeatable, idempotency_key, trace, place)
        WHERE locked IS NOT NULL ORDER BY place
    LOOP
        -- A push that is repeated, because its first answer was lost, changes nothing.
        IF EXISTS (SELECT FROM reachable_jobs WHERE id = n.id) THEN
            outcomes[n.place] := 'kept';
            CONTINUE;
        END IF;
        outcomes[n.place] := 'added';
        is_behind_own := false;
        name := jsonb_build_array(n.queue, n.kind, n.unique_key)::text;
        WHILE n.unique_key IS NOT NULL LOOP
            SELECT u.position, u.id, u.state, u.xmin = pg_current_xact_id()::xid AS is_own INTO o FROM reachable_jobs u
            WHERE u.queue = n.queue AND u.kind = n.kind AND u.unique_key = n.unique_key AND u.state < 2
            AND NOT u.is_cancel_requested ORDER BY u.position DESC LIMIT 1;
            IF FOUND AND n.unique_rule = 'keep' THEN
                IF NOT sees_commits THEN
                    -- Fails with 40001 if it was changed since the snapshot. Keeps no lock, for which its result would wait.
                    BEGIN
                        PERFORM FROM reachable_jobs WHERE position = o.position FOR SHARE;
                        RAISE EXCEPTION SQLSTATE 'RE000';
                    EXCEPTION WHEN SQLSTATE 'RE000' THEN NULL;
                    END;
                END IF;
                outcomes[n.place] := 'kept';
                ids[n.place] := o.id;
                EXIT;
            END IF;
            IF name <> ALL(locked) THEN
                PERFORM reachable_lock_pushes(ARRAY[name]);
                locked := locked || name;
                CONTINUE;
            END IF;
            EXIT WHEN o.position IS NULL;
            is_behind_own := o.is_own;
            outcomes[n.place] := 'appended';
            EXIT WHEN n.unique_rule = 'append';
            EXIT WHEN (SELECT started > 0 OR is_started FROM reachable_view WHERE position = o.position);
            IF o.state = 1 AND NOT sees_commits THEN
                -- Whether it has started since the snapshot cannot be seen.
                RAISE EXCEPTION 'the job to replace may be about to start'
                    USING HINT = 'Repeat the transaction.', ERRCODE = '40001';
            END IF;
            PERFORM FROM reachable_jobs WHERE position = o.position AND state < 2 AND NOT is_cancel_requested FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
            CONTINUE WHEN (SELECT started > 0 OR is_started FROM reachable_view WHERE position = o.position);
            -- Those behind it with its old key are released when this has been committed.
            INSERT INTO reachable_rechecks (queue, serial_key) SELECT queue, serial_key FROM reachable_jobs
            WHERE position = o.position AND serial_key IS NOT NULL AND serial_key IS DISTINCT FROM n.serial_key;
            -- A claim of it ends; the next one finds out whether it is blocked.
            UPDATE reachable_jobs SET
                lane = reachable_lane(n.queue, n.kind, n.version, n.scope, n.destination), payload = n.payload,
                not_before = now + n.delay, deadline = now + n.time_limit, due = CASE WHEN n.delay > 0 THEN now + n.delay END,
                serial_key = n.serial_key, continues = n.continues, is_repeatable = n.is_repeatable,
                idempotency_key = coalesce(n.idempotency_key, replace(n.id::text, '-', '')), trace = n.trace,
                state = 0, worker = NULL, is_blocked = false, charged = 0, network_failures = 0, failure_index = 0, crashes = 0,
                has_unknown_outcome = false, soft_until = NULL, soft_since = NULL, hard_until = NULL, avoided_by = NULL,
                avoided_since = NULL, avoided_until = NULL, last_error = NULL
            WHERE position = o.position;
            outcomes[n.place] := 'replaced';
            ids[n.place] := o.id;
            EXIT;
        END LOOP;
        CONTINUE WHEN outcomes[n.place] IN ('kept', 'replaced');
        -- Behind a job of this transaction it is blocked for certain: no one else can end that one before the commit. All
        -- others are looked at by claims, which a transaction that stays open must not hold up.
        IF n.serial_key IS NOT NULL AND NOT is_behind_own THEN
            SELECT u.xmin = pg_current_xact_id()::xid AS is_own INTO o FROM reachable_jobs u
            WHERE u.queue = n.queue AND u.serial_key = n.serial_key AND (u.state < 2 OR u.state = 2 AND NOT u.continues)
            ORDER BY u.position DESC LIMIT 1;
            is_behind_own := coalesce(o.is_own, false);
        END IF;
        INSERT INTO reachable_jobs (id, queue, kind, lane, priority, is_blocked, due, pushed, not_before, deadline, unique_key,
                                    serial_key, continues, is_repeatable, idempotency_key, trace, created, payload)
        VALUES (n.id, n.queue, n.kind, reachable_lane(n.queue, n.kind, n.version, n.scope, n.destination), n.priority,
                is_behind_own, CASE WHEN n.delay > 0 AND NOT is_behind_own THEN now + n.delay END, now, now + n.delay,
                now + n.time_limit, n.unique_key, n.serial_key, n.continues, n.is_repeatable, n.idempotency_key, n.trace, wall,
                n.payload)
        ON CONFLICT (id) DO NOTHING;
        IF NOT FOUND THEN outcomes[n.place] := 'kept'; END IF;
    END LOOP;
    PERFORM reachable_check_room(
        ARRAY(SELECT t.queue FROM unnest(queues, outcomes) AS t (queue, outcome) WHERE t.outcome IN ('added', 'appended')),
        maximum);
    IF notify AND NOT outcomes <@ '{kept}' THEN PERFORM pg_notify('reachable', current_schema()); END IF;
    RETURN QUERY SELECT * FROM unnest(ids, outcomes);
END $$;

-- Adds one job, from any client and in its own transaction: the job is there if the transaction commits, and only then.
--
--     SELECT reachable_push('upload', '{"file":"a.jpg"}', scope => 'host=photos.example.org port=443', serial_key => 'a.jpg');
--
-- payload: the parameters as the kind encodes them, JSON by default. unique_rule: keep, replace or append, with unique_key.
-- notify: false for a transaction that PREPARE TRANSACTION ends, which may not notify; workers then look within 5 s.
-- Returns the identity of the job that is there now. Above READ COMMITTED it may fail with 40001: repeat the transaction.
CREATE OR REPLACE FUNCTION reachable_push(
    kind text, payload text, queue text DEFAULT 'default', scope text DEFAULT 'internet', destination text DEFAULT NULL,
    serial_key text DEFAULT NULL, unique_key text DEFAULT NULL, unique_rule text DEFAULT 'keep', priority text DEFAULT 'normal',
    delay interval DEFAULT NULL, time_limit interval DEFAULT NULL, version bigint DEFAULT 1, repeatable boolean DEFAULT true,
    continues boolean DEFAULT false, idempotency_key text DEFAULT NULL, maximum bigint DEFAULT NULL, notify boolean DEFAULT true
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    -- The first 48 bits are the time, as in identities that programs make.
    id text := lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20);
    step bigint := array_position(ARRAY['bulk', 'normal', 'interactive'], priority) - 1;
    -- Refused here: the error of a constraint would print the row.
    missing text := (
        SELECT name FROM (VALUES
            ('kind', kind), ('payload', payload), ('queue', queue), ('scope', scope), ('unique_rule', unique_rule),
            ('priority', priority), ('version', version::text), ('repeatable', repeatable::text),
            ('continues', continues::text), ('notify', notify::text)) AS argument (name, value)
        WHERE value IS NULL LIMIT 1);
BEGIN
    IF missing IS NOT NULL THEN RAISE EXCEPTION 'the argument % is null', missing USING ERRCODE = '22004'; END IF;
    IF step IS NULL THEN
        RAISE EXCEPTION 'there is no priority %', priority USING HINT = 'Write bulk, normal or interactive.', ERRCODE = '22023';
    END IF;
    IF unique_rule NOT IN ('keep', 'replace', 'append') THEN
        RAISE EXCEPTION 'there is no unique_rule %', unique_rule USING HINT = 'Write keep, replace or append.', ERRCODE = '22023';
    END IF;
    RETURN (SELECT replace(job::text, '-', '') FROM reachable_push_batch(
        ARRAY[id::uuid], ARRAY[queue], ARRAY[kind], ARRAY[version], ARRAY[convert_to(payload, 'UTF8')], ARRAY[scope],
        ARRAY[destination], ARRAY[step], ARRAY[reachable_nanoseconds(delay)], ARRAY[reachable_nanoseconds(time_limit)],
        ARRAY[CASE WHEN unique_key IS NOT NULL THEN unique_rule END], ARRAY[unique_key], ARRAY[serial_key], ARRAY[continues],
        ARRAY[repeatable], ARRAY[idempotency_key], ARRAY[NULL::text], maximum, notify));
END $$;

-- The nanoseconds of an interval: at most half of the range, so that no sum overflows.
CREATE OR REPLACE FUNCTION reachable_nanoseconds(duration interval) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT least(greatest(extract(epoch FROM duration) * 1000000000, -2305843009213693952), 2305843009213693952)::bigint
$$;

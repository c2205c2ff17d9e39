-- Cancelling, retrying, pausing, ending and finding jobs.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- Cancels jobs, or requests it of their workers; for each: cancelled, requested, ended or unknown.
CREATE OR REPLACE FUNCTION reachable_cancel(jobs text[]) RETURNS TABLE (outcome text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := reachable_now();
    j reachable_jobs;
BEGIN
    PERFORM reachable_lock_chains_of(jobs::uuid[]);
    FOR i IN 1 .. coalesce(cardinality(jobs), 0) LOOP
        SELECT * INTO j FROM reachable_jobs WHERE id = jobs[i]::uuid FOR UPDATE;
        IF NOT FOUND THEN
            outcome := 'unknown';
        ELSIF j.state = 1 THEN
            UPDATE reachable_jobs SET is_cancel_requested = true WHERE position = j.position;
            PERFORM reachable_wake();
            outcome := 'requested';
        ELSIF j.state = 0 OR j.state = 2 AND j.serial_key IS NOT NULL AND NOT j.continues THEN
            -- A failed job that holds back its followers lets them go.
            PERFORM reachable_end(j.position, 4, NULL, now);
            PERFORM reachable_settle(j, now);
            outcome := 'cancelled';
        ELSE
            outcome := 'ended';
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Makes failed and cancelled jobs available again, with their old position; for each, whether it did.
CREATE OR REPLACE FUNCTION reachable_retry(jobs text[]) RETURNS TABLE (is_available boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := reachable_now();
    j reachable_jobs;
BEGIN
    PERFORM reachable_lock_chains_of(jobs::uuid[]);
    FOR i IN 1 .. coalesce(cardinality(jobs), 0) LOOP
        -- A deadline that has passed would end it at once.
        UPDATE reachable_jobs SET state = 0, rank = 2 - priority, age = 0, is_blocked = false, is_cancel_requested = false,
            started = 0, charged = 0, network_failures = 0, failure_index = 0, crashes = 0, has_unknown_outcome = false,
            soft_until = NULL, soft_since = NULL, soft_network = false, soft_outage = NULL, undecodable = NULL, hard_until = NULL,
            failure_reason = NULL, ended = NULL, finished = NULL, finisher = NULL,
            deadline = CASE WHEN deadline > now THEN deadline END
        WHERE id = jobs[i]::uuid AND state IN (2, 4) RETURNING * INTO j;
        is_available := FOUND;
        IF FOUND THEN
            PERFORM reachable_schedule(ARRAY[j.position], now);
            PERFORM reachable_settle(j, now);
            PERFORM reachable_wake();
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Ends the backoff of waiting jobs; for each, whether it had one.
CREATE OR REPLACE FUNCTION reachable_end_backoff(jobs text[]) RETURNS TABLE (had_one boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := reachable_now();
    place bigint;
BEGIN
    PERFORM reachable_lock_chains_of(jobs::uuid[]);
    FOR i IN 1 .. coalesce(cardinality(jobs), 0) LOOP
        UPDATE reachable_jobs SET soft_until = NULL, soft_since = NULL, soft_network = false, soft_outage = NULL
        WHERE id = jobs[i]::uuid AND state = 0 AND soft_until > now RETURNING position INTO place;
        had_one := FOUND;
        IF FOUND THEN
            PERFORM reachable_schedule(ARRAY[place], now);
            PERFORM reachable_wake();
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Pauses or resumes the claims of a queue.
CREATE OR REPLACE FUNCTION reachable_set_paused(queue_ text, is_paused boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF is_paused THEN
        INSERT INTO reachable_paused VALUES (queue_) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM reachable_paused WHERE queue = queue_;
    END IF;
    PERFORM reachable_wake();
END $$;

-- Fails waiting jobs whose deadline has passed; returns their identities, the next deadline, and whether the limit left some.
CREATE OR REPLACE FUNCTION reachable_expire(queue_ text, maximum bigint) RETURNS TABLE (jobs text[], next bigint, has_more boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now bigint := reachable_now();
    j reachable_jobs;
BEGIN
    PERFORM reachable_relax();
    jobs := '{}';
    FOR j IN
        SELECT * FROM reachable_jobs WHERE queue = queue_ AND deadline <= now AND deadline IS NOT NULL AND state = 0
        ORDER BY deadline LIMIT maximum FOR UPDATE SKIP LOCKED
    LOOP
        -- The other change of the chain is about to commit, and the next call looks again.
        CONTINUE WHEN EXISTS (
            SELECT FROM unnest(reachable_chain_locks(j.queue, j.kind, j.serial_key, j.unique_key)) AS number
            WHERE NOT pg_try_advisory_xact_lock(1919246594, number));
        PERFORM reachable_end(j.position, 2, 'deadline', now);
        PERFORM reachable_settle(j, now);
        jobs := jobs || replace(j.id::text, '-', '');
    END LOOP;
    SELECT min(deadline) INTO next FROM reachable_jobs WHERE queue = queue_ AND deadline IS NOT NULL AND state = 0;
    has_more := coalesce(next <= now, false);
    IF has_more THEN next := NULL; END IF;
    RETURN NEXT;
END $$;

-- Deletes jobs that ended long ago and lanes without jobs; returns the number of jobs, at most maximum.
CREATE OR REPLACE FUNCTION reachable_prune(keep_succeeded bigint, keep_failed bigint, maximum bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now bigint := reachable_now();
    deleted bigint := 0;
    counted bigint;
    l reachable_lanes;
    r record;
BEGIN
    PERFORM reachable_relax();
    FOR r IN
        SELECT lanes.id, ends.state, now - ends.kept AS before FROM reachable_lanes lanes,
        (VALUES (3, keep_succeeded), (4, keep_failed), (2, keep_failed)) AS ends (state, kept), LATERAL (
            SELECT FROM reachable_jobs e
            WHERE e.lane = lanes.id AND e.state > 1 AND e.state = ends.state AND e.ended <= now - ends.kept LIMIT 1) AS e
    LOOP
        EXIT WHEN deleted >= maximum;
        -- A failed job with followers stays: they wait for it.
        DELETE FROM reachable_jobs WHERE position IN (
            SELECT old.position FROM reachable_jobs old
            WHERE old.lane = r.id AND old.state > 1 AND old.state = r.state AND old.ended <= r.before
            AND NOT (old.state = 2 AND NOT old.continues AND old.serial_key IS NOT NULL AND EXISTS (
                SELECT FROM reachable_jobs f WHERE f.queue = old.queue AND f.serial_key = old.serial_key
                AND (f.state < 2 OR f.state = 2 AND NOT f.continues) AND f.state < 2 AND f.position > old.position))
            ORDER BY old.ended LIMIT maximum - deleted FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS counted = ROW_COUNT;
        deleted := deleted + counted;
    END LOOP;
    DELETE FROM reachable_holds WHERE until <= now;
    FOR l IN
        SELECT * FROM reachable_lanes lanes WHERE NOT reachable_is_used(lanes) ORDER BY id LIMIT greatest(maximum, 1000)
    LOOP
        -- Alone with the lane: a push may be about to use it.
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(
            1919246595, reachable_lane_lock(l.queue, l.kind, l.version, l.scope, l.destination));
        DELETE FROM reachable_lanes lanes WHERE id = l.id AND NOT reachable_is_used(lanes);
        IF FOUND THEN DELETE FROM reachable_outages WHERE lane = l.id; END IF;
    END LOOP;
    RETURN deleted;
END $$;

-- True if a lane has jobs, or a server's order holds its destination. In PL/pgSQL the planner cannot ask for all lanes at once,
-- for which it would read the indexes as a whole.
CREATE OR REPLACE FUNCTION reachable_is_used(l reachable_lanes) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM reachable_jobs WHERE lane = l.id AND outage IS NOT NULL)
        OR EXISTS (SELECT FROM reachable_jobs WHERE lane = l.id AND state < 2 AND outage IS NULL)
        OR EXISTS (SELECT FROM reachable_jobs WHERE lane = l.id AND state > 1)
        OR EXISTS (SELECT FROM reachable_holds h WHERE h.queue = l.queue AND h.scope = l.scope
                   AND coalesce('=' || h.destination, '') = coalesce('=' || l.destination, ''));
END $$;

-- Returns jobs by position; null selects all. prefix: the first digits of the identity.
CREATE OR REPLACE FUNCTION reachable_find(
    queue_ text, states bigint[], kinds text[], prefix text, unique_key_ text, serial_key_ text, destination_ text, after bigint,
    maximum bigint
) RETURNS SETOF reachable_view
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET jit = off AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT v.* FROM reachable_view v JOIN reachable_jobs j USING (position) WHERE true'
        || CASE WHEN queue_ IS NOT NULL THEN ' AND j.queue = $1' ELSE '' END
        || CASE WHEN states IS NOT NULL THEN ' AND j.state = ANY($2)' ELSE '' END
        || CASE WHEN kinds IS NOT NULL THEN ' AND j.kind = ANY($3)' ELSE '' END
        || CASE WHEN prefix IS NOT NULL THEN ' AND j.id BETWEEN rpad($4, 32, ''0'')::uuid AND rpad($4, 32, ''f'')::uuid' ELSE '' END
        || CASE WHEN unique_key_ IS NOT NULL THEN ' AND j.unique_key = $5' ELSE '' END
        || CASE WHEN serial_key_ IS NOT NULL THEN ' AND j.serial_key = $6' ELSE '' END
        || CASE WHEN destination_ IS NOT NULL THEN ' AND v.destination = $7' ELSE '' END
        || CASE WHEN after IS NOT NULL THEN ' AND j.position > $8' ELSE '' END
        || ' ORDER BY j.position LIMIT $9'
        USING queue_, states, kinds, prefix, unique_key_, serial_key_, destination_, after, maximum;
END $$;

-- Counts the jobs of a queue by state, kind and destination.
CREATE OR REPLACE FUNCTION reachable_count(queue_ text)
RETURNS TABLE (state smallint, kind text, destination text, jobs bigint, oldest bigint)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT j.state, l.kind, l.destination, count(*), min(j.created)
    FROM reachable_jobs j JOIN reachable_lanes l ON l.id = j.lane WHERE j.queue = queue_ GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
$$;

-- Explains why jobs do not run: the columns of reachable_view without a payload, then the facts. No row for unknown jobs.
CREATE OR REPLACE FUNCTION reachable_explain(jobs text[]) RETURNS TABLE (
    id text, place bigint, queue text, kind text, version bigint, scope text, destination text, priority smallint,
    not_before bigint, deadline bigint, unique_key text, serial_key text, continues boolean, is_repeatable boolean,
    idempotency_key text, trace text, state smallint, is_cancel_requested boolean, started integer, charged integer,
    network_failures integer, failure_index integer, crashes integer, soft_until bigint, soft_since bigint, soft_network boolean,
    hard_until bigint, last_error text, failure_reason text, created bigint, finished bigint, is_blocked boolean,
    has_unknown_outcome boolean, claim bigint, payload bytea,
    now bigint, is_paused boolean, workers bigint, hold bigint, bound_node text, undecodable_by bigint[],
    serial_blocker text, serial_state smallint, unique_blocker text, unique_state smallint, worker bigint, is_started boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment bigint := reachable_now();
BEGIN
    RETURN QUERY
        WITH present AS (SELECT w.number, w.queue FROM reachable_present(moment) w)
        SELECT v.id, v.position, v.queue, v.kind, v.version, v.scope, v.destination, v.priority, v.not_before, v.deadline,
               v.unique_key, v.serial_key, v.continues, v.is_repeatable, v.idempotency_key, v.trace, v.state,
               v.is_cancel_requested, v.started, v.charged, v.network_failures, v.failure_index, v.crashes, v.soft_until,
               v.soft_since, v.soft_network, v.hard_until, v.last_error, v.failure_reason, v.created, v.finished, v.is_blocked,
               v.has_unknown_outcome, v.claim, ''::bytea,
               moment, EXISTS (SELECT FROM reachable_paused p WHERE p.queue = v.queue),
               (SELECT count(*) FROM present p WHERE p.queue = v.queue),
               (SELECT h.until FROM reachable_holds h WHERE h.queue = v.queue AND h.scope = v.scope
                AND coalesce('=' || h.destination, '') = coalesce('=' || v.destination, '') AND h.until > moment),
               (SELECT o.node FROM reachable_outages o
                WHERE v.soft_network AND v.soft_until > moment AND o.lane = j.lane AND o.number = j.soft_outage),
               ARRAY(SELECT p.number FROM present p, reachable_outages o
                     WHERE v.state = 0 AND o.lane = j.lane AND o.number = j.undecodable AND p.number = ANY(o.workers)),
               sb.id, sb.state, ub.id, ub.state, j.worker, reachable_is_started(j)
        FROM unnest(jobs::uuid[]) AS wanted (id) JOIN reachable_jobs j ON j.id = wanted.id
        JOIN reachable_view v ON v.position = j.position
        LEFT JOIN LATERAL (
            SELECT replace(o.id::text, '-', '') AS id, o.state FROM reachable_jobs o
            WHERE v.is_blocked AND o.queue = j.queue AND o.serial_key = j.serial_key
            AND (o.state < 2 OR o.state = 2 AND NOT o.continues)
            AND (o.position < j.position OR o.state = 1 AND o.position <> j.position)
            ORDER BY o.position LIMIT 1) AS sb ON true
        LEFT JOIN LATERAL (
            SELECT replace(o.id::text, '-', '') AS id, o.state FROM reachable_jobs o
            WHERE v.is_blocked AND o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key AND o.state < 2
            AND (o.position < j.position OR o.state = 1 AND o.position <> j.position)
            ORDER BY o.position LIMIT 1) AS ub ON true;
END $$;

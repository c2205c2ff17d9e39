-- Cancelling, retrying, pausing, ending and finding jobs.

-- Cancels jobs, or requests it of their workers; for each: cancelled, requested, ended or unknown.
CREATE OR REPLACE FUNCTION reachable_cancel(jobs uuid[]) RETURNS TABLE (outcome text)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    now bigint := reachable_begin();
    wanted uuid;
    j record;
BEGIN
    PERFORM reachable_lock_chains(jobs);
    FOREACH wanted IN ARRAY jobs LOOP
        SELECT * INTO j FROM reachable_jobs WHERE id = wanted FOR UPDATE;
        IF NOT FOUND THEN
            outcome := 'unknown';
        ELSIF j.state = 1 THEN
            UPDATE reachable_jobs SET is_cancel_requested = true WHERE position = j.position;
            PERFORM pg_notify('reachable', current_schema());
            outcome := 'requested';
        ELSIF j.state = 0 OR j.state = 2 AND j.serial_key IS NOT NULL AND NOT j.continues THEN
            -- A failed job that holds back its followers lets them go.
            UPDATE reachable_jobs SET state = 4, due = NULL, is_blocked = false, ended = now, finished = reachable_wall()
            WHERE position = j.position;
            PERFORM reachable_release(j.queue, j.kind, j.serial_key, j.unique_key, now);
            outcome := 'cancelled';
        ELSE
            outcome := 'ended';
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Makes failed and cancelled jobs available again, with their old position; for each: retried, taken (by a holder of its unique
-- key) or notEnded. maximum: the most unfinished jobs of a queue; beyond it no job is retried.
CREATE OR REPLACE FUNCTION reachable_retry(jobs uuid[], maximum bigint) RETURNS TABLE (outcome text, holder uuid)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    now bigint := reachable_begin();
    queues text[] := '{}';
    retried text[];
    wanted uuid;
BEGIN
    -- No push of their unique keys meanwhile.
    PERFORM reachable_lock_pushes(ARRAY(
        SELECT jsonb_build_array(queue, kind, unique_key)::text FROM reachable_jobs
        WHERE id = ANY(jobs) AND unique_key IS NOT NULL AND state IN (2, 4)));
    FOREACH wanted IN ARRAY jobs LOOP
        holder := (
            SELECT u.id FROM reachable_jobs j JOIN reachable_jobs u USING (queue, kind, unique_key)
            WHERE j.id = wanted AND j.state IN (2, 4) AND u.unique_key IS NOT NULL AND u.state < 2 AND NOT u.is_cancel_requested
            ORDER BY u.position DESC LIMIT 1);
        -- A deadline that has passed would end it at once.
        UPDATE reachable_jobs SET state = 0, is_blocked = false, due = CASE WHEN not_before > now THEN not_before END,
            started = 0, charged = 0, network_failures = 0, failure_index = 0, crashes = 0, has_unknown_outcome = false,
            soft_until = NULL, soft_since = NULL, hard_until = NULL, avoided_by = NULL, avoided_since = NULL,
            avoided_until = NULL, failure_reason = NULL, ended = NULL, finished = NULL, finisher = NULL,
            deadline = CASE WHEN deadline > now THEN deadline END
        WHERE id = wanted AND state IN (2, 4) AND holder IS NULL RETURNING queues || queue INTO retried;
        outcome := CASE WHEN FOUND THEN 'retried' WHEN holder IS NULL THEN 'notEnded' ELSE 'taken' END;
        queues := coalesce(retried, queues);
        RETURN NEXT;
    END LOOP;
    PERFORM reachable_check_room(queues, maximum);
    IF queues <> '{}' THEN PERFORM pg_notify('reachable', current_schema()); END IF;
END $$;

-- Ends the backoff of waiting jobs; for each, whether it had one.
CREATE OR REPLACE FUNCTION reachable_end_backoff(jobs uuid[]) RETURNS TABLE (had_one boolean)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    now bigint := reachable_begin();
BEGIN
    RETURN QUERY
        WITH ended AS (
            UPDATE reachable_jobs SET soft_until = NULL, soft_since = NULL, avoided_by = NULL, avoided_since = NULL,
                avoided_until = NULL, due = CASE WHEN NOT is_blocked THEN nullif(greatest(now, not_before, hard_until), now) END
            WHERE id = ANY(jobs) AND state = 0 AND soft_until > now RETURNING id)
        SELECT ended.id IS NOT NULL FROM unnest(jobs) WITH ORDINALITY AS t (id, place) LEFT JOIN ended USING (id) ORDER BY place;
    PERFORM pg_notify('reachable', current_schema());
END $$;

-- Pauses or resumes the claims of a queue.
CREATE OR REPLACE FUNCTION reachable_set_paused(queue_ text, is_paused boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM reachable_begin();
    DELETE FROM reachable_paused WHERE queue = queue_;
    IF is_paused THEN INSERT INTO reachable_paused VALUES (queue_) ON CONFLICT DO NOTHING; END IF;
    PERFORM pg_notify('reachable', current_schema());
END $$;

-- Fails waiting jobs whose deadline has passed. The first row has the next deadline, and whether the limit left some; each other
-- one a job.
CREATE OR REPLACE FUNCTION reachable_expire(queue_ text, maximum bigint)
RETURNS TABLE (next bigint, has_more boolean, job reachable_view)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    now bigint := reachable_begin();
    late uuid[];
BEGIN
    SET LOCAL synchronous_commit = off;
    WITH ended AS (
        UPDATE reachable_jobs SET state = 2, due = NULL, is_blocked = false, failure_reason = 'deadline', ended = now,
            finished = reachable_wall()
        WHERE position IN (
            SELECT position FROM reachable_jobs WHERE queue = queue_ AND deadline IS NOT NULL AND deadline <= now AND state = 0
            ORDER BY deadline, position LIMIT greatest(maximum, 0) FOR UPDATE SKIP LOCKED)
        RETURNING id)
    SELECT array_agg(id) INTO late FROM ended;
    PERFORM reachable_lock_chains(late);
    PERFORM reachable_release(queue, kind, serial_key, unique_key, now) FROM reachable_jobs WHERE id = ANY(late);
    next := (SELECT min(deadline) FROM reachable_jobs WHERE queue = queue_ AND deadline IS NOT NULL AND state = 0);
    has_more := coalesce(next <= now, false);
    RETURN NEXT;
    RETURN QUERY SELECT NULL::bigint, NULL::boolean, v FROM reachable_view v WHERE v.id = ANY(late)
        ORDER BY v.deadline, v.position;
END $$;

-- Deletes jobs that ended long ago and lanes without jobs; returns the number of jobs, at most maximum.
CREATE OR REPLACE FUNCTION reachable_prune(keep_succeeded bigint, keep_failed bigint, maximum bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    now bigint := reachable_begin();
    deleted bigint;
    keys text[];
    lanes bigint[];
BEGIN
    SET LOCAL synchronous_commit = off;
    -- A failed job with followers stays: they wait for it.
    WITH old AS (
        DELETE FROM reachable_jobs WHERE position = ANY(ARRAY(
            SELECT o.position FROM reachable_lanes l,
            (VALUES (3, keep_succeeded), (4, keep_failed), (2, keep_failed)) AS ends (state, kept), LATERAL (
                SELECT old.position FROM reachable_jobs old
                WHERE old.lane = l.id AND old.state > 1 AND old.state = ends.state AND old.ended <= now - ends.kept
                AND NOT (old.state = 2 AND NOT old.continues AND old.serial_key IS NOT NULL AND EXISTS (
                    SELECT FROM reachable_jobs f WHERE f.queue = old.queue AND f.serial_key = old.serial_key
                    AND (f.state < 2 OR f.state = 2 AND NOT f.continues) AND f.state < 2 AND f.position > old.position))
                ORDER BY old.ended LIMIT maximum FOR UPDATE SKIP LOCKED) AS o LIMIT maximum))
        RETURNING queue, kind, unique_key)
    SELECT count(*), array_agg(DISTINCT jsonb_build_array(queue, kind, unique_key)::text) FILTER (WHERE unique_key IS NOT NULL)
    INTO deleted, keys FROM old;
    DELETE FROM reachable_holds WHERE until <= now;
    -- Locked first, and looked at again: pushes lock the keys and lanes that they are about to use.
    keys := ARRAY(SELECT name FROM reachable_push_locks WHERE name = ANY(keys) FOR UPDATE SKIP LOCKED);
    DELETE FROM reachable_push_locks l WHERE name = ANY(keys) AND NOT EXISTS (
        SELECT FROM reachable_jobs j WHERE j.queue = l.name::jsonb ->> 0 AND j.kind = l.name::jsonb ->> 1
        AND j.unique_key = l.name::jsonb ->> 2 AND j.state < 2);
    lanes := ARRAY(
        SELECT id FROM reachable_lanes l WHERE NOT reachable_is_used(l) ORDER BY id LIMIT greatest(maximum, 1000)
        FOR UPDATE SKIP LOCKED);
    DELETE FROM reachable_lanes l WHERE id = ANY(lanes) AND NOT reachable_is_used(l);
    RETURN deleted;
END $$;

-- True if a lane has jobs, or a server's order holds its destination. In PL/pgSQL the planner cannot ask for all lanes at once,
-- for which it would read the indexes as a whole.
CREATE OR REPLACE FUNCTION reachable_is_used(l reachable_lanes) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM reachable_jobs WHERE lane = l.id AND state = 0 AND NOT is_blocked AND due IS NULL)
        OR EXISTS (SELECT FROM reachable_jobs WHERE lane = l.id AND state < 2 AND (state = 1 OR is_blocked OR due IS NOT NULL))
        OR EXISTS (SELECT FROM reachable_jobs WHERE lane = l.id AND state > 1)
        OR EXISTS (SELECT FROM reachable_holds h WHERE h.queue = l.queue AND h.scope = l.scope
                   AND h.destination = coalesce(l.destination, ''));
END $$;

-- Returns jobs by position; null selects all. prefix: the first digits of the identity.
CREATE OR REPLACE FUNCTION reachable_find(
    ids uuid[], queue_ text, states bigint[], kinds text[], prefix text, unique_key_ text, serial_key_ text, destination_ text,
    after bigint, maximum bigint
) RETURNS SETOF reachable_view LANGUAGE plpgsql SECURITY DEFINER SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM reachable_view v
        WHERE (ids IS NULL OR v.id = ANY(ids)) AND (queue_ IS NULL OR v.queue = queue_)
        AND (states IS NULL OR v.state = ANY(states)) AND (kinds IS NULL OR v.kind = ANY(kinds))
        AND (prefix IS NULL OR v.id BETWEEN rpad(prefix, 32, '0')::uuid AND rpad(prefix, 32, 'f')::uuid)
        AND (unique_key_ IS NULL OR v.unique_key = unique_key_) AND (serial_key_ IS NULL OR v.serial_key = serial_key_)
        AND (destination_ IS NULL OR v.destination = destination_) AND (after IS NULL OR v.position > after)
        ORDER BY v.position LIMIT maximum;
END $$;

-- Counts the jobs of a queue by state, kind and destination, in the order of the words of states.
CREATE OR REPLACE FUNCTION reachable_count(queue_ text)
RETURNS TABLE (state smallint, kind text, destination text, jobs bigint, oldest bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT j.state, l.kind, l.destination, count(*), min(j.created)
        FROM reachable_jobs j JOIN reachable_lanes l ON l.id = j.lane WHERE j.queue = queue_ GROUP BY 1, 2, 3
        ORDER BY array_position(ARRAY[0, 4, 2, 1, 3], j.state::integer), l.kind COLLATE "C",
                 coalesce(l.destination, '') COLLATE "C";
END $$;

-- Explains why jobs do not run. No row for unknown jobs.
CREATE OR REPLACE FUNCTION reachable_explain(jobs uuid[]) RETURNS TABLE (
    now bigint, is_paused boolean, workers bigint, hold bigint, serial_blocker uuid, serial_state smallint, unique_blocker uuid,
    unique_state smallint, worker bigint, is_started boolean, job reachable_view)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT moment, EXISTS (SELECT FROM reachable_paused p WHERE p.queue = v.queue),
               (SELECT count(*) FROM reachable_workers w WHERE w.queue = v.queue AND moment - w.seen < 30000000000),
               (SELECT h.until FROM reachable_holds h WHERE h.queue = v.queue AND h.scope = v.scope
                AND h.destination = coalesce(v.destination, '') AND h.until > moment),
               s.id, s.state, u.id, u.state, j.worker, v.is_started, v
        FROM reachable_now() AS moment, unnest(jobs) AS wanted (id) JOIN reachable_jobs j ON j.id = wanted.id
        JOIN reachable_view v ON v.position = j.position
        LEFT JOIN reachable_jobs s ON v.state = 0 AND s.position = (reachable_blockers(j))[1]
        LEFT JOIN reachable_jobs u ON v.state = 0 AND u.position = (reachable_blockers(j))[2];
END $$;

-- The version of the tables.
CREATE OR REPLACE FUNCTION reachable_schema() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT max(version) FROM reachable_versions);
END $$;

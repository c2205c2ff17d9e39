-- The course of claims: starts and results.

-- Records that attempts start; for each claim, whether it may.
CREATE OR REPLACE FUNCTION reachable_start(worker_ bigint, jobs uuid[], claims bigint[]) RETURNS TABLE (may_start boolean)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    own bigint;
    answers boolean[];
    must_last boolean;
    locked bigint[];
BEGIN
    PERFORM reachable_begin();
    own := (SELECT number FROM reachable_workers WHERE number = worker_ FOR KEY SHARE);
    -- A push may replace a job with a unique key until it has started. What another transaction has locked does not start: it is
    -- given back if that one is rolled back.
    locked := ARRAY(
        SELECT position FROM reachable_jobs WHERE id = ANY(jobs) AND unique_key IS NOT NULL
        AND position NOT IN (
            SELECT position FROM reachable_jobs WHERE id = ANY(jobs) AND unique_key IS NOT NULL FOR SHARE SKIP LOCKED));
    INSERT INTO reachable_rechecks (queue, kind, serial_key, unique_key, position, claim)
    SELECT queue, kind, serial_key, unique_key, position, claim FROM reachable_jobs
    WHERE position = ANY(locked) AND state = 1 AND worker = own;
    -- `coalesce` keeps the planner from the index of running jobs.
    WITH begun AS MATERIALIZED (
        SELECT t.place, j.position, j.claim_call, j.is_repeatable
        FROM unnest(jobs, claims) WITH ORDINALITY AS t (job, claim, place)
        LEFT JOIN reachable_jobs j ON j.id = t.job AND j.state = 1 AND coalesce(j.worker, 0) = own AND j.claim = t.claim
            AND NOT j.is_cancel_requested AND j.position <> ALL(locked)),
    recorded AS (
        INSERT INTO reachable_starts AS s SELECT own, claim_call, min(position), array_agg(position) FROM begun
        WHERE position IS NOT NULL GROUP BY claim_call
        ON CONFLICT (worker, claim_call, first) DO UPDATE SET positions = s.positions || excluded.positions)
    SELECT array_agg(position IS NOT NULL ORDER BY place), bool_or(NOT is_repeatable) INTO answers, must_last FROM begun;
    -- That an attempt has begun which must not be repeated is on the disk before it does.
    IF must_last IS NOT TRUE THEN SET LOCAL synchronous_commit = off; END IF;
    RETURN QUERY SELECT unnest(answers);
END $$;

-- Records results of attempts; for each: recorded, cancelled (as was requested while it ran) or refused (the claim is not valid).
--
-- results: succeeded, failed, cancelled, again or givenBack. times: the ends of the attempts; null is now. softs, hards and
-- destinations are durations, the last one of an order to leave the destination alone. clock: the present on the worker's boot
-- clock. An array may be empty if it has nothing but nulls. is_repeat: the answer to an earlier call with these was lost.
CREATE OR REPLACE FUNCTION reachable_finish(
    worker_ bigint, jobs uuid[], claims bigint[], results text[], reasons text[], times bigint[], softs bigint[],
    are_network boolean[], hards bigint[], destinations bigint[], starteds bigint[], chargeds bigint[], network_failures_ bigint[],
    failure_indexes bigint[], errors text[], clock bigint, is_repeat boolean
) RETURNS TABLE (outcome text)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    now bigint := reachable_begin();
    wall bigint := reachable_wall();
    w record;
    outcomes text[] := array_fill('refused'::text, ARRAY[cardinality(jobs)]);
    r record;
BEGIN
    SELECT * INTO w FROM reachable_workers WHERE number = worker_ FOR KEY SHARE;
    PERFORM reachable_lock_chains(jobs);
    -- Those that were given back may be locked by a transaction that replaces them.
    FOR r IN
        SELECT t.i, reachable_free(j.position, true, false, now, w.number) AS state
        FROM unnest(jobs, claims, results) WITH ORDINALITY AS t (id, claim, result, i)
        JOIN reachable_jobs j ON j.id = t.id AND j.claim = t.claim AND j.state = 1 AND coalesce(j.worker, 0) = w.number
        WHERE t.result = 'givenBack'
    LOOP
        outcomes[r.i] := CASE r.state WHEN 0 THEN 'recorded' WHEN 4 THEN 'cancelled' ELSE 'refused' END;
    END LOOP;
    -- All others at once. The first result of a claim counts. A job whose cancellation was requested does not run again.
    FOR r IN
        WITH ends AS (
            SELECT DISTINCT ON (t.id, t.claim) t.*, m.*,
                   CASE result WHEN 'again' THEN 0 WHEN 'failed' THEN 2 WHEN 'succeeded' THEN 3 ELSE 4 END AS state
            FROM unnest(jobs, claims, results, reasons, times, softs, are_network, hards, destinations, starteds, chargeds,
                        network_failures_, failure_indexes, errors) WITH ORDINALITY AS t (
                        id, claim, result, reason, ended_at, soft, is_network, hard, destination, started, charged,
                        network_failures, failure_index, error, i),
                LATERAL (SELECT least(coalesce(ended_at, now), now) AS moment, CASE WHEN soft > 0 THEN soft END AS backoff,
                                CASE WHEN is_network AND soft > 0 THEN soft END AS avoidance) AS m
            WHERE result <> 'givenBack' ORDER BY t.id, t.claim, t.i)
        UPDATE reachable_jobs u SET
            state = CASE WHEN e.state = 0 AND u.is_cancel_requested THEN 4 ELSE e.state END,
            worker = NULL, finisher = w.number, is_cancel_requested = false,
            -- The error of a null would print the row.
            started = coalesce(e.started, u.started), charged = coalesce(e.charged, u.charged),
            network_failures = coalesce(e.network_failures, u.network_failures),
            failure_index = coalesce(e.failure_index, u.failure_index),
            last_error = coalesce(e.error, u.last_error), failure_reason = coalesce(e.reason, u.failure_reason),
            (soft_since, soft_until, hard_until, avoided_by, avoided_since, avoided_until, due) = (
                SELECT e.moment, e.moment + e.backoff, e.moment + e.hard,
                       CASE WHEN e.avoidance IS NOT NULL THEN w.node || ' ' || w.boot END, clock - (now - e.moment),
                       clock - (now - e.moment) + e.avoidance,
                       CASE WHEN e.state = 0 THEN nullif(greatest(now, u.not_before, e.moment + e.hard,
                           CASE WHEN e.avoidance IS NULL THEN e.moment + e.backoff END), now) END
                WHERE NOT u.is_cancel_requested),
            ended = CASE WHEN e.state > 0 OR u.is_cancel_requested THEN now END,
            finished = CASE WHEN e.state > 0 OR u.is_cancel_requested THEN wall END
        FROM ends e WHERE u.id = e.id AND u.state = 1 AND coalesce(u.worker, 0) = w.number AND u.claim = e.claim
        RETURNING e.i, e.state AS wanted, e.moment + e.destination AS hold, u.lane, u.queue, u.kind, u.serial_key,
                  u.unique_key, u.state
    LOOP
        outcomes[r.i] := CASE WHEN r.state = r.wanted THEN 'recorded' ELSE 'cancelled' END;
        IF r.hold IS NOT NULL THEN
            INSERT INTO reachable_holds AS h (queue, scope, destination, until)
            SELECT queue, scope, coalesce(destination, ''), r.hold FROM reachable_lanes WHERE id = r.lane
            ON CONFLICT (queue, scope, destination) DO UPDATE SET until = greatest(h.until, excluded.until);
        END IF;
        IF r.serial_key IS NOT NULL OR r.unique_key IS NOT NULL THEN
            PERFORM reachable_release(r.queue, r.kind, r.serial_key, r.unique_key, now);
        END IF;
        -- Other workers have to learn when it is due.
        IF r.state = 0 THEN PERFORM pg_notify('reachable', current_schema()); END IF;
    END LOOP;
    RETURN QUERY SELECT CASE WHEN u.state IS NULL THEN t.outcome WHEN u.state = 4 AND t.result <> 'cancelled' THEN 'cancelled'
                        ELSE 'recorded' END
    FROM unnest(jobs, claims, results, outcomes) WITH ORDINALITY AS t (id, claim, result, outcome, place)
    LEFT JOIN LATERAL (
        SELECT j.state FROM reachable_jobs j WHERE is_repeat AND t.outcome = 'refused' AND j.id = t.id AND j.claim = t.claim
        AND j.finisher = w.number AND j.state <> 1 LIMIT 1) AS u ON true ORDER BY t.place;
END $$;

-- The course of claims: starts, results, and returns.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- Records that attempts start; for each claim, whether it may.
CREATE OR REPLACE FUNCTION reachable_start(worker_ bigint, jobs uuid[], claims bigint[]) RETURNS TABLE (may_start boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    w reachable_workers := reachable_valid_worker(worker_);
    answers boolean[];
    must_last boolean;
BEGIN
    -- `coalesce` keeps the planner from the index of running jobs.
    WITH begun AS MATERIALIZED (
        SELECT t.place, j.position, j.claim_call, j.is_repeatable
        FROM unnest(jobs, claims) WITH ORDINALITY AS t (job, claim, place)
        LEFT JOIN reachable_jobs j ON j.id = t.job AND j.state = 1 AND coalesce(j.worker, 0) = w.number AND j.claim = t.claim
            AND NOT j.is_cancel_requested),
    recorded AS (
        INSERT INTO reachable_starts SELECT w.number, claim_call, array_agg(position) FROM begun
        WHERE position IS NOT NULL GROUP BY claim_call)
    SELECT array_agg(position IS NOT NULL ORDER BY place), bool_or(NOT is_repeatable) INTO answers, must_last FROM begun;
    -- That an attempt has begun which must not be repeated is on the disk before it does.
    IF must_last IS NOT TRUE THEN PERFORM reachable_relax(); END IF;
    RETURN QUERY SELECT unnest(answers);
END $$;

-- Makes claimed jobs available again, uncharged: recorded, cancelled or refused.
CREATE OR REPLACE FUNCTION reachable_give_back(worker_ bigint, jobs uuid[], claims bigint[], is_repeat boolean DEFAULT false)
RETURNS TABLE (outcome text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    w reachable_workers := reachable_valid_worker(worker_);
    now bigint := reachable_now();
    place bigint;
BEGIN
    PERFORM reachable_lock_chains_of(jobs);
    FOR i IN 1 .. coalesce(cardinality(jobs), 0) LOOP
        SELECT position INTO place FROM reachable_jobs
        WHERE id = jobs[i] AND state = 1 AND coalesce(worker, 0) = w.number AND claim = claims[i] FOR UPDATE;
        IF NOT FOUND THEN
            outcome := coalesce((SELECT CASE WHEN state = 4 THEN 'cancelled' ELSE 'recorded' END FROM reachable_jobs
                WHERE is_repeat AND id = jobs[i] AND state <> 1 AND claim = claims[i] AND finisher = w.number), 'refused');
        ELSE
            UPDATE reachable_jobs SET finisher = w.number WHERE position = place;
            outcome := CASE WHEN reachable_free(place, true, false, now) = 0 THEN 'recorded' ELSE 'cancelled' END;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Locks the groups of delays of a lane for a change.
CREATE OR REPLACE FUNCTION reachable_lock_outages(lanes bigint[]) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(1919246598, number)
    FROM (SELECT DISTINCT reachable_lock(lane::text) AS number FROM unnest(lanes) AS lane ORDER BY 1) AS numbers
$$;

-- True if a lane has so many groups that no other one is added: claims look at all of them.
CREATE OR REPLACE FUNCTION reachable_has_many_groups(lane_ bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(*) >= 32 FROM reachable_outages WHERE lane = lane_
$$;

-- Returns the group of a network failure's delay, and adds one if a reconnect has closed the last one.
--
-- earlier: the group of the delay within which the job failed again. undecodable: the group of the workers that cannot decode the
-- job, which stay bound.
CREATE OR REPLACE FUNCTION reachable_add_outage(
    lane_ bigint, node_ text, moment bigint, until bigint, earlier bigint, undecodable bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    workers_ bigint[] := (SELECT workers FROM reachable_outages WHERE lane = lane_ AND number = undecodable);
    o reachable_outages;
BEGIN
    IF EXISTS (SELECT FROM reachable_outages WHERE lane = lane_ AND number = earlier AND node IS DISTINCT FROM node_) THEN
        -- A second node failed within the first one's delay: now it binds all.
        node_ := NULL;
    END IF;
    SELECT * INTO o FROM reachable_outages
    WHERE lane = lane_ AND node IS NOT DISTINCT FROM node_ AND workers IS NOT DISTINCT FROM workers_ AND first IS NOT NULL
    ORDER BY number DESC LIMIT 1;
    -- A closed group is never wrong, but its jobs are compared with the reconnect one by one.
    IF FOUND AND (NOT o.is_closed OR reachable_has_many_groups(lane_)) THEN
        UPDATE reachable_outages SET last = greatest(last, moment), last_until = greatest(last_until, until)
        WHERE lane = lane_ AND number = o.number;
        RETURN o.number;
    END IF;
    INSERT INTO reachable_outages (lane, number, node, workers, first, last, last_until)
    SELECT lane_, coalesce(max(number), 0) + 1, node_, workers_, moment, moment, until FROM reachable_outages WHERE lane = lane_
    RETURNING * INTO o;
    RETURN o.number;
END $$;

-- Returns the group of jobs that a worker cannot decode, and neither can the workers of their present group.
CREATE OR REPLACE FUNCTION reachable_add_workers(lane_ bigint, w reachable_workers, earlier bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    -- Numbers of workers are not used again.
    present bigint[] := ARRAY(SELECT number FROM reachable_workers WHERE queue = w.queue ORDER BY number);
    numbers bigint[] := (SELECT workers FROM reachable_outages WHERE lane = lane_ AND number = earlier);
    found_ bigint;
BEGIN
    numbers := ARRAY(SELECT number FROM unnest(present) AS number WHERE number = w.number OR number = ANY(numbers) ORDER BY number);
    SELECT number INTO found_ FROM reachable_outages WHERE lane = lane_ AND workers = numbers AND first IS NULL;
    -- Each set of many workers could have a group: then the job waits for a worker that is registered later.
    IF found_ IS NULL AND reachable_has_many_groups(lane_) THEN
        numbers := present;
        SELECT number INTO found_ FROM reachable_outages WHERE lane = lane_ AND workers = numbers AND first IS NULL;
    END IF;
    IF found_ IS NULL THEN
        INSERT INTO reachable_outages (lane, number, workers, last_until, is_closed)
        SELECT lane_, coalesce(max(number), 0) + 1, numbers, 0, true FROM reachable_outages WHERE lane = lane_
        RETURNING number INTO found_;
    END IF;
    RETURN found_;
END $$;

-- Records results of attempts; for each: recorded, cancelled (as was requested while it ran) or refused (the claim is not valid).
--
-- results: succeeded, failed, cancelled, again or undecodable. times: the ends of the attempts; null is now. softs, hards and
-- holds are durations. An array may be empty if it has nothing but nulls. is_repeat: the answer to an earlier call with these
-- results was lost.
CREATE OR REPLACE FUNCTION reachable_finish(
    worker_ bigint, jobs uuid[], claims bigint[], results text[], reasons text[], times bigint[], softs bigint[],
    are_network boolean[], hards bigint[], holds bigint[], starteds bigint[], chargeds bigint[], network_failures_ bigint[],
    failure_indexes bigint[], errors text[], is_repeat boolean
) RETURNS TABLE (outcome text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    w reachable_workers := reachable_valid_worker(worker_);
    now bigint := reachable_now();
    wall bigint := reachable_wall();
    outcomes text[] := array_fill('refused'::text, ARRAY[cardinality(jobs)]);
    moment bigint;
    until bigint;
    group_ bigint;
    has_delays boolean := EXISTS (SELECT FROM unnest(results) AS result WHERE result IN ('again', 'undecodable'));
    r record;
    j reachable_jobs;
BEGIN
    IF w.number IS NULL THEN RETURN QUERY SELECT unnest(outcomes); RETURN; END IF;
    PERFORM reachable_lock_chains_of(jobs);
    IF has_delays THEN
        PERFORM reachable_lock_outages(ARRAY(SELECT lane FROM reachable_jobs WHERE id = ANY(jobs)));
    END IF;
    -- The ends, all at once. The first result of a claim counts.
    FOR r IN
        WITH given AS (
            SELECT DISTINCT ON (id, claim) *,
                   CASE result WHEN 'succeeded' THEN 3 WHEN 'failed' THEN 2 WHEN 'cancelled' THEN 4 END AS state
            FROM unnest(jobs, claims, results, reasons, starteds, chargeds, network_failures_, failure_indexes, errors)
                WITH ORDINALITY AS t (id, claim, result, reason, started, charged, network_failures, failure_index, error, i)
            ORDER BY id, claim, i)
        UPDATE reachable_jobs u SET state = g.state, worker = NULL, finisher = w.number,
            is_cancel_requested = false, started = g.started, charged = g.charged, network_failures = g.network_failures,
            failure_index = g.failure_index, last_error = coalesce(g.error, u.last_error), failure_reason = g.reason,
            soft_until = NULL, soft_since = NULL, soft_network = false, soft_outage = NULL, hard_until = NULL,
            ended = now, finished = wall
        FROM given g
        WHERE u.id = g.id AND u.state = 1 AND coalesce(u.worker, 0) = w.number AND u.claim = g.claim AND g.state IS NOT NULL
        RETURNING g.i, u.lane, u.position, u.serial_key IS NOT NULL OR u.unique_key IS NOT NULL AS has_key
    LOOP
        outcomes[r.i] := 'recorded';
        IF holds[r.i] IS NOT NULL THEN PERFORM reachable_hold(r.lane, now + holds[r.i]); END IF;
        IF r.has_key THEN PERFORM reachable_settle(u, now) FROM reachable_jobs u WHERE u.position = r.position; END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(jobs) LOOP
        CONTINUE WHEN results[i] NOT IN ('again', 'undecodable');
        SELECT * INTO j FROM reachable_jobs
        WHERE id = jobs[i] AND state = 1 AND coalesce(worker, 0) = w.number AND claim = claims[i] FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        UPDATE reachable_jobs SET soft_until = NULL, soft_since = NULL, soft_network = false, soft_outage = NULL, hard_until = NULL
        WHERE position = j.position;
        outcomes[i] := 'recorded';
        IF j.is_cancel_requested THEN
            -- The request came before the result, and another attempt would follow.
            UPDATE reachable_jobs SET state = 4, ended = now, finished = wall, is_cancel_requested = false
            WHERE position = j.position;
            outcomes[i] := 'cancelled';
        ELSIF results[i] = 'undecodable' THEN
            UPDATE reachable_jobs SET state = 0, undecodable = reachable_add_workers(j.lane, w, j.undecodable)
            WHERE position = j.position;
        ELSE
            moment := least(coalesce(times[i], now), now);
            until := moment + softs[i];
            group_ := NULL;
            IF are_network[i] AND until > now THEN
                group_ := reachable_add_outage(j.lane, w.node, moment, until,
                    CASE WHEN j.soft_until > now AND j.soft_network THEN j.soft_outage END, j.undecodable);
            END IF;
            UPDATE reachable_jobs SET state = 0, hard_until = moment + hards[i] WHERE position = j.position;
            UPDATE reachable_jobs SET soft_until = until, soft_since = moment, soft_network = are_network[i], soft_outage = group_
            WHERE position = j.position AND softs[i] > 0;
        END IF;
        UPDATE reachable_jobs SET worker = NULL, finisher = w.number, started = starteds[i],
            charged = chargeds[i], network_failures = network_failures_[i], failure_index = failure_indexes[i],
            last_error = coalesce(errors[i], last_error) WHERE position = j.position RETURNING * INTO j;
        IF holds[i] IS NOT NULL THEN PERFORM reachable_hold(j.lane, now + holds[i]); END IF;
        IF j.state = 0 THEN PERFORM reachable_schedule(ARRAY[j.position], now); END IF;
        PERFORM reachable_settle(j, now);
        -- Other workers have to learn when it is due.
        PERFORM reachable_wake();
    END LOOP;
    IF is_repeat THEN
        FOR r IN
            SELECT i, u.state FROM generate_subscripts(jobs, 1) AS i
            JOIN reachable_jobs u ON u.id = jobs[i] AND u.claim = claims[i] AND u.finisher = w.number AND u.state <> 1
            WHERE outcomes[i] = 'refused'
        LOOP
            outcomes[r.i] := CASE WHEN r.state = 4 AND results[r.i] <> 'cancelled' THEN 'cancelled' ELSE 'recorded' END;
        END LOOP;
    END IF;
    RETURN QUERY SELECT unnest(outcomes);
END $$;

-- Claims.

-- Jobs as programs read them.
CREATE OR REPLACE VIEW reachable_view AS
SELECT j.id, j.position, j.queue, l.kind, l.version, l.scope, l.destination, j.priority, j.pushed,
       j.not_before, j.deadline, j.unique_key, j.serial_key, j.continues, j.is_repeatable, j.idempotency_key, j.trace, j.state,
       j.is_cancel_requested, j.started, j.charged, j.network_failures, j.failure_index, j.crashes,
       j.soft_until, j.soft_since, j.avoided_by, j.avoided_since, j.avoided_until, j.hard_until,
       j.last_error, j.failure_reason, j.created, j.finished,
       j.state = 0 AND reachable_blockers(j) <> '{NULL,NULL}' AS is_blocked, j.has_unknown_outcome, j.claim, j.payload,
       -- `started` is without this one until the claim ends.
       j.state = 1 AND EXISTS (
           SELECT FROM reachable_starts s
           WHERE s.worker = j.worker AND s.claim_call = j.claim_call AND j.position = ANY(s.positions)) AS is_started
FROM reachable_jobs j JOIN reachable_lanes l ON l.id = j.lane;

-- A row of the answer to a claim. The first row has the columns of the claim, lists as JSON, and each other one those of a job.
CREATE OR REPLACE VIEW reachable_claimed AS
SELECT NULL::boolean AS is_paused, NULL::boolean AS has_more, NULL::bigint AS next_due, NULL::bigint AS now,
       NULL::text AS new_lanes, NULL::text AS gone, NULL::text AS cancelled, v.*
FROM reachable_view v;

-- Gives new lanes their numbers, which are in the order of commits.
CREATE OR REPLACE FUNCTION reachable_number_lanes() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM reachable_lanes WHERE number IS NULL) THEN RETURN; END IF;
    PERFORM pg_advisory_xact_lock(1919246597, hashtext(current_schema()));
    UPDATE reachable_lanes SET number = nextval('reachable_lane_numbers') WHERE number IS NULL;
END $$;

-- The time from which a worker may run a job that a node avoids; 0 for all other jobs. edge and clock: the last edge of the scope
-- that the worker has seen, and the present, on the clock of its boot.
CREATE OR REPLACE FUNCTION reachable_avoided(
    j reachable_jobs, node text, boot text, edge bigint, clock bigint, now bigint
) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN j.avoided_by IS NULL THEN 0
        WHEN j.avoided_by = node || ' ' || boot THEN
            CASE WHEN j.avoided_since < edge THEN 0 ELSE now + (j.avoided_until - clock) END
        -- After another boot.
        WHEN regexp_replace(j.avoided_by, ' [^ ]*$', '') = node THEN 0
        -- Other nodes take it over after 0.5 s, doubling with the failures to 5 s.
        ELSE j.soft_since + least(5000000000, 500000000::bigint << least(4, greatest(0, j.network_failures - 1))) END
$$;

-- True if a job with a key may run, and false if it is blocked, which is noted. Null if a transaction is open that replaces it, or
-- another call changes its chain: that one is about to commit, and the next claim looks again.
CREATE OR REPLACE FUNCTION reachable_judge(place bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j reachable_jobs;
BEGIN
    SELECT * INTO j FROM reachable_jobs WHERE position = place FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT reachable_try_chains(j.queue, j.kind, j.serial_key, j.unique_key) THEN RETURN NULL; END IF;
    IF reachable_blockers(j) = '{NULL,NULL}' THEN RETURN true; END IF;
    UPDATE reachable_jobs SET is_blocked = true, due = NULL WHERE position = place;
    RETURN false;
END $$;

-- Claims jobs for a worker by priority and position, from the lanes that it names; no row if its lease has ended.
--
-- call: the number of the call, and answered: that of the last one whose answer has arrived; what others between them claimed
-- is available again.
-- limits: the most jobs of each lane. edges: the last edge of each lane's scope, and clock: the present, on the worker's boot
-- clock. last_lane: the last lane that the worker knows.
CREATE OR REPLACE FUNCTION reachable_claim(
    worker_ bigint, call bigint, answered bigint, maximum bigint, lanes_ bigint[], limits bigint[], edges bigint[],
    clock bigint, last_lane bigint
) RETURNS SETOF reachable_claimed
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment bigint := reachable_begin();
    w record;
    paused boolean;
    gone_ bigint[];
    more boolean := false;
    first_due bigint;
    -- The named lanes that exist, with the most jobs to claim, the last edge, and the end of a server's order.
    named bigint[];
    maxima bigint[];
    named_edges bigint[];
    holds bigint[];
    wanted bigint := least(greatest(maximum, 0), 10000);
    -- With some more than that in the place of those that others have locked.
    chunk bigint := wanted * 3 / 2 + 20;
    share bigint;
    passed bigint[] := '{}';
    candidates bigint[];
    picked bigint[] := '{}';
    free bigint[];
    -- The bulk jobs that count as normal ones.
    aged bigint[] := '{}';
    seen bigint;
    tried bigint;
    ended bigint;
    lost uuid[];
    j record;
BEGIN
    -- A call that is repeated waits for the one whose answer was lost.
    SELECT * INTO w FROM reachable_workers WHERE number = worker_ FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    lost := ARRAY(SELECT id FROM reachable_jobs WHERE worker = w.number AND claim_call > answered);
    IF lost <> '{}' THEN
        PERFORM reachable_lock_chains(lost);
        PERFORM reachable_free(position, true, false, moment) FROM (
            SELECT position FROM reachable_jobs WHERE worker = w.number AND claim_call > answered) AS claimed;
    END IF;
    PERFORM reachable_sweep(w.number, moment);
    PERFORM reachable_recheck(moment);
    PERFORM reachable_number_lanes();
    paused := EXISTS (SELECT FROM reachable_paused p WHERE p.queue = w.queue);

    IF NOT paused THEN
        -- No search for a lane in an array: a worker may name ten thousand.
        SELECT array_agg(t.number) FILTER (WHERE l.id IS NULL), array_agg(l.id) FILTER (WHERE l.id IS NOT NULL),
               array_agg(greatest(t.maximum, 0)) FILTER (WHERE l.id IS NOT NULL),
               array_agg(t.edge) FILTER (WHERE l.id IS NOT NULL), array_agg(l.until) FILTER (WHERE l.id IS NOT NULL)
        INTO gone_, named, maxima, named_edges, holds FROM (
            -- The first one counts of a lane that is named twice.
            SELECT DISTINCT ON (t.number) * FROM unnest(lanes_, limits, edges) WITH ORDINALITY AS t (number, maximum, edge, place)
            ORDER BY t.number, t.place) AS t
        -- The limit keeps the planner from comparing each lane with each while it has no statistics of them.
        LEFT JOIN LATERAL (
            SELECT n.id, h.until FROM reachable_lanes n
            LEFT JOIN reachable_holds h ON h.queue = n.queue AND h.scope = n.scope
                AND h.destination = coalesce(n.destination, '') AND h.until > moment
            WHERE n.number = t.number AND n.queue = w.queue LIMIT 1) AS l ON true;

        -- Delays that are over.
        UPDATE reachable_jobs SET due = NULL WHERE position IN (
            SELECT d.position FROM unnest(named) AS n (id), LATERAL (
                SELECT u.position FROM reachable_jobs u
                WHERE u.lane = n.id AND u.state = 0 AND u.due IS NOT NULL AND u.due <= moment
                ORDER BY u.due LIMIT 1000 FOR UPDATE SKIP LOCKED) AS d);
        GET DIAGNOSTICS ended = ROW_COUNT;

        share := least(chunk, greatest(16, chunk * 2 / greatest(1, cardinality(named))));
        -- Others claim at the same time: the jobs that they have locked are passed over, and the search goes on behind them.
        WHILE wanted > 0 LOOP
            -- Of each lane a share of the first jobs that may run, by a key that sorts like priority and position; of all these
            -- none that is behind the last one of a full share. A bulk job is a normal one from an hour after it was due, if those
            -- before it are.
            SELECT array_agg(c.position ORDER BY c.key) FILTER (WHERE c.nth <= c.maximum),
                   aged || coalesce(array_agg(c.position) FILTER (WHERE c.is_bulk AND c.key < 0), '{}'), count(*)
            INTO candidates, aged, seen FROM (
                SELECT f.*, row_number() OVER (PARTITION BY f.id ORDER BY f.key) AS nth FROM (
                    SELECT d.*, n.id, n.maximum, min(CASE WHEN d.place = share THEN d.key END) OVER () AS last
                    FROM unnest(named, maxima, named_edges, holds) AS n (id, maximum, edge, hold), LATERAL (
                        (SELECT u.position, u.position - (u.priority::bigint << 60) AS key, false AS is_bulk,
                                row_number() OVER (ORDER BY u.priority DESC, u.position) AS place
                         FROM reachable_jobs u
                         WHERE u.lane = n.id AND u.priority > 0 AND u.state = 0 AND NOT u.is_blocked AND u.due IS NULL
                         AND reachable_avoided(u, w.node, w.boot, n.edge, clock, moment) <= moment AND u.position <> ALL(passed)
                         ORDER BY u.priority DESC, u.position LIMIT least(n.maximum, share))
                        UNION ALL
                        (SELECT u.position, u.position - ((max(coalesce(u.not_before, u.pushed) + 3600000000000) OVER o <= moment)
                                ::integer::bigint << 60), true, row_number() OVER o
                         FROM reachable_jobs u
                         WHERE u.lane = n.id AND u.priority < 1 AND u.state = 0 AND NOT u.is_blocked AND u.due IS NULL
                         AND reachable_avoided(u, w.node, w.boot, n.edge, clock, moment) <= moment AND u.position <> ALL(passed)
                         WINDOW o AS (ORDER BY u.priority DESC, u.position)
                         ORDER BY u.priority DESC, u.position LIMIT least(n.maximum, share))) AS d
                    WHERE n.hold IS NULL ORDER BY d.key LIMIT chunk) AS f
                WHERE f.key <= coalesce(f.last, f.key)) AS c;
            EXIT WHEN candidates IS NULL;
            -- The condition as a whole is of no index.
            SELECT coalesce(array_agg(f.position) FILTER (WHERE NOT f.has_key OR reachable_judge(f.position)), '{}'),
                   CASE WHEN count(*) = wanted THEN max(f.nth) END
            INTO free, tried FROM (
                SELECT u.position, c.nth, u.serial_key IS NOT NULL OR u.unique_key IS NOT NULL AS has_key
                FROM unnest(candidates) WITH ORDINALITY AS c (position, nth) JOIN reachable_jobs u ON u.position = c.position
                WHERE CASE WHEN u.state = 0 THEN NOT u.is_blocked AND u.due IS NULL ELSE false END
                ORDER BY c.nth LIMIT wanted FOR UPDATE OF u SKIP LOCKED) AS f;
            -- Those behind the last one were not tried, unless that is the end.
            passed := passed || candidates[:coalesce(tried, cardinality(candidates))];
            picked := picked || free;
            wanted := wanted - cardinality(free);
            EXIT WHEN wanted = 0 OR seen = cardinality(free) AND seen < share;
            SELECT array_agg(n.maximum - coalesce(t.count, 0) ORDER BY n.nth) INTO maxima
            FROM unnest(named, maxima) WITH ORDINALITY AS n (id, maximum, nth) LEFT JOIN (
                SELECT u.lane, count(*) AS count FROM reachable_jobs u WHERE u.position = ANY(free) GROUP BY u.lane) AS t
            ON t.lane = n.id;
        END LOOP;

        -- has_more: a job that may run. Few are looked at, for each costs 8 us; if all are blocked, the next claim goes on.
        FOR i IN 1 .. 16 LOOP
            SELECT d.* INTO j FROM unnest(named, named_edges, holds) AS n (id, edge, hold), LATERAL (
                SELECT u.position, u.serial_key IS NOT NULL OR u.unique_key IS NOT NULL AS has_key FROM reachable_jobs u
                WHERE u.lane = n.id AND u.state = 0 AND NOT u.is_blocked AND u.due IS NULL AND u.position <> ALL(passed)
                AND reachable_avoided(u, w.node, w.boot, n.edge, clock, moment) <= moment LIMIT 1) AS d
            WHERE n.hold IS NULL LIMIT 1;
            more := FOUND OR ended >= 1000;
            EXIT WHEN NOT FOUND OR NOT j.has_key OR reachable_judge(j.position);
            passed := passed || j.position;
        END LOOP;
        -- next_due: the first time at which another job may run, of held lanes, of delayed jobs, and of those that a node avoids.
        FOR i IN 1 .. 100 LOOP
            SELECT d.position, greatest(n.hold, d.start) AS start, d.serial_key IS NOT NULL OR d.unique_key IS NOT NULL AS has_key
            INTO j FROM unnest(named, named_edges, holds) AS n (id, edge, hold), LATERAL (
                (SELECT u.position, 0::bigint AS start, u.serial_key, u.unique_key FROM reachable_jobs u
                 WHERE n.hold IS NOT NULL AND u.lane = n.id AND u.state = 0 AND NOT u.is_blocked AND u.due IS NULL
                 AND u.avoided_by IS NULL LIMIT 1)
                UNION ALL
                (SELECT u.position, u.due, u.serial_key, u.unique_key FROM reachable_jobs u
                 WHERE u.lane = n.id AND u.state = 0 AND u.due IS NOT NULL AND u.due > moment AND u.avoided_by IS NULL
                 ORDER BY u.due LIMIT 1)
                UNION ALL
                SELECT u.position, greatest(u.due, reachable_avoided(u, w.node, w.boot, n.edge, clock, moment)),
                       u.serial_key, u.unique_key FROM reachable_jobs u
                WHERE u.lane = n.id AND u.state = 0 AND u.avoided_by IS NOT NULL AND NOT u.is_blocked) AS d
            WHERE greatest(n.hold, d.start) > moment ORDER BY 2 LIMIT 1;
            first_due := j.start;
            EXIT WHEN j.has_key IS NOT TRUE OR reachable_judge(j.position) IS DISTINCT FROM false;
            more := more OR i = 100;
        END LOOP;
    END IF;

    -- A claim is on the disk before it is told: after a crash of the server two workers would have the job otherwise.
    IF picked = '{}' THEN SET LOCAL synchronous_commit = off; END IF;
    RETURN QUERY SELECT paused, more, first_due, moment,
        (SELECT json_agg(json_build_object('id', number, 'kind', kind, 'version', version, 'scope', scope,
                                           'destination', destination) ORDER BY number)::text
         FROM reachable_lanes WHERE number > last_lane AND queue = w.queue),
        array_to_json(gone_)::text, reachable_cancelled(w.number), (NULL::reachable_view).*;
    IF picked = '{}' THEN RETURN; END IF;
    UPDATE reachable_jobs SET state = 1, claim = claim + 1, worker = w.number, claim_call = call, finisher = NULL
    WHERE position = ANY(picked);
    RETURN QUERY SELECT * FROM reachable_claimed c WHERE c.position = ANY(picked)
        ORDER BY CASE WHEN c.priority = 0 AND c.position = ANY(aged) THEN 1 ELSE c.priority END DESC, c.position;
END $$;

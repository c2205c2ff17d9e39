-- Claims.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- Jobs as programs read them.
CREATE OR REPLACE VIEW reachable_view AS
SELECT replace(j.id::text, '-', '') AS id, j.position, j.queue, l.kind, l.version, l.scope, l.destination, j.priority,
       j.not_before, j.deadline, j.unique_key, j.serial_key, j.continues, j.is_repeatable, j.idempotency_key, j.trace, j.state,
       j.is_cancel_requested, j.started + CASE WHEN j.state = 1 AND reachable_is_started(j) THEN 1 ELSE 0 END AS started,
       j.charged, j.network_failures, j.failure_index, j.crashes,
       j.soft_until, j.soft_since, j.soft_network, j.hard_until, j.last_error, j.failure_reason, j.created, j.finished,
       CASE WHEN j.state = 0 THEN j.is_blocked OR reachable_is_blocked(j) ELSE false END AS is_blocked, j.has_unknown_outcome,
       j.claim, j.payload
FROM reachable_jobs j JOIN reachable_lanes l ON l.id = j.lane;

-- Gives new lanes their numbers, which are in the order of commits.
CREATE OR REPLACE FUNCTION reachable_number_lanes() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM reachable_lanes WHERE number IS NULL) THEN RETURN; END IF;
    PERFORM pg_advisory_xact_lock(1919246597, reachable_lock('lanes'));
    UPDATE reachable_lanes l SET number = new.number FROM (
        SELECT id, nextval('reachable_lane_numbers') AS number
        FROM (SELECT id FROM reachable_lanes WHERE number IS NULL ORDER BY id) AS sorted) AS new
    WHERE l.id = new.id;
END $$;

-- True if parts of the index of ready jobs have a job behind a rank and position that is not among the picked ones.
CREATE OR REPLACE FUNCTION reachable_has_ready(
    lanes_ bigint[], groups bigint[], edges bigint[], rank_ smallint, position_ bigint, picked bigint[], moment bigint
) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(lanes_, groups, edges) AS s (lane, number, edge), LATERAL (
            SELECT FROM reachable_jobs u WHERE u.lane = s.lane AND u.outage = s.number AND u.outage IS NOT NULL
            AND (u.rank, u.position) > (rank_, position_)
            AND (s.edge IS NULL OR u.soft_since <= s.edge OR u.soft_until <= moment)
            AND u.position NOT IN (SELECT unnest(picked)) LIMIT 1) AS d);
END $$;

-- Claims jobs for a worker by priority and position, from the lanes that it names; no row if its lease has ended.
--
-- call: the number of the call, and lost_calls: those whose answers were lost; what they claimed is available again.
-- limits: the most jobs of each lane. edges: the time of the last reconnect, before which network failures delay nothing.
-- last_lane: the last lane that the worker knows. The first row has the columns to `gone`, and each other one those of a job, in
-- no order.
CREATE OR REPLACE FUNCTION reachable_claim(
    worker_ bigint, call bigint, lost_calls bigint[], maximum bigint, lanes_ bigint[], limits bigint[], edges bigint[],
    last_lane bigint
) RETURNS TABLE (
    is_paused boolean, has_more boolean, next_due bigint, now bigint,
    lane_numbers bigint[], lane_kinds text[], lane_versions bigint[], lane_scopes text[], lane_destinations text[], gone bigint[],
    rank smallint, id uuid, place bigint, queue text, kind text, version bigint, scope text, destination text, priority smallint,
    not_before bigint, deadline bigint, unique_key text, serial_key text, continues boolean, is_repeatable boolean,
    idempotency_key text, trace text, state smallint, is_cancel_requested boolean, started integer, charged integer,
    network_failures integer, failure_index integer, crashes integer, soft_until bigint, soft_since bigint, soft_network boolean,
    hard_until bigint, last_error text, failure_reason text, created bigint, finished bigint, is_blocked boolean,
    has_unknown_outcome boolean, claim bigint, payload bytea)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    w reachable_workers;
    moment bigint;
    paused boolean;
    more boolean := false;
    due_ bigint;
    places bigint[];
    keyed bigint[];
    has_blocked boolean;
    new_lanes record;
    gone_ bigint[] := '{}';
    -- The named lanes that exist, and those of them that no server's order holds.
    named bigint[] := '{}';
    named_limits bigint[] := '{}';
    named_edges bigint[] := '{}';
    named_holds bigint[] := '{}';
    open_ bigint[] := '{}';
    has_limits boolean := false;
    -- The parts of the index of ready jobs to claim from, with the reconnect that voids delays before it.
    from_lanes bigint[] := '{}';
    from_groups bigint[] := '{}';
    from_edges bigint[] := '{}';
    from_limits bigint[] := '{}';
    -- The groups whose delays bind.
    bound_lanes bigint[] := '{}';
    bound_groups bigint[] := '{}';
    bound_edges bigint[] := '{}';
    wanted bigint := least(maximum, 10000);
    chunk bigint;
    cursor_rank smallint := -1;
    cursor_position bigint := 0;
    last_rank smallint;
    last_position bigint;
    candidates bigint[];
    picked bigint[] := '{}';
    counted bigint;
    r record;
    j reachable_jobs;
BEGIN
    w := reachable_valid_worker(worker_);
    IF w.number IS NULL THEN RETURN; END IF;
    moment := reachable_now();
    IF cardinality(lost_calls) > 0 THEN
        places := ARRAY(SELECT position FROM reachable_jobs WHERE worker = w.number AND claim_call = ANY(lost_calls));
        PERFORM reachable_lock_chains(places);
        PERFORM reachable_free(p, true, false, moment) FROM unnest(places) AS p;
    END IF;
    PERFORM reachable_sweep(w.number, moment);
    PERFORM reachable_number_lanes();
    SELECT coalesce(array_agg(l.number ORDER BY l.number), '{}') AS numbers,
           coalesce(array_agg(l.kind ORDER BY l.number), '{}') AS kinds,
           coalesce(array_agg(l.version ORDER BY l.number), '{}') AS versions,
           coalesce(array_agg(l.scope ORDER BY l.number), '{}') AS scopes,
           coalesce(array_agg(l.destination ORDER BY l.number), '{}') AS destinations
    INTO new_lanes FROM reachable_lanes l WHERE l.number > last_lane AND l.queue = w.queue;
    paused := EXISTS (SELECT FROM reachable_paused p WHERE p.queue = w.queue);

    IF NOT paused THEN
        -- All lanes at once, and no search for one of them in an array: a worker may name ten thousand.
        SELECT coalesce(array_agg(a.number) FILTER (WHERE a.id IS NULL), '{}'),
               coalesce(array_agg(a.id ORDER BY a.place) FILTER (WHERE a.id IS NOT NULL), '{}'),
               array_agg(a.maximum ORDER BY a.place) FILTER (WHERE a.id IS NOT NULL),
               array_agg(a.edge ORDER BY a.place) FILTER (WHERE a.id IS NOT NULL),
               array_agg(a.until ORDER BY a.place) FILTER (WHERE a.id IS NOT NULL),
               coalesce(array_agg(a.id ORDER BY a.place) FILTER (WHERE a.is_open), '{}'),
               array_agg(a.maximum ORDER BY a.place) FILTER (WHERE a.is_open),
               coalesce(bool_or(a.is_open AND a.maximum < reachable_claim.maximum), false)
        INTO gone_, named, named_limits, named_edges, named_holds, open_, from_limits, has_limits FROM (
            SELECT t.*, l.id, l.until, l.id IS NOT NULL AND l.until IS NULL AS is_open FROM (
                -- The first one counts of a lane that is named twice.
                SELECT DISTINCT ON (t.number) *
                FROM unnest(lanes_, limits, edges) WITH ORDINALITY AS t (number, maximum, edge, place)
                ORDER BY t.number, t.place) AS t
            -- The limit keeps the planner from comparing each lane with each while it has no statistics of them.
            LEFT JOIN LATERAL (
                SELECT l.id, h.until FROM reachable_lanes l
                LEFT JOIN reachable_holds h ON h.queue = l.queue AND h.scope = l.scope
                    AND coalesce('=' || h.destination, '') = coalesce('=' || l.destination, '') AND h.until > moment
                WHERE l.number = t.number AND l.queue = w.queue LIMIT 1) AS l ON true) AS a;
        from_lanes := open_;
        from_groups := array_fill(0::bigint, ARRAY[cardinality(open_)]);
        from_edges := array_fill(NULL::bigint, ARRAY[cardinality(open_)]);
        -- Lanes are open from the first claim that names them: bulk jobs age meanwhile.
        UPDATE reachable_lanes SET open_since = moment, open_by = w.number WHERE id IN (
            SELECT l.id FROM reachable_lanes l WHERE l.id = ANY(open_) AND l.open_by IS NULL FOR UPDATE SKIP LOCKED);
        UPDATE reachable_lanes SET open_time = open_time + greatest(0, moment - open_since), open_since = NULL, open_by = NULL
        WHERE id IN (
            SELECT l.id FROM reachable_lanes l WHERE l.open_by = w.number AND l.id NOT IN (SELECT unnest(open_))
            FOR UPDATE SKIP LOCKED);

        -- Groups of delays: which bind this worker, and which a reconnect has ended.
        FOR r IN
            SELECT o.*, n.maximum, n.edge, n.hold, CASE
                WHEN w.number = ANY(o.workers) THEN 'withheld'
                WHEN o.first IS NULL OR o.node <> w.node THEN 'voided'
                WHEN o.first <= n.edge THEN 'voided before'
                ELSE 'binds' END AS binding
            FROM unnest(named, named_limits, named_edges, named_holds) AS n (id, maximum, edge, hold)
            JOIN reachable_outages o ON o.lane = n.id
            ORDER BY o.lane, o.number
        LOOP
            IF r.binding = 'voided before' AND NOT r.is_closed THEN
                UPDATE reachable_outages SET is_closed = true WHERE lane = r.lane AND number = r.number;
            END IF;
            IF r.hold IS NULL AND r.binding IN ('voided', 'voided before') THEN
                from_lanes := from_lanes || r.lane;
                from_groups := from_groups || r.number;
                from_edges := from_edges || CASE WHEN r.binding = 'voided before' THEN r.edge END;
                from_limits := from_limits || r.maximum;
            END IF;
            IF r.binding = 'binds' OR r.binding = 'voided before' AND r.last > r.edge THEN
                bound_lanes := bound_lanes || r.lane;
                bound_groups := bound_groups || r.number;
                bound_edges := bound_edges || r.edge;
                IF r.binding = 'binds' AND r.hold IS NULL THEN
                    places := ARRAY(
                        SELECT d.position FROM reachable_jobs d
                        WHERE d.lane = r.lane AND d.outage = r.number AND d.outage <> 0 AND d.due <= moment
                        ORDER BY d.due LIMIT 1000 FOR UPDATE SKIP LOCKED);
                    PERFORM reachable_schedule(places, moment);
                    more := more OR cardinality(places) = 1000;
                END IF;
            END IF;
            -- Alone with the group: a result may be about to add a job to it.
            IF r.is_closed AND r.last_until <= moment AND pg_try_advisory_xact_lock(1919246598, reachable_lock(r.lane::text)) THEN
                DELETE FROM reachable_outages o WHERE o.lane = r.lane AND o.number = r.number AND o.last_until <= moment
                AND NOT EXISTS (SELECT FROM reachable_jobs u WHERE u.lane = r.lane AND u.outage = r.number AND u.outage <> 0)
                AND NOT EXISTS (SELECT FROM reachable_jobs u
                    WHERE u.lane = r.lane AND u.undecodable = r.number AND u.undecodable IS NOT NULL AND u.state < 2);
            END IF;
        END LOOP;

        -- Jobs whose delays are over. A plan may be of a time when the table was empty: with EXISTS it may read the whole index.
        FOR r IN
            SELECT n.id, ranks.rank FROM unnest(open_) AS n (id), generate_series(0, 2) AS ranks (rank), LATERAL (
                SELECT FROM reachable_jobs d
                WHERE d.lane = n.id AND d.rank = ranks.rank AND d.state < 2 AND d.outage IS NULL AND d.due <= moment LIMIT 1) AS d
        LOOP
            places := ARRAY(
                SELECT d.position FROM reachable_jobs d
                WHERE d.lane = r.id AND d.rank = r.rank AND d.state < 2 AND d.outage IS NULL AND d.due <= moment
                ORDER BY d.due LIMIT 1000 FOR UPDATE SKIP LOCKED);
            PERFORM reachable_schedule(places, moment);
            more := more OR cardinality(places) = 1000;
        END LOOP;
        -- Bulk jobs that were runnable for an hour are normal ones.
        UPDATE reachable_jobs SET rank = 1, age = 0 WHERE position IN (
            SELECT b.position FROM reachable_lanes l, LATERAL (
                SELECT o.position FROM reachable_jobs o WHERE o.lane = l.id AND o.rank = 2 AND o.outage = 0
                AND o.age <= reachable_lane_clock(l, moment) - 3600000000000 ORDER BY o.age LIMIT 1000 FOR UPDATE SKIP LOCKED) AS b
            WHERE l.id = ANY(open_) AND reachable_lane_clock(l, moment) >= 3600000000000);

        -- The first delay that ends later: of held lanes, of delayed jobs, and of the groups that bind.
        SELECT least(
            (SELECT min(n.hold) FROM unnest(named, named_holds) AS n (id, hold), LATERAL (
                (SELECT FROM reachable_jobs d WHERE d.lane = n.id AND d.outage >= 0 LIMIT 1) UNION ALL
                -- Those of a held lane whose delays have ended were not made ready.
                (SELECT FROM generate_series(0, 2) AS ranks (rank), LATERAL (
                    SELECT FROM reachable_jobs d WHERE d.lane = n.id AND d.rank = ranks.rank AND d.state < 2
                    AND d.outage IS NULL AND d.due <= moment LIMIT 1) AS d)) AS d
             WHERE n.hold IS NOT NULL),
            (SELECT min(greatest(d.due, n.hold, CASE
                WHEN NOT d.soft_network OR d.soft_since <= n.edge THEN 0
                WHEN EXISTS (SELECT FROM reachable_outages o
                    WHERE o.lane = n.id AND o.number = d.soft_outage AND o.node <> w.node) THEN 0
                ELSE d.soft_until END))
             FROM unnest(named, named_edges, named_holds) AS n (id, edge, hold), generate_series(0, 2) AS ranks (rank), LATERAL (
                SELECT u.due, u.soft_until, u.soft_since, u.soft_network, u.soft_outage FROM reachable_jobs u
                WHERE u.lane = n.id AND u.rank = ranks.rank AND u.state < 2 AND u.outage IS NULL AND u.due > moment
                ORDER BY u.due LIMIT 16) AS d),
            (SELECT min(greatest(d.due, h.hold)) FROM unnest(bound_lanes, bound_groups, bound_edges) AS b (lane, number, edge)
             JOIN unnest(named, named_holds) AS h (id, hold) ON h.id = b.lane, LATERAL (
                -- If all of these are void, the last one's end is early at worst: the worker then claims once in vain.
                SELECT coalesce(min(s.due) FILTER (WHERE b.edge IS NULL OR s.soft_since > b.edge), max(s.due)) AS due FROM (
                    SELECT u.due, u.soft_since FROM reachable_jobs u
                    WHERE u.lane = b.lane AND u.outage = b.number AND u.outage <> 0 AND u.due > moment
                    ORDER BY u.due LIMIT 16) AS s) AS d)) INTO due_;

        -- Others claim the same jobs at the same time: locked ones are passed over, and the search goes on behind them.
        WHILE wanted > 0 LOOP
            IF cardinality(from_lanes) = 1 THEN
                -- The index has the jobs of one lane in their order.
                chunk := greatest(0, least(wanted, from_limits[1]));
                SELECT coalesce(array_agg(f.position) FILTER (WHERE NOT f.has_key), '{}'),
                       array_agg(f.position) FILTER (WHERE f.has_key), count(*),
                       (array_agg(f.rank))[count(*)], (array_agg(f.position))[count(*)]
                INTO places, keyed, counted, last_rank, last_position FROM (
                    SELECT o.position, o.rank, o.serial_key IS NOT NULL OR o.unique_key IS NOT NULL AS has_key
                    FROM reachable_jobs o
                    WHERE o.lane = from_lanes[1] AND o.outage = from_groups[1] AND o.outage IS NOT NULL
                    AND (o.rank, o.position) > (cursor_rank, cursor_position)
                    AND (from_edges[1] IS NULL OR o.soft_since <= from_edges[1] OR o.soft_until <= moment)
                    ORDER BY o.rank, o.position LIMIT chunk FOR UPDATE SKIP LOCKED) AS f;
            ELSE
                chunk := least(wanted + 50, 1000);
                SELECT array_agg(c.position) FILTER (WHERE c.count <= c.maximum), count(*),
                       (array_agg(c.rank))[count(*)], (array_agg(c.position))[count(*)]
                INTO candidates, counted, last_rank, last_position FROM (
                    SELECT f.position, f.rank, f.maximum,
                           row_number() OVER (PARTITION BY f.lane ORDER BY f.rank, f.position) AS count
                    FROM (
                        SELECT d.position, d.rank, s.lane, s.maximum
                        FROM unnest(from_lanes, from_groups, from_edges, from_limits) AS s (lane, number, edge, maximum), LATERAL (
                            SELECT u.position, u.rank FROM reachable_jobs u
                            WHERE u.lane = s.lane AND u.outage = s.number AND u.outage IS NOT NULL
                            AND (u.rank, u.position) > (cursor_rank, cursor_position)
                            AND (s.edge IS NULL OR u.soft_since <= s.edge OR u.soft_until <= moment)
                            ORDER BY u.rank, u.position LIMIT chunk) AS d
                        -- A full lane's other jobs are passed over, however many they are.
                        WHERE s.maximum > 0
                        ORDER BY d.rank, d.position LIMIT chunk) AS f
                    ORDER BY f.rank, f.position) AS c;
                SELECT coalesce(array_agg(f.position) FILTER (WHERE NOT f.has_key), '{}'),
                       array_agg(f.position) FILTER (WHERE f.has_key) INTO places, keyed FROM (
                    SELECT o.position, o.serial_key IS NOT NULL OR o.unique_key IS NOT NULL AS has_key FROM reachable_jobs o
                    -- `coalesce` keeps the planner from the index of ready jobs, which does not begin with positions.
                    WHERE o.position = ANY(candidates) AND o.state = 0 AND coalesce(o.outage, -1) >= 0
                    ORDER BY o.rank, o.position LIMIT wanted FOR UPDATE SKIP LOCKED) AS f;
            END IF;
            EXIT WHEN counted = 0;
            has_blocked := false;
            FOR j IN SELECT o.* FROM reachable_jobs o WHERE o.position = ANY(keyed) LOOP
                -- One change of a chain at a time: the other one is about to commit, and the next claim looks again.
                CONTINUE WHEN EXISTS (
                    SELECT FROM unnest(reachable_chain_locks(j.queue, j.kind, j.serial_key, j.unique_key)) AS number
                    WHERE NOT pg_try_advisory_xact_lock(1919246594, number));
                IF reachable_is_blocked(j) THEN
                    has_blocked := true;
                    UPDATE reachable_jobs u SET is_blocked = true, outage = NULL, due = NULL,
                        age = reachable_age(u, NULL, reachable_lane_clock(l, moment))
                    FROM reachable_lanes l WHERE l.id = u.lane AND u.position = j.position;
                ELSE
                    places := places || j.position;
                END IF;
            END LOOP;
            -- Others have the places of those that are blocked.
            CONTINUE WHEN has_blocked;
            picked := picked || places;
            cursor_rank := last_rank;
            cursor_position := last_position;
            EXIT WHEN counted < chunk;
            wanted := least(maximum, 10000) - cardinality(picked);
            IF has_limits AND wanted > 0 THEN
                SELECT array_agg(s.maximum - coalesce(t.count, 0) ORDER BY s.place) INTO from_limits
                FROM unnest(from_lanes, from_limits) WITH ORDINALITY AS s (lane, maximum, place) LEFT JOIN (
                    SELECT o.lane, count(*) AS count FROM reachable_jobs o WHERE o.position = ANY(places) GROUP BY o.lane
                ) AS t USING (lane);
            END IF;
        END LOOP;
        -- First behind the last one: before it are the index entries of all jobs that were claimed since the last vacuum.
        more := more
            OR reachable_has_ready(from_lanes, from_groups, from_edges, cursor_rank, cursor_position, picked, moment)
            OR cursor_position > 0 AND reachable_has_ready(from_lanes, from_groups, from_edges, -1::smallint, 0, picked, moment);
    END IF;

    -- A claim is on the disk before it is told: after a crash of the server two workers would have the job otherwise.
    IF picked = '{}' THEN PERFORM reachable_relax(); END IF;
    is_paused := paused;
    has_more := more;
    next_due := due_;
    now := moment;
    lane_numbers := new_lanes.numbers;
    lane_kinds := new_lanes.kinds;
    lane_versions := new_lanes.versions;
    lane_scopes := new_lanes.scopes;
    lane_destinations := new_lanes.destinations;
    gone := gone_;
    RETURN NEXT;
    RETURN QUERY
        -- Numbers of claims follow the clock: a crash of the server must not give one again.
        UPDATE reachable_jobs j SET
            state = 1, worker = w.number, claim = greatest(j.claim + 1, moment / 1000), claim_call = call,
            age = reachable_age(j, NULL, reachable_lane_clock(l, moment)), outage = NULL, due = NULL
        FROM reachable_lanes l WHERE j.position = ANY(picked) AND l.id = j.lane
        RETURNING NULL::boolean, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint[], NULL::text[], NULL::bigint[],
            NULL::text[], NULL::text[], NULL::bigint[],
            -- As reachable_view has them, but for the rank and the identity.
            j.rank, j.id, j.position, j.queue, l.kind, l.version, l.scope, l.destination, j.priority,
            j.not_before, j.deadline, j.unique_key, j.serial_key, j.continues, j.is_repeatable, j.idempotency_key, j.trace,
            j.state, j.is_cancel_requested, j.started, j.charged, j.network_failures, j.failure_index, j.crashes, j.soft_until,
            j.soft_since, j.soft_network, j.hard_until, j.last_error, j.failure_reason, j.created, j.finished, false,
            j.has_unknown_outcome, j.claim, j.payload;
END $$;

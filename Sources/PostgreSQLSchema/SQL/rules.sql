-- The rules that several calls share: clocks, delays, chains of keys, and the ends of claims.
--
-- What each call needs is in PL/pgSQL: it keeps the plans of its statements, and SQL functions make them with each call.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- The server's wall clock, in nanoseconds since 1970.
CREATE OR REPLACE FUNCTION reachable_wall() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
$$;

-- The time at which the server was started, in microseconds since 1970.
CREATE OR REPLACE FUNCTION reachable_server_start() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
$$;

-- The store's time.
CREATE OR REPLACE FUNCTION reachable_now() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT instant + greatest(0, reachable_wall() - wall) FROM reachable_clock);
END $$;

-- The time before which a worker's last heartbeat means that its lease of 30 s has ended.
CREATE OR REPLACE FUNCTION reachable_lease_end() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT CASE
            WHEN server_start <> reachable_server_start() THEN -1
            -- Within one lease of the server's own start none has ended.
            WHEN lease + step - server_started <= 30000000000 AND server_started > 0 THEN -1
            ELSE lease + step - 30000000000 END
        FROM reachable_clock, LATERAL (SELECT least(greatest(0, reachable_wall() - wall), 15000000000) AS step) AS s);
END $$;

-- The workers whose lease is valid now. Within one lease of the server's start none ends, and `seen` alone tells.
CREATE OR REPLACE FUNCTION reachable_present(moment bigint) RETURNS SETOF reachable_workers LANGUAGE sql VOLATILE AS $$
    SELECT * FROM reachable_workers WHERE heartbeat > reachable_lease_end() AND moment - seen < 30000000000
$$;

-- Moves the clocks on. Each heartbeat calls it.
CREATE OR REPLACE FUNCTION reachable_tick() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := reachable_wall();
    start bigint := reachable_server_start();
BEGIN
    UPDATE reachable_clock SET
        lease = lease + CASE WHEN server_start = start THEN least(greatest(0, moment - wall), 15000000000) ELSE 0 END,
        server_started = CASE WHEN server_start = start THEN server_started ELSE greatest(lease, 1) END,
        server_start = start, instant = instant + greatest(0, moment - wall), wall = moment;
END $$;

-- The commit of this transaction need not be on the disk: if the server crashes, the change is lost, and is made again.
CREATE OR REPLACE FUNCTION reachable_relax() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Tells workers that there may be work, at most once for each transaction.
CREATE OR REPLACE FUNCTION reachable_wake() RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('reachable', current_schema())
$$;

-- Delays --------------------------------------------------------------------------------------------------------------------

-- The end of the delays that no reconnect voids; 0 if there is none.
CREATE OR REPLACE FUNCTION reachable_firm_delay(j reachable_jobs) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(coalesce(j.not_before, 0), coalesce(j.hard_until, 0),
                    CASE WHEN j.soft_network THEN 0 ELSE coalesce(j.soft_until, 0) END)
$$;

-- The value of `outage` at a time.
CREATE OR REPLACE FUNCTION reachable_outage(j reachable_jobs, now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN j.state <> 0 OR j.is_blocked OR reachable_firm_delay(j) > now THEN NULL
        WHEN j.soft_network AND j.soft_until > now THEN j.soft_outage
        ELSE coalesce(j.undecodable, 0) END
$$;

-- The value of `due` at a time.
CREATE OR REPLACE FUNCTION reachable_due(j reachable_jobs, now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN j.state <> 0 OR j.is_blocked THEN NULL
        WHEN reachable_firm_delay(j) > now THEN reachable_firm_delay(j)
        WHEN j.soft_network AND j.soft_until > now THEN j.soft_until END
$$;

-- The value of `age` when `outage` changes: the runnable time of a bulk job, or while it may run, the reading of its lane's clock
-- at which that time was 0. Both directions are one subtraction.
CREATE OR REPLACE FUNCTION reachable_age(j reachable_jobs, outage bigint, clock bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN j.rank = 2 AND (outage IS NOT DISTINCT FROM 0) <> (j.outage IS NOT DISTINCT FROM 0) THEN clock - j.age
        ELSE j.age END
$$;

-- The reading of a lane's clock, which runs while the lane is open in claims.
CREATE OR REPLACE FUNCTION reachable_lane_clock(l reachable_lanes, now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT l.open_time + coalesce(greatest(0, now - l.open_since), 0)
$$;

-- Places jobs in the index that their state and delays call for.
CREATE OR REPLACE FUNCTION reachable_schedule(places bigint[], now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE reachable_jobs j SET
        outage = reachable_outage(j, now), due = reachable_due(j, now),
        age = reachable_age(j, reachable_outage(j, now), reachable_lane_clock(l, now))
    FROM reachable_lanes l WHERE j.position = ANY(places) AND l.id = j.lane;
END $$;

-- Ends a job that waits, or one that failed and holds back others.
CREATE OR REPLACE FUNCTION reachable_end(place bigint, state_ integer, reason text, now bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE reachable_jobs j SET
        state = state_, age = reachable_age(j, NULL, reachable_lane_clock(l, now)), outage = NULL, due = NULL, is_blocked = false,
        failure_reason = reason, ended = now, finished = reachable_wall()
    FROM reachable_lanes l WHERE j.position = place AND l.id = j.lane
$$;

-- Holds back all lanes of a lane's queue, scope and destination.
CREATE OR REPLACE FUNCTION reachable_hold(lane_id bigint, moment bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO reachable_holds AS h (queue, scope, destination, until)
    SELECT queue, scope, destination, moment FROM reachable_lanes WHERE id = lane_id
    ON CONFLICT (queue, scope, (coalesce('=' || destination, ''))) DO UPDATE SET until = greatest(h.until, excluded.until)
$$;

-- Chains --------------------------------------------------------------------------------------------------------------------

-- The number of an advisory lock: advisory locks are the database's, in which several schemas may have a store.
CREATE OR REPLACE FUNCTION reachable_lock(name text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT hashtext(current_schema() || E'\n' || name)
$$;

-- The numbers of the advisory locks of a job's keys. The first number is the purpose: 1919246593 orders pushes with the same key,
-- which last as long as their transactions; 1919246594 is held by short changes of a chain.
CREATE OR REPLACE FUNCTION reachable_chain_locks(queue text, kind text, serial_key text, unique_key text) RETURNS integer[]
LANGUAGE sql STABLE AS $$
    SELECT array_remove(ARRAY[reachable_lock('s' || queue || E'\n' || serial_key),
                              reachable_lock('u' || queue || E'\n' || kind || E'\n' || unique_key)], NULL)
$$;

-- Locks the chains of jobs, in the order that all use.
CREATE OR REPLACE FUNCTION reachable_lock_chains(places bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1919246594, number) FROM (
        SELECT DISTINCT unnest(reachable_chain_locks(queue, kind, serial_key, unique_key)) AS number
        FROM reachable_jobs
        WHERE position = ANY(places) AND (serial_key IS NOT NULL OR unique_key IS NOT NULL) ORDER BY 1) AS numbers;
END $$;

-- Locks the chains of jobs by their identities.
CREATE OR REPLACE FUNCTION reachable_lock_chains_of(jobs uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    places bigint[] := ARRAY(
        SELECT position FROM reachable_jobs WHERE id = ANY(jobs) AND (serial_key IS NOT NULL OR unique_key IS NOT NULL));
BEGIN
    IF places <> '{}' THEN PERFORM reachable_lock_chains(places); END IF;
END $$;

-- True if an available job has to wait for another one with its keys: an earlier one, or any that runs, for a retried job may come
-- back before a running one.
CREATE OR REPLACE FUNCTION reachable_is_blocked(j reachable_jobs) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF j.serial_key IS NOT NULL AND EXISTS (
        SELECT FROM reachable_jobs o WHERE o.queue = j.queue AND o.serial_key = j.serial_key
        AND (o.state < 2 OR o.state = 2 AND NOT o.continues)
        AND (o.position < j.position OR o.state = 1 AND o.position <> j.position)
    ) THEN RETURN true; END IF;
    RETURN j.unique_key IS NOT NULL AND EXISTS (
        SELECT FROM reachable_jobs o WHERE o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key AND o.state < 2
        AND (o.position < j.position OR o.state = 1 AND o.position <> j.position));
END $$;

-- Releases a blocked job if no other one blocks it any more; returns false if a transaction that replaces it is open.
CREATE OR REPLACE FUNCTION reachable_unblock(place bigint, now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j reachable_jobs;
BEGIN
    SELECT * INTO j FROM reachable_jobs WHERE position = place FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN NOT EXISTS (SELECT FROM reachable_jobs WHERE position = place); END IF;
    IF j.state = 0 AND j.is_blocked AND NOT reachable_is_blocked(j) THEN
        UPDATE reachable_jobs SET is_blocked = false WHERE position = place;
        PERFORM reachable_schedule(ARRAY[place], now);
        PERFORM reachable_wake();
    END IF;
    RETURN true;
END $$;

-- Releases the first job of each chain of a job. The caller holds the locks of the chains.
CREATE OR REPLACE FUNCTION reachable_settle(j reachable_jobs, now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    place bigint;
BEGIN
    IF j.serial_key IS NULL AND j.unique_key IS NULL THEN RETURN; END IF;
    FOR place IN
        (SELECT position FROM reachable_jobs o WHERE o.queue = j.queue AND o.serial_key = j.serial_key
         AND (o.state < 2 OR o.state = 2 AND NOT o.continues) AND o.state = 0 AND o.is_blocked ORDER BY o.position LIMIT 1)
        UNION
        (SELECT position FROM reachable_jobs o WHERE o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key
         AND o.state < 2 AND o.state = 0 AND o.is_blocked ORDER BY o.position LIMIT 1)
    LOOP
        IF NOT reachable_unblock(place, now) THEN
            INSERT INTO reachable_doubts VALUES (place) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- Looks again at the jobs that could not be released.
CREATE OR REPLACE FUNCTION reachable_settle_doubts(now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    place bigint;
    locks integer[];
BEGIN
    FOR place IN SELECT position FROM reachable_doubts LOOP
        SELECT reachable_chain_locks(queue, kind, serial_key, unique_key) INTO locks FROM reachable_jobs WHERE position = place;
        CONTINUE WHEN EXISTS (SELECT FROM unnest(locks) AS number WHERE NOT pg_try_advisory_xact_lock(1919246594, number));
        IF reachable_unblock(place, now) THEN DELETE FROM reachable_doubts WHERE position = place; END IF;
    END LOOP;
END $$;

-- Workers -------------------------------------------------------------------------------------------------------------------

-- True if an attempt of a running job has started.
CREATE OR REPLACE FUNCTION reachable_is_started(j reachable_jobs) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT j.state = 1 AND EXISTS (
        SELECT FROM reachable_starts s
        WHERE s.worker = j.worker AND s.claim_call = j.claim_call AND j.position = ANY(s.places))
$$;

-- Makes a running job available again, or ends it if its cancellation was requested. The caller holds the locks of its chains.
--
-- given_back: attempts that have started stay counted; otherwise the outcome of a started one is unknown. crashed: the process
-- ended while its machine stayed up.
CREATE OR REPLACE FUNCTION reachable_free(place bigint, given_back boolean, crashed boolean, now bigint) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
    is_started boolean := (SELECT reachable_is_started(j) FROM reachable_jobs j WHERE position = place);
    j reachable_jobs;
BEGIN
    UPDATE reachable_jobs SET
        state = CASE WHEN is_cancel_requested THEN 4 ELSE 0 END, worker = NULL, is_cancel_requested = false,
        started = started + CASE WHEN is_started THEN 1 ELSE 0 END,
        crashes = crashes + CASE WHEN crashed AND is_started THEN 1 ELSE 0 END,
        has_unknown_outcome = has_unknown_outcome OR is_started AND NOT given_back,
        ended = CASE WHEN is_cancel_requested THEN now END, finished = CASE WHEN is_cancel_requested THEN reachable_wall() END
    WHERE position = place RETURNING * INTO j;
    IF j.state = 0 THEN PERFORM reachable_schedule(ARRAY[place], now); END IF;
    PERFORM reachable_settle(j, now);
    PERFORM reachable_wake();
    RETURN j.state;
END $$;

-- Removes a worker, and frees its claims.
CREATE OR REPLACE FUNCTION reachable_remove(w reachable_workers, given_back boolean, crashed boolean, now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    places bigint[];
BEGIN
    DELETE FROM reachable_workers WHERE number = w.number;
    IF NOT FOUND THEN RETURN; END IF;
    UPDATE reachable_lanes SET
        open_time = open_time + greatest(0, CASE WHEN given_back THEN now ELSE w.seen END - open_since),
        open_since = NULL, open_by = NULL
    WHERE open_by = w.number;
    places := ARRAY(SELECT position FROM reachable_jobs WHERE worker = w.number);
    PERFORM reachable_lock_chains(places);
    -- A result may have come before the locks.
    places := ARRAY(SELECT position FROM reachable_jobs WHERE worker = w.number ORDER BY position FOR UPDATE);
    PERFORM reachable_free(place, given_back, crashed, now) FROM unnest(places) AS place;
    DELETE FROM reachable_starts WHERE worker = w.number;
END $$;

-- Removes the workers whose lease has ended. Another call does so at the same time with those that it has locked.
CREATE OR REPLACE FUNCTION reachable_sweep(own bigint, now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lease_end bigint := reachable_lease_end();
    w reachable_workers;
BEGIN
    FOR w IN
        SELECT * FROM reachable_workers WHERE heartbeat <= lease_end AND number <> own
        ORDER BY number FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM reachable_remove(w, false, false, now);
    END LOOP;
END $$;

-- Returns a worker if its lease is valid; it is not removed before the transaction ends.
CREATE OR REPLACE FUNCTION reachable_valid_worker(number_ bigint) RETURNS reachable_workers LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lease_end bigint := reachable_lease_end();
    w reachable_workers;
BEGIN
    SELECT * INTO w FROM reachable_workers WHERE number = number_ AND heartbeat > lease_end FOR KEY SHARE;
    RETURN w;
END $$;

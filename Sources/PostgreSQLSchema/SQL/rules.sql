-- The rules that several calls share: clocks, chains of keys, and the ends of claims.
--
-- What each call needs is in PL/pgSQL: it keeps the plans of its statements, and SQL functions make them with each call.
-- Programs call the functions that are SECURITY DEFINER: see rights.sql.

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

-- The store's time, for a call that decides by what others have committed: its statements need snapshots of their own.
CREATE OR REPLACE FUNCTION reachable_begin() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'of the job store''s functions, only pushes may be called above READ COMMITTED'
            USING HINT = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED.', ERRCODE = '25001';
    END IF;
    RETURN reachable_now();
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

-- Tells workers that there may be work, at most once for each transaction.
CREATE OR REPLACE FUNCTION reachable_notify() RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('reachable', current_schema())
$$;

-- The name of a destination in reachable_holds.
CREATE OR REPLACE FUNCTION reachable_target(destination text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce('=' || destination, '')
$$;

-- Chains --------------------------------------------------------------------------------------------------------------------

-- The numbers of the advisory locks of a job's keys; advisory locks are the database's, in which several schemas may have a store.
-- A call locks with them the chains that it changes, so that no claim judges a chain at the same time; pushes do not.
CREATE OR REPLACE FUNCTION reachable_chain_locks(queue text, kind text, serial_key text, unique_key text) RETURNS integer[]
LANGUAGE sql STABLE AS $$
    SELECT array_remove(ARRAY[hashtext(current_schema() || E'\ns' || queue || E'\n' || serial_key),
                              hashtext(current_schema() || E'\nu' || queue || E'\n' || kind || E'\n' || unique_key)], NULL)
$$;

-- Locks the chains of jobs, in the order that all use.
CREATE OR REPLACE FUNCTION reachable_lock_chains(jobs uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1919246594, number) FROM (
        SELECT DISTINCT unnest(reachable_chain_locks(queue, kind, serial_key, unique_key)) AS number FROM reachable_jobs
        WHERE id = ANY(jobs) AND (serial_key IS NOT NULL OR unique_key IS NOT NULL) ORDER BY 1) AS numbers;
END $$;

-- Locks the chains of a job, unless another call has one of them.
CREATE OR REPLACE FUNCTION reachable_try_chains(queue text, kind text, serial_key text, unique_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM unnest(reachable_chain_locks(queue, kind, serial_key, unique_key)) AS number
        WHERE NOT pg_try_advisory_xact_lock(1919246594, number));
END $$;

-- True if an available job has to wait for another one with its keys: an earlier one, or any that runs, for a retried job may come
-- back before a running one.
CREATE OR REPLACE FUNCTION reachable_is_blocked(j reachable_jobs) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN j.serial_key IS NOT NULL AND (
        EXISTS (SELECT FROM reachable_jobs o WHERE o.queue = j.queue AND o.serial_key = j.serial_key
                AND (o.state < 2 OR o.state = 2 AND NOT o.continues) AND o.position < j.position)
        OR EXISTS (SELECT FROM reachable_jobs o WHERE o.queue = j.queue AND o.serial_key = j.serial_key AND o.state = 1
                   AND o.position <> j.position))
    OR j.unique_key IS NOT NULL AND (
        EXISTS (SELECT FROM reachable_jobs o WHERE o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key
                AND o.state < 2 AND o.position < j.position)
        OR EXISTS (SELECT FROM reachable_jobs o WHERE o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key
                   AND o.state = 1 AND o.position <> j.position));
END $$;

-- Releases the first blocked job of each key, if no other one blocks it any more. The caller holds the locks of the chains.
CREATE OR REPLACE FUNCTION reachable_release(queue_ text, kind_ text, serial text, uniq text, now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
    j reachable_jobs;
BEGIN
    FOR first IN
        (SELECT position FROM reachable_jobs WHERE queue = queue_ AND serial_key = serial
         AND (state < 2 OR state = 2 AND NOT continues) AND state = 0 AND is_blocked ORDER BY position LIMIT 1)
        UNION
        (SELECT position FROM reachable_jobs WHERE queue = queue_ AND kind = kind_ AND unique_key = uniq
         AND state < 2 AND state = 0 AND is_blocked ORDER BY position LIMIT 1)
    LOOP
        SELECT * INTO j FROM reachable_jobs WHERE position = first FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            -- A transaction is open that replaces it.
            INSERT INTO reachable_rechecks (queue, kind, serial_key, unique_key) VALUES (queue_, kind_, serial, uniq);
        ELSIF j.state = 0 AND j.is_blocked AND NOT reachable_is_blocked(j) THEN
            UPDATE reachable_jobs SET is_blocked = false, due = reachable_due(reachable_jobs, now) WHERE position = first;
            PERFORM reachable_notify();
        END IF;
    END LOOP;
END $$;

-- The end of the delays that bind all workers; null if it has passed. The backoff of a network failure binds one node alone.
CREATE OR REPLACE FUNCTION reachable_due(j reachable_jobs, now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT nullif(greatest(now, j.not_before, j.hard_until, CASE WHEN j.avoided_by IS NULL THEN j.soft_until END), now)
$$;

-- Looks again at the keys and claims that another transaction had locked.
CREATE OR REPLACE FUNCTION reachable_recheck(now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r reachable_rechecks;
BEGIN
    FOR r IN SELECT * FROM reachable_rechecks ORDER BY number FOR UPDATE SKIP LOCKED LOOP
        CONTINUE WHEN NOT reachable_try_chains(r.queue, r.kind, r.serial_key, r.unique_key);
        -- Each adds a new row if it is still locked.
        DELETE FROM reachable_rechecks WHERE number = r.number;
        PERFORM reachable_release(r.queue, r.kind, r.serial_key, r.unique_key, now);
        PERFORM reachable_free(position, true, false, now) FROM reachable_jobs
        WHERE position = r.position AND state = 1 AND claim = r.claim;
    END LOOP;
END $$;

-- Workers -------------------------------------------------------------------------------------------------------------------

-- Makes a running job available again, or ends it if its cancellation was requested; returns its state. The caller holds the locks
-- of its chains.
--
-- given_back: attempts that have started stay counted; otherwise the outcome of a started one is unknown. crashed: the process
-- ended while its machine stayed up.
CREATE OR REPLACE FUNCTION reachable_free(place bigint, given_back boolean, crashed boolean, now bigint) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
    is_started boolean;
    j reachable_jobs;
BEGIN
    SELECT * INTO j FROM reachable_jobs WHERE position = place AND state = 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- A transaction is open that replaces it.
        INSERT INTO reachable_rechecks (queue, kind, serial_key, unique_key, position, claim)
        SELECT queue, kind, serial_key, unique_key, position, claim FROM reachable_jobs WHERE position = place AND state = 1;
        RETURN 0;
    END IF;
    is_started := (SELECT v.is_started FROM reachable_view v WHERE v.position = place);
    UPDATE reachable_jobs u SET
        state = CASE WHEN u.is_cancel_requested THEN 4 ELSE 0 END, worker = NULL, is_cancel_requested = false,
        started = u.started + is_started::integer, crashes = u.crashes + (crashed AND is_started)::integer,
        has_unknown_outcome = u.has_unknown_outcome OR is_started AND NOT given_back,
        due = CASE WHEN NOT u.is_cancel_requested THEN reachable_due(u, now) END,
        ended = CASE WHEN u.is_cancel_requested THEN now END,
        finished = CASE WHEN u.is_cancel_requested THEN reachable_wall() END
    WHERE position = place RETURNING * INTO j;
    PERFORM reachable_release(j.queue, j.kind, j.serial_key, j.unique_key, now);
    PERFORM reachable_notify();
    RETURN j.state;
END $$;

-- Removes a worker, and frees its claims.
CREATE OR REPLACE FUNCTION reachable_remove(worker_ bigint, given_back boolean, crashed boolean, now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM reachable_workers WHERE number = worker_;
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM reachable_lock_chains(ARRAY(SELECT id FROM reachable_jobs WHERE worker = worker_));
    -- A result may have come before the locks.
    PERFORM reachable_free(position, given_back, crashed, now)
    FROM (SELECT position FROM reachable_jobs WHERE worker = worker_ ORDER BY position) AS claimed;
    DELETE FROM reachable_starts WHERE worker = worker_;
END $$;

-- Removes the workers whose lease has ended. Another call does so at the same time with those that it has locked.
CREATE OR REPLACE FUNCTION reachable_sweep(own bigint, now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lease_end bigint := reachable_lease_end();
    number_ bigint;
BEGIN
    FOR number_ IN
        SELECT number FROM reachable_workers WHERE heartbeat <= lease_end AND number <> own
        ORDER BY number FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM reachable_remove(number_, false, false, now);
    END LOOP;
END $$;

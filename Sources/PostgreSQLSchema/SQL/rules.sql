-- The rules that several calls share: clocks, chains of keys, and the ends of claims.
--
-- What each call needs is in PL/pgSQL: it keeps the plans of its statements, and SQL functions make them with each call.
-- Programs call the functions that are SECURITY DEFINER: see rights.sql.
--
-- Classes of advisory locks: 1919246592 an installation, 1919246593 the order of pushes with a serial key, 1919246594 chains, and
-- 1919246597 the numbers of lanes.

-- The server's wall clock, in nanoseconds since 1970.
CREATE OR REPLACE FUNCTION reachable_wall() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
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

-- Moves the clocks on. Each heartbeat calls it.
CREATE OR REPLACE FUNCTION reachable_tick() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    known timestamptz := (SELECT server_start FROM reachable_clock FOR UPDATE);
    start timestamptz := pg_postmaster_start_time();
    moment bigint := reachable_wall();
BEGIN
    UPDATE reachable_clock SET
        lease = lease + CASE WHEN known = start THEN least(greatest(0, moment - wall), 15000000000) ELSE 0 END,
        server_start = start, instant = instant + greatest(0, moment - wall), wall = moment;
    IF known <> start THEN
        -- Within one lease of the server's own start none ends.
        UPDATE reachable_workers SET heartbeat = (SELECT lease FROM reachable_clock);
    END IF;
END $$;

-- The end of the delays that bind all workers; null if it has passed. The backoff of a network failure binds one node alone.
CREATE OR REPLACE FUNCTION reachable_due(j reachable_jobs, now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT nullif(greatest(now, j.not_before, j.hard_until, CASE WHEN j.avoided_by IS NULL THEN j.soft_until END), now)
$$;

-- Chains --------------------------------------------------------------------------------------------------------------------

-- The numbers of the advisory locks of a job's keys; advisory locks are the database's, in which several schemas may have a store.
-- A call locks with them the chains that it changes, so that no claim judges a chain at the same time; pushes and
-- retries, after which a chain can only be longer, do not.
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

-- The jobs for which an available one has to wait, null if there is none: the first with its serial key, and the first with its
-- unique key. If it is the first itself, one that runs: a retried job may come back before that.
CREATE OR REPLACE FUNCTION reachable_blockers(j reachable_jobs) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY[CASE WHEN j.serial_key IS NOT NULL THEN coalesce(
        (SELECT o.position FROM reachable_jobs o WHERE o.queue = j.queue AND o.serial_key = j.serial_key
         AND (o.state < 2 OR o.state = 2 AND NOT o.continues) AND o.position < j.position ORDER BY o.position LIMIT 1),
        (SELECT o.position FROM reachable_jobs o WHERE o.queue = j.queue AND o.serial_key = j.serial_key AND o.state = 1
         AND o.position <> j.position LIMIT 1)) END,
    CASE WHEN j.unique_key IS NOT NULL THEN coalesce(
        (SELECT o.position FROM reachable_jobs o WHERE o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key
         AND o.state < 2 AND o.position < j.position ORDER BY o.position LIMIT 1),
        (SELECT o.position FROM reachable_jobs o WHERE o.queue = j.queue AND o.kind = j.kind AND o.unique_key = j.unique_key
         AND o.state = 1 AND o.position <> j.position LIMIT 1)) END];
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
        ELSIF j.state = 0 AND j.is_blocked AND reachable_blockers(j) = '{NULL,NULL}' THEN
            UPDATE reachable_jobs SET is_blocked = false, due = reachable_due(reachable_jobs, now) WHERE position = first;
            PERFORM pg_notify('reachable', current_schema());
        END IF;
    END LOOP;
END $$;

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

-- The claims of a worker whose jobs' cancellation was requested, as JSON.
CREATE OR REPLACE FUNCTION reachable_cancelled(worker_ bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_agg(json_build_object('id', replace(id::text, '-', ''), 'claim', claim)) FROM reachable_jobs
            WHERE worker = worker_ AND is_cancel_requested);
END $$;

-- Ends of claims ------------------------------------------------------------------------------------------------------------

-- Makes a running job available again, or ends it if its cancellation was requested; returns its state, or null if it does not
-- run. The caller holds the locks of its chains.
--
-- given_back: attempts that have started stay counted; otherwise the outcome of a started one is unknown. crashed: the process
-- ended while its machine stayed up.
CREATE OR REPLACE FUNCTION reachable_free(
    place bigint, given_back boolean, crashed boolean, now bigint, finisher_ bigint DEFAULT NULL
) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    j reachable_jobs;
BEGIN
    PERFORM FROM reachable_jobs WHERE position = place AND state = 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- A transaction is open that replaces it.
        INSERT INTO reachable_rechecks (queue, kind, serial_key, unique_key, position, claim)
        SELECT queue, kind, serial_key, unique_key, position, claim FROM reachable_jobs WHERE position = place AND state = 1;
        RETURN CASE WHEN FOUND THEN 0 END;
    END IF;
    UPDATE reachable_jobs u SET
        state = CASE WHEN u.is_cancel_requested THEN 4 ELSE 0 END, worker = NULL, is_cancel_requested = false,
        finisher = finisher_, started = u.started + v.is_started::integer,
        crashes = u.crashes + (crashed AND v.is_started)::integer,
        has_unknown_outcome = u.has_unknown_outcome OR v.is_started AND NOT given_back,
        due = CASE WHEN NOT u.is_cancel_requested THEN reachable_due(u, now) END,
        ended = CASE WHEN u.is_cancel_requested THEN now END,
        finished = CASE WHEN u.is_cancel_requested THEN reachable_wall() END
    FROM reachable_view v WHERE u.position = place AND v.position = place RETURNING u.* INTO j;
    PERFORM reachable_release(j.queue, j.kind, j.serial_key, j.unique_key, now);
    PERFORM pg_notify('reachable', current_schema());
    RETURN j.state;
END $$;

-- Removes workers, and frees their claims.
CREATE OR REPLACE FUNCTION reachable_remove(numbers bigint[], given_back boolean, crashed boolean, now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF numbers = '{}' THEN RETURN; END IF;
    DELETE FROM reachable_workers WHERE number = ANY(numbers);
    PERFORM reachable_lock_chains(ARRAY(SELECT id FROM reachable_jobs WHERE worker = ANY(numbers)));
    -- A result may have come before the locks.
    PERFORM reachable_free(position, given_back, crashed, now)
    FROM (SELECT position FROM reachable_jobs WHERE worker = ANY(numbers) ORDER BY position) AS claimed;
    DELETE FROM reachable_starts WHERE worker = ANY(numbers);
END $$;

-- Removes the workers whose lease of 30 s has ended. Another call does so at the same time with those that it has locked.
CREATE OR REPLACE FUNCTION reachable_sweep(own bigint, now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- Null until the first heartbeat after the server's start.
    lease_end bigint := (
        SELECT lease + least(greatest(0, reachable_wall() - wall), 15000000000) - 30000000000 FROM reachable_clock
        WHERE server_start = pg_postmaster_start_time());
BEGIN
    PERFORM reachable_remove(ARRAY(
        SELECT number FROM reachable_workers WHERE heartbeat <= lease_end AND number <> own
        ORDER BY number FOR UPDATE SKIP LOCKED), false, false, now);
END $$;

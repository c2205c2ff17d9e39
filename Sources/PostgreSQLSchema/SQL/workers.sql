-- Workers and their leases.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

-- Adds a worker; returns its number.
CREATE OR REPLACE FUNCTION reachable_register(queue text, node text, machine text, process text, host text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    own bigint;
BEGIN
    PERFORM reachable_relax();
    PERFORM reachable_tick();
    INSERT INTO reachable_workers (queue, node, machine, process, host, heartbeat, seen)
    SELECT queue, node, machine, process, host, lease, instant FROM reachable_clock RETURNING number INTO own;
    RETURN own;
END $$;

-- Returns the other workers of a machine and their processes, so that the caller can tell which have ended.
CREATE OR REPLACE FUNCTION reachable_neighbours(machine_ text) RETURNS TABLE (number bigint, process text)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT number, process FROM reachable_workers WHERE machine = machine_
$$;

-- Removes workers whose process has ended while their machine stayed up.
CREATE OR REPLACE FUNCTION reachable_bury(machine_ text, numbers bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    w reachable_workers;
BEGIN
    FOR w IN
        SELECT * FROM reachable_workers WHERE number = ANY(numbers) AND machine = machine_ ORDER BY number FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM reachable_remove(w, false, true, reachable_now());
    END LOOP;
END $$;

-- Extends a worker's lease; returns the claims whose jobs' cancellation was requested, or no row if the lease has ended.
CREATE OR REPLACE FUNCTION reachable_extend(worker_ bigint) RETURNS TABLE (jobs text[], claims bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint;
BEGIN
    PERFORM reachable_relax();
    -- Before the clock is locked, for which all heartbeats wait.
    DELETE FROM reachable_starts s WHERE s.worker = worker_ AND NOT EXISTS (
        SELECT FROM reachable_jobs j WHERE j.worker = s.worker AND j.claim_call = s.claim_call);
    PERFORM reachable_tick();
    now := reachable_now();
    -- A worker that another call is about to remove is waited for.
    UPDATE reachable_workers w SET heartbeat = c.lease, seen = now FROM reachable_clock c
    WHERE w.number = worker_ AND w.heartbeat > reachable_lease_end();
    -- No write tells idle workers of the end of another one.
    PERFORM reachable_sweep(0, now);
    PERFORM reachable_settle_doubts(now);
    RETURN QUERY SELECT * FROM reachable_status(worker_);
END $$;

-- Returns the claims of a worker whose jobs' cancellation was requested, or no row if its lease has ended.
CREATE OR REPLACE FUNCTION reachable_status(worker_ bigint) RETURNS TABLE (jobs text[], claims bigint[])
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
    SELECT ARRAY(SELECT replace(id::text, '-', '') FROM reachable_jobs WHERE worker = w.number AND is_cancel_requested
                 ORDER BY position),
           ARRAY(SELECT claim FROM reachable_jobs WHERE worker = w.number AND is_cancel_requested ORDER BY position)
    FROM reachable_workers w WHERE w.number = worker_ AND w.heartbeat > reachable_lease_end()
$$;

-- Returns the workers of a queue, or of all for null, whose lease is valid; since: the time since the last heartbeat.
CREATE OR REPLACE FUNCTION reachable_list_workers(queue_ text)
RETURNS TABLE (number bigint, queue text, node text, host text, process text, claims bigint, since bigint)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
    SELECT w.number, w.queue, w.node, w.host, w.process,
           (SELECT count(*) FROM reachable_jobs j WHERE j.worker = w.number), greatest(0, moment - w.seen)
    FROM reachable_now() AS moment, reachable_present(moment) AS w WHERE queue_ IS NULL OR w.queue = queue_ ORDER BY w.number
$$;

-- Removes a worker that ends in good order.
CREATE OR REPLACE FUNCTION reachable_unregister(worker_ bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    w reachable_workers;
BEGIN
    SELECT * INTO w FROM reachable_workers WHERE number = worker_ FOR UPDATE;
    IF FOUND THEN PERFORM reachable_remove(w, true, false, reachable_now()); END IF;
END $$;

-- Workers and their leases.

-- The workers of a machine with their processes, as JSON.
CREATE OR REPLACE FUNCTION reachable_processes(machine_ text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_agg(json_build_object('number', number, 'process', process)) FROM reachable_workers
            WHERE machine = machine_);
END $$;

-- Adds a worker; returns its number, and the workers of its machine as reachable_extend does.
CREATE OR REPLACE FUNCTION reachable_register(queue_ text, node_ text, boot_ text, machine_ text, process_ text, host_ text)
RETURNS TABLE (worker bigint, processes text) LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM reachable_begin();
    SET LOCAL synchronous_commit = off;
    PERFORM reachable_tick();
    INSERT INTO reachable_workers (queue, node, boot, machine, process, host, heartbeat, seen)
    SELECT queue_, node_, boot_, machine_, process_, host_, lease, instant FROM reachable_clock RETURNING number INTO worker;
    processes := reachable_processes(machine_);
    RETURN NEXT;
END $$;

-- Extends a worker's lease; no row if it has ended.
--
-- Returns the claims whose jobs' cancellation was requested, all workers of the machine with their processes, so that the caller
-- can tell which have ended, and the version of the tables.
CREATE OR REPLACE FUNCTION reachable_extend(worker_ bigint, machine_ text)
RETURNS TABLE (cancelled text, processes text, schema bigint)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    now bigint;
BEGIN
    PERFORM reachable_begin();
    SET LOCAL synchronous_commit = off;
    -- Before the clock is locked, for which all heartbeats wait.
    DELETE FROM reachable_starts s WHERE s.worker = worker_ AND NOT EXISTS (
        SELECT FROM reachable_jobs j WHERE j.worker = s.worker AND j.claim_call = s.claim_call);
    PERFORM reachable_tick();
    now := reachable_now();
    -- A worker that another call is about to remove is waited for.
    UPDATE reachable_workers w SET heartbeat = c.lease, seen = now FROM reachable_clock c WHERE w.number = worker_;
    -- No write tells idle workers of the end of another one.
    PERFORM reachable_sweep(0, now);
    PERFORM reachable_recheck(now);
    RETURN QUERY SELECT reachable_cancelled(number), reachable_processes(machine_), reachable_schema()
        FROM reachable_workers WHERE number = worker_;
END $$;

-- Removes workers of a machine whose process has ended while the machine stayed up.
CREATE OR REPLACE FUNCTION reachable_remove_ended(machine_ text, numbers bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    now bigint := reachable_begin();
BEGIN
    PERFORM reachable_remove(ARRAY(
        SELECT number FROM reachable_workers WHERE number = ANY(numbers) AND machine = machine_
        ORDER BY number FOR UPDATE SKIP LOCKED), false, true, now);
END $$;

-- Removes a worker that ends in good order.
CREATE OR REPLACE FUNCTION reachable_unregister(worker_ bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
BEGIN
    PERFORM reachable_remove(ARRAY[worker_], true, false, reachable_begin());
END $$;

-- Returns the workers of a queue, or of all for null, that were heard from within a lease; since: the time since their heartbeat.
CREATE OR REPLACE FUNCTION reachable_list_workers(queue_ text)
RETURNS TABLE (number bigint, queue text, node text, host text, process text, claims bigint, since bigint)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT w.number, w.queue, w.node, w.host, w.process,
               (SELECT count(*) FROM reachable_jobs j WHERE j.worker = w.number), greatest(0, now - w.seen)
        FROM reachable_workers w, reachable_now() AS now
        WHERE now - w.seen < 30000000000 AND (queue_ IS NULL OR w.queue = queue_) ORDER BY w.number;
END $$;

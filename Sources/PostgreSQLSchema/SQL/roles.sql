-- Roles with the least rights that suffice; run it as a user who may create roles. Grant them to the users of programs:
--
--     GRANT reachable_pusher TO web;
--     GRANT reachable_worker TO sync;
--
-- Both may call functions, and touch no table. A pusher adds jobs; a worker does everything that a queue does.

DO $$
DECLARE
    role text;
    routine text;
    name text;
BEGIN
    FOREACH role IN ARRAY ARRAY['reachable_pusher', 'reachable_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN EXECUTE format('CREATE ROLE %I NOLOGIN', role); END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
    END LOOP;
    FOR routine, name IN
        SELECT oid::regprocedure, proname FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'reachable\_%' AND prosecdef
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO reachable_worker', routine);
        IF name IN ('reachable_push', 'reachable_push_batch', 'reachable_schema') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO reachable_pusher', routine);
        END IF;
    END LOOP;
END $$;

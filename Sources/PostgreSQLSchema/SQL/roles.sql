-- Roles with the least rights that suffice; run it as a user who may create roles. Grant them to the users of programs:
--
--     GRANT reachable_pusher TO web;
--     GRANT reachable_worker TO sync;
--
-- Both may call functions, and touch no table. A pusher adds jobs; a worker does everything that a queue does.

DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['reachable_pusher', 'reachable_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN EXECUTE format('CREATE ROLE %I NOLOGIN', role); END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
        EXECUTE (
            SELECT string_agg(format('GRANT EXECUTE ON FUNCTION %s TO %I', oid::regprocedure, role), '; ') FROM pg_proc
            WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname LIKE 'reachable\_%' AND prosecdef
            AND (role = 'reachable_worker' OR proname IN ('reachable_push', 'reachable_push_batch', 'reachable_schema')));
    END LOOP;
END $$;

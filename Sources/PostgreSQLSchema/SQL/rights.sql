-- The beginning of the functions that programs call, and who may call them: their owner alone, until roles.sql is run.
--
-- Such a function finds its own schema, whatever its name is by now. A session that called it before knows the name of that time,
-- which another store may have by now: reachable_now() compares the store's identity.

DO $$
DECLARE
    path text := $path$DECLARE here text; BEGIN
        GET DIAGNOSTICS here = PG_CONTEXT;
        here := set_config('search_path', substring(here, '("(?:[^"]|"")+"|[a-z_][a-z0-9_]*)\.reachable_') || ', pg_temp', true);
    END;$path$;
    store_ text := (SELECT store FROM reachable_clock);
    routine regprocedure;
    is_public boolean;
BEGIN
    FOR routine, is_public IN
        SELECT oid, prosecdef FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'reachable\_%'
    LOOP
        IF is_public THEN
            EXECUTE replace(
                replace(pg_get_functiondef(routine), 'PERFORM ''@own schema@'';', path), '@store@', store_);
        END IF;
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
END $$;

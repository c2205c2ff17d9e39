-- Who may call the functions: their owner alone, until roles.sql is run. Those that programs call have the owner's rights, and
-- begin by finding their own schema, whatever its name is by now: no other schema's tables or temporary ones take the place of
-- these.
--
-- A session that called such a function before knows the schema's name of that time, which another store may have by now: the
-- store's identity tells.

DO $$
DECLARE
    path text := format($path$
DECLARE
    here text;
BEGIN
    GET DIAGNOSTICS here = PG_CONTEXT;
    PERFORM set_config('search_path', substring(here, '("(?:[^"]|"")+"|[a-z_][a-z0-9_]*)\.reachable_') || ', pg_temp', true);
    IF (SELECT store <> %L FROM reachable_clock) THEN
        RAISE EXCEPTION 'this session knows the schema of the job store by a name that is another store''s now'
            USING HINT = 'Connect again, or install the functions again.', ERRCODE = 'RE004';
    END IF;$path$, (SELECT store FROM reachable_clock));
    f record;
BEGIN
    FOR f IN
        SELECT oid::regprocedure AS name, prosecdef AS is_public, prosrc AS body,
               coalesce(substring(prosrc, E'^\n#[^\n]*'), '') AS directive FROM pg_proc
        WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname LIKE 'reachable\_%'
    LOOP
        IF f.is_public THEN
            EXECUTE replace(
                pg_get_functiondef(f.name), f.body, f.directive || path || substr(f.body, length(f.directive) + 1) || E';\nEND ');
            EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp SET jit = off', f.name);
        END IF;
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.name);
    END LOOP;
END $$;

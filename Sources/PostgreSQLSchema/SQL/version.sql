-- The version of the tables, and who may call the functions: their owner alone, until roles.sql is run.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false);

INSERT INTO reachable_clock (schema, wall, server_start) SELECT 1, reachable_wall(), reachable_server_start()
ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION reachable_schema() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT schema FROM reachable_clock
$$;

DO $$
DECLARE
    routine text;
BEGIN
    FOR routine IN
        SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'reachable\_%'
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
END $$;

-- Who may call the functions: their owner alone, until roles.sql is run. Those that programs call have the owner's rights, and name
-- their schema, so that no other schema's tables or temporary ones take the place of these. A schema that gets another name needs
-- its functions again.

DO $$
DECLARE
    routine regprocedure;
    is_public boolean;
BEGIN
    FOR routine, is_public IN
        SELECT oid, prosecdef FROM pg_proc
        WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname LIKE 'reachable\_%'
    LOOP
        IF is_public THEN
            EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp SET jit = off', routine, current_schema());
        END IF;
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
END $$;

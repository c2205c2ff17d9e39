-- The versions of the tables that were applied. This program's own is 1.

-- A store in a later schema of the path is another one.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE IF NOT EXISTS reachable_versions (version bigint PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now());

DO $$
DECLARE
    newest bigint := (SELECT max(version) FROM reachable_versions);
BEGIN
    IF newest > 1 THEN
        RAISE EXCEPTION 'the store has version %, and this program knows versions up to 1', newest
            USING HINT = 'Update this program.', ERRCODE = 'RE003';
    END IF;
END $$;

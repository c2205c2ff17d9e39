-- Installs the tables and functions of a store of durable jobs in the current schema, or renews its functions:
--
--     psql --single-transaction --variable ON_ERROR_STOP=1 --file install.sql
--
-- roles.sql is apart: it needs a user who may create roles.
\ir versions.sql
SELECT NOT EXISTS (SELECT FROM reachable_versions WHERE version = 1) AS is_missing \gset
\if :is_missing
\ir tables-1.sql
\endif
\ir rules.sql
\ir push.sql
\ir workers.sql
\ir claim.sql
\ir results.sql
\ir management.sql
\ir rights.sql

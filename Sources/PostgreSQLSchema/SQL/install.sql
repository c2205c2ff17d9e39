-- Installs the tables and functions of a store of durable jobs in the current schema, or renews the functions of version 1:
--
--     psql --single-transaction --variable ON_ERROR_STOP=1 --file install.sql
--
-- roles.sql is apart: it needs a user who may create roles.
\ir tables.sql
\ir rules.sql
\ir push.sql
\ir workers.sql
\ir claim.sql
\ir results.sql
\ir management.sql
\ir version.sql

-- An estimate, of the last ANALYZE; -1 or 0 before the first.
SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
FROM pg_class c
WHERE c.oid = coalesce(to_regclass('states_' || $1::text), to_regclass('states_other'))

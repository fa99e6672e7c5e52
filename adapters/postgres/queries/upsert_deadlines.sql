INSERT INTO deadlines (id, saga, key, name, due, meta)
SELECT d.id, d.saga, d.key, d.name, d.due, d.meta::json
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[]) AS d (id, saga, key, name, due, meta)
ON CONFLICT (id) DO UPDATE SET due = excluded.due, meta = excluded.meta, claimed_until = '-infinity'

-- An expired answer of the same key makes room.
INSERT INTO answers AS a (scope, key, fingerprint, status, body, expires_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::smallint[], $5::bytea[], $6::timestamptz[])
ON CONFLICT (scope, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, expires_at = excluded.expires_at

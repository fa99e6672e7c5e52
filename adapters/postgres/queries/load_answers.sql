SELECT a.scope, a.key, a.fingerprint, a.status, a.body
FROM unnest($1::text[], $2::text[]) AS wanted (scope, key)
JOIN answers a ON a.scope = wanted.scope AND a.key = wanted.key
WHERE a.expires_at > $3

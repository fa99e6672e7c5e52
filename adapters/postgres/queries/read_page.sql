-- A page for the relay, bounded in count and bytes; the first event always fits.
SELECT shard, position, stream, version, id, type, schema, data, meta, recorded_at
FROM (
    SELECT *, sum(octet_length(data::text)) OVER (ORDER BY position) AS bytes
    FROM (SELECT * FROM events WHERE shard = $1 AND position > $2 ORDER BY position LIMIT $3) AS page
) AS measured
WHERE bytes <= $4 OR bytes = octet_length(data::text)
ORDER BY position

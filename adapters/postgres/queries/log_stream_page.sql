-- The same of one stream, by its versions.
SELECT wanted, shard, position, stream, version, id, type, schema, data, meta, recorded_at
FROM (
    SELECT *, version = max(version) OVER () AS last,
           position > $6 AND position <= $7
           AND (cardinality($5::text[]) = 0 OR type = ANY ($5)) AND type <> ALL ($11::text[])
           AND ($8 = '' OR coalesce(meta ->> 'correlationId', '') = $8)
           AND recorded_at >= coalesce($9::timestamptz, '-infinity')
           AND recorded_at <= coalesce($10::timestamptz, 'infinity') AS wanted
    FROM (
        SELECT *, sum(octet_length(data::text)) OVER (ORDER BY version) AS bytes
        FROM (SELECT * FROM events WHERE stream = $1 AND version > $2 ORDER BY version LIMIT $3) AS page
    ) AS measured
    WHERE bytes <= $4 OR bytes = octet_length(data::text)
) AS judged
WHERE wanted OR last
ORDER BY version

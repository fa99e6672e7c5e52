-- A window of the log in its order, bounded in count and bytes, less what is not asked for. The last event
-- of the window always comes, so that the caller knows from where to go on.
SELECT wanted, shard, position, stream, version, id, type, schema, data, meta, recorded_at
FROM (
    SELECT *, position = max(position) OVER () AS last,
           (cardinality($6::text[]) = 0 OR type = ANY ($6)) AND type <> ALL ($11::text[])
           AND starts_with(stream, $7) AND ($8 = '' OR coalesce(meta ->> 'correlationId', '') = $8)
           AND recorded_at >= coalesce($9::timestamptz, '-infinity')
           AND recorded_at <= coalesce($10::timestamptz, 'infinity') AS wanted
    FROM (
        SELECT *, sum(octet_length(data::text)) OVER (ORDER BY position) AS bytes
        FROM (SELECT * FROM events WHERE shard = $1 AND position > $2 AND position <= $3 ORDER BY position LIMIT $4) AS page
    ) AS measured
    WHERE bytes <= $5 OR bytes = octet_length(data::text)
) AS judged
WHERE wanted OR last
ORDER BY position

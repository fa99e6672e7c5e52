-- The events of a window of the log, counted by type and time. A group without a wanted event comes too:
-- the greatest position of all groups is where the window ends.
SELECT type, date_bin($5::interval, recorded_at, 'epoch') AS since,
       count(*) FILTER (WHERE wanted) AS events,
       coalesce(sum(octet_length(data::text)) FILTER (WHERE wanted), 0)::bigint AS bytes,
       max(position) AS position
FROM (
    SELECT *,
           (cardinality($6::text[]) = 0 OR type = ANY ($6)) AND type <> ALL ($11::text[])
           AND starts_with(stream, $7) AND ($8 = '' OR coalesce(meta ->> 'correlationId', '') = $8)
           AND recorded_at >= coalesce($9::timestamptz, '-infinity')
           AND recorded_at <= coalesce($10::timestamptz, 'infinity') AS wanted
    FROM (SELECT * FROM events WHERE shard = $1 AND position > $2 AND position <= $3 ORDER BY position LIMIT $4) AS page
) AS judged
GROUP BY type, since

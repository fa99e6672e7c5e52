-- What waits: events for the relay, confirmed orders for the OMS, deadlines for their process managers.
-- Each is counted up to a limit, so that the question stays cheap when the answer is bad. Ages are by this
-- server's clock.
SELECT (SELECT coalesce(max(position), 0) FROM events WHERE shard = $1) - published AS events,
       coalesce((SELECT extract(epoch FROM now() - recorded_at) FROM events
                 WHERE shard = $1 AND position > published ORDER BY position LIMIT 1), 0)::float8 AS events_age,
       (SELECT count(*) FROM (SELECT FROM states WHERE category = 'order' AND state ->> 'omsSync' = 'pending'
                                AND state ->> 'status' = 'CONFIRMED' LIMIT $3) AS waiting) AS orders,
       coalesce((SELECT extract(epoch FROM now() - (state ->> 'updatedAt')::timestamptz) FROM states
                 WHERE category = 'order' AND state ->> 'omsSync' = 'pending' AND state ->> 'status' = 'CONFIRMED'
                 ORDER BY position LIMIT 1), 0)::float8 AS orders_age,
       (SELECT count(*) FROM (SELECT FROM deadlines WHERE due < now() LIMIT $3) AS overdue) AS deadlines,
       coalesce((SELECT extract(epoch FROM now() - min(due)) FROM deadlines WHERE due < now()), 0)::float8 AS deadlines_age
FROM (SELECT coalesce((SELECT position FROM checkpoints WHERE name = $2 AND shard = $1), 0) AS published) AS relay

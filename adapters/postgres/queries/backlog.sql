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
       coalesce((SELECT extract(epoch FROM now() - min(due)) FROM deadlines WHERE due < now()), 0)::float8 AS deadlines_age,
       refused
FROM (SELECT coalesce(max(CASE WHEN refused THEN least(position, event_position) ELSE position END), 0) AS published,
             coalesce(bool_or(refused), false) AS refused
      FROM checkpoint_standings WHERE name = $2 AND shard = $1) AS relay

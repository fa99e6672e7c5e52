-- Where the log had come to at a time: the last event before it. Events are about in the order of their times, so the
-- place is found by halving; the times have no index. Up to low events are earlier, behind high they are not.
WITH RECURSIVE halved AS (
    SELECT 0::bigint AS low, coalesce(max(position), 0) AS high FROM events WHERE shard = $1
    UNION ALL
    SELECT CASE WHEN next.recorded_at < $2 THEN least(next.position, high) ELSE low END,
           CASE WHEN next.recorded_at < $2 THEN high ELSE (low + high) / 2 END
    FROM halved
    CROSS JOIN LATERAL (
        SELECT position, recorded_at FROM events WHERE shard = $1 AND position > (low + high) / 2 ORDER BY position LIMIT 1
    ) AS next
    WHERE low < high
)
SELECT low FROM halved WHERE low >= high

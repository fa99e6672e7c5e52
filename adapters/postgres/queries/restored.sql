-- After the database was restored to an earlier time: positions go on behind those that were published in the time
-- that was lost, so that nothing new looks old to whoever compares them; the relay goes on at the log's end, or
-- earlier, where it is told.
WITH before AS (
    SELECT position AS checkpoint, least($6::bigint, (SELECT coalesce(max(position), 0) FROM events WHERE shard = $2)) AS log_end
    FROM checkpoints WHERE name = $1 AND shard = $2
), behind AS (
    SELECT setval('position_0', greatest(checkpoint, (SELECT last_value FROM position_0))) FROM before WHERE checkpoint > log_end
), moved AS (
    UPDATE checkpoints c SET position = before.log_end FROM before, behind
    WHERE c.name = $1 AND c.shard = $2 AND before.checkpoint > before.log_end
    RETURNING before.checkpoint, before.log_end
), audited AS (
    INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
    SELECT $5, $3, 'events.restored', 'relay', '', checkpoint - log_end, $4, '' FROM moved
)
SELECT checkpoint, log_end FROM moved

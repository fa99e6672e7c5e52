-- After the database was restored to an earlier time: positions go on behind those that were published in the time
-- that was lost ($7, and the checkpoint if its event is lost), so that nothing new looks old to whoever compares
-- them. The relay goes on behind the last event that is known to be published: that which the checkpoint names, or
-- the last one that was recorded before the restore ($6; null: not told).
WITH before AS (
    SELECT position, event_position, log_end,
           least(position, coalesce(event_position, log_end), log_end, $6::bigint) AS known
    FROM checkpoint_standings WHERE name = $1 AND shard = $2
), target AS (
    SELECT before.*, coalesce((SELECT max(position) FROM events WHERE shard = $2 AND position <= known), 0) AS goes_on
    FROM before
), behind AS (
    SELECT setval('position_0', greatest((SELECT last_value FROM position_0), $7::bigint,
                                         CASE WHEN event_position IS NULL THEN position ELSE 0 END)) AS last FROM target
), moved AS (
    UPDATE checkpoints AS c SET position = goes_on, refused_at = NULL, event = (SELECT id FROM events WHERE shard = $2 AND position = goes_on)
    FROM target, behind
    WHERE c.name = $1 AND c.shard = $2
    RETURNING target.position, goes_on, behind.last
), audited AS (
    INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
    SELECT $5, $3, 'events.restored', 'relay', '', position - goes_on, $4, '' FROM moved
)
SELECT last, goes_on FROM moved

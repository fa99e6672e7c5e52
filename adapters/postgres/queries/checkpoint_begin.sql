-- Where the relay goes on. A checkpoint that is refused stays so until an operator says where to go on, also when
-- the log grows past it; one that does not name its event yet does so from now on.
WITH begun AS (
    SELECT position, event, event_position, log_end, refused FROM checkpoint_standings WHERE name = $1 AND shard = $2
), latched AS (
    UPDATE checkpoints AS c SET refused_at = coalesce(c.refused_at, now()) FROM begun
    WHERE c.name = $1 AND c.shard = $2 AND begun.refused
), named AS (
    UPDATE checkpoints AS c SET event = e.id FROM begun, events AS e
    WHERE c.name = $1 AND c.shard = $2 AND NOT begun.refused AND begun.event IS NULL AND e.shard = $2 AND e.position = begun.position
)
SELECT position, coalesce(event_position, 0), log_end, refused FROM begun

-- A checkpoint names the event at its position. In a log that was restored from a backup positions are given
-- again, to other events: a position alone would be taken for a place in the log that it is not.

-- +goose Up
ALTER TABLE checkpoints
    ADD COLUMN event      uuid,        -- the event at the position; null: at 0, or not looked up yet
    ADD COLUMN refused_at timestamptz; -- since when the checkpoint is not gone on from, until an operator says where to

-- How checkpoints stand in the log. One is astray if what it names is not in the log, or lies before its position:
-- going on from it would leave out events. One that was set back only repeats some.
CREATE VIEW checkpoint_standings AS
SELECT c.name, c.shard, c.position, c.event, named.position AS event_position, log.log_end,
       c.refused_at IS NOT NULL OR astray AS refused
FROM checkpoints AS c
LEFT JOIN events AS named ON named.id = c.event AND named.shard = c.shard
CROSS JOIN LATERAL (SELECT coalesce(max(position), 0) AS log_end FROM events WHERE shard = c.shard) AS log
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.event IS NOT NULL THEN coalesce(named.position < c.position, true)
                WHEN c.position = 0 THEN false
                ELSE NOT EXISTS (SELECT FROM events WHERE shard = c.shard AND position = c.position)
           END AS astray
) AS found;

-- +goose Down
DROP VIEW checkpoint_standings;
ALTER TABLE checkpoints DROP COLUMN event, DROP COLUMN refused_at;

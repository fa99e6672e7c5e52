-- Rebuilds of the read models: how far each generation has come, so that a killed one goes on.

-- +goose Up
CREATE TABLE rebuilds (
    generation bigint      PRIMARY KEY, -- a number is never used for two builds
    models     text[]      NOT NULL,
    source     text        NOT NULL CHECK (source IN ('topics', 'states', 'events')),
    phase      text        NOT NULL CHECK (phase IN ('loading', 'following', 'verifying', 'done', 'failed')),
    parts      json,                    -- how far each part of the source was read; null: not begun
    records    bigint      NOT NULL,
    broken     bigint      NOT NULL,    -- of the records, in the DLQ
    mended     bigint      NOT NULL,    -- keys that the source had wrong
    actor      text        NOT NULL,
    failure    text        NOT NULL,    -- of the last attempt
    started_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    ended_at   timestamptz
) WITH (fillfactor = 50);

-- One at a time, even if the lock that sees to it is lost.
CREATE UNIQUE INDEX rebuilds_unfinished ON rebuilds ((ended_at IS NULL)) WHERE ended_at IS NULL;

-- +goose Down
DROP TABLE rebuilds;

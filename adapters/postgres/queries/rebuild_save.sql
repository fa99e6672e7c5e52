INSERT INTO rebuilds AS r (generation, models, source, phase, parts, records, broken, mended, actor, failure, started_at, updated_at, ended_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (generation) DO UPDATE
SET phase = excluded.phase, parts = excluded.parts, records = excluded.records, broken = excluded.broken, mended = excluded.mended,
    failure = excluded.failure, updated_at = excluded.updated_at, ended_at = excluded.ended_at

SELECT generation, models, source, phase, parts, records, broken, mended, actor, failure, started_at, updated_at, ended_at
FROM rebuilds ORDER BY generation DESC LIMIT $1

-- What an operator strikes out, and its entry in the audit log, together.
WITH discarded AS (
    DELETE FROM feed_rejects WHERE feed = $1 AND id = ANY($2) RETURNING id
), logged AS (
    INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
    SELECT now(), $3, 'feed.discard', $1, '', count(*), $4, left(string_agg(id, ', ' ORDER BY id), 1000) FROM discarded HAVING count(*) > 0
)
SELECT count(*) FROM discarded

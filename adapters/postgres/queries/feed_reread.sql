-- What an operator wants to be read once more, and its entry in the audit log, together.
WITH wanted AS (
    UPDATE feed_rejects SET again = true WHERE feed = $1 AND id = ANY($2) RETURNING id
), logged AS (
    INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
    SELECT now(), $3, 'feed.reread', $1, '', count(*), $4, '' FROM wanted HAVING count(*) > 0
)
SELECT count(*) FROM wanted

SELECT category, key, version, position, owner, state
FROM states WHERE category = $1 AND owner = $2 AND position > $3 ORDER BY position LIMIT $4

SELECT key, version, position, owner, state
FROM states WHERE category = $1 AND key > $2 ORDER BY key LIMIT $3

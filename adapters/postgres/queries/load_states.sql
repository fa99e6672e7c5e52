SELECT s.category, s.key, s.version, s.position, s.owner, s.state
FROM unnest($1::text[], $2::text[]) AS wanted (category, key)
JOIN states s ON s.category = wanted.category AND s.key = wanted.key

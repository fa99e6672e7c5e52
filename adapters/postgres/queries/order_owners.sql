SELECT s.key, s.owner
FROM unnest($1::text[]) AS wanted (key)
JOIN states s ON s.category = 'order' AND s.key = wanted.key

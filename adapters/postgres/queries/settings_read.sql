SELECT name, value, changed_by, changed_at FROM settings WHERE name = ANY ($1)

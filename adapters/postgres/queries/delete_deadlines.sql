DELETE FROM deadlines WHERE id = ANY ($1::text[])

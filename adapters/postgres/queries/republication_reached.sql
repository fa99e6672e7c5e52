-- How far the relay has come with the order. What an operator cancelled meanwhile stays so.
UPDATE settings SET value = (value::jsonb || jsonb_build_object('reached', $2::bigint, 'records', $3::bigint))::text
WHERE name = 'republication' AND value::jsonb ->> 'id' = $1

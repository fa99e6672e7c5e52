-- The orders that hold units of SKUs, the newest first, up to $4 of each. They are found by what was reserved among the
-- last $3 events of the SKU's stream; those whose reservation has ended since are left out.
SELECT wanted.stream, holder.order_id, holder.quantity, holder.at
FROM unnest($1::text[], $2::bigint[]) AS wanted (stream, version)
CROSS JOIN LATERAL (
    SELECT reserved.version, reserved.order_id, reserved.quantity, reserved.at
    FROM (
        SELECT version, data ->> 'orderId' AS order_id, (data ->> 'quantity')::bigint AS quantity, (data ->> 'at')::timestamptz AS at
        FROM events
        WHERE stream = wanted.stream AND version > wanted.version - $3::bigint AND type = 'stock.reserved'
    ) AS reserved
    JOIN states ON states.category = 'reservation' AND states.key = reserved.order_id AND states.state ->> 'status' = 'HELD'
    ORDER BY reserved.version DESC LIMIT $4
) AS holder
ORDER BY wanted.stream, holder.version DESC

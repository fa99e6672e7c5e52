-- Typed views of the states, for operators and for checks of the invariants.

-- +goose Up
CREATE VIEW stock AS
SELECT key AS sku,
       (state ->> 'onHand')::bigint AS on_hand,
       (state ->> 'reserved')::bigint AS reserved,
       coalesce((SELECT sum((shipment ->> 'quantity')::bigint)
                 FROM json_array_elements(state -> 'shipped') AS shipment), 0)::bigint AS shipped,
       (state ->> 'sourceVersion')::bigint AS source_version,
       version, position
FROM states WHERE category = 'stock';

CREATE VIEW price AS
SELECT split_part(key, '|', 1) AS list, substr(key, strpos(key, '|') + 1) AS sku,
       (state -> 'price' ->> 'amount')::numeric AS amount, state -> 'price' ->> 'currency' AS currency,
       coalesce((state ->> 'removed')::boolean, false) AS removed,
       version, position
FROM states WHERE category = 'price';

CREATE VIEW product AS
SELECT key AS sku, state ->> 'name' AS name, state ->> 'segment' AS segment,
       coalesce((state ->> 'removed')::boolean, false) AS removed,
       version, position
FROM states WHERE category = 'product';

CREATE VIEW orders AS
SELECT key AS id, owner AS partner, state ->> 'partnerOrderRef' AS partner_ref,
       state ->> 'status' AS status, state ->> 'reason' AS reason, state ->> 'omsSync' AS oms_sync,
       (state -> 'total' ->> 'amount')::numeric AS total, state -> 'total' ->> 'currency' AS currency,
       (state ->> 'placedAt')::timestamptz AS placed_at, (state ->> 'updatedAt')::timestamptz AS updated_at,
       state ->> 'correlationId' AS correlation_id,
       version, position
FROM states WHERE category = 'order';

CREATE VIEW reservations AS
SELECT s.key AS order_id, s.state ->> 'status' AS status,
       line ->> 'sku' AS sku, (line ->> 'quantity')::bigint AS quantity,
       s.version, s.position
FROM states s, json_array_elements(s.state -> 'lines') AS line WHERE s.category = 'reservation';

CREATE VIEW payments AS
SELECT key AS order_id, state ->> 'status' AS status,
       (state -> 'amount' ->> 'amount')::numeric AS amount, state -> 'amount' ->> 'currency' AS currency,
       state ->> 'chargeId' AS charge_id, state ->> 'refundId' AS refund_id,
       coalesce((state ->> 'anomalies')::int, 0) AS anomalies,
       version, position
FROM states WHERE category = 'payment';

-- +goose Down
DROP VIEW payments, reservations, orders, product, price, stock;

// Package invariants are the promises that can be checked in the database, whatever happened before. The
// demo checks them and so does every end-to-end test.
package invariants

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Invariant finds violations, one text each: by a query, or by a function where a query can't.
type Invariant struct {
	Name string
	sql  string
	find func(ctx context.Context, db *pgx.Conn) ([]string, error)
}

// NoAnomaly is the one invariant that the outside can break: by reports of payments that don't fit.
const NoAnomaly = "PostgreSQL: no payment has an anomaly"

// maxViolations bounds what a query gives.
const maxViolations = 20

// All are the invariants. They look at everything that the platform ever did.
var All = []Invariant{
	{Name: "PostgreSQL: no SKU has more held than the sum of its held reservations, nor less", sql: `
		SELECT format('%s: %s reserved, %s held', s.sku, s.reserved, coalesce(h.held, 0))
		FROM stock s LEFT JOIN (
			SELECT sku, sum(quantity) AS held FROM reservations WHERE status = 'HELD' GROUP BY sku
		) h USING (sku)
		WHERE s.reserved <> coalesce(h.held, 0) OR s.reserved < 0 LIMIT $1`},
	{Name: "PostgreSQL: no SKU is oversold: held and shipped are not more than on hand", sql: `
		SELECT format('%s: %s on hand, %s reserved, %s shipped', sku, on_hand, reserved, shipped)
		FROM stock WHERE reserved > 0 AND on_hand - reserved - shipped < 0 LIMIT $1`},
	{Name: "PostgreSQL: a reservation stands where its order stands", sql: `
		SELECT DISTINCT format('order %s is %s, its reservation %s', o.id, o.status, coalesce(r.status, 'missing'))
		FROM orders o LEFT JOIN reservations r ON r.order_id = o.id
		WHERE CASE
			WHEN o.status IN ('PENDING_PAYMENT', 'CONFIRMED') THEN r.status IS DISTINCT FROM 'HELD'
			WHEN o.status IN ('DISPATCHED', 'DELIVERED') THEN r.status IS DISTINCT FROM 'CONSUMED'
			ELSE r.status IS NULL OR r.status NOT IN ('RELEASED', 'EXPIRED') END
		LIMIT $1`},
	{Name: "PostgreSQL: an order's total is the sum of its lines", sql: `
		SELECT format('order %s: total %s, lines %s', s.key, s.state -> 'total' ->> 'amount', l.sum)
		FROM states s CROSS JOIN LATERAL (
			SELECT sum((line -> 'amount' ->> 'amount')::numeric) AS sum FROM json_array_elements(s.state -> 'lines') AS line
		) l
		WHERE s.category = 'order' AND l.sum IS DISTINCT FROM (s.state -> 'total' ->> 'amount')::numeric LIMIT $1`},
	{Name: "PostgreSQL: a delivered order is paid and registered", sql: `
		SELECT format('order %s: payment %s, OMS %s', o.id, coalesce(p.status, 'missing'), coalesce(o.oms_sync, 'missing'))
		FROM orders o LEFT JOIN payments p ON p.order_id = o.id
		WHERE o.status IN ('DISPATCHED', 'DELIVERED')
			AND (p.order_id IS NULL OR o.oms_sync IS DISTINCT FROM 'registered') LIMIT $1`},
	{Name: NoAnomaly, sql: `
		SELECT format('order %s: payment %s, %s anomalies', order_id, status, anomalies)
		FROM payments WHERE anomalies > 0 LIMIT $1`},
	{Name: "PostgreSQL: a stream's head is its last event", sql: `
		SELECT format('%s/%s: head %s, last event %s', s.category, s.key, s.version, e.version)
		FROM states s JOIN (SELECT stream, max(version) AS version FROM events GROUP BY stream) e
			ON e.stream = s.category || '/' || s.key
		WHERE s.version <> e.version LIMIT $1`},
	{Name: "PostgreSQL: the versions of a stream have no hole and rise with the positions", sql: `
		SELECT format('%s: version %s at position %s follows version %s at position %s', stream, version, position, earlier, behind)
		FROM (SELECT stream, version, position,
				coalesce(lag(version) OVER log, 0) AS earlier, coalesce(lag(position) OVER log, 0) AS behind
			FROM events WINDOW log AS (PARTITION BY stream ORDER BY version)) e
		WHERE version <> earlier + 1 OR position <= behind LIMIT $1`},
	{Name: "PostgreSQL: a reservation ends once, an order is charged, refunded, registered and shipped once", sql: `
		SELECT format('%s: %s events that end it or happen once: %s', stream, count(*), string_agg(type, ', ' ORDER BY version))
		FROM (SELECT stream, version, type, CASE
				WHEN type IN ('reservation.consumed', 'reservation.released', 'reservation.expired') THEN 'end'
				ELSE type END AS once
			FROM events
			WHERE stream LIKE 'reservation/%' AND type <> 'reservation.held'
				OR type IN ('payment.requested', 'payment.approved', 'payment.refund_requested', 'payment.refunded',
					'order.placed', 'order.confirmed', 'order.registered', 'order.dispatched', 'order.delivered', 'order.cancelled')) e
		GROUP BY stream, once HAVING count(*) > 1 LIMIT $1`},
	{Name: "PostgreSQL: a fulfilment that is over has no deadline left", sql: `
		SELECT format('%s is left, the fulfilment is %s', d.id, s.state ->> 'phase')
		FROM deadlines d JOIN states s ON s.category = d.saga AND s.key = d.key
		WHERE s.state ->> 'phase' IN ('COMPLETED', 'CLOSED') LIMIT $1`},
	{Name: "PostgreSQL: each state is the fold of its stream", find: unfolded},
}

// Violations gives what breaks the invariant; nothing is what should come.
func (i Invariant) Violations(ctx context.Context, db *pgx.Conn) ([]string, error) {
	if i.find != nil {
		return i.find(ctx, db)
	}
	rows, err := db.Query(ctx, i.sql, maxViolations)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Open connects to read one schema only.
func Open(ctx context.Context, url, schema string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres URL: %w", err)
	}
	cfg.RuntimeParams["search_path"] = schema
	cfg.RuntimeParams["default_transaction_read_only"] = "on"
	db, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return db, nil
}

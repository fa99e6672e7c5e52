package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/eventstore"
)

var (
	republicationOrder   = statement("republication_order")
	republicationCancel  = statement("republication_cancel")
	republicationReached = statement("republication_reached")
	relayActive          = statement("relay_active")
)

// republication names the order among the settings.
const republication = "republication"

// Republications keeps the order to publish a part of the log again, which the active relay carries out. There
// is one at a time.
type Republications struct{ DB *DB }

// ErrRepublishing says that another part of the log is being published again.
var ErrRepublishing = errors.New("postgres: a part of the log is being published again already")

// Order gives an order to the relay, unless one is open: ErrRepublishing.
func (r Republications) Order(ctx context.Context, order eventstore.Republication, actor, reason string, at time.Time) error {
	value, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encode the order: %w", err)
	}
	done, err := r.DB.pool.Exec(ctx, republicationOrder, string(value), actor, at, order.ID, order.To-order.After, reason, string(value))
	if err == nil && done.RowsAffected() == 0 {
		return ErrRepublishing
	}
	return unavailable(err)
}

// Latest gives the last order; its ID is empty when there never was one.
func (r Republications) Latest(ctx context.Context) (eventstore.Republication, error) {
	return latestRepublication(r.DB.pool.QueryRow(ctx, settingRead, republication))
}

// Cancel ends an open order; false when it is not open any more.
func (r Republications) Cancel(ctx context.Context, id, actor, reason string, at time.Time) (bool, error) {
	done, err := r.DB.pool.Exec(ctx, republicationCancel, id, at, actor, reason)
	return done.RowsAffected() > 0, unavailable(err)
}

// RelayActive tells whether some instance is the active relay.
func (db *DB) RelayActive(ctx context.Context) (active bool, err error) {
	err = db.pool.QueryRow(ctx, relayActive, relayLock(DefaultRelayConfig().Name)).Scan(&active)
	return active, unavailable(err)
}

// latestRepublication reads the order from its setting.
func latestRepublication(row pgx.Row) (order eventstore.Republication, err error) {
	var value string
	if err := row.Scan(&value); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return order, nil
		}
		return order, unavailable(err)
	}
	if err := json.Unmarshal([]byte(value), &order); err != nil {
		return order, fmt.Errorf("the order to publish again can't be read: %w", err)
	}
	return order, nil
}

// republishPause is between two looks of the relay while a republication is open.
const republishPause = 10 * time.Millisecond

// Republication gives the order that is open, or none. While there is none, the database is asked once in the
// time of a poll.
func (s *RelaySession) Republication(ctx context.Context) (eventstore.Republication, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.republishing && time.Since(s.looked) < s.log.config.Poll {
		return eventstore.Republication{}, nil
	}
	order, err := latestRepublication(s.conn.QueryRow(ctx, settingRead, republication))
	s.looked, s.republishing = time.Now(), err == nil && order.Open()
	if !s.republishing {
		return eventstore.Republication{}, err
	}
	return order, nil
}

// Republished saves how far the order has been carried out.
func (s *RelaySession) Republished(ctx context.Context, order eventstore.Republication) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Exec(ctx, republicationReached, order.ID, order.Reached, order.Records)
	return unavailable(err)
}

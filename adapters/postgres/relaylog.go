package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/eventstore"
)

var (
	checkpointBegin = statement("checkpoint_begin")
	checkpointSave  = statement("checkpoint_save")
)

// RelayConfig bounds what the relay reads at a time.
type RelayConfig struct {
	Name      string        // of the checkpoint
	Page      int           // records in a page
	PageBytes int           // bytes of their data
	Poll      time.Duration // the safety net behind NOTIFY
	Standby   time.Duration // between attempts to become the active relay
}

// DefaultRelayConfig is the relay of the event store.
func DefaultRelayConfig() RelayConfig {
	return RelayConfig{Name: "relay", Page: 1000, PageBytes: 8 << 20, Poll: time.Second, Standby: time.Second}
}

// RelayLog hands the log to one relay at a time.
type RelayLog struct {
	db     *DB
	config RelayConfig
}

// NewRelayLog makes the relay's view of the log.
func NewRelayLog(db *DB, config RelayConfig) *RelayLog { return &RelayLog{db: db, config: config} }

// RelaySession is the active relay's hold on the log. The hold is a session lock on its connection: it
// ends with the connection, and without the connection no checkpoint can be saved.
type RelaySession struct {
	log        *RelayLog
	mu         sync.Mutex // the connection serves one call at a time
	conn       *pgx.Conn
	listener   *pgx.Conn
	checkpoint int64
	woken      chan struct{}
	stop       context.CancelFunc
	listening  sync.WaitGroup

	looked       time.Time // for an order to publish again
	republishing bool
}

// ErrForeignCheckpoint says that the checkpoint is not a place in this log: the event that it names is not there, or
// before it, as in a log that was restored to an earlier time. Going on would skip the events that come next, also
// when the log has grown past the checkpoint: so the refusal stays until an operator says where to go on.
var ErrForeignCheckpoint = errors.New("postgres: the relay's checkpoint is not of this log, so nothing is published; was the database restored? run `andes events restored`")

// Acquire waits until this instance is the active relay.
func (l *RelayLog) Acquire(ctx context.Context) (*RelaySession, error) {
	conn, err := l.db.connect(ctx)
	if err != nil {
		return nil, err
	}
	session := &RelaySession{log: l, conn: conn, woken: make(chan struct{}, 1), stop: func() {}}
	if err := l.become(ctx, session); err != nil {
		_ = session.Close()
		return nil, err
	}
	return session, nil
}

func (l *RelayLog) become(ctx context.Context, session *RelaySession) error {
	if err := waitForLock(ctx, session.conn, relayLock(l.config.Name), l.config.Standby); err != nil {
		return err
	}
	_, err := session.conn.Exec(ctx, "INSERT INTO checkpoints (name, shard, position) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", l.config.Name, shard)
	if err != nil {
		return unavailable(err)
	}
	var named, end int64
	var refused bool
	err = session.conn.QueryRow(ctx, checkpointBegin, l.config.Name, shard).Scan(&session.checkpoint, &named, &end, &refused)
	if err != nil {
		return unavailable(err)
	}
	if refused {
		return fmt.Errorf("%w (checkpoint %d, its event is at %d, 0: nowhere; the log ends at %d)", ErrForeignCheckpoint, session.checkpoint, named, end)
	}
	return session.listen(ctx)
}

// relayLock names the lock that the active relay holds.
func relayLock(name string) string { return "relay/" + name }

// waitForLock takes a session lock, asking again every pause.
func waitForLock(ctx context.Context, conn *pgx.Conn, name string, pause time.Duration) error {
	for {
		if held, err := tryLock(ctx, conn, name); held || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func tryLock(ctx context.Context, conn *pgx.Conn, name string) (held bool, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '/' || $1, 0))", name).Scan(&held)
	return held, unavailable(err)
}

func (s *RelaySession) listen(ctx context.Context) error {
	listener, err := s.log.db.connect(ctx)
	if err != nil {
		return err
	}
	s.listener = listener
	channel := pgx.Identifier{"andes_" + s.log.db.config.Schema}.Sanitize()
	if _, err := listener.Exec(ctx, "LISTEN "+channel); err != nil {
		return unavailable(err)
	}
	listenCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.listening.Go(func() {
		for {
			if _, err := listener.WaitForNotification(listenCtx); err != nil {
				return // the poll goes on; a lost connection is found by the next read
			}
			select {
			case s.woken <- struct{}{}:
			default:
			}
		}
	})
	return nil
}

// Checkpoint is where the relay goes on.
func (s *RelaySession) Checkpoint() int64 { return s.checkpoint }

// Next waits, for a bounded time, for records after the position, and gives them with the current
// states of the published streams that they touch.
func (s *RelaySession) Next(ctx context.Context, after int64) ([]eventstore.Record, []eventstore.StateRecord, error) {
	records, states, err := s.page(ctx, after)
	if err != nil || len(records) > 0 {
		return records, states, err
	}
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-s.woken:
	case <-timer.C:
	}
	return s.page(ctx, after)
}

// patience is how long there may be nothing to do.
func (s *RelaySession) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.republishing {
		return republishPause
	}
	return s.log.config.Poll
}

func (s *RelaySession) page(ctx context.Context, after int64) ([]eventstore.Record, []eventstore.StateRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := s.conn.Query(ctx, readPage, shard, after, s.log.config.Page, s.log.config.PageBytes)
	records, err := collectRecords(rows, err)
	if err != nil || len(records) == 0 {
		return nil, nil, err
	}
	var touched []eventstore.Stream
	seen := map[eventstore.Stream]struct{}{}
	for _, record := range records {
		if _, twice := seen[record.Stream]; !twice && s.log.db.registry.Published(record.Stream.Category) {
			seen[record.Stream] = struct{}{}
			touched = append(touched, record.Stream)
		}
	}
	if len(touched) == 0 {
		return records, nil, nil
	}
	states, err := queryStates(ctx, s.conn, touched)
	return records, states, err
}

// Save moves the checkpoint to an event that is published, as all before it are.
func (s *RelaySession) Save(ctx context.Context, position int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Exec(ctx, checkpointSave, s.log.config.Name, shard, position)
	return unavailable(err)
}

// Close gives the log to the next relay.
func (s *RelaySession) Close() error {
	s.stop()
	s.listening.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	var faults []error
	for _, conn := range []*pgx.Conn{s.listener, s.conn} {
		if conn != nil {
			faults = append(faults, conn.Close(ctx))
		}
	}
	return errors.Join(faults...)
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"andes/adapters/redis"
	"andes/commands/subscription"
	"andes/test/invariants"
	"andes/test/lab/money"
)

// What must hold after every test, whatever it was about.

// check lets everything come to its end and looks at all of it.
func (s *scene) check() {
	if s.t.Failed() || s.partner == nil {
		return
	}
	s.settle()
	s.checkDatabase()
	s.checkOrders()
	s.checkStock()
	s.checkTopics()
	s.checkWebhooks()
	s.checkTryton()
}

// end stops everything. Whoever wants to know why a test failed gets the logs.
func (s *scene) end() {
	for _, i := range s.running() {
		s.stop(i)
	}
	s.checkLogs()
	if s.t.Failed() {
		for _, i := range s.launched {
			s.t.Logf("log of %s (roles %q):\n%s", i.address, i.roles, tail(i.log.String()))
		}
	}
}

// underWay counts the orders and fulfilments that have not come to their end.
const underWay = `SELECT count(*) FROM states WHERE NOT key = ANY ($1) AND (
	category = 'order' AND (state ->> 'status' NOT IN ('DELIVERED', 'CANCELLED') OR state ->> 'status' = 'DELIVERED' AND state ->> 'omsSync' <> 'registered') OR
	category = 'fulfilment' AND state ->> 'phase' NOT IN ('COMPLETED', 'CLOSED'))`

// settle waits until no order is under way any more, as long as they become fewer.
func (s *scene) settle() {
	s.t.Helper()
	least := math.MaxInt
	for {
		open := 0
		err := s.waitFor(func() error {
			if open = s.count(underWay, append([]string{}, s.stayOpen...)); open > 0 && open >= least {
				return fmt.Errorf("%d are", open)
			}
			return nil
		})
		if err != nil {
			s.t.Fatalf("not within %s: no order is under way: %v", patience, err)
		}
		if open == 0 {
			return
		}
		least = open
	}
}

func (s *scene) checkDatabase() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := invariants.Open(ctx, s.postgres, s.schema)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	for _, invariant := range invariants.All {
		violations, err := invariant.Violations(ctx, db)
		if err != nil {
			s.t.Errorf("%s: %v", invariant.Name, err)
		}
		if len(violations) > 0 && !(invariant.Name == invariants.NoAnomaly && s.allow.anomalies > 0) {
			s.t.Errorf("%s: %s", invariant.Name, strings.Join(violations, "; "))
		}
	}
	if got := s.count("SELECT coalesce(sum(anomalies), 0) FROM payments"); got != s.allow.anomalies {
		s.t.Errorf("%d reports of the gateway are anomalies, want %d", got, s.allow.anomalies)
	}
	for sku, onHand := range s.stock {
		sold := s.count("SELECT coalesce(sum(quantity), 0) FROM reservations WHERE sku = $1 AND status IN ('HELD', 'CONSUMED')", sku)
		if int64(sold) > onHand {
			s.t.Errorf("%s: %d are held and consumed, there were %d", sku, sold, onHand)
		}
	}
}

// kept is an order in the system of record.
type kept struct {
	ID, Partner, Status, OMSSync string
	Total                        string
}

func (s *scene) orders() map[string]kept {
	s.t.Helper()
	orders := map[string]kept{}
	s.query(func(db *pgx.Conn) error {
		rows, err := db.Query(context.Background(), "SELECT id, partner, status, coalesce(oms_sync, ''), total::text FROM orders")
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[kept])
		for _, each := range list {
			orders[each.ID] = each
		}
		return err
	})
	return orders
}

// checkOrders compares what the partner was told and what the legacy systems did with the orders.
func (s *scene) checkOrders() {
	s.t.Helper()
	orders := s.orders()
	for id := range s.accepted {
		if _, there := orders[id]; !there {
			s.t.Errorf("order %s was acknowledged and is not there", id)
		}
	}
	for id, order := range orders {
		sums, charged := s.lab.Payment.Order(id)
		if fault := moneyFault(order, charged, sums.Approved, sums.Refunded); fault != "" {
			s.t.Errorf("order %s (%s): %s", id, order.Status, fault)
		}
		registrations := s.registrations(id)
		if registrations > 1 || sums.Charges > 1 || sums.Refunds > 1 {
			s.t.Errorf("order %s: %d registrations, %d charges, %d refunds", id, registrations, sums.Charges, sums.Refunds)
		}
		if order.OMSSync == "registered" && registrations != 1 {
			s.t.Errorf("order %s is registered, the OMS has it %d times", id, registrations)
		}
	}
}

// moneyFault: what was captured and not given back is the order's total, or nothing if it was cancelled.
func moneyFault(order kept, charged bool, approved, refunded string) string {
	if !charged {
		if order.Status == "CANCELLED" || order.Status == "PENDING_PAYMENT" {
			return ""
		}
		return "it was never charged"
	}
	taken, errTaken := money.Parse(approved)
	back, errBack := money.Parse(refunded)
	total, errTotal := money.Parse(order.Total)
	want := total
	switch order.Status {
	case "CANCELLED":
		want = 0
	case "PENDING_PAYMENT":
		want = taken
	}
	if errTaken != nil || errBack != nil || errTotal != nil || taken-back != want {
		return fmt.Sprintf("%s taken, %s given back, total %s", approved, refunded, order.Total)
	}
	return ""
}

// checkStock waits until the read model in Redis says what the system of record says.
func (s *scene) checkStock() {
	s.t.Helper()
	client, err := redis.Open(context.Background(), redis.Config{Addrs: strings.Split(service(s.t, "ANDES_REDIS_ADDRS"), ","), Prefix: s.schema + ":"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	reader := redis.NewReader(client)
	var skus []string
	for sku := range s.stock {
		skus = append(skus, sku)
	}
	s.eventually("Redis answers what PostgreSQL has", func() error {
		copied, err := reader.Stock(context.Background(), skus)
		if err != nil || len(copied.Lacking) > 0 {
			return fmt.Errorf("lacking %v: %v", copied.Lacking, err)
		}
		for _, sku := range skus {
			net := int64(s.count("SELECT on_hand - reserved - shipped FROM stock WHERE sku = $1", sku))
			if view, there := copied.Found[sku]; !there || view.Net != net {
				return fmt.Errorf("%s: Redis has %d, PostgreSQL %d", sku, view.Net, net)
			}
		}
		return nil
	})
}

const deliveriesPage = 10_000

// checkWebhooks waits until every event that a partner may know of was told, each once.
func (s *scene) checkWebhooks() {
	s.t.Helper()
	told := map[string]string{} // by event
	s.query(func(db *pgx.Conn) error {
		rows, err := db.Query(context.Background(), `SELECT e.id::text, e.type FROM events e JOIN orders o ON o.id = split_part(e.stream, '/', 2)
			WHERE split_part(e.stream, '/', 1) IN ('order', 'payment') AND e.type = ANY ($1) AND o.partner = $2`, subscription.Types, "acme")
		if err != nil {
			return err
		}
		var id, kind string
		_, err = pgx.ForEachRow(rows, []any{&id, &kind}, func() error { told[id] = kind; return nil })
		return err
	})
	s.eventually("every event is told", func() error {
		missing, names := len(told), map[string]string{}
		deliveries, _ := s.lab.Receiver.DeliveriesAfter(0, deliveriesPage)
		for _, delivery := range deliveries {
			var body struct{ ID string }
			if err := json.Unmarshal(delivery.Body, &body); err != nil {
				s.t.Fatalf("webhook %s: %v", delivery.Body, err)
			}
			name, before := names[body.ID]
			switch {
			case !delivery.Verified:
				s.t.Fatalf("webhook %s does not verify", delivery.Body)
			case told[body.ID] != delivery.Type:
				s.t.Fatalf("webhook %s tells of no event", delivery.Body)
			case before && name != delivery.ID:
				s.t.Fatalf("webhooks %s and %s are twins: %s", name, delivery.ID, delivery.Body)
			case before && !s.allow.repeats:
				s.t.Fatalf("webhook %s came twice: %s", name, delivery.Body)
			case !before && delivery.Status/100 == 2:
				names[body.ID] = delivery.ID
				missing--
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d are not", missing, len(told))
		}
		return nil
	})
}

// checkLogs finds what must not be there: a secret, a race, a panic, or an error that nobody allowed.
func (s *scene) checkLogs() {
	s.t.Helper()
	for _, i := range s.launched {
		text := i.log.String()
		for _, wrong := range append([]string{"DATA RACE", "panic", "goroutine 1 ["}, s.secrets...) {
			if at := strings.Index(text, wrong); at >= 0 {
				s.t.Errorf("%q is in the log of %s: %s", wrong, i.address, text[at:min(len(text), at+2000)])
			}
		}
		if s.allow.errors {
			continue
		}
		if wrong := slices.IndexFunc(i.lines(), func(line logLine) bool { return line.Level == "ERROR" && !ranOut(line.Error) }); wrong >= 0 {
			s.t.Errorf("%s logged an error: %s", i.address, strings.Split(text, "\n")[wrong])
		}
	}
}

// ranOut tells whether an error is a wait that was over: a machine that has too much to do is the cause of such, and what
// they put off has to be made good all the same.
func ranOut(text string) bool { return strings.Contains(text, context.DeadlineExceeded.Error()) }

// query runs on a connection to this scene's schema.
func (s *scene) query(run func(db *pgx.Conn) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := pgx.ParseConfig(s.postgres)
	if err != nil {
		s.t.Fatal(err)
	}
	config.RuntimeParams["search_path"] = s.schema
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	if err := run(db); err != nil {
		s.t.Fatal(err)
	}
}

// count asks for a number.
func (s *scene) count(sql string, arguments ...any) (n int) {
	s.t.Helper()
	s.query(func(db *pgx.Conn) error { return db.QueryRow(context.Background(), sql, arguments...).Scan(&n) })
	return n
}

// texts asks for a list.
func (s *scene) texts(sql string, arguments ...any) (list []string) {
	s.t.Helper()
	s.query(func(db *pgx.Conn) error {
		rows, err := db.Query(context.Background(), sql, arguments...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return list
}

func (s *scene) execute(sql string, arguments ...any) {
	s.t.Helper()
	s.query(func(db *pgx.Conn) error {
		_, err := db.Exec(context.Background(), sql, arguments...)
		return err
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/eventstore"
)

// eventsRepublishCmd has a part of the log published again, by the relay. Consumers recognise what they have
// seen, so that too much does no harm.
type eventsRepublishCmd struct {
	eventSpan
	Category []string `help:"Only streams of these categories, as in order." placeholder:"NAME,…"`
	Topics   []string `help:"Only to topics of these kinds: events, commands, states." placeholder:"KIND,…"`
	DryRun   bool     `help:"Tell what would be published, and publish nothing."`
	Cancel   bool     `help:"End what is being published again."`
	reasoned
	output
}

// republisher is what the command works with.
type republisher struct {
	*eventReader
	db     *postgres.DB
	orders postgres.Republications
	topics kafka.Topics
}

func openRepublisher(ctx context.Context, s *settings) (*republisher, error) {
	if err := s.required("postgres_url", "kafka_brokers"); err != nil {
		return nil, err
	}
	reader, err := openEvents(ctx, s)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, s.postgres(), reader.registry)
	if err != nil {
		reader.close()
		return nil, err
	}
	return &republisher{reader, db, postgres.Republications{DB: db}, kafka.Topics{Prefix: s.KafkaPrefix}}, nil
}

func (r *republisher) close() {
	r.eventReader.close()
	r.db.Close()
}

// Run implements the command. An interruption ends the looking on only.
func (c eventsRepublishCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	if err := c.check(); err != nil {
		return err
	}
	r, err := openRepublisher(ctx, s)
	if err != nil {
		return err
	}
	defer r.close()
	if c.Cancel {
		return r.cancel(ctx, c)
	}
	order, err := r.order(ctx, c)
	if err != nil {
		return err
	}
	if c.DryRun {
		return r.preview(ctx, c, order)
	}
	p := platform{settings: s, registry: r.registry, topics: r.topics, cluster: kafka.Cluster{Brokers: list(s.KafkaBrokers), ClientID: "andes-events"}}
	if err := p.provision().Check(ctx); err != nil {
		return err
	}
	if order, err = r.begin(ctx, c, order); err != nil {
		return err
	}
	return r.follow(ctx, c, order)
}

// check looks at what needs no service.
func (c eventsRepublishCmd) check() error {
	var faults []error
	for _, kind := range c.Topics {
		if !slices.Contains(eventstore.RepublishTopics, kind) {
			faults = append(faults, fmt.Errorf("--topics: there is no kind %q; there are: %s", kind, strings.Join(eventstore.RepublishTopics, ", ")))
		}
	}
	if c.From == "" && !c.Cancel {
		faults = append(faults, errors.New("--from says where to start; --from 1 is the whole log"))
	}
	if strings.TrimSpace(c.Reason) == "" && !c.DryRun {
		faults = append(faults, errors.New("--reason is missing: it goes to the audit log"))
	}
	return errors.Join(faults...)
}

// order makes the order that is asked for. The end of the log is that of now.
func (r *republisher) order(ctx context.Context, c eventsRepublishCmd) (eventstore.Republication, error) {
	order := eventstore.Republication{ID: newID(), Categories: c.Category, Topics: c.Topics}
	for _, category := range c.Category {
		if !slices.Contains(r.registry.Categories(), category) {
			return order, fmt.Errorf("there is no category %q; there are: %s", category, strings.Join(r.registry.Categories(), ", "))
		}
	}
	query, err := r.query(ctx, eventFilter{}, c.eventSpan, "")
	if err != nil {
		return order, err
	}
	if order.After, order.To = query.after, query.to; order.After >= order.To {
		return order, errors.New("there are no events in that part of the log")
	}
	order.Reached = order.After
	return order, nil
}

// begin gives the order to the relay. Asked for again while it is open, it is looked on at.
func (r *republisher) begin(ctx context.Context, c eventsRepublishCmd, order eventstore.Republication) (eventstore.Republication, error) {
	err := r.orders.Order(ctx, order, operatorName(), c.Reason, r.now)
	if !errors.Is(err, postgres.ErrRepublishing) {
		return order, err
	}
	open, err := r.orders.Latest(ctx)
	if err != nil {
		return order, err
	}
	if open.After == order.After && (c.To == "" || open.To == order.To) && slices.Equal(open.Categories, order.Categories) && slices.Equal(open.Topics, order.Topics) {
		fmt.Fprintln(os.Stderr, "that is under way already")
		return open, nil
	}
	return order, fmt.Errorf("positions %d to %d are being published again, up to %d so far: wait for that, or end it by --cancel", open.After+1, open.To, open.Reached)
}

func (r *republisher) cancel(ctx context.Context, c eventsRepublishCmd) error {
	open, err := r.orders.Latest(ctx)
	if err != nil {
		return err
	}
	done, err := r.orders.Cancel(ctx, open.ID, operatorName(), c.Reason, r.now)
	if err != nil {
		return err
	}
	if !done {
		return errors.New("nothing is being published again")
	}
	if open, err = r.orders.Latest(ctx); err != nil {
		return err
	}
	return c.print(open, func(out io.Writer) {
		fmt.Fprintf(out, "ended at position %d of %d, after %d records; go on with --from %d\n", open.Reached, open.To, open.Records, open.Reached+1)
	})
}

const (
	// republishLook is how often the order is looked at.
	republishLook = 250 * time.Millisecond
	// idleLooks without progress are told, when no relay is there.
	idleLooks = 20
)

// follow looks on until the order is carried out.
func (r *republisher) follow(ctx context.Context, c eventsRepublishCmd, order eventstore.Republication) error {
	progress := newScanProgress(os.Stderr, "publishing again", order.After, order.To)
	defer progress.end()
	ticker := time.NewTicker(republishLook)
	defer ticker.Stop()
	for idle := 0; ; idle++ {
		now, err := r.orders.Latest(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("not waited for any longer, at position %d of %d: the relay goes on with it; the same command looks on, --cancel ends it", order.Reached, order.To)
		case err != nil:
			return err
		case now.ID != order.ID:
			return errors.New("it is over, and another part of the log is being published again")
		case now.Cancelled:
			return fmt.Errorf("it was ended at position %d of %d; go on with --from %d", now.Reached, now.To, now.Reached+1)
		case !now.Open():
			progress.end()
			return c.print(now, func(out io.Writer) {
				fmt.Fprintf(out, "positions %d to %d are published again: %d records\n", now.After+1, now.To, now.Records)
			})
		case now.Reached > order.Reached:
			idle = 0
			progress.at(now.Reached)
		}
		if order = now; idle == idleLooks {
			r.tellIdle(ctx)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// tellIdle says what may be the matter.
func (r *republisher) tellIdle(ctx context.Context) {
	if active, err := r.db.RelayActive(ctx); err == nil && !active {
		fmt.Fprintln(os.Stderr, "no relay is active: the order waits until one is")
		return
	}
	fmt.Fprintln(os.Stderr, "the relay makes no progress with it; its log says why (\"publishing again fails\")")
}

// topicRecords is how much goes to a topic.
type topicRecords struct {
	Topic   string `json:"topic"`
	Records int64  `json:"records"`
}

// preview counts what would be published.
func (r *republisher) preview(ctx context.Context, c eventsRepublishCmd, order eventstore.Republication) error {
	counts := map[string]int64{}
	for page, err := range r.log.Count(ctx, postgres.LogFilter{}, order.After, order.To, day) {
		if err != nil {
			return fmt.Errorf("the log can't be read: %w", err)
		}
		for _, count := range page.Counts {
			r.countType(order, count.Type, count.Events, counts)
		}
	}
	states, err := r.db.StatesSince(ctx, order.After)
	if err != nil {
		return err
	}
	for category, n := range states {
		if order.WantsTopics(eventstore.RepublishStates) && order.WantsCategory(category) && r.registry.Published(category) {
			counts[r.topics.State(category)] = n
		}
	}
	var all []topicRecords
	for topic, n := range counts {
		all = append(all, topicRecords{topic, n})
	}
	slices.SortFunc(all, func(a, b topicRecords) int { return strings.Compare(a.Topic, b.Topic) })
	return c.print(map[string]any{"after": order.After, "to": order.To, "topics": all}, func(out io.Writer) {
		table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(table, "TOPIC\tRECORDS")
		for _, one := range all {
			fmt.Fprintf(table, "%s\t%s\n", one.Topic, grouped(one.Records))
		}
		_ = table.Flush() // to memory
		fmt.Fprintf(out, "positions %d to %d; a state that changed often goes out more than once; nothing was published\n", order.After+1, order.To)
	})
}

// countType adds the events of a type to the topics that they would go to.
func (r *republisher) countType(order eventstore.Republication, name string, events int64, counts map[string]int64) {
	category, _, _ := strings.Cut(name, ".")
	if !order.WantsCategory(category) {
		return
	}
	if order.WantsTopics(eventstore.RepublishEvents) {
		counts[r.topics.Events(category)] += events
	}
	declaration, known := r.registry.Declaration(name)
	if known && declaration.CommandTopic != "" && order.WantsTopics(eventstore.RepublishCommands) {
		counts[r.topics.Commands(declaration.CommandTopic)] += events
	}
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"
)

// broker is a client of the scene's Kafka, to look at what was published.
func (s *scene) broker() sarama.Client {
	s.t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Consumer.MaxWaitTime = 20 * time.Millisecond // closing waits for the fetch that is under way
	client, err := sarama.NewClient(strings.Split(s.brokers, ","), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// published reads topics from their beginning to the end that they have now, partition by partition.
func (s *scene) published(client sarama.Client, topics ...string) map[string][]*sarama.ConsumerMessage {
	s.t.Helper()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = consumer.Close() }()
	all, faults := map[string][]*sarama.ConsumerMessage{}, []error(nil)
	var reading sync.WaitGroup // a partition after the other would take a tenth of a second each
	var mu sync.Mutex
	for _, topic := range topics {
		partitions, err := client.Partitions(topic)
		if err != nil {
			s.t.Fatalf("%s: %v", topic, err)
		}
		for _, partition := range partitions {
			reading.Go(func() {
				records, err := readAll(client, consumer, topic, partition)
				mu.Lock()
				defer mu.Unlock()
				all[topic], faults = append(all[topic], records...), append(faults, err)
			})
		}
	}
	reading.Wait()
	if err := errors.Join(faults...); err != nil {
		s.t.Fatal(err)
	}
	return all
}

func readAll(client sarama.Client, consumer sarama.Consumer, topic string, partition int32) ([]*sarama.ConsumerMessage, error) {
	end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
	if err != nil || end == 0 {
		return nil, err
	}
	reading, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reading.Close() }()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	var all []*sarama.ConsumerMessage
	for {
		select {
		case message := <-reading.Messages():
			all = append(all, message)
			if message.Offset >= end-1 {
				return all, nil
			}
		case <-limit.C:
			return nil, fmt.Errorf("%s/%d: only %d records up to %d came", topic, partition, len(all), end)
		}
	}
}

// topics lists the scene's own.
func (s *scene) topics(client sarama.Client) (names []string) {
	s.t.Helper()
	if err := client.RefreshMetadata(); err != nil {
		s.t.Fatal(err)
	}
	all, err := client.Topics()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, s.schema+".") {
			names = append(names, name)
		}
	}
	return names
}

// checkTopics compares the topics with the log: nothing is missing, a stream's events never go backwards
// but for repeats of the same event, the last state of each key is the newest one, and nothing is in a DLQ.
func (s *scene) checkTopics() {
	s.t.Helper()
	until := s.quiesce()
	client := s.broker()
	seen, parked := map[string]bool{}, 0
	for topic, records := range s.published(client, s.topics(client)...) {
		switch {
		case strings.Contains(topic, ".events."):
			s.checkEvents(records, seen)
		case strings.Contains(topic, ".state."):
			s.checkStates(records, until)
		case strings.HasSuffix(topic, ".dlq"), strings.HasSuffix(topic, ".parked"):
			parked += len(records)
		}
	}
	if parked != s.allow.parked {
		s.t.Errorf("%d records are in DLQs, want %d", parked, s.allow.parked)
	}
	events := s.positions("SELECT id::text, position FROM events")
	for id, position := range events {
		if !seen[id] && position <= until {
			s.t.Errorf("event %s at position %d was committed and not published", id, position)
		}
	}
	for id := range seen {
		if _, there := events[id]; !there {
			s.t.Errorf("event %s was published and not committed", id)
		}
	}
}

// positions by a key, from the system of record.
func (s *scene) positions(sql string) map[string]int {
	s.t.Helper()
	positions := map[string]int{}
	s.query(func(db *pgx.Conn) error {
		rows, err := db.Query(context.Background(), sql)
		if err != nil {
			return err
		}
		var key string
		var position int
		_, err = pgx.ForEachRow(rows, []any{&key, &position}, func() error { positions[key] = position; return nil })
		return err
	})
	return positions
}

// quiesce waits until the relay has published all that concerns orders, and gives the position that it came
// to. The watermarks of the pollers never end.
func (s *scene) quiesce() int {
	s.t.Helper()
	s.eventually("the relay is at the end of the log", func() error {
		behind := s.count(`SELECT count(*) FROM events WHERE type <> 'source.synced'
			AND position > (SELECT position FROM checkpoints WHERE name = 'relay')`)
		if behind > 0 {
			return fmt.Errorf("%d behind", behind)
		}
		return nil
	})
	return s.count("SELECT position FROM checkpoints WHERE name = 'relay'")
}

func (s *scene) checkEvents(records []*sarama.ConsumerMessage, seen map[string]bool) {
	s.t.Helper()
	versions := map[string]int{}
	for _, record := range records {
		id, stream := header(record, "ce_id"), header(record, "ce_subject")
		version := s.number(record, "stream_version")
		if !seen[id] && version != versions[stream]+1 {
			s.t.Errorf("%s: %s has version %d after %d", record.Topic, stream, version, versions[stream])
		}
		seen[id] = true
		versions[stream] = max(versions[stream], version)
	}
}

func (s *scene) checkStates(records []*sarama.ConsumerMessage, until int) {
	s.t.Helper()
	states := s.positions("SELECT category || '/' || key, position FROM states")
	latest := map[string]int{}
	for _, record := range records {
		latest[header(record, "ce_subject")] = s.number(record, "global_position")
	}
	for stream, published := range latest {
		if position := states[stream]; published < position && position <= until {
			s.t.Errorf("the last state of %s in its topic is of position %d, it is at %d", stream, published, position)
		}
	}
}

func (s *scene) number(record *sarama.ConsumerMessage, name string) int {
	s.t.Helper()
	n, err := strconv.Atoi(header(record, name))
	if err != nil {
		s.t.Fatalf("%s: header %s: %v", record.Topic, name, err)
	}
	return n
}

func header(message *sarama.ConsumerMessage, name string) string {
	for _, h := range message.Headers {
		if string(h.Key) == name {
			return string(h.Value)
		}
	}
	return ""
}

// dropAll leaves nothing behind in the services.
func (s *scene) dropAll() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.execute("DROP SCHEMA IF EXISTS " + pgx.Identifier{s.schema}.Sanitize() + " CASCADE")
	s.dropTopics()
	s.dropKeys(ctx)
}

func (s *scene) dropTopics() {
	s.t.Helper()
	client := s.broker()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		s.t.Error(err)
		return
	}
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		s.t.Error(err)
	}
	for group := range groups {
		if strings.HasPrefix(group, s.schema+".") {
			// A killed process is a member of its group until its session ends; the broker forgets an empty
			// group by itself.
			_ = admin.DeleteConsumerGroup(group)
		}
	}
	topics := s.topics(client)
	controller, err := client.Controller()
	if err != nil || len(topics) == 0 {
		return
	}
	if _, err := controller.DeleteTopics(&sarama.DeleteTopicsRequest{Version: 3, Topics: topics, Timeout: patience}); err != nil {
		s.t.Errorf("delete topics: %v", err)
	}
}

// scanned is how many keys one SCAN looks at.
const scanned = 1000

func (s *scene) dropKeys(ctx context.Context) {
	s.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(service(s.t, "ANDES_REDIS_ADDRS"), ","), DisableCache: true})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer client.Close()
	for cursor := uint64(0); ; {
		page, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(s.schema+":*").Count(scanned).Build()).AsScanEntry()
		if err != nil {
			s.t.Error(err)
			return
		}
		for _, key := range page.Elements {
			client.Do(ctx, client.B().Unlink().Key(key).Build())
		}
		if cursor = page.Cursor; cursor == 0 {
			return
		}
	}
}

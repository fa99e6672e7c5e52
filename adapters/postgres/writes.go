package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/eventstore"
)

// shard is the only one for now; the schema carries it so that more can come.
const shard = 0

// queueWrites queues everything that a batch writes, set by set, and gives the index of the statement
// that returns the events' positions (-1: no events).
func queueWrites(pipeline *pgx.Batch, writes eventstore.Writes) (allotting int) {
	allotting = -1
	switch {
	case len(writes.Events) == 1 && len(writes.States) == 1 && writes.States[0].Expected > 0:
		allotting = pipeline.Len()
		queueOne(pipeline, &writes.Events[0], &writes.States[0])
	case len(writes.Events) > 0:
		allotting = pipeline.Len()
		queueEvents(pipeline, writes.Events)
		queueStates(pipeline, writes.States, len(writes.Events))
	}
	if len(writes.Answers) > 0 {
		queueAnswers(pipeline, writes.Answers)
	}
	if len(writes.Deadlines) > 0 {
		queueDeadlines(pipeline, writes.Deadlines)
	}
	if len(writes.Cancelled) > 0 {
		pipeline.Queue(deleteDeadlines, writes.Cancelled)
	}
	return allotting
}

// queueOne queues one event of a known stream.
func queueOne(pipeline *pgx.Batch, event *eventstore.Record, state *eventstore.StateWrite) {
	pipeline.Queue(insertEvent, shard, event.Stream.String(), event.Version, event.ID, event.Type, event.Schema,
		event.Data, encodeMeta(event.Meta), event.RecordedAt)
	pipeline.Queue(updateState, state.Stream.Category, state.Stream.Key, state.Version, state.Owner, state.State, state.Expected)
}

func queueEvents(pipeline *pgx.Batch, events []eventstore.Record) {
	n := len(events)
	streams, versions, ids, types := make([]string, n), make([]int64, n), make([]string, n), make([]string, n)
	schemas, data, metas := make([]int16, n), make([]string, n), make([]string, n)
	var lastMeta eventstore.Metadata
	lastText := ""
	for i, event := range events {
		streams[i], versions[i], ids[i], types[i] = event.Stream.String(), event.Version, event.ID, event.Type
		schemas[i], data[i] = int16(event.Schema), string(event.Data)
		if lastText == "" || event.Meta != lastMeta {
			lastMeta, lastText = event.Meta, encodeMeta(event.Meta)
		}
		metas[i] = lastText
	}
	pipeline.Queue(insertEvents, shard, streams, versions, ids, types, schemas, data, metas, events[0].RecordedAt)
}

func encodeMeta(meta eventstore.Metadata) string {
	text, err := json.Marshal(meta)
	if err != nil { // a struct of strings
		panic(err)
	}
	return string(text)
}

// stateColumns are the columns of the states of a batch.
type stateColumns struct {
	categories, keys []string
	versions, lasts  []int64
	owners           []string
	states           []*string
	expected         []int64
}

func (c *stateColumns) add(write eventstore.StateWrite) {
	c.categories = append(c.categories, write.Stream.Category)
	c.keys = append(c.keys, write.Stream.Key)
	c.versions = append(c.versions, write.Version)
	c.lasts = append(c.lasts, int64(write.LastEvent))
	c.owners = append(c.owners, write.Owner)
	c.expected = append(c.expected, write.Expected)
	var state *string
	if write.State != nil {
		text := string(write.State)
		state = &text
	}
	c.states = append(c.states, state)
}

func queueStates(pipeline *pgx.Batch, writes []eventstore.StateWrite, events int) {
	var fresh, known stateColumns
	for _, write := range writes {
		if write.Expected == 0 {
			fresh.add(write)
		} else {
			known.add(write)
		}
	}
	if len(fresh.keys) > 0 {
		pipeline.Queue(insertStates, events, fresh.categories, fresh.keys, fresh.versions, fresh.lasts, fresh.owners, fresh.states)
	}
	if len(known.keys) > 0 {
		pipeline.Queue(updateStates, events, known.categories, known.keys, known.versions, known.lasts, known.owners, known.states, known.expected)
	}
}

func queueAnswers(pipeline *pgx.Batch, answers []eventstore.AnswerWrite) {
	n := len(answers)
	scopes, keys, fingerprints := make([]string, n), make([]string, n), make([][]byte, n)
	statuses, bodies, expiries := make([]int16, n), make([][]byte, n), make([]time.Time, n)
	for i := range answers {
		answer := &answers[i]
		scopes[i], keys[i], fingerprints[i] = answer.Scope, answer.Key, answer.Fingerprint[:]
		statuses[i], bodies[i], expiries[i] = int16(answer.Status), append([]byte{}, answer.Body...), answer.ExpiresAt
	}
	pipeline.Queue(insertAnswers, scopes, keys, fingerprints, statuses, bodies, expiries)
}

func queueDeadlines(pipeline *pgx.Batch, deadlines []eventstore.Deadline) {
	n := len(deadlines)
	ids, sagas, keys, names := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	dues, metas := make([]time.Time, n), make([]string, n)
	for i, deadline := range deadlines {
		ids[i], sagas[i], keys[i], names[i] = deadline.ID(), deadline.Saga, deadline.Key, deadline.Name
		dues[i], metas[i] = deadline.Due, encodeMeta(deadline.Meta)
	}
	pipeline.Queue(upsertDeadlines, ids, sagas, keys, names, dues, metas)
}

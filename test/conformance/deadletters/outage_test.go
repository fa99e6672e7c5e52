package deadletters_test

import (
	"errors"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/kafkatest"
)

// The broker goes away in the middle of a run, and comes back with what it had.
func TestARunSurvivesAnOutageOfKafkaWithoutSendingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kafkatest.Embedded(t))
	w.desk, w.actor = w.service, "os:ada"
	letters := w.parkMany(20, 2)
	job := replay(deadletters.Filter{})
	job.Consumer, job.Actor, job.Force, job.Rate = consumer, w.actor, true, 8
	first, err := w.desk.Advance(t.Context(), job)
	if err != nil || first.Cursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	w.env.Stop(t)
	job.Rate, job.Cursor = 0, first.Cursor
	if _, err := w.desk.Advance(t.Context(), job); !errors.Is(err, eventstore.ErrUnavailable) {
		t.Errorf("without a broker: %v", err)
	}
	w.env.Start(t)
	later := w.newService(t, postgres.Settlements{DB: w.store.DB, TakeOver: time.Nanosecond})
	job.Cursor = ""
	if last, err := w.run(later, job); err != nil || first.Sent+last.Sent != int64(len(letters)) {
		t.Errorf("%+v, %v", last, err)
	}
	w.sentOnce(letters)
}

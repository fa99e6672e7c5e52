package kafka_test

import (
	"context"
	"testing"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/projections"
	"andes/test/kafkatest"
)

// What a projector has not applied yet is told, also of partitions where nothing ever was.
func feedTellsItsProgress(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 3}, "projector")
	progress := &kafka.FeedProgress{Cluster: env.Cluster, Names: env.Topics, Group: "projector"}
	t.Cleanup(progress.Close)
	sum := func() (at projections.Reached) {
		t.Helper()
		var parts map[string]projections.Reached
		kafkatest.Eventually(t, "the progress is told", func() (told bool) { // leaders of new partitions come and go
			var err error
			parts, err = progress.Parts(t.Context(), "stock")
			return err == nil && len(parts) == 3
		})
		for _, part := range parts {
			at.Applied, at.End = at.Applied+part.Applied, at.End+part.End
		}
		return at
	}
	if at := sum(); at != (projections.Reached{}) {
		t.Errorf("of empty topics: %+v", at)
	}
	env.Produce(t, stockMessages(env, 1, 5)...)
	if at := sum(); at != (projections.Reached{End: 5}) {
		t.Errorf("before anything is applied: %+v", at)
	}
	free := make(chan struct{})
	start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(ctx context.Context, _ []eventstore.StateRecord) error {
			select {
			case <-free:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	})
	env.Produce(t, stockMessages(env, 1, 5)...)
	if at := sum(); at != (projections.Reached{End: 10}) {
		t.Errorf("while it is applied: %+v", at)
	}
	close(free)
	kafkatest.Eventually(t, "all is applied", func() bool { return sum() == projections.Reached{Applied: 10, End: 10} })
}

package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errFenced is what a broker looks like between opening its port and being
// admitted by its controller: it answers, but no broker can be used yet.
var errFenced = errors.New("answers, but has not joined its cluster yet")

// Probe reports whether the broker at addr can serve: its port accepts, it
// speaks the protocol (ApiVersions) and metadata lists it as usable.
func Probe(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr),
		kgo.RequestRetries(0),
		kgo.DisableClientMetrics(),
	)
	if err != nil {
		return fmt.Errorf("probe %s: %w", addr, err)
	}
	defer client.Close()

	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{} // none: the brokers are the question
	resp, err := metadata.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("probe %s: %w", addr, err)
	}
	if len(resp.Brokers) == 0 {
		return fmt.Errorf("probe %s: %w", addr, errFenced)
	}
	return nil
}

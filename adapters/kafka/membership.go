package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// membership proves, before a session's records are parked, that its partitions are still this member's. One that
// was paused or cut off for longer than its session does not know yet that another has them: the copies that it
// would write would wait for somebody, although their records are handled.
//
// A heartbeat is the proof. The coordinator gives no partition away within the session's time after it, so
// within half of that time nobody is asked again.
type membership struct {
	mu         sync.Mutex
	generation int32
	until      time.Time
}

// proofTime is how long a heartbeat proves.
const proofTime = sessionTimeout / 2

// errNotOurs says that the group goes on without this member.
var errNotOurs = errors.New("the group has given its partitions to others")

// heartbeatVersion is that of the request.
const heartbeatVersion = 3

// prove asks the group's coordinator, unless there is a proof.
func (m *membership) prove(ctx context.Context, client sarama.Client, group string, session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := time.Now()
	if m.generation == session.GenerationID() && asked.Before(m.until) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	coordinator, err := client.Coordinator(group)
	if err != nil {
		return fmt.Errorf("coordinator of %s: %w", group, err)
	}
	answer, err := coordinator.Heartbeat(&sarama.HeartbeatRequest{
		Version: heartbeatVersion, GroupId: group, GenerationId: session.GenerationID(), MemberId: session.MemberID(),
	})
	if err != nil {
		_ = client.RefreshCoordinator(group)
		return fmt.Errorf("coordinator of %s: %w", group, err)
	}
	switch answer.Err {
	case sarama.ErrNoError:
		m.generation, m.until = session.GenerationID(), asked.Add(proofTime)
		return nil
	case sarama.ErrRebalanceInProgress:
		return nil // ours until we join again, but for how long is not known
	case sarama.ErrUnknownMemberId, sarama.ErrIllegalGeneration, sarama.ErrFencedInstancedId:
		return errNotOurs
	}
	_ = client.RefreshCoordinator(group)
	return fmt.Errorf("coordinator of %s: %w", group, answer.Err)
}

// stillOurs tells whether the record's partition is this member's for certain.
func (c *chain) stillOurs(ctx context.Context, delivery *Delivery) error {
	client, _, err := c.parker.connect()
	if err != nil {
		return err
	}
	p := delivery.partition
	return p.sub.membership.prove(ctx, client, p.sub.cfg.Group, p.session)
}

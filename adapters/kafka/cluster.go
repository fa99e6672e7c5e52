package kafka

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// protocolVersion is what every client here speaks.
var protocolVersion = sarama.V4_0_0_0

const (
	dialTimeout      = 5 * time.Second
	networkTimeout   = 10 * time.Second // a request without an answer is given up after it
	ackTimeout       = 5 * time.Second  // how long a broker waits for its in-sync replicas
	adminTimeout     = 15 * time.Second
	metadataRetries  = 5
	metadataBackoff  = 100 * time.Millisecond
	metadataTimeout  = 10 * time.Second // all retries together
	metadataInterval = time.Minute      // how late a new partition may be noticed

	heartbeatInterval = 500 * time.Millisecond
	sessionTimeout    = 10 * time.Second
	rebalanceTimeout  = 30 * time.Second
	joinTimeout       = rebalanceTimeout + 5*time.Second // joining is answered when every member has joined
	commitInterval    = 500 * time.Millisecond
	joinBackoff       = 500 * time.Millisecond

	fetchWait      = 250 * time.Millisecond // only while there is nothing: one byte ends it
	processingTime = 50 * time.Millisecond  // a partition that takes longer lets the others fetch on
)

// Cluster says how the brokers are reached.
type Cluster struct {
	Brokers  []string // host:port
	ClientID string
	TLS      *tls.Config // nil: plain text
	SASL     *SASL       // nil: no authentication
}

// SASL authenticates by user and password (PLAIN), to be used with TLS only.
type SASL struct {
	User     string
	Password string
}

func (c Cluster) validate() error {
	var faults []error
	if len(c.Brokers) == 0 {
		faults = append(faults, errors.New("kafka: no brokers are given"))
	}
	if c.SASL != nil && c.TLS == nil {
		faults = append(faults, errors.New("kafka: SASL without TLS would send the password in clear text"))
	}
	return errors.Join(faults...)
}

func (c Cluster) config() *sarama.Config {
	s := sarama.NewConfig()
	s.Version = protocolVersion
	s.ClientID = c.ClientID
	if s.ClientID == "" {
		s.ClientID = "andes"
	}
	s.Net.DialTimeout = dialTimeout
	s.Net.ReadTimeout, s.Net.WriteTimeout = networkTimeout, networkTimeout
	s.Net.TLS.Enable, s.Net.TLS.Config = c.TLS != nil, c.TLS
	if c.SASL != nil {
		s.Net.SASL.Enable = true
		s.Net.SASL.User, s.Net.SASL.Password = c.SASL.User, c.SASL.Password
	}
	s.Admin.Timeout = adminTimeout
	s.Metadata.Full = false
	s.Metadata.AllowAutoTopicCreation = false
	s.Metadata.Retry.Max, s.Metadata.Retry.Backoff = metadataRetries, metadataBackoff
	s.Metadata.Timeout = metadataTimeout
	s.Metadata.RefreshFrequency = metadataInterval
	return s
}

// producerConfig gives an idempotent producer that acknowledges what all in-sync replicas have, and
// keeps the order per key over its own retries.
func (c Cluster) producerConfig(maxRecordBytes int) *sarama.Config {
	s := c.config()
	s.Net.MaxOpenRequests = 1
	s.Producer.Idempotent = true
	s.Producer.RequiredAcks = sarama.WaitForAll
	s.Producer.Timeout = ackTimeout
	s.Producer.MaxMessageBytes = maxRecordBytes
	s.Producer.Partitioner = sarama.NewMurmur2Partitioner
	s.Producer.Retry.Max = produceRetries
	s.Producer.Retry.BackoffFunc = produceBackoff
	s.Producer.Return.Successes, s.Producer.Return.Errors = true, true
	return s
}

// A produce request that fails is repeated inside the producer for about a second and a half, where
// the broker still recognises a repeat; then the caller decides.
const (
	produceRetries    = 6
	produceBackoffMin = 50 * time.Millisecond
	produceBackoffMax = 400 * time.Millisecond
)

func produceBackoff(retries, _ int) time.Duration {
	return min(produceBackoffMin<<min(retries, 10), produceBackoffMax)
}

// groupConfig gives a member of a consumer group that starts at the oldest record and commits what was
// marked.
func (c Cluster) groupConfig(balance []sarama.BalanceStrategy) *sarama.Config {
	s := c.config()
	s.Net.ReadTimeout = joinTimeout
	group := &s.Consumer.Group
	group.Heartbeat.Interval = heartbeatInterval
	group.Session.Timeout = sessionTimeout
	group.Rebalance.Timeout = rebalanceTimeout
	group.Rebalance.Retry.Backoff = joinBackoff
	group.Rebalance.GroupStrategies = balance
	s.Consumer.Offsets.Initial = sarama.OffsetOldest
	s.Consumer.Offsets.AutoCommit.Interval = commitInterval
	s.Consumer.Fetch.Min = 1
	s.Consumer.MaxWaitTime = fetchWait
	s.Consumer.MaxProcessingTime = processingTime
	s.Consumer.Retry.Backoff = metadataBackoff
	s.Consumer.Return.Errors = true
	return s
}

// Package kafka carries events, states and commands over Apache Kafka. Nothing outside this package
// knows sarama or Watermill.
//
//	event store ──► Relay ──┬─► events.<category>    every event
//	                        ├─► commands.<system>    events that are commands to a legacy system
//	                        └─► state.<category>     latest state per key, compacted
//
//	events, commands ──► Consume ──► Lanes ──► chain ──► Consumer.Handle
//	state ──────────────► StateFeed ──► batches for projectors
//
// # Delivery
//
// Everything is at least once and in order per key. The relay saves its checkpoint after the acks, a
// consumer's offset is committed up to its low-water mark only, so a crash repeats work and never skips
// it. Whoever consumes guards itself by the stream's version or the global position.
//
// # The ladder
//
// A record that fails leaves its partition, so that it holds nobody up, and comes back:
//
//	origin ──fails──► retry.1m ──fails──► retry.10m ──fails──► retry.1h ──fails──► dlq
//	   │                                                          └──► retry.1h, within Policy.RetryFor
//	   ├──permanent, undecodable──────────────────────────────────────────────────► dlq
//	   ├──not now (eventstore.Unavailable)──► stays, and costs no attempt
//	   └──the partition is being given up───► stays, for whoever reads it next
//
//	dlq ──an operator──► replay ──► handled at once; if it fails, retry.1m again
//
// The topics are a consumer's own, <consumer>.retry.<delay>, .replay and .dlq, and are made with as many partitions as
// its origins. A parked record is the original byte for byte, in the partition of its number, with headers
// that tell its way; only on the way to a DLQ are sensitive values taken out. All of a topic wait
// equally long, so it is read in the order in which its records are due; those that wait are held in
// memory, up to a bound, and the topic is read on as they leave. Waiting holds neither what is due nor a
// rebalance nor a stop.
//
// # Order over retries
//
// Of a consumer that is Ordered, a record is outstanding from when it is parked until it is handled, or until an
// operator settled it in the DLQ. Partitions are shared so that one member owns the partition of a number of all its
// topics, and knows what is outstanding in it (sequence). Of each origin partition and key:
//
//	                  ┌───────────── waits: none before it is outstanding ─────────────┐
//	arrives ──► first ┤                                                                ▼
//	            │     └─ handled ──► the next one is first                       handled, done
//	            └► behind: parked where the first one is, without being tried. In memory it is held until the
//	               first one is done, and then handled at once; when the first one moves on, it follows;
//	               when that one lands in the DLQ, it follows there, as class "behind"
//
// When partitions are assigned, what is outstanding is found out anew: retry topics and replay from the
// committed offset on, the DLQ from its start, less what is settled. A record is always written to its next
// place before the offset of the last one is committed, so each is found at least once; of several copies the
// newest counts, and the others are dropped when they are read. A record that comes from its origin again,
// because a crash came before the commit, is recognised by its origin offset and dropped too.
//
// # Topics of different sizes
//
// When an origin topic is given more partitions, those to park in need none: a record of partition p waits in partition
// p mod n of a topic that has n. Members then share parts of the partitions, as many as the greatest common divisor of
// the topics to park in (shares), so that what is parked of a partition is always its owner's; at most so many instances
// have work. But Kafka moves keys to other partitions when there are more, and nothing orders a key's records in the
// new one after those in the old one, outstanding or not read yet: more partitions are for a moment when the consumer has no lag
// and its retry topics and DLQ are empty. doctor tells where the numbers differ.
//
// # A member that was cut off
//
// One that is paused or partitioned for longer than its session, and does not know it yet, can run a handler to
// its end: that is a repeat, as after a crash. It can't commit an offset: the broker knows that its generation is
// over. And before it parks a record it proves by a heartbeat that its partitions are still its own (membership),
// for else its copy in the DLQ would hold the key of a record that the new owner may have handled well, until an
// operator settles it. What is left is a pause between the proof and the write that is longer than half a session:
// then there is such a letter. A copy in a retry topic is dropped by an ordered consumer's new owner, who knows
// the record as unfinished or has handled it; for one that is not ordered it is one more repeat.
//
// # A DLQ that loses letters
//
// Retention deletes letters that nobody looked at, and a topic may be made anew. A record that would be parked
// behind a letter which is not there any more is not: the line goes on without it (letters.go). Where a letter's
// offset is not behind the last one's, what was noted of other letters with such offsets is dropped.
//
// # What a letter with many behind it costs
//
// Records behind the first one of their key are where it is, so when it moves, they move: with n behind it, a climb
// of k retry topics and the DLQ writes k+1 times n records of one partition, one after the other.
//
// # Order
//
// A record's key is its stream's key, so all streams of an order share their key. The partitioner is the
// Java client's (murmur2): other tools that write a key find its partition.
//
// # Size
//
// Topics carry max.message.bytes explicitly and the relay knows the figure: a record beyond it is
// parked alone on relay.parked and stands in nobody's way.
package kafka

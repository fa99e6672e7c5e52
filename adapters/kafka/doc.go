// Package kafka carries events, states and commands over Apache Kafka. Nothing outside this package
// knows sarama or Watermill.
//
//	event store ──► Relay ──┬─► events.<category>    every event
//	                        ├─► commands.<system>    events that are commands to a legacy system
//	                        └─► state.<category>     latest state per key, compacted
//
//	events, commands ──► Consume ──► Lanes ──► chain ──► Consumer.Handle
//	                                            └─► <consumer>.dlq
//	state ──────────────► StateFeed ──► batches for projectors
//
// # Delivery
//
// Everything is at least once and in order per key. The relay saves its checkpoint after the acks, a
// consumer's offset is committed up to its low-water mark only, so a crash repeats work and never skips
// it. Whoever consumes guards itself by the stream's version or the global position.
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

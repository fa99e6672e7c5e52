// Package deadletters is what operators do with the records that consumers gave up: find out what there is
// and why, send it back, or let it go. The same Service is behind the ops API and behind `--direct`.
//
// # The life of a dead letter
//
// Kafka never deletes one record, so what became of a letter is a row of its own, a settlement:
//
//	parked ──claim──► claimed ──sent to <consumer>.replay──► done: replayed, edited
//	           │         └─────marked as let go────────────► done: discarded
//	           └─ by two runs at once: one of them gets it. A claim of a run that died is free again
//	              after a minute.
//
// A letter without a settlement is outstanding. A replayed one that fails again comes back as a new letter
// which knows how often it was replayed.
//
// # Order
//
// Where a consumer needs order per key, a record waits while an earlier one of its origin topic and key is
// outstanding, in the DLQ as a letter of the class "behind". So a run sends the outstanding letters of a key
// in the order of their origin offsets, takes those behind a letter along with it, and refuses a letter whose
// predecessor it leaves: that would only be parked again. Letters that were parked behind while the run was
// going on are followed up when the consumer has worked off what was sent.
//
// # Runs
//
// A run is advanced in steps of bounded time by whoever asks for it; between them it is a cursor in the asker's
// hand and the settlements in the database. So it needs no server to stay up, an interruption loses
// nothing, and beginning again goes on with what is left. What a run is about is frozen by the ends of the
// DLQ's partitions when it begins: what is parked later is not chased.
package deadletters

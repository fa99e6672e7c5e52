package deadletters

import "andes/eventstore"

// Refusals of operations.
const (
	CodeConsumerUnknown eventstore.Code = "DLQ_CONSUMER_UNKNOWN"
	CodeTopicUnknown    eventstore.Code = "DLQ_TOPIC_UNKNOWN"
	CodeFilterInvalid   eventstore.Code = "DLQ_FILTER_INVALID"
	CodeFilterMissing   eventstore.Code = "DLQ_FILTER_MISSING"
	CodeReasonMissing   eventstore.Code = "DLQ_REASON_MISSING"
	CodeCursorInvalid   eventstore.Code = "DLQ_CURSOR_INVALID"
	CodeLetterUnknown   eventstore.Code = "DLQ_LETTER_UNKNOWN"
	CodeLetterSettled   eventstore.Code = "DLQ_LETTER_SETTLED"
	CodeLetterForeign   eventstore.Code = "DLQ_LETTER_FOREIGN"
	CodeNotReplayable   eventstore.Code = "DLQ_NOT_REPLAYABLE"
	CodeNotRunning      eventstore.Code = "DLQ_CONSUMER_NOT_RUNNING"
	CodeWouldLoop       eventstore.Code = "DLQ_WOULD_LOOP"
	CodePayloadInvalid  eventstore.Code = "DLQ_PAYLOAD_INVALID"
	CodeUnrestorable    eventstore.Code = "DLQ_UNRESTORABLE"
	CodeNotRehearsable  eventstore.Code = "DLQ_NOT_REHEARSABLE"
)

// Why says for what reason a letter is left where it is.
type Why string

// The reasons.
const (
	WhyForeign      Why = "foreign"      // it has no headers of ours: nobody can tell where it belongs
	WhyReturned     Why = "returned"     // it was replayed too often and came back each time
	WhyHeld         Why = "held"         // an earlier letter of its key stays outstanding
	WhyUndecodable  Why = "undecodable"  // this version can't read it either
	WhyUnrestorable Why = "unrestorable" // what was redacted is not in the event store
	WhyBusy         Why = "busy"         // another run has it
	WhyGone         Why = "gone"         // retention took it away meanwhile
	WhySettled      Why = "settled"      // it is done with
)

// explain tells an operator what to do about it.
var explain = map[Why]string{
	WhyForeign:      "it is no record of ours, so there is nowhere to send it back to: look at it with `show`, and `discard` it",
	WhyReturned:     "it came back each time it was replayed: find out why with `show`, mend it with `edit`, or insist with --force",
	WhyHeld:         "an earlier letter of its key would stay, so it would only be parked behind that again: replay both (--key), or discard the earlier one",
	WhyUndecodable:  "the consumer can't read it, so it would come back at once: mend it with `edit`, discard it, or insist with --force",
	WhyUnrestorable: "its redacted fields are not in the event store, so it would be processed without them: discard it, or mend it with `edit`",
	WhyBusy:         "another run is working on it; a claim of a run that died is free again after a minute",
	WhyGone:         "retention has deleted it meanwhile",
	WhySettled:      "it was sent back or discarded before: `show` tells by whom and when",
}

// Left is how many letters are left for a reason.
type Left struct {
	Why     Why    `json:"why" enum:"foreign,returned,held,undecodable,unrestorable,busy,gone,settled"`
	Count   int64  `json:"count"`
	Example Ref    `json:"example" doc:"The first one"`
	Detail  string `json:"detail" doc:"What to do about it"`
}

// Loops tells whether replaying such a letter would only bring it back.
func (l Left) Loops() bool {
	return l.Why == WhyReturned || l.Why == WhyHeld || l.Why == WhyUndecodable
}

// leftovers counts by reason, in the order in which they came up.
type leftovers []Left

func (l *leftovers) add(why Why, example Ref) {
	for i := range *l {
		if (*l)[i].Why == why {
			(*l)[i].Count++
			return
		}
	}
	*l = append(*l, Left{Why: why, Count: 1, Example: example, Detail: explain[why]})
}

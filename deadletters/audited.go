package deadletters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"andes/eventstore"
)

// auditActions name the actions in the audit log.
var auditActions = map[string]string{Replayed: "dlq.replay", Discarded: "dlq.discard", Edited: "dlq.edit"}

// auditEnd is added to the name of an action when a run that went on for a while is over.
const auditEnd = ".end"

// opening is what the audit log is told of a run, together with the first letters that it settles: however long the
// run is, once. Where those are not all, it tells how many there are to be, and closing tells how many there were.
// Nil: it has been told.
func (s *step) opening(settled int) *AuditEntry {
	if s.state.Sent > 0 {
		return nil
	}
	s.state.Audited, s.state.Open = int64(settled), !s.plan.finished()
	if s.state.Open {
		s.state.Audited = s.state.Planned
	}
	entry := s.entry(auditActions[s.job.Action], s.state.Audited)
	return &entry
}

func (s *step) entry(action string, count int64) AuditEntry {
	return AuditEntry{
		At: s.Now(), Actor: s.job.Actor, Action: action, Subject: s.job.Consumer, Run: s.state.Run,
		Count: count, Reason: s.job.Reason, Detail: s.job.detail(),
	}
}

// end ends the run. What the audit log was told at its beginning is made good where that was not the whole.
func (s *step) end(ctx context.Context) (Progress, error) {
	if s.state.Sent > 0 && (s.state.Open || s.state.Sent != s.state.Audited) {
		if err := s.Ledger.Note(ctx, s.entry(auditActions[s.job.Action]+auditEnd, s.state.Sent)); err != nil {
			return s.state.progress(false), fmt.Errorf("audit log: %w", err)
		}
	}
	return s.state.progress(true), nil
}

// Audit lists the audit log, newest first. A subject that is no consumer and that nothing was ever done to is a slip.
func (s *Service) Audit(ctx context.Context, query AuditQuery) ([]AuditEntry, error) {
	if query.Limit <= 0 {
		query.Limit = somePage
	}
	query.Limit = min(query.Limit, maxPage)
	entries, err := s.Ledger.Audit(ctx, query)
	if err != nil || len(entries) > 0 {
		return entries, err
	}
	if query.Subject != "" && !slices.Contains(s.names(), query.Subject) {
		some, err := s.Ledger.Audit(ctx, AuditQuery{Subject: query.Subject, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, eventstore.Refuse(CodeConsumerUnknown, "there is no consumer %q, and nothing was done to anything of that name; the consumers are %s", query.Subject, strings.Join(s.names(), ", "))
		}
	}
	return []AuditEntry{}, nil
}

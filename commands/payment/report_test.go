package payment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/money"
	"andes/commands/payment"
	"andes/eventstore"
	"andes/test/memtest"
)

const orderID = "o-1"

func clp(minor int64) money.Money { return money.Money{Minor: minor, Currency: "CLP"} }

// does is a command made of what a process manager calls.
type does func(u *eventstore.Unit)

func (c does) Needs() []eventstore.Stream { return nil }
func (c does) Decide(u *eventstore.Unit) (any, error) {
	c(u)
	return nil, nil
}

var (
	request = does(func(u *eventstore.Unit) { payment.Request(u, orderID, "acme", clp(10000), "tok_visa") })
	refund  = does(func(u *eventstore.Unit) { payment.RequestRefund(u, orderID) })

	approved = payment.Report{OrderID: orderID, Kind: payment.ChargeApproved, ChargeID: "c-1", Amount: clp(10000)}
	rejected = payment.Report{OrderID: orderID, Kind: payment.ChargeRejected, ChargeID: "c-1", Reason: "no funds"}
	refunded = payment.Report{OrderID: orderID, Kind: payment.RefundCompleted, ChargeID: "c-1", RefundID: "r-1", Amount: clp(10000)}
)

func with(report payment.Report, change func(*payment.Report)) payment.Report {
	change(&report)
	return report
}

func state(t memtest.T, s *memtest.Store) payment.State {
	got, _ := memtest.State(t, s, payment.Aggregate, orderID)
	return got
}

func TestReportsCountOnlyWhereTheyFit(t *testing.T) {
	otherCharge := with(approved, func(r *payment.Report) { r.ChargeID = "c-2" })
	for name, c := range map[string]struct {
		before    []eventstore.Command
		report    payment.Report
		want      payment.Status
		anomalies int
	}{
		"approved":                         {[]eventstore.Command{request}, approved, payment.Approved, 0},
		"rejected":                         {[]eventstore.Command{request}, rejected, payment.Rejected, 0},
		"approved twice":                   {[]eventstore.Command{request, approved}, approved, payment.Approved, 0},
		"rejected twice":                   {[]eventstore.Command{request, rejected}, rejected, payment.Rejected, 0},
		"rejected after approval":          {[]eventstore.Command{request, approved}, rejected, payment.Approved, 1},
		"approved after rejection":         {[]eventstore.Command{request, rejected}, approved, payment.Approved, 1},
		"a second charge approved":         {[]eventstore.Command{request, approved}, otherCharge, payment.Approved, 1},
		"a second charge after the refund": {[]eventstore.Command{request, approved, refund, refunded}, otherCharge, payment.Refunded, 1},
		"approved while refunding":         {[]eventstore.Command{request, approved, refund}, approved, payment.RefundRequested, 0},
		"approved after the refund":        {[]eventstore.Command{request, approved, refund, refunded}, approved, payment.Refunded, 0},
		"rejected after the refund":        {[]eventstore.Command{request, approved, refund, refunded}, rejected, payment.Refunded, 1},
		"refunded":                         {[]eventstore.Command{request, approved, refund}, refunded, payment.Refunded, 0},
		"refunded twice":                   {[]eventstore.Command{request, approved, refund, refunded}, refunded, payment.Refunded, 0},
		"a refund that nobody asked for":   {[]eventstore.Command{request, approved}, refunded, payment.Approved, 1},
		"a refund before any charge":       {[]eventstore.Command{request}, refunded, payment.Requested, 1},
		"a second refund":                  {[]eventstore.Command{request, approved, refund, refunded}, with(refunded, func(r *payment.Report) { r.RefundID = "r-2" }), payment.Refunded, 1},
		"a refund of another amount":       {[]eventstore.Command{request, approved, refund}, with(refunded, func(r *payment.Report) { r.Amount = clp(4000) }), payment.RefundRequested, 1},
		"an amount of one":                 {[]eventstore.Command{request}, with(approved, func(r *payment.Report) { r.Amount = clp(1) }), payment.Requested, 1},
		"one too little":                   {[]eventstore.Command{request}, with(approved, func(r *payment.Report) { r.Amount = clp(9999) }), payment.Requested, 1},
		"one too much":                     {[]eventstore.Command{request}, with(approved, func(r *payment.Report) { r.Amount = clp(10001) }), payment.Requested, 1},
		"another currency":                 {[]eventstore.Command{request}, with(approved, func(r *payment.Report) { r.Amount.Currency = "USD" }), payment.Requested, 1},
		"no amount":                        {[]eventstore.Command{request}, with(approved, func(r *payment.Report) { r.Amount = money.Money{} }), payment.Requested, 1},
		"a wrong amount after a rejection": {[]eventstore.Command{request, rejected}, with(approved, func(r *payment.Report) { r.Amount = clp(1) }), payment.Rejected, 1},
		"an unknown kind":                  {[]eventstore.Command{request}, with(approved, func(r *payment.Report) { r.Kind = "charge.pending" }), payment.Requested, 1},
		"an order without a payment":       {nil, approved, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := memtest.Open(t)
			for _, command := range c.before {
				s.Do(t, command)
			}
			s.Do(t, c.report)
			if got := state(t, s); got.Status != c.want || got.Anomalies != c.anomalies {
				t.Errorf("%s with %d anomalies, want %s with %d", got.Status, got.Anomalies, c.want, c.anomalies)
			}
			s.CheckFolds(t)
		})
	}
}

func permutations[E any](list []E) [][]E {
	if len(list) < 2 {
		return [][]E{slices.Clone(list)}
	}
	var all [][]E
	for i := range list {
		rest := slices.Concat(list[:i:i], list[i+1:])
		for _, tail := range permutations(rest) {
			all = append(all, append([]E{list[i]}, tail...))
		}
	}
	return all
}

// The gateway's reports cross on their way. What is known in the end depends on what was said, not on
// the order in which it came.
func TestTheOrderOfReportsDecidesNothing(t *testing.T) {
	pending := with(approved, func(r *payment.Report) { r.Kind = "charge.pending" })
	inProcess := with(approved, func(r *payment.Report) { r.Kind = "charge.in_process" })
	for name, c := range map[string]struct {
		reports []payment.Report
		want    payment.Status
	}{
		"pending, in process, approved, refunded": {[]payment.Report{pending, inProcess, approved, refunded}, payment.Approved},
		"approved and rejected":                   {[]payment.Report{approved, rejected}, payment.Approved},
		"pending, rejected":                       {[]payment.Report{pending, rejected}, payment.Rejected},
		"repeated":                                {[]payment.Report{approved, rejected, approved, rejected}, payment.Approved},
	} {
		t.Run(name, func(t *testing.T) {
			var first payment.State
			for i, order := range permutations(c.reports) {
				s := memtest.Open(t)
				s.Do(t, request)
				for _, report := range order {
					s.Do(t, report)
				}
				got := state(t, s)
				got.Anomalies = min(got.Anomalies, 1) // how often a contradiction was told may differ
				if i == 0 {
					first = got
				}
				if got.Status != c.want || got != first {
					t.Errorf("%v: %+v, want %+v", kinds(order), got, first)
				}
			}
		})
	}
}

func kinds(reports []payment.Report) []payment.Kind {
	var list []payment.Kind
	for _, report := range reports {
		list = append(list, report.Kind)
	}
	return list
}

func TestAReportBeforeTheRequestIsKeptAndTheRequestStillWorks(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, approved)
	s.Do(t, request)
	s.Do(t, approved)
	if got := state(t, s); got.Status != payment.Approved || got.Anomalies != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAChargeAndItsRefundAreRequestedOnce(t *testing.T) {
	s := memtest.Open(t)
	for _, command := range []eventstore.Command{refund, request, request, refund, rejected, request, refund, approved, refund, refund, refunded, refund, request} {
		s.Do(t, command)
	}
	counts := map[string]int{}
	for _, name := range s.Events(t, payment.Aggregate.Stream(orderID)) {
		counts[name]++
	}
	if counts["payment.requested"] != 1 || counts["payment.refund_requested"] != 1 || counts["payment.refunded"] != 1 {
		t.Errorf("events %v", counts)
	}
}

func TestAnomaliesAreBoundedAndShort(t *testing.T) {
	const told = 150
	s := memtest.Open(t)
	s.Do(t, request)
	for i := range told {
		s.Do(t, with(approved, func(r *payment.Report) {
			r.Amount, r.ChargeID = clp(1), fmt.Sprint(i)+strings.Repeat("é", 5000)
		}))
	}
	if got := state(t, s); got.Anomalies >= told || got.Anomalies == 0 {
		t.Errorf("%d anomalies are kept", got.Anomalies)
	}
	for _, record := range s.Log(t) {
		if len(record.Data) > 1000 || strings.Contains(string(record.Data), "\ufffd") {
			t.Fatalf("an anomaly of %d bytes: %s", len(record.Data), record.Data)
		}
	}
}

func TestAReportWithoutAnOrderLeavesNothing(t *testing.T) {
	s := memtest.Open(t)
	_, err := s.Execute(t.Context(), eventstore.Request{Command: payment.Report{Kind: payment.ChargeApproved}})
	if err == nil || len(s.Log(t)) > 0 {
		t.Errorf("error %v, %d events", err, len(s.Log(t)))
	}
}

// Whatever comes in whatever order: one charge, at most one refund, and only of money that was taken.
func TestMoneyIsNeverGivenBackTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := memtest.Open(t)
		steps := rapid.SliceOfN(rapid.SampledFrom([]eventstore.Command{
			request, refund, approved, rejected, refunded,
			with(approved, func(r *payment.Report) { r.ChargeID = "c-2" }),
			with(refunded, func(r *payment.Report) { r.RefundID = "r-2" }),
			with(refunded, func(r *payment.Report) { r.Amount = clp(4000) }),
		}), 1, 20).Draw(t, "steps")
		for _, step := range steps {
			s.Do(t, step)
		}
		counts := map[string]int{}
		for _, name := range s.Events(t, payment.Aggregate.Stream(orderID)) {
			counts[name]++
		}
		if counts["payment.requested"] > 1 || counts["payment.approved"] > 1 || counts["payment.rejected"] > 1 ||
			counts["payment.refunded"] > counts["payment.refund_requested"] || counts["payment.refund_requested"] > counts["payment.approved"] {
			t.Fatalf("events %v", counts)
		}
		s.CheckFolds(t)
	})
}

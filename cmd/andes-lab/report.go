package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const reportTimeout = 10 * time.Second

// report writes what came of the run and returns how much is broken.
func (d *demo) report(out io.Writer) int {
	for _, p := range d.probes {
		p95, n, faults := p.result()
		for _, f := range faults {
			d.journal.broken("freshness of %s: %s", p.name, f)
		}
		if n > 0 && p95 > p.objective {
			d.journal.broken("freshness of %s: p95 %s, objective %s", p.name, p95.Round(time.Millisecond), p.objective)
		}
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	d.reportOrders(t)
	d.reportRefusals(t)
	d.reportTimes(t)
	d.reportCalls(t)
	if err := t.Flush(); err != nil {
		d.journal.broken("report: %v", err)
	}
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	if len(d.journal.details) > 0 {
		fmt.Fprintf(out, "\nbroken:\n  %s\n", strings.Join(d.journal.details, "\n  "))
	}
	if more := d.journal.nBroken - len(d.journal.details); more > 0 {
		fmt.Fprintf(out, "  … and %d more\n", more)
	}
	return d.journal.nBroken
}

func (d *demo) reportOrders(t io.Writer) {
	states := map[string]int{}
	orders := d.journal.accepted()
	taken := 0
	for _, o := range orders {
		states[strings.TrimSpace(o.status+" "+o.reason)]++
		if o.cancelled {
			taken++
		}
	}
	fmt.Fprintf(t, "\norders\t%d sales: %d accepted, %d with input that must be refused\n", d.plan.sales, len(orders), d.plan.oddSales())
	for _, state := range slices.Sorted(maps.Keys(states)) {
		fmt.Fprintf(t, "  %s\t%d\n", state, states[state])
	}
	fmt.Fprintf(t, "  cancellations\t%d accepted of %d; %d named no original\n", taken, d.plan.cancels, d.plan.noOriginal)
}

// oddSales counts those known to be odd by now: some only show when quoted.
func (p plan) oddSales() int {
	n := 0
	for _, t := range p.tasks {
		if t.sale != nil && t.sale.odd != "" {
			n++
		}
	}
	return n
}

func (d *demo) reportRefusals(t io.Writer) {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	if len(d.journal.refusals) == 0 {
		return
	}
	fmt.Fprintf(t, "\nrefused\tcount\tstatus\tfor example\n")
	for _, key := range slices.Sorted(maps.Keys(d.journal.refusals)) {
		r := d.journal.refusals[key]
		fmt.Fprintf(t, "  %s\t%d\t%d\t%.90s\n", r.code, r.count, r.status, r.example)
	}
}

func (d *demo) reportTimes(t io.Writer) {
	fmt.Fprintf(t, "\nanswers\tcount\tp50\tp95\tp99\n")
	for _, kind := range []string{kindRead, kindPlace, kindCancel, kindOrder} {
		n := d.journal.count(kind)
		if n == 0 {
			continue
		}
		fmt.Fprintf(t, "  %s\t%d\t%s\t%s\t%s\n", kind, n,
			short(d.journal.quantile(kind, 0.50)), short(d.journal.quantile(kind, 0.95)), short(d.journal.quantile(kind, 0.99)))
	}
	d.journal.mu.Lock()
	fmt.Fprintf(t, "  tried again\t%d\tlargest lag of the replay\t%s\n", d.journal.repeats, short(d.journal.late))
	fmt.Fprintf(t, "  values read\t%d\tof them stale\t%d\n", d.journal.items, d.journal.stale)
	d.journal.mu.Unlock()
	for _, p := range d.probes {
		if p95, n, _ := p.result(); n > 0 {
			fmt.Fprintf(t, "  freshness of %s\t%d changes\tp95 %s\tobjective %s\n", p.name, n, short(p95), p.objective)
		}
	}
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func (d *demo) reportCalls(t io.Writer) {
	// The run may have been interrupted; the counters are still worth a look.
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	now, err := d.lab.baseline(ctx)
	if err != nil {
		fmt.Fprintf(t, "\nlegacy calls\t%v\n", err)
		return
	}
	fmt.Fprintf(t, "\nlegacy calls\tduring the run\n")
	for _, name := range []string{"erp", "wms", "oms", "payment"} {
		fmt.Fprintf(t, "  %s\t%d\n", name, now.calls[name]-d.begun.calls[name])
	}
	fmt.Fprintf(t, "  webhooks received\t%d\n", now.deliveries-d.begun.deliveries)
}

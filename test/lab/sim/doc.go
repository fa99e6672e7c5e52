// Package sim is what every simulated legacy system has in common: an HTTP
// server whose faults are turned by knobs while it runs, counters that let an
// outsider check invariants, and a bounded timeline of delayed work.
//
// A call passes these stations, in this order; each may end it:
//
//	outage ──▶ hang ──▶ capacity queue ──▶ latency ──▶ failure ──▶ the work ──▶ response lost
//	 (cut)    (held)     (503 after 5 s)     (wait)      (500)                      (cut)
//
// Everything under /_lab/ is the lab's own door: no fault applies to it and
// it is not counted as a call.
//
// Time is the time package's, so that a simulator runs in a testing/synctest
// bubble without a change; Config.Now only shifts the stamps it writes.
package sim

// Package reads puts the same load of stock and price reads on two worlds, and shows what each gives: `make
// lab-reads`.
//
//	AS-IS   channels ──────────────────────────────────────────▶ ERP, WMS
//	TO-BE   channels ──▶ Andes (the real binary, real services) ──poll──▶ ERP, WMS of its own
//
// The load is open-loop (package load), with the channels' patience of 5 s. A scenario is a list of phases that
// follow each other without a pause; each side plays the scenarios alone, so that it has the machine for itself.
// The legacy systems are the simulators of test/lab: ten workers of an ERP that take 150 ms for a call (67
// calls/s), a WMS that does as many. A call takes as long and costs as much whoever makes it.
package reads

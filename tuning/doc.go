// Package tuning is how operators change the guards of legacy systems while everything runs.
//
//	configuration ──► guard, in every process that calls the system
//	      ▲
//	      └── what an operator set, one row a system, that every process looks at
//
// What is set is a Patch: only what differs from the configuration, so that all else follows the configuration, and
// a reset is a Patch of nothing. A guard is told the whole, checked as a whole; what a process can't make sense of
// leaves its guard as it is.
package tuning

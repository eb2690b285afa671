// Package workload models the demand on a cluster: jobs, the cluster they
// run on, the events a scheduler reports, and the state of a cluster that a
// Ledger derives from these events.
//
// Instants and spans are time.Duration. An instant counts from its workload's
// zero (Workload.Zero, a wall-clock time), so that simulated time is plain
// integer nanoseconds. GPUs are held in thousandths (milli-GPUs), because some
// traces share GPUs; Whole rounds up for policies that do not. GPU-time is a
// time.Duration too: GPUs multiplied by time, for one job.
//
// Package trace reads and writes workloads, synth draws them at random after
// published traces, and stats describes them. None of the four knows a
// scheduler or a simulator.
package workload

// Package workload holds what a cluster is asked to do: jobs, the cluster
// they ask, the events that tell what became of them, and the state a
// controller can derive from those events. It also reads, writes, describes
// and synthesises traces.
//
// Instants and spans are time.Duration. An instant counts from its workload's
// zero (Workload.Zero, a wall-clock time), so that simulated time is plain
// integer nanoseconds. GPUs are held in thousandths (milli-GPUs), because some
// traces share GPUs; WholeGPUs rounds up for policies that do not. GPU-time is
// a time.Duration too: GPUs multiplied by time, for one job.
//
// Open and Read take traces in any of Formats, WriteCSV writes the project's own,
// Describe computes statistics, Synthesize draws a trace after a published one,
// and Sample is a small one built in. A Ledger folds job events into a State.
//
// It knows no scheduler and no simulator.
package workload

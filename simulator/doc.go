// Package simulator replays a workload on a cluster under a scheduling policy
// and reports the outcome of every job.
//
// There is one loop (Sim) for all policies. The loop owns time, GPUs, progress,
// preemption, restart costs and metrics; a Policy only decides which jobs start
// and stop. Cost grows with events (arrivals, ends, instants that a policy set),
// not with simulated time: a running job costs nothing until its next event. With
// Options.Round decisions happen on a grid only, as in round-based schedulers;
// rounds in which nothing can change are skipped, with the same result as if they
// had run.
//
// Instants and spans are time.Duration, instants since the workload's zero.
// Work is run time at the requested GPUs, alone and consolidated; a running job
// progresses at a rate of 1 or, spread over more nodes than needed, slower
// (Models). GPUs are whole here: a job's milli-GPUs are rounded up.
//
// A simulation starts on an empty cluster (Start) or from the observed state of a
// live one (Resume: a workload.State plus a remaining duration for each job, given
// by the caller). A running one can be copied (Fork) and given another policy
// (Reconfigure), which by itself stops nothing.
//
// # Writing a policy
//
// A Policy reads the simulation through a View and acts through a Plan. It learns
// which jobs become active (Admit) and end (Finish), and is asked to Plan after
// all events of an instant. There it starts jobs (Start), preempts them (Preempt)
// or does both in one exchange, in which no job is preempted for one that then
// finds no place (Exchange). Plan.SetQuantum sets an instant in a running job's
// life at which Quantum is called (a level crossing, the end of a lease, a
// slice); Plan.WakeAt requests a Plan at any other. How published schedulers fit:
//
//   - Themis's leases: Plan gives each job it starts or renews
//     SetQuantum(j, now+lease); Quantum(j) marks it as expired; Plan ranks the
//     expired and the waiting jobs by rho (JobAttained, JobWaited, Active), keeps
//     the 1-f worst and passes both lists to Exchange.
//   - Gandiva's slices: SetQuantum(j, now+slice) for one of the jobs that share
//     a set of GPUs; Quantum(j) moves it to the tail of its set, Plan exchanges
//     it for the set's head.
//   - Lucid's profiler: Reset calls Partition(n), which makes pool 1 of n nodes as
//     they become empty; Admit puts a small job there (SetPool); Plan starts it with
//     SetQuantum(j, now+limit); Quantum(j) marks it, and Plan preempts it and lets
//     it enter the main queue in pool 0.
//   - Lucid's packing: Plan starts j on the GPUs of a partner (Share); the loop
//     sets both rates from the models (PairSpeeds), and restores the one that
//     stays when the other leaves.
//   - Pollux's and Optimus's elastic grants: Plan starts jobs on a number of GPUs
//     (Grant) and changes it while they run (Resize); the loop sets the rate from
//     the throughput table and charges the restart.
//   - Pooling's reclaim: WakeAt(the end of the grace time) of a tenant that asks for lent quota back;
//     at that Plan, Preempt the borrowers and Start the owner's jobs.
//
// A View does not tell how long a job still runs. A policy that needs it, as a
// bound or a baseline, is Clairvoyant and is given an Oracle.
package simulator

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// RecordedFlag is --recorded-scheduler.
type RecordedFlag struct{ Name string }

// Add adds the flag of the scheduler that the trace was recorded under.
func (f *RecordedFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Name, "recorded-scheduler", fidelity.Unknown,
		"the scheduler that ran the history: a name as for --scheduler, "+fidelity.Other+", or "+fidelity.Unknown+
			"; if it is the one that is simulated, the simulation must describe the history")
	_ = cmd.RegisterFlagCompletionFunc("recorded-scheduler",
		OneOf(append(schedulers.Names(), fidelity.Other, fidelity.Unknown)...))
}

// Check checks the name of the scheduler.
func (f *RecordedFlag) Check() error {
	if err := fidelity.CheckRecorded(f.Name); err != nil {
		return UsageError{fmt.Errorf("--recorded-scheduler: %w", err)}
	}
	return nil
}

// quotaFlags are the virtual clusters.
type quotaFlags struct {
	vcs   []string
	Quota string
}

// QuotaNames are the ways to enforce quotas of virtual clusters.
var QuotaNames = []string{"off", "strict", "borrow"}

func (f *quotaFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.vcs, "vc", nil,
		"a tenant's virtual cluster, tenant=GPUs or tenant=GPUs:weight, repeatable; \"auto\" divides the cluster by "+
			"the tenants' shares of the trace's GPU-time; GPUs in no quota are shared")
	fl.StringVar(&f.Quota, "quota", "off",
		"what virtual clusters mean: off (one pool for all), strict (a tenant holds its quota, and shared GPUs "+
			"beyond it), borrow (anything that is free)")
	_ = cmd.RegisterFlagCompletionFunc("quota", cobra.FixedCompletions(QuotaNames, cobra.ShellCompDirectiveNoFileComp))
}

// Auto reports whether the quotas are inferred from the trace.
func (f *quotaFlags) Auto() bool { return len(f.vcs) == 1 && f.vcs[0] == "auto" }

// divide derives the virtual clusters from the jobs of the trace if the flag is
// auto, else it checks that the cluster has their GPUs.
func (f *quotaFlags) divide(c *workload.Cluster, jobs []workload.Job) error {
	if f.Auto() {
		c.VCs = workload.AutoVCs(jobs, c.TotalGPUs())
	}
	return checkQuotas(c)
}

func checkQuotas(c *workload.Cluster) error {
	sum := 0
	for _, v := range c.VCs {
		sum += v.GPUs
	}
	if sum > c.TotalGPUs() {
		return UsageError{fmt.Errorf("--vc: the quotas add up to %d GPUs and the cluster has %d", sum, c.TotalGPUs())}
	}
	return nil
}

// check sets the quota mode of the options and the virtual clusters of the
// cluster.
func (f *quotaFlags) check(c *workload.Cluster, o *simulator.Options) error {
	mode := slices.Index(QuotaNames, f.Quota)
	if mode < 0 {
		return UsageError{fmt.Errorf("--quota: %q is not one of %s", f.Quota, strings.Join(QuotaNames, ", "))}
	}
	o.Quota = simulator.Quota(mode)
	if f.Auto() {
		return nil
	}
	for _, s := range f.vcs {
		v, err := workload.ParseVC(s)
		if err != nil {
			return UsageError{fmt.Errorf("--vc: %w", err)}
		}
		if slices.ContainsFunc(c.VCs, func(o workload.VC) bool { return o.Tenant == v.Tenant }) {
			return UsageError{fmt.Errorf("--vc: %q is given twice", v.Tenant)}
		}
		c.VCs = append(c.VCs, v)
	}
	if len(c.VCs) == 0 && o.Quota != simulator.QuotaOff {
		return UsageError{fmt.Errorf("--quota %s needs virtual clusters: --vc tenant=GPUs, or --vc auto", f.Quota)}
	}
	if c.TotalGPUs() == 0 { // the trace shows the cluster
		return nil
	}
	return checkQuotas(c)
}

// ProtectFlags bound preemption of a job.
type ProtectFlags struct {
	MaxPreemptions int
	MinRun         time.Duration
}

// Add adds the flags that limit preemptions.
func (f *ProtectFlags) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&f.MaxPreemptions, "max-preemptions", 0,
		"a job that was stopped this often is not stopped again (0: any number)")
	fl.DurationVar(&f.MinRun, "min-run", 0, "a job that was started runs at least this long before it is stopped")
}

// Protection returns the limits on preemptions that the flags describe.
func (f *ProtectFlags) Protection() (simulator.Protection, error) {
	switch {
	case f.MaxPreemptions < 0:
		return simulator.Protection{}, UsageError{fmt.Errorf("--max-preemptions: %d is negative", f.MaxPreemptions)}
	case f.MinRun < 0:
		return simulator.Protection{}, UsageError{fmt.Errorf("--min-run: %v is negative", f.MinRun)}
	}
	return simulator.Protection{MaxPreemptions: f.MaxPreemptions, MinRun: f.MinRun}, nil
}

// ClusterFlags adds the flags of a cluster of equal nodes.
func ClusterFlags(cmd *cobra.Command, c *workload.Cluster) {
	*c = workload.Uniform(0, 0)
	cmd.Flags().IntVar(&c.Groups[0].Nodes, "nodes", 0, "nodes of the cluster")
	cmd.Flags().IntVar(&c.Groups[0].GPUsPerNode, "gpus-per-node", 8, "GPUs of each node")
}

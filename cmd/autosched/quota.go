package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// quotaFlags are the virtual clusters.
type quotaFlags struct {
	vcs   []string
	quota string
}

var quotaNames = []string{"off", "strict", "borrow"}

func (f *quotaFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.vcs, "vc", nil,
		"a tenant's virtual cluster, tenant=GPUs or tenant=GPUs:weight, repeatable; \"auto\" divides the cluster by "+
			"the tenants' shares of the trace's GPU-time; GPUs in no quota are shared")
	fl.StringVar(&f.quota, "quota", "off",
		"what virtual clusters mean: off (one pool for all), strict (a tenant holds its quota, and shared GPUs "+
			"beyond it), borrow (anything that is free)")
	_ = cmd.RegisterFlagCompletionFunc("quota", cobra.FixedCompletions(quotaNames, cobra.ShellCompDirectiveNoFileComp))
}

func (f *quotaFlags) auto() bool { return len(f.vcs) == 1 && f.vcs[0] == "auto" }

// divide derives the virtual clusters from the jobs of the trace if the flag is
// auto, else it checks that the cluster has their GPUs.
func (f *quotaFlags) divide(c *workload.Cluster, jobs []workload.Job) error {
	if f.auto() {
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
		return usageError{fmt.Errorf("--vc: the quotas add up to %d GPUs and the cluster has %d", sum, c.TotalGPUs())}
	}
	return nil
}

// check sets the quota mode of the options and the virtual clusters of the
// cluster.
func (f *quotaFlags) check(c *workload.Cluster, o *simulator.Options) error {
	mode := slices.Index(quotaNames, f.quota)
	if mode < 0 {
		return usageError{fmt.Errorf("--quota: %q is not one of %s", f.quota, strings.Join(quotaNames, ", "))}
	}
	o.Quota = simulator.Quota(mode)
	if f.auto() {
		return nil
	}
	for _, s := range f.vcs {
		v, err := workload.ParseVC(s)
		if err != nil {
			return usageError{fmt.Errorf("--vc: %w", err)}
		}
		if slices.ContainsFunc(c.VCs, func(o workload.VC) bool { return o.Tenant == v.Tenant }) {
			return usageError{fmt.Errorf("--vc: %q is given twice", v.Tenant)}
		}
		c.VCs = append(c.VCs, v)
	}
	if len(c.VCs) == 0 && o.Quota != simulator.QuotaOff {
		return usageError{fmt.Errorf("--quota %s needs virtual clusters: --vc tenant=GPUs, or --vc auto", f.quota)}
	}
	if c.TotalGPUs() == 0 { // the trace shows the cluster
		return nil
	}
	return checkQuotas(c)
}

// protectFlags bound preemption of a job.
type protectFlags struct {
	maxPreemptions int
	minRun         time.Duration
}

func (f *protectFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&f.maxPreemptions, "max-preemptions", 0,
		"a job that was stopped this often is not stopped again (0: any number)")
	fl.DurationVar(&f.minRun, "min-run", 0, "a job that was started runs at least this long before it is stopped")
}

func (f *protectFlags) protection() (simulator.Protection, error) {
	switch {
	case f.maxPreemptions < 0:
		return simulator.Protection{}, usageError{fmt.Errorf("--max-preemptions: %d is negative", f.maxPreemptions)}
	case f.minRun < 0:
		return simulator.Protection{}, usageError{fmt.Errorf("--min-run: %v is negative", f.minRun)}
	}
	return simulator.Protection{MaxPreemptions: f.maxPreemptions, MinRun: f.minRun}, nil
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/workload/trace"
)

// readFlags say how to read a trace that does not say it itself.
type readFlags struct {
	shards          int
	requeueRestarts bool
}

func (f *readFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&f.shards, "shards-per-gpu", 0, "shards of a GPU, for a Slurm trace whose jobs ask for gres/shard")
	fl.BoolVar(&f.requeueRestarts, "requeue-restarts", false,
		"a job that Slurm requeued began anew: its last start is its run time (default: starts add up, as those of jobs "+
			"that checkpoint)")
}

// apply checks the flags and adds them to the options of a reader.
func (f *readFlags) apply(o *trace.Options) error {
	if f.shards < 0 {
		return usageError{fmt.Errorf("--shards-per-gpu: %d is negative", f.shards)}
	}
	o.Shards, o.RequeueRestarts = f.shards, f.requeueRestarts
	return nil
}

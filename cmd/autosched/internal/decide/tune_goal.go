package decide

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
)

// goalFlags are the flags of a search's goal besides --objective.
type goalFlags struct {
	pareto []string

	goal round.Goal // after parse
}

func (f *goalFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.pareto, "pareto", nil,
		"two or more metrics: search for, and show, the configurations that no other beats in all of them")
}

// metered reports whether energy counts.
func (f *goalFlags) metered() bool {
	return f.goal.Metered() != "" || slices.ContainsFunc(f.pareto, round.Metered)
}

// noteReordering notes the limits of an order of jobs where energy counts and nodes neither sleep nor jobs wait
// for cheaper hours.
func noteReordering(notes io.Writer, metered bool, scheduler string) {
	if metered && !schedulers.Sleeps(scheduler) && !schedulers.Defers(scheduler) {
		fmt.Fprintf(notes, "note: nodes of %[1]s stay on, so reordering jobs changes hardly any energy: what differs are "+
			"restarts, placements, shared GPUs and the hours in which jobs run; %[1]s%[2]s lets idle nodes sleep, and "+
			"%[1]s%[3]s jobs wait for cheaper hours\n", scheduler, schedulers.SleepSuffix, schedulers.DeferSuffix)
	}
}

// parse checks the flags and makes the goal.
func (f *goalFlags) parse(g round.Goal) error {
	if n := len(f.pareto); n == 1 {
		return cli.Usage(fmt.Errorf("--pareto: %v: want two metrics or more", f.pareto))
	}
	for i, name := range f.pareto {
		metric, err := round.ParseMetric(name)
		if err != nil {
			return cli.Usage(fmt.Errorf("--pareto: %w", err))
		}
		if f.pareto[i] = metric; slices.Contains(f.pareto[:i], f.pareto[i]) {
			return cli.Usage(fmt.Errorf("--pareto: %s is named twice", f.pareto[i]))
		}
	}
	f.goal = g
	return nil
}

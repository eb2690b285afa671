// Package decide has the commands that replay a trace: simulations, tuning and its evaluation, comparisons, plans.
package decide

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSimulateCmd(), newTuneCmd(), newEvaluateCmd(), newComparisonCmd(), newPlanCmd(),
		newFidelityCmd()}
}

// answerFlag is --print, and --conf-out of the site, of commands that recommend a configuration.
type answerFlag struct{ format string }

const nativeFormat = "native"

func (f *answerFlag) add(cmd *cobra.Command, h *cli.HistoryFlags) {
	h.Site.AddOut(cmd)
	cmd.Flags().StringVar(&f.format, "print", "text",
		"what to print: text, or native for the recommended configuration alone, as the scheduler's own file")
	_ = cmd.RegisterFlagCompletionFunc("print", cli.OneOf("text", nativeFormat))
}

func (f *answerFlag) check(asJSON bool) error {
	switch {
	case f.format != "text" && f.format != nativeFormat:
		return cli.Usage(fmt.Errorf("--print: %q is not one of text, native", f.format))
	case f.format == nativeFormat && asJSON:
		return cli.Usage(errors.New("--json and --print native exclude each other: the file is not JSON"))
	}
	return nil
}

// recommendation is the configuration to run, which is the one before where no change is better.
type recommendation struct {
	scheduler *schedulers.Scheduler
	config    space.Config
	change    bool
	reason    string
}

// show prints a result with show, or the configuration that it recommends.
func (f *answerFlag) show(cmd *cobra.Command, asJSON bool, schema string, result any,
	recommended func() (recommendation, error), print func(io.Writer) error) error {
	if f.format != nativeFormat {
		return cli.Show(cmd.OutOrStdout(), asJSON, schema, result, print)
	}
	r, err := recommended()
	if err != nil {
		return err
	}
	text, err := r.scheduler.Form().Render(native.ValuesOf(r.config))
	if err != nil {
		return fmt.Errorf("--print native: %w", err)
	}
	what := "this is a change"
	if !r.change {
		what = "no change is recommended; this is what runs"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "note: %s: %s\n", what, r.reason)
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

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

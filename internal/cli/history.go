package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/adapter/slurm/site"
	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// HistoryFlags are the flags of commands that ask about a history: the jobs that count and those that warm up the
// cluster, the cluster or site, the scheduler, and the configuration in force.
type HistoryFlags struct {
	ReplayFlags
	InForce  ConfigFlags
	Recorded RecordedFlag
	Site     SiteFlag
	Guard    float64
	ignore   bool // fidelity
}

// Add adds the flags of all these commands.
func (f *HistoryFlags) Add(cmd *cobra.Command) {
	f.addTrace(cmd)
	f.AddBeside(cmd)
}

// AddBeside adds the flags to a command that has those of the trace and the cluster.
func (f *HistoryFlags) AddBeside(cmd *cobra.Command) {
	f.Recorded.Name = fidelity.Unknown
	f.addSimulation(cmd)
	f.AddTo(cmd)
	f.AddWarmup(cmd)
	f.InForce.Add(cmd)
	f.Site.Add(cmd)
}

// AddConclusion adds the flags of commands that conclude about the recorded cluster.
func (f *HistoryFlags) AddConclusion(cmd *cobra.Command) {
	f.Recorded.Add(cmd)
	cmd.Flags().BoolVar(&f.ignore, ignoreFidelity, false,
		"conclude about the simulated cluster even if the simulation does not describe the history")
	f.Guard = round.DefaultSettings().Guard
	AddGuard(cmd, &f.Guard)
}

// Ask asks whether the history justifies a configuration other than the one in force. Options have the goal, the one
// in force, its fidelity, further candidates and the workers. Progress goes to notes.
func (f *HistoryFlags) Ask(ctx context.Context, in *ReplayInput, o replay.AskOptions, notes io.Writer) (
	*replay.Verdict, error) {
	o.Assumed = in.Scheduler.Space.Default()
	if f.Site.Dir != "" {
		var err error
		if o.Assumed, err = readConfig(site.Folder(f.Site.Dir).Path(site.Current), in.Scheduler); err != nil {
			return nil, err
		}
	}
	line, began := NewProgressLine(notes), time.Now()
	defer line.Clear()
	o.Trace, o.From, o.To, o.Cluster, o.Scheduler = in.Trace, in.From, in.To, f.Cluster, in.Scheduler
	o.Simulate, o.Guard, o.Seed, o.Site = in.Options, f.Guard, f.Seed, f.Site.Dir
	o.Progress = func(done, of int) {
		left := time.Since(began).Seconds() * float64(of-done) / float64(done)
		line.Show("replay %d of %d of the history, about %s left", done, of, units.Duration(left))
	}
	return replay.Ask(ctx, o)
}

// PrintVerdict prints the answer: the sentences, the changes with their effects, and the flags.
func PrintVerdict(w io.Writer, v *replay.Verdict) error {
	fmt.Fprintln(w, v.Text)
	if v.Fidelity != nil {
		fmt.Fprintf(w, "%s.\n", v.Fidelity)
	}
	if len(v.Changes) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nSettings that change:")
	for _, c := range v.Changes {
		fmt.Fprintf(w, "  %s\n", c.Step)
		if c.Means != "" {
			fmt.Fprintf(w, "    %s\n", c.Means)
		}
	}
	flags, whose := v.Flags, "Flags"
	if !v.Change {
		flags, whose = v.Refused.Flags, "Its flags"
	}
	_, err := fmt.Fprintf(w, "\n%s in simulate, tune, evaluate, compare, plan and recommend:\n  %s\n", whose, flags)
	return err
}

// GoalFlags are --objective and --subject-to.
type GoalFlags struct {
	Objective string
	SubjectTo []string
}

// Add adds the flags.
func (f *GoalFlags) Add(cmd *cobra.Command) {
	AddObjective(cmd, &f.Objective)
	AddSubjectTo(cmd, &f.SubjectTo)
}

// AddSubjectTo adds the constraints of a goal.
func AddSubjectTo(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "subject-to", nil, "")
}

// Goal reads the flags.
func (f *GoalFlags) Goal() (round.Goal, error) {
	g, err := round.ParseGoal(f.Objective)
	if err != nil {
		return g, UsageError{fmt.Errorf("--%w", err)}
	}
	for _, text := range f.SubjectTo {
		c, err := round.ParseConstraint(text)
		if err != nil {
			return g, UsageError{fmt.Errorf("--subject-to: %w", err)}
		}
		if !slices.Contains(g.Constraints, c) {
			g.Constraints = append(g.Constraints, c)
		}
	}
	return g, nil
}

const ignoreFidelity = "ignore-fidelity"

// Check checks all that needs no trace. It returns the scheduler and the configuration in force.
func (f *HistoryFlags) Check() (*schedulers.Scheduler, space.Config, error) {
	if err := cmp.Or(f.Site.Use(&f.ReplayFlags, &f.InForce, &f.Recorded), f.Recorded.Check()); err != nil {
		return nil, space.Config{}, err
	}
	return f.Configured(&f.InForce)
}

// Grade compares the simulation of the history under the configuration in force with the record. It is nil where a
// synthetic trace has no delays, and an error where nothing may be concluded. Every conclusion depends on it.
func (f *HistoryFlags) Grade(ctx context.Context, in *ReplayInput, w replay.Window, s *schedulers.Scheduler,
	inForce space.Config) (*fidelity.Graded, error) {
	if !slices.ContainsFunc(in.Trace.Window(w.From, w.To).Jobs(), func(j workload.Job) bool { return j.HasWait }) {
		if in.Trace.Synthetic() {
			return nil, nil
		}
		return &fidelity.Graded{Grade: fidelity.Incomparable, Why: fidelity.NoDelays}, nil
	}
	o := in.Options
	o.Past = replay.Past(in.Trace, f.Cluster, w.From-in.Warmup)
	r, err := fidelity.Quick(ctx, fidelity.Input{Trace: in.Trace, From: w.From, To: w.To, Warmup: in.Warmup,
		Cluster: f.Cluster, Scheduler: s, Config: inForce, Simulate: o, Recorded: f.Recorded.Name})
	if err != nil {
		return nil, err
	}
	if err := r.Refusal("--" + ignoreFidelity); err != nil && !f.ignore {
		return nil, err
	}
	return &r.Graded, nil
}

// AddWarmup adds the length of the warm-up.
func (f *ReplayFlags) AddWarmup(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.warmup, "warmup", round.Warmup,
		"jobs of this long before --from run, too, and do not count: they fill the cluster, which starts empty")
}

// Jobs are the submissions that are simulated: those that count and those of the warm-up.
func (in *ReplayInput) Jobs() *workload.Workload { return in.Trace.Window(in.From-in.Warmup, in.To) }

// Simulation are the options of a simulation of Jobs.
func (in *ReplayInput) Simulation(c workload.Cluster) simulator.Options {
	return replay.Warmed(in.Options, in.Trace, c, in.From, in.Warmup)
}

// Window is the window that counts.
func (in *ReplayInput) Window() replay.Window {
	clock := func(at time.Duration) string { return in.Trace.Zero().Add(at).Format("2006-01-02T15:04") }
	return replay.Window{Name: clock(in.From) + ".." + clock(in.To), From: in.From, To: in.To}
}

package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/fidelity"
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
	ignore   bool // fidelity
}

// Add adds the flags of all these commands.
func (f *HistoryFlags) Add(cmd *cobra.Command) {
	f.Recorded.Name = fidelity.Unknown
	f.ReplayFlags.Add(cmd)
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
	cmd.Flags().DurationVar(&f.warmup, "warmup", round.Memory,
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

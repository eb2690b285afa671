package decide

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// changesFlag is the repeatable --set-at.
type changesFlag struct{ texts []string }

func (f *changesFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.texts, "set-at", nil,
		"INSTANT:key=value, a parameter that is changed during the run, repeatable; INSTANT as in --from")
}

// change is a configuration that holds from an instant on.
type change struct {
	at     time.Duration
	set    []string
	config space.Config
}

// split is one of the texts: an instant and an assignment.
func (f *changesFlag) split(text string) (instant, set string, err error) {
	name, _, assigns := strings.Cut(text, "=")
	at := strings.LastIndex(name, ":") // instants may have colons, names of parameters have none
	if !assigns || at < 0 {
		return "", "", cli.Usage(fmt.Errorf("--set-at: %q is not INSTANT:key=value", text))
	}
	return text[:at], text[at+1:], nil
}

// check checks all that needs no trace. changes checks values that rules tie to
// others.
func (f *changesFlag) check(s *schedulers.Scheduler, config space.Config) error {
	for _, text := range f.texts {
		instant, set, err := f.split(text)
		if err != nil {
			return err
		}
		if err := trace.CheckInstant(instant); err != nil {
			return cli.Usage(fmt.Errorf("--set-at: %w", err))
		}
		key, _, _ := strings.Cut(set, "=")
		if _, ok := s.Space.Param(strings.TrimSpace(key)); !ok {
			if _, err := s.Space.Parse(config, []string{set}); err != nil {
				return cli.Usage(fmt.Errorf("--set-at: %w", err))
			}
		}
	}
	return nil
}

// changes are those of the flag in order of time. Each starts from the configuration
// before it.
func (f *changesFlag) changes(w *workload.Workload, s *schedulers.Scheduler, config space.Config) ([]change, error) {
	var out []change
	for _, text := range f.texts {
		from, set, err := f.split(text)
		if err != nil {
			return nil, err
		}
		instant, err := trace.ParseInstant(w, from)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--set-at: %w", err))
		}
		i := slices.IndexFunc(out, func(c change) bool { return c.at == instant })
		if i < 0 {
			i = len(out)
			out = append(out, change{at: instant})
		}
		out[i].set = append(out[i].set, set)
	}
	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for i := range out {
		var err error
		if config, err = s.Space.Parse(config, out[i].set); err != nil {
			return nil, cli.Usage(fmt.Errorf("--set-at: %w", err))
		}
		out[i].config = config
	}
	return out, nil
}

// changeReport is a change as simulate reports it.
type changeReport struct {
	At            float64      `json:"at_s"`
	Configuration space.Config `json:"configuration"`
}

// play runs to the end and reconfigures on the way. It returns the changes that were
// made; those after the end of the last job are noted.
func play(ctx context.Context, sim *simulator.Sim, s *schedulers.Scheduler, changes []change, r *recorder,
	line *cli.ProgressLine) ([]changeReport, error) {
	defer line.Clear()
	ctx = followed{ctx, sim, line}
	var made []changeReport
	for _, c := range changes {
		if err := sim.RunUntil(ctx, c.at); err != nil {
			return nil, err
		}
		if sim.Done() {
			line.Clear()
			fmt.Fprintf(line.Out, "note: --set-at: all jobs have ended before %s is set\n", strings.Join(c.set, ", "))
			continue
		}
		sim.Reconfigure(s.New(c.config))
		r.mark("configuration", strings.Join(c.set, ", "))
		made = append(made, changeReport{c.at.Seconds(), c.config})
	}
	return made, sim.Run(ctx)
}

// followed shows the progress of a run whenever the run checks its context, which
// it does every few thousand events. Stopping the run to look would round its sums
// differently. Err reads the run and writes a line, so only the goroutine of the run
// may call it: pass it to a Sim alone and derive no context from it, which would call
// Err from another goroutine.
type followed struct {
	context.Context
	sim  *simulator.Sim
	line *cli.ProgressLine
}

func (f followed) Err() error {
	f.line.Show("%d of %d jobs submitted, %d active, %d of them waiting", f.sim.Submitted(), f.sim.Len(),
		f.sim.Active(), f.sim.Waiting())
	return f.Context.Err()
}

package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// AskOptions ask whether the jobs of a trace justify a configuration other than the one in force.
type AskOptions struct {
	Trace *workload.Workload
	// From and To bound the submissions that count; To is the instant of the question.
	From, To  time.Duration
	Cluster   workload.Cluster
	Scheduler *schedulers.Scheduler
	InForce   space.Config
	Goal      round.Goal
	Simulate  simulator.Options
	// Also and Found are further candidates, Guard and Workers as in round.Question.
	Also, Found []search.Preset
	Guard       float64
	Seed        uint64
	Workers     int
	// Assumed is the configuration of commands without flags that name one, of the site in a folder if there is one.
	Assumed space.Config
	Site    string
	// Fidelity of the simulation under InForce, nil if it is not known.
	Fidelity *fidelity.Graded
	Progress func(done, of int)
}

// Verdict is the answer to whether settings should change: one for all commands that conclude.
type Verdict struct {
	Change bool   `json:"change"`
	Text   string `json:"text"` // in sentences
	// Configuration is the one to run, the one in force unless Change. Flags name it to every command that takes a
	// configuration.
	Configuration space.Config `json:"configuration"`
	Flags         string       `json:"flags,omitempty"`
	// Changes are of Configuration, or of the refused one.
	Changes []SettingChange `json:"changes,omitempty"`
	// Gain is the share of the objective that the change saves, Low and High its lowest and highest in a replay.
	Gain float64 `json:"gain"`
	Low  float64 `json:"gain_low"`
	High float64 `json:"gain_high"`
	// Losers are the groups of jobs that wait longer, the worst first.
	Losers []round.Group `json:"losers,omitempty"`
	// Evictions are those by the change or the refused one on a site; absent where nothing is evicted.
	Evictions *EvictionsChange `json:"evictions,omitempty"`
	// Unclear are the guards of which the history does not tell whether the change keeps them.
	Unclear []string `json:"unclear,omitempty"`
	// Refused would be adopted but for a guard, absent if there is none.
	Refused *RefusedChange `json:"refused,omitempty"`
	// EnoughFrom is the time from which on the history is long enough, absent if it is.
	EnoughFrom string             `json:"enough_from,omitempty"`
	Fidelity   *fidelity.Graded   `json:"fidelity,omitempty"`
	Candidates []VerdictCandidate `json:"candidates,omitempty"`
}

// SettingChange is a changed parameter. An empty value is that of a parameter without effect.
type SettingChange struct {
	Parameter string `json:"parameter"`
	From      string `json:"from"`
	To        string `json:"to"`
	// Step says what to do: raise queues from 1 to 2.
	Step string `json:"step"`
	// Means is the effect of a larger value (schedulers.Scheduler.Effect).
	Means string `json:"means,omitempty"`
}

// RefusedChange is a configuration that gains and breaks a guard.
type RefusedChange struct {
	Configuration space.Config  `json:"configuration"`
	Flags         string        `json:"flags"`
	Gain          float64       `json:"gain"`
	Breaks        []string      `json:"breaks"`
	Losers        []round.Group `json:"losers,omitempty"`
	// Accept is the flag with which it is adopted.
	Accept string `json:"accept"`
}

// VerdictCandidate is a configuration that was compared with the one in force.
type VerdictCandidate struct {
	Origin        string       `json:"origin"`
	Configuration space.Config `json:"configuration"`
	Gain          float64      `json:"gain"`
	Verdict       string       `json:"verdict"`
}

// Ask answers the question by the daily rule (round.Ask), of a candidate with more changes than it needs by the part of
// them that gains the same (search.Simplifier). A job that no cluster of this kind can run is an error.
func Ask(ctx context.Context, o AskOptions) (*Verdict, error) {
	var sim simulator.Sim
	if err := o.start(&sim, o.InForce); err != nil {
		return nil, err
	}
	q := round.Question{
		Problem: round.Problem{Scheduler: o.Scheduler, Space: o.Scheduler.Space, Cluster: o.Cluster,
			Options: o.Simulate,
			Goal:    o.Goal, Incumbent: o.InForce},
		History: round.RecordedOf(o.Trace, o.To), Also: o.Also, Found: o.Found,
		Guard: o.Guard, Seed: o.Seed, Workers: o.Workers, Replays: &round.Replays{}, Progress: o.Progress,
	}
	q.History.From = o.From
	if len(o.Scheduler.Presets) == 0 {
		q.Also = append(slices.Clone(q.Also), singles(o.Scheduler.Space, o.InForce)...)
	}
	a, err := round.Ask(ctx, q)
	if c := chosen(&a); err == nil && c != nil && c.Changes > 1 {
		a, err = simplify(ctx, q, a, *c)
	}
	if err != nil {
		return nil, err
	}
	var evicted *EvictionsChange
	if c := chosen(&a); c != nil {
		if evicted, err = o.evictions(ctx, &sim, c.Config); err != nil {
			return nil, err
		}
	}
	v := o.verdict(&a, evicted)
	if !a.Adopt && a.Refused == nil && a.Stretches > 0 && len(o.Goal.Constraints) == 0 {
		if err := sim.Run(ctx); err != nil {
			return nil, err
		}
		if s := sim.Summarize(); s.Jobs > 0 && s.AvgQueue < .01*s.AvgJCT {
			v.Text = fmt.Sprintf("Keep what runs: jobs wait %s of %s on average, so there is nothing to gain.",
				units.Duration(s.AvgQueue), units.Duration(s.AvgJCT))
		}
	}
	return v, nil
}

// start starts the simulation of the jobs under a configuration.
func (o *AskOptions) start(sim *simulator.Sim, c space.Config) error {
	return sim.Start(o.Cluster, o.Trace.Window(o.From-round.Warmup, o.To), o.Scheduler.New(c),
		Warmed(o.Simulate, o.Trace, o.Cluster, o.From, round.Warmup))
}

// singles are a configuration with another value of one parameter that has few.
func singles(s *space.Space, c space.Config) (out []search.Preset) {
	for _, p := range s.Params() {
		values := p.Categories
		if p.Kind == space.KindBool {
			values = []string{"false", "true"}
		}
		for _, v := range values {
			set := p.ID + "=" + v
			if one, err := s.Parse(c, []string{set}); err == nil && !one.Equal(c) {
				out = append(out, search.Preset{Name: set, Config: one, Origin: "single"})
			}
		}
	}
	return out
}

// chosen is the candidate that the answer is about, nil if there is none.
func chosen(a *round.Answer) *round.Compared {
	if a.Adopt {
		return a.Best
	}
	return a.Refused
}

// simplify answers a question again with the simpler forms of a candidate that gain the same.
func simplify(ctx context.Context, q round.Question, a round.Answer, c round.Compared) (round.Answer, error) {
	measure := func(ctx context.Context, configs []space.Config) ([]search.Measurement, error) {
		var more []search.Preset
		for _, x := range configs {
			if !slices.ContainsFunc(a.Compared, func(k round.Compared) bool { return k.Config.Equal(x) }) {
				more = append(more, search.Preset{Name: round.Source(c.Origin), Config: x, Origin: "part"})
			}
		}
		if len(more) > 0 {
			if c.Found {
				q.Found = slices.Concat(q.Found, more)
			} else {
				q.Also = slices.Concat(q.Also, more)
			}
			var err error
			if a, err = round.Ask(ctx, q); err != nil {
				return nil, err
			}
		}
		out := make([]search.Measurement, len(configs))
		for i, x := range configs {
			k := slices.IndexFunc(a.Compared, func(k round.Compared) bool { return k.Config.Equal(x) })
			out[i] = a.Compared[k].Measurement()
		}
		return out, nil
	}
	s := search.Simplifier{Winner: search.Trial{Config: c.Config, Measurement: c.Measurement()}, From: q.Incumbent,
		Exact: true, Measure: measure}
	_, err := s.Run(ctx)
	return a, cmp.Or(err, ctx.Err())
}

func (o *AskOptions) verdict(a *round.Answer, evicted *EvictionsChange) *Verdict {
	v := &Verdict{Change: a.Adopt, Configuration: a.Config, Gain: round.Saved(a.Gain), Low: round.Saved(a.Low),
		High: round.Saved(a.High), Fidelity: o.Fidelity, Evictions: evicted}
	if !a.Known.IsZero() {
		v.EnoughFrom = a.Known.UTC().Format(time.RFC3339)
	}
	for i := range a.Compared {
		c := &a.Compared[i]
		v.Candidates = append(v.Candidates, VerdictCandidate{c.Origin, c.Config, round.Saved(c.Gain), c.Verdict})
	}
	if r := a.Refused; r != nil {
		v.Refused = &RefusedChange{Configuration: r.Config, Flags: o.flags(r.Config), Gain: round.Saved(r.Gain),
			Losers: r.Losers, Accept: "--guard off"}
		if r.Accept <= 1 {
			v.Refused.Accept = fmt.Sprintf("--guard %.0f%%", 100*r.Accept)
		}
		for _, b := range r.Breaks {
			v.Refused.Breaks = append(v.Refused.Breaks, b.String())
		}
	}
	switch {
	case a.Adopt:
		v.Changes, v.Flags, v.Losers = o.changes(a.Config), o.flags(a.Config), a.Best.Losers
		v.Unclear = a.Best.Unclear
		v.Text = fmt.Sprintf("Change once: %s%s. %s", settings(v.Changes), evicted.raised(), a.Reason)
	case a.Refused != nil:
		v.Changes = o.changes(a.Refused.Config)
		v.Text = fmt.Sprintf("Keep what runs. %s", a.Reason)
		if text := round.LosersText(a.Refused.Losers, 2); text != "" {
			v.Text += " " + text + "."
		}
		v.Text += fmt.Sprintf(" %s accepts it: %s%s.", v.Refused.Accept, settings(v.Changes), evicted.raised())
	default:
		v.Text = "Keep what runs. " + a.Reason
	}
	return v
}

// settings names changed parameters.
func settings(changes []SettingChange) string {
	var parts []string
	for _, c := range changes {
		if c.To != "" {
			parts = append(parts, c.Parameter+"="+c.To)
		}
	}
	return "set " + strings.Join(parts, ", ")
}

func (o *AskOptions) changes(to space.Config) (out []SettingChange) {
	for _, d := range space.DiffConfigs(o.InForce, to) {
		out = append(out, SettingChange{d.Field, d.From, d.To, step(o.InForce, to, d), o.Scheduler.Effect(d.Field)})
	}
	return out
}

// step says what to do with a parameter that two configurations differ in.
func step(from, to space.Config, d space.Difference) string {
	was, is := from.Get(d.Field), to.Get(d.Field)
	numbers := is.Equal(space.Num(is.Float())) && was.Equal(space.Num(was.Float()))
	switch {
	case d.To == "":
		return d.Field + " has no effect then"
	case is.Equal(space.Bool(true)):
		return "switch " + d.Field + " on"
	case is.Equal(space.Bool(false)):
		return "switch " + d.Field + " off"
	case d.From == "":
		return fmt.Sprintf("set %s to %s", d.Field, d.To)
	case numbers && was.Float() < is.Float():
		return fmt.Sprintf("raise %s from %s to %s", d.Field, d.From, d.To)
	case numbers:
		return fmt.Sprintf("lower %s from %s to %s", d.Field, d.From, d.To)
	}
	return fmt.Sprintf("change %s from %s to %s", d.Field, d.From, d.To)
}

// flags are those that name a configuration: its difference from what the command assumes without them.
func (o *AskOptions) flags(to space.Config) string {
	out := []string{"--scheduler", o.Scheduler.Name}
	if o.Site != "" {
		out = []string{"--site", o.Site}
	}
	for _, d := range space.DiffConfigs(o.Assumed, to) {
		if d.To != "" {
			out = append(out, "--set", d.Field+"="+d.To)
		}
	}
	return units.Command(out)
}

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// SamplerNames lists the samplers.
func SamplerNames() []string {
	var out []string
	for _, e := range search.Samplers {
		out = append(out, e.Name)
	}
	return out
}

// TuneFlags bound the cost of a tuning round and set its conditions.
type TuneFlags struct {
	GoalFlags
	Settings round.Settings
	generate string
	Method   generation.Method // of generate, set by check
}

// Add adds the flags of rounds.
func (t *TuneFlags) Add(cmd *cobra.Command) {
	t.AddSearch(cmd)
	cmd.Flags().BoolVar(&t.Settings.Always, "always", false,
		"replace the incumbent by the best on average whatever it gains, as the paper does")
}

// AddSearch adds the flags of a search, without the rule by which its result is
// adopted.
func (t *TuneFlags) AddSearch(cmd *cobra.Command) {
	t.Settings = round.DefaultSettings()
	s := &t.Settings
	fl := cmd.Flags()
	AddObjective(cmd, &t.Objective)
	fl.DurationVar(&s.Horizon, "horizon", s.Horizon, "how far ahead arrivals are forecast")
	fl.IntVar(&s.Futures, "futures", s.Futures, "")
	AddGenerate(cmd, &t.generate)
	fl.IntVar(&s.Budget, "budget", s.Budget, "")
	fl.IntVar(&s.Workers, "workers", 0, "")
}

// Seeded are the settings with a seed.
func (t *TuneFlags) Seeded(seed uint64) round.Settings {
	s := t.Settings
	s.Seed = seed
	return s
}

// AddObjective adds the flag of the metric to improve.
func AddObjective(cmd *cobra.Command, objective *string) {
	cmd.Flags().StringVar(objective, "objective", round.Objectives[0], "")
	_ = cmd.RegisterFlagCompletionFunc("objective",
		cobra.FixedCompletions(round.Objectives, cobra.ShellCompDirectiveNoFileComp))
}

// AddGenerate adds the flag of the method that draws futures.
func AddGenerate(cmd *cobra.Command, method *string) {
	cmd.Flags().StringVar(method, "generate", generation.DefaultMethod,
		"how futures are made, ARRIVALS/DURATIONS: "+
			strings.Join(generateMethods(), ", ")+"; "+generation.HistoryDurations+" or "+generation.PredictedDurations)
	_ = cmd.RegisterFlagCompletionFunc("generate",
		cobra.FixedCompletions(generateMethods(), cobra.ShellCompDirectiveNoFileComp))
}

// generateMethods are the ways to forecast arrivals.
func generateMethods() []string {
	var out []string
	for _, m := range arrivals.Methods {
		out = append(out, m.Name)
	}
	return out
}

// MaxFutures bounds the futures in memory; some ten are enough.
const MaxFutures = 1000

// CheckSettings checks the settings of rounds.
func (t *TuneFlags) CheckSettings() error {
	var err error
	if t.Method, err = generation.ParseMethod(t.generate); err != nil {
		return UsageError{fmt.Errorf("--generate: %w", err)}
	}
	s := &t.Settings
	switch {
	case s.Horizon <= 0:
		return UsageError{fmt.Errorf("--horizon: %v is not positive", s.Horizon)}
	case s.Futures < 1 || s.Futures > MaxFutures:
		return UsageError{fmt.Errorf("--futures: %d is not from 1 to %d", s.Futures, MaxFutures)}
	case s.Budget <= 0:
		return UsageError{fmt.Errorf("--budget: %d is not positive", s.Budget)}
	case s.Workers < 0:
		return UsageError{fmt.Errorf("--workers: %d is negative", s.Workers)}
	}
	return nil
}

// AddGuard adds the guard of a change.
func AddGuard(cmd *cobra.Command, share *float64) {
	cmd.Flags().Var(guard{ShareFlag{share}}, "guard", "share by which a change may make the average JCT of jobs below "+
		"ten minutes, the p99 JCT and the waits of jobs of each width worse, or off")
}

const off = "off"

// ShareFlag is a flag's share of a whole, negative for off.
type ShareFlag struct{ To *float64 }

// Type returns the flag's type in help texts.
func (s ShareFlag) Type() string { return "share" }

// String formats the share in percent, or off.
func (s ShareFlag) String() string {
	switch {
	case s.To == nil || *s.To == 0:
		return "0"
	case *s.To < 0:
		return off
	}
	return strconv.FormatFloat(100**s.To, 'g', 6, 64) + "%"
}

// Set reads a share from 0 to 1, a percentage or off; 0 means off.
func (s ShareFlag) Set(text string) error {
	if text == off {
		*s.To = -1
		return nil
	}
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		return errors.New("want a share from 0 to 1, such as 0.1 or 10%, or off")
	}
	if *s.To = x; x == 0 {
		*s.To = -1
	}
	return nil
}

// guard is a share above 0: 0 is that of the default.
type guard struct{ ShareFlag }

func (g guard) Set(text string) error {
	if err := g.ShareFlag.Set(text); err != nil || text == off || *g.To > 0 {
		return err
	}
	return errors.New("want a share above 0, such as 0.1 or 10%, or off")
}

// DwellFlag is a flag's duration, negative for off.
type DwellFlag struct{ To *time.Duration }

// Type returns the flag's type in help texts.
func (d DwellFlag) Type() string { return "duration" }

// String formats the duration, or off.
func (d DwellFlag) String() string {
	switch {
	case d.To == nil || *d.To == 0:
		return "0"
	case *d.To < 0:
		return off
	}
	return (&space.Param{Kind: space.KindDuration}).Format(space.Num(d.To.Seconds())) // 2h, as --set has it
}

// Set reads a duration of at least 0, or off; 0 means off.
func (d DwellFlag) Set(text string) error {
	if text == off {
		*d.To = -time.Second
		return nil
	}
	x, err := time.ParseDuration(text)
	if err != nil || x < 0 {
		return errors.New("want a duration, such as 2h, or off")
	}
	if *d.To = x; x == 0 {
		*d.To = -time.Second
	}
	return nil
}

// AddLimits adds the limits of changes by tuning itself, but for operators'
// rollbacks, which an evaluation has none of.
func AddLimits(cmd *cobra.Command, l *rollout.Limits) {
	fl := cmd.Flags()
	fl.Var(changesPerDay{&l.ChangesPerDay}, "max-changes", "changes by tuning in 24 hours at most, or off")
	fl.Var(LimitFlag{&l.FlapWindow}, "flap-window",
		"time within which tuning returns to values that it left once at most, or off")
	fl.Var(quietHours{&l.QuietHours}, "quiet-hours", "hours of the day in which tuning changes nothing, such as "+
		"'22:00-06:00 Europe/Berlin' (UTC if no time zone is named), repeatable, or off")
}

type changesPerDay struct{ to *int }

func (c changesPerDay) Type() string { return "int" }

func (c changesPerDay) String() string {
	if c.to == nil {
		return "0"
	}
	return strconv.Itoa(*c.to)
}

func (c changesPerDay) Set(text string) (err error) {
	if text == off {
		text = "0"
	}
	if *c.to, err = strconv.Atoi(text); err != nil || *c.to < 0 || *c.to > 1000 {
		return errors.New("want a number from 0 to 1000, or off")
	}
	return nil
}

// LimitFlag is a flag's duration, 0 for off.
type LimitFlag struct{ To *time.Duration }

// Type returns the flag's type in help texts.
func (s LimitFlag) Type() string { return "duration" }

// String formats the duration, 0 for off.
func (s LimitFlag) String() string { return DwellFlag(s).String() }

// Set reads a duration from 0 to 168h, or off.
func (s LimitFlag) Set(text string) error {
	if text == off {
		text = "0"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 7*24*time.Hour {
		return errors.New("want a duration of at most 168h, such as 24h, or off")
	}
	*s.To = d
	return nil
}

type quietHours struct{ to *[]rollout.QuietHours }

func (q quietHours) Type() string { return "hours" }

func (q quietHours) String() string {
	if q.to == nil || len(*q.to) == 0 {
		return ""
	}
	return fmt.Sprint(*q.to)
}

func (q quietHours) Set(text string) error {
	if text == off {
		*q.to = nil
		return nil
	}
	hours, zone, _ := strings.Cut(text, " ")
	start, end, ok := strings.Cut(hours, "-")
	if !ok {
		return errors.New("want START-END and a time zone, such as '22:00-06:00 Europe/Berlin'")
	}
	one, err := rollout.ParseQuietHours(start, end, strings.TrimSpace(zone))
	if err != nil {
		return err
	}
	*q.to = append(*q.to, one)
	return nil
}

// Package replay evaluates tuning methods on a trace: a live simulation takes the
// place of the cluster. Every interval a method decides on the events so far, as the
// service does, and the live simulation is reconfigured. Both run the rounds of package
// round.
package replay

import (
	"time"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options of an evaluation.
type Options struct {
	// Trace holds the jobs to replay and the history before them.
	Trace *workload.Workload
	// From and To bound the submissions of the jobs that count. The replay ends when
	// the last of them ends.
	From, To time.Duration
	// Warmup starts the live simulation earlier; its jobs run but do not count.
	Warmup  time.Duration
	Cluster workload.Cluster
	// Scheduler whose configurations are tuned.
	Scheduler *schedulers.Scheduler
	// Current is the configuration that the user runs: the baseline of all ratios and
	// guards, and in force when tuning begins. Zero is the scheduler's default.
	Current space.Config
	Methods []string // the baseline is always the first
	// Goal of the rounds; the zero value is the first of round.Objectives.
	Goal round.Goal
	// Interval between rounds; 0 is round.DefaultInterval.
	Interval time.Duration
	// Settings of the rounds, defaults where they are zero. Search is the method
	// autosched's.
	round.Settings
	// Limits of changes by the method autosched; nil is rollout.DefaultLimits.
	Limits *rollout.Limits
	// Seeds is the number of seeds, from Settings.Seed on, of methods that draw; 0 is 1.
	Seeds int
	// Jobs is the number of cells (a method with a seed) evaluated at a time, which share
	// the Workers; 0 is one per processor. Outcomes do not depend on it.
	Jobs int
	Keep Keep
	// FixedBudget is the number of configurations that a method that tunes once
	// measures; 0 is the Budget of all rounds.
	FixedBudget int
	// Generate is the method that samples futures.
	Generate generation.Method
	Simulate simulator.Options
	// Estimated is the result of Estimate, from which the time left is known early; zero if there is none.
	Estimated Estimated
	// Progress is called after every round of every method, once at a time.
	Progress func(Step)
}

// Step is the progress of a method.
type Step struct {
	Method string
	Seed   uint64
	At     time.Duration
	Rounds int
	Trials int // of a method that tunes once
	Of     int // expected rounds or trials, 0 if unknown
	Done   bool
	// Nth is the method's place among the Methods, from 1.
	Nth, Methods int
	// Grid is the progress of the evaluation, of which this is a cell.
	Grid cells.Progress
}

// Report is an evaluation's result.
type Report struct {
	// Verdict is whether to change the settings once.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Change is the recommendation to a site whose settings are described, absent if nothing.
	Change      *SettingsChange  `json:"settings_change,omitempty"`
	Trace       string           `json:"trace"`
	Digest      string           `json:"digest"`
	Synthetic   bool             `json:"synthetic"`
	From        string           `json:"from"`
	To          string           `json:"to"`
	Jobs        int              `json:"jobs"`
	HistoryJobs int              `json:"history_jobs"`
	Cluster     workload.Cluster `json:"cluster"`
	// Load is the GPU-time submitted over capacity in the window, or in an hour if
	// the window is shorter.
	Load      float64 `json:"load"`
	Scheduler string  `json:"scheduler"`
	// Fidelity of the simulation under the baseline, absent where a synthetic trace has no delays.
	Fidelity  *fidelity.Graded `json:"fidelity,omitempty"`
	Baseline  Baseline         `json:"baseline"`
	Objective string           `json:"objective"`
	// SubjectTo are the goal's constraints.
	SubjectTo []string `json:"subject_to,omitempty"`
	IntervalS float64  `json:"interval_s"`
	HorizonS  float64  `json:"horizon_s"`
	Futures   int      `json:"futures"`
	Budget    int      `json:"budget"`
	// Guard of the method autosched (round.Settings).
	Guard float64 `json:"guard"`
	// MaxChanges in 24 hours, FlapWindow and QuietHours limit its changes (rollout.Limits).
	MaxChanges  int          `json:"max_changes_per_day"`
	FlapWindowS float64      `json:"flap_window_s"`
	QuietHours  []string     `json:"quiet_hours,omitempty"`
	Search      round.Search `json:"search"` // of the method autosched
	Seed        uint64       `json:"seed"`
	Seeds       []uint64     `json:"seeds"` // of methods that draw
	Simulator   string       `json:"simulator"`
	Notes       []string     `json:"notes,omitempty"`
	Methods     []Method     `json:"methods"`
	// Counted are the jobs that count, in order of submission.
	Counted []workload.Job `json:"-"`
}

// Baseline is the first method: the reference of ratios, guards and the verdict.
type Baseline struct {
	Method        string `json:"method"`
	Configuration string `json:"configuration"`
	// Assumed is true if no configuration was named: the scheduler's default.
	Assumed bool `json:"assumed"`
	// Default is the scheduler's default configuration.
	Default string `json:"default"`
}

// Method is the outcome of the workload under one method. Of several seeds it is the mean;
// fields without one, such as decisions, are of the first.
type Method struct {
	Method      string `json:"method"`
	Description string `json:"description"`
	Outcome
	// Seeds has the outcome of each seed of Report.Seeds. It is empty if there is one, and
	// for a method that draws nothing.
	Seeds []Outcome `json:"seeds,omitempty"`
	// Spread is the largest average JCT of a seed over the least, minus 1.
	Spread float64 `json:"spread"`
}

// Outcome is the outcome of the workload for one seed.
type Outcome struct {
	AvgJCT   float64 `json:"avg_jct_s"`
	P50JCT   float64 `json:"p50_jct_s"`
	P95JCT   float64 `json:"p95_jct_s"`
	P99JCT   float64 `json:"p99_jct_s"`
	AvgQueue float64 `json:"avg_queue_s"`
	// Ratio is the baseline's objective over this method's: above 1 is better.
	Ratio float64 `json:"ratio_to_baseline"`
	// ShortJCT is the average JCT of jobs that run for less than ten minutes.
	ShortJCT float64 `json:"short_avg_jct_s"`
	// Guards compare the method with the baseline; nil of the baseline itself.
	Guards *Guards `json:"guards,omitempty"`
	// Hindsight is that of fixed-oracle.
	Hindsight   *Hindsight `json:"hindsight,omitempty"`
	Preemptions int        `json:"preemptions"`
	Utilization float64    `json:"utilization"`
	FTFLe1      float64    `json:"ftf_le_1"`
	P95Rho      float64    `json:"p95_rho"`
	MaxRho      float64    `json:"max_rho"`
	// Energy, Cost and CO2 are the totals of Options.Simulate.Meter over the whole replay; EDP is the energy times
	// the average JCT in hours.
	Energy float64 `json:"energy_kwh,omitempty"`
	Cost   float64 `json:"cost_usd,omitempty"`
	CO2    float64 `json:"co2_kg,omitempty"`
	EDP    float64 `json:"edp_kwh_h,omitempty"`
	Rounds int     `json:"rounds"`
	// Urgent are the Rounds between rounds, after a burst (round.Burst).
	Urgent  int `json:"urgent,omitempty"`
	Changes int `json:"changes"`
	// Held are winners that were not adopted because of the limits.
	Held        int `json:"held,omitempty"`
	Evaluations int `json:"evaluations"`
	// TuningPerRound is wall time, which reports leave out.
	TuningPerRound float64 `json:"tuning_s_per_round,omitempty"`
	// Configuration at the end, as parameters.
	Configuration string     `json:"configuration"`
	Decisions     []Decision `json:"decisions,omitempty"`
	Rows          JobRows    `json:"-"`
	Series        []Sample   `json:"-"`
}

// Decision is one round of a method.
type Decision struct {
	At            string  `json:"at"`
	AtS           float64 `json:"at_s"`             // since the trace's zero
	Urgent        bool    `json:"urgent,omitempty"` // between rounds, after a burst
	Adopted       bool    `json:"adopted"`
	Reason        string  `json:"reason"`
	Ratio         float64 `json:"ratio"`
	Configuration string  `json:"configuration"` // in force after the round
	Evaluations   int     `json:"evaluations"`
	// Interval of Ratio, of methods that measure on enough futures.
	Interval *round.Interval `json:"interval,omitempty"`
	// Search is the scope of the round's search, Why the reason, of methods that choose.
	Search round.Search `json:"search,omitempty"`
	Why    string       `json:"why,omitempty"`
	// Candidates are the configurations measured, of methods that measure.
	Candidates []round.Candidate `json:"candidates,omitempty"`
}

// Sample is the live cluster at an instant.
type Sample struct {
	AtS     float64 `json:"at_s"`
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
	BusyGPU int     `json:"busy_gpus"`
}

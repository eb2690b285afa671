package synth

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/workload"
)

// Recipe composes a workload of parts by a few named numbers, so that a hard case can be
// kept as text.
type Recipe struct {
	Days  int    `json:"days"`
	Seed  uint64 `json:"seed"`
	Parts []Part `json:"parts"`
	// ShiftH moves submissions by hours within their day, from day ShiftFrom on.
	ShiftH    float64 `json:"shift_h,omitempty"`
	ShiftFrom int     `json:"shift_from_day,omitempty"`
}

// Part is the jobs of a profile or of a burst.
type Part struct {
	// Profile, Load and MaxDurationH, in hours, are as in Options.
	Profile      string  `json:"profile,omitempty"`
	Load         float64 `json:"load,omitempty"`
	MaxDurationH float64 `json:"max_duration_h,omitempty"`
	Burst        *Burst  `json:"burst,omitempty"`
	// Only keeps the jobs of "even" or "odd" days, counted from 0.
	Only string `json:"only,omitempty"`
	// FromDay and ToDay, which is excluded, keep the jobs of the days between; a ToDay of 0
	// is the end.
	FromDay int `json:"from_day,omitempty"`
	ToDay   int `json:"to_day,omitempty"`
}

// keeps reports whether the part has jobs that are submitted at an instant.
func (p *Part) keeps(submit time.Duration) bool {
	n := int(submit / day)
	if n < p.FromDay || p.ToDay > 0 && n >= p.ToDay {
		return false
	}
	return p.Only == "" || n%2 == 1 == (p.Only == "odd")
}

// Burst is equal jobs that arrive together: a sweep, or a flash crowd. Times are in hours.
type Burst struct {
	AtH     float64 `json:"at_h"`
	EveryH  float64 `json:"every_h,omitempty"` // 0: once
	WithinH float64 `json:"within_h"`
	Jobs    int     `json:"jobs"`
	GPUs    int     `json:"gpus"`
	// DurationsH are the median durations of one burst after the other, LnSD the
	// standard deviation of their logarithm among the jobs of a burst.
	DurationsH []float64 `json:"durations_h"`
	LnSD       float64   `json:"ln_sd,omitempty"`
}

const hour = float64(time.Hour)

// Generate draws the workload, from zero on, for a cluster. The same recipe gives the
// same workload.
func (r *Recipe) Generate(ctx context.Context, name string, zero time.Time, c workload.Cluster) (*workload.Workload,
	error) {
	if err := r.check(c); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", name, err)
	}
	var jobs []workload.Job
	for i := range r.Parts {
		p := &r.Parts[i]
		part, err := p.generate(ctx, r, i, zero, c)
		if err != nil {
			return nil, fmt.Errorf("recipe %s: part %d: %w", name, i, err)
		}
		for _, j := range part {
			if p.keeps(j.Submit) {
				jobs = append(jobs, j)
			}
		}
	}
	for i := range jobs {
		if at := jobs[i].Submit; at >= time.Duration(r.ShiftFrom)*day {
			jobs[i].Submit = at.Truncate(day) + (at%day+time.Duration(r.ShiftH*hour))%day
		}
	}
	workload.SortBySubmit(jobs)
	for i := range jobs {
		jobs[i].ID = name + "-" + padded(i+1)
	}
	return workload.NewSorted(name, zero, jobs, true), nil
}

const day = 24 * time.Hour

func (r *Recipe) check(c workload.Cluster) error {
	if r.Days < 1 || r.Days > 3650 {
		return fmt.Errorf("days: %d is not between 1 and 3650", r.Days)
	}
	if !(r.ShiftH >= 0 && r.ShiftH < 24) || r.ShiftFrom < 0 {
		return fmt.Errorf("shift_h, shift_from_day: %g and %d, want 0 to 24 and at least 0", r.ShiftH, r.ShiftFrom)
	}
	if len(r.Parts) == 0 {
		return fmt.Errorf("parts: there are none")
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		b := p.Burst
		positive := func(h float64) bool { return h > 0 && h <= workload.MaxDuration.Hours() }
		switch {
		case (p.Profile == "") == (b == nil):
			return fmt.Errorf("part %d: want one of profile and burst", i)
		case !slices.Contains([]string{"", "even", "odd"}, p.Only):
			return fmt.Errorf(`part %d: only: %q is not "even" or "odd"`, i, p.Only)
		case p.FromDay < 0 || p.FromDay >= r.Days || p.ToDay != 0 && p.ToDay <= p.FromDay:
			return fmt.Errorf("part %d: from_day, to_day: %d and %d, want a day of the recipe and a later one", i,
				p.FromDay, p.ToDay)
		case b == nil && !(p.Load > 0):
			return fmt.Errorf("part %d: load: %g is not above 0", i, p.Load)
		case b == nil:
		case !(b.AtH >= 0) || !(b.EveryH >= 0) || b.EveryH > 0 && b.EveryH < .01 || !(b.WithinH >= 0):
			return fmt.Errorf("part %d: burst: at_h, every_h, within_h: %g, %g, %g; want none below 0, bursts 0.01 h apart",
				i, b.AtH, b.EveryH, b.WithinH)
		case b.Jobs < 1 || b.Jobs > maxJobs || b.GPUs < 1 || b.GPUs > c.TotalGPUs():
			return fmt.Errorf("part %d: burst: %d jobs of %d GPUs; want at least 1 of 1 to the cluster's %d", i, b.Jobs,
				b.GPUs, c.TotalGPUs())
		case len(b.DurationsH) == 0 || !(b.LnSD >= 0 && b.LnSD <= 10) ||
			slices.ContainsFunc(b.DurationsH, func(h float64) bool { return !positive(h) }):
			return fmt.Errorf("part %d: burst: durations_h, ln_sd: want durations above 0 and 0 to 10", i)
		}
	}
	return nil
}

func (p *Part) generate(ctx context.Context, r *Recipe, i int, zero time.Time, c workload.Cluster) ([]workload.Job,
	error) {
	if p.Burst != nil {
		return p.Burst.generate(r, i), nil
	}
	w, err := Generate(ctx, Options{Profile: p.Profile, Zero: zero, Days: r.Days, Load: p.Load, Cluster: c,
		MaxDuration: time.Duration(p.MaxDurationH * hour), Seed: r.Seed + uint64(i)})
	if err != nil {
		return nil, err
	}
	return slices.Clone(w.Jobs()), nil
}

func (b *Burst) generate(r *Recipe, part int) []workload.Job {
	draw := rng.Stream("recipe-burst", r.Seed, uint64(part))
	var jobs []workload.Job
	for n := 0; ; n++ {
		at := b.AtH + float64(n)*b.EveryH
		if at >= float64(r.Days)*24 || n > 0 && b.EveryH == 0 {
			return jobs
		}
		name := fmt.Sprintf("burst-%d-%d", part, n)
		for range b.Jobs {
			h := b.DurationsH[n%len(b.DurationsH)] * math.Exp(b.LnSD*draw.NormFloat64())
			submit := time.Duration((at + b.WithinH*draw.Float64()) * hour).Truncate(time.Second)
			jobs = append(jobs, workload.Job{User: name, Tenant: fmt.Sprintf("burst-%d", part), Key: name,
				Submit: submit, GPUs: workload.GPUs(b.GPUs), Status: workload.Completed,
				Duration: min(max(time.Second, time.Duration(h*hour).Truncate(time.Second)), workload.MaxDuration)})
		}
	}
}

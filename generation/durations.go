package generation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// enough is how many longer jobs a group must have to be drawn from; below, the
// next wider group is asked.
const enough = 8

// Durations is what history tells of how long jobs run: the durations of ended
// jobs, grouped by key, by tenant and GPUs, by GPUs, and all together.
type Durations struct {
	byKey   map[string][]time.Duration
	byKind  map[kind][]time.Duration
	byGPUs  map[int][]time.Duration
	overall []time.Duration
}

type kind struct {
	tenant string
	gpus   int
}

// Learn takes the ended jobs of ended in; the others are left out.
func Learn(ended []Past) *Durations {
	d := &Durations{byKey: map[string][]time.Duration{}, byKind: map[kind][]time.Duration{}, byGPUs: map[int][]time.Duration{}}
	for i := range ended {
		p := &ended[i]
		if !p.Ended {
			continue
		}
		ran := max(p.Ran, time.Second)
		g := p.GPUs.Whole()
		if p.Key != "" {
			d.byKey[p.Key] = append(d.byKey[p.Key], ran)
		}
		k := kind{p.Tenant, g}
		d.byKind[k] = append(d.byKind[k], ran)
		d.byGPUs[g] = append(d.byGPUs[g], ran)
		d.overall = append(d.overall, ran)
	}
	for _, g := range d.byKey {
		slices.Sort(g)
	}
	for _, g := range d.byKind {
		slices.Sort(g)
	}
	for _, g := range d.byGPUs {
		slices.Sort(g)
	}
	slices.Sort(d.overall)
	return d
}

// Len is the number of durations learnt.
func (d *Durations) Len() int { return len(d.overall) }

// Draw gives a whole duration for a job that has run for ran already: one of
// the longer durations of the closest group that has enough of them. Where
// history has no longer job, the job goes on for as long again as it has run,
// times an exponential draw: with heavy tails, what has lasted lasts.
func (d *Durations) Draw(r *rand.Rand, j *workload.Job, ran time.Duration) time.Duration {
	g := j.GPUs.Whole()
	for _, group := range [...][]time.Duration{d.byKey[j.Key], d.byKind[kind{j.Tenant, g}], d.byGPUs[g], d.overall} {
		first, _ := slices.BinarySearch(group, ran+1)
		if n := len(group) - first; n >= enough {
			return group[first+r.IntN(n)]
		}
	}
	if first, _ := slices.BinarySearch(d.overall, ran+1); first < len(d.overall) {
		return d.overall[first+r.IntN(len(d.overall)-first)]
	}
	more := float64(max(ran, 10*time.Minute)) * r.ExpFloat64()
	return ran + max(time.Second, min(time.Duration(more), workload.MaxDuration/4))
}

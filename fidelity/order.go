package fidelity

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// Order is how closely a scheduler's delays follow the recorded ones.
type Order struct {
	Scheduler     string    `json:"scheduler"`
	Configuration string    `json:"configuration"`
	Simulated     bool      `json:"simulated,omitempty"` // the one that Report is of
	Delay         Agreement `json:"queueing_delay"`
	Queue         float64   `json:"simulated_queue_s"` // as of Report
}

// Name is for people: the scheduler and the part of its configuration that matters.
func (o *Order) Name() string {
	switch {
	case strings.Contains(o.Configuration, "backfill=true"):
		return o.Scheduler + " with backfill"
	case strings.Contains(o.Configuration, "backfill=false"):
		return o.Scheduler + " without backfill"
	}
	return o.Scheduler
}

// alternatives are the orders that a history is compared with: by submission, by run time
// and by attained service, blocking and not, preemptive and not.
var alternatives = []struct {
	scheduler string
	set       []string
}{
	{"fifo", []string{"backfill=false"}}, {"fifo", []string{"backfill=true"}},
	{"sjf", []string{"backfill=false"}}, {"sjf", []string{"backfill=true"}},
	{"srtf", nil}, {"tiresias", nil},
}

// orders simulates the alternatives. It returns them and the run of own, the best first, and
// the best run.
func (in *Input) orders(ctx context.Context, own *run) ([]Order, *run, error) {
	type ranked struct {
		Order
		run *run
	}
	all := []ranked{{Order{in.Scheduler.Name, in.Config.String(), true, own.delay(), own.queue()}, own}}
	for _, x := range alternatives {
		s, err := schedulers.Find(x.scheduler)
		if err != nil {
			return nil, nil, err
		}
		var c space.Config
		if c, err = s.Space.Parse(s.Space.Default(), x.set); err != nil {
			return nil, nil, err
		}
		if s == in.Scheduler && c.Hash() == in.Config.Hash() {
			continue
		}
		r, err := in.run(ctx, s.New(c))
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			continue // it cannot run this cluster or these quotas
		}
		all = append(all, ranked{Order{s.Name, c.String(), false, r.delay(), r.queue()}, r})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.Delay.Factor, b.Delay.Factor) })
	out := make([]Order, len(all))
	for i := range all {
		out[i] = all[i].Order
	}
	return out, all[0].run, nil
}

// overtaking counts pairs of jobs of one width and tenant that wait at once, and of them
// the ones in which the later submission starts first.
func overtaking(pairs []pair, delay func(*pair) time.Duration) (overtaken, together int) {
	type kind struct {
		tenant string
		gpus   int64
	}
	starts := map[kind][]*pair{}
	for i := range pairs {
		p := &pairs[i]
		k := kind{p.job.Tenant, int64(p.job.GPUs)}
		starts[k] = append(starts[k], p)
	}
	for _, same := range starts {
		start := make([]time.Duration, len(same))
		for i, p := range same {
			start[i] = p.job.Submit + delay(p)
			// Of the later ones, jobs submitted before p started.
			later := same[i+1:]
			together += sort.Search(len(later), func(k int) bool { return later[k].job.Submit >= start[i] })
		}
		overtaken += inversions(start, make([]time.Duration, len(start)))
	}
	return overtaken, together
}

// inversions counts the pairs in which the later value is the smaller, and sorts v (merge
// sort).
func inversions(v, scratch []time.Duration) int {
	if len(v) < 2 {
		return 0
	}
	half := len(v) / 2
	n := inversions(v[:half], scratch[:half]) + inversions(v[half:], scratch[half:])
	copy(scratch, v)
	a, b := scratch[:half], scratch[half:]
	for i := range v {
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			v[i], a = a[0], a[1:]
		} else {
			v[i], b = b[0], b[1:]
			n += len(a)
		}
	}
	return n
}

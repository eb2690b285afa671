package inject

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// The definition of a crash loop: failures of a key, each soon after its start, within a time.
const (
	loopFailures = 3
	loopRun      = 5 * time.Minute
	loopWithin   = time.Hour
)

// loop is jobs of a key that are submitted again when they fail. Whether it is a crash loop
// follows from when they ran.
type loop struct {
	user, key, tenant string
	jobs              []workload.Job
}

// newLoops makes crash loops and their look-alikes. A day has a key for two GPUs, about.
func newLoops(o *Options) []*loop {
	if !o.wants("crash_loop") {
		return nil
	}
	s := &Stream{seed: o.Seed}
	r := s.stream("loops")
	keys := max(8, int(float64(o.Nodes*o.GPUsPerNode)*(o.To-o.From).Hours()/48))
	positive := count(r, o.Prevalence, keys)
	var out []*loop
	for i := range positive + max(4, keys/8) {
		l := &loop{user: "user" + strconv.Itoa(r.IntN(keys/2+1)), key: "job" + strconv.Itoa(i) + ".sh"}
		failures, pause := 3+r.IntN(6), span(r, 20*time.Second, 4*time.Minute)
		run := func() time.Duration { return span(r, 5*time.Second, 3*time.Minute) }
		success := -1
		if i < positive {
			switch r.IntN(4) {
			case 0: // almost too slow
				failures = 3
				pause = span(r, 19*time.Minute, 24*time.Minute)
			case 1: // almost too long
				run = func() time.Duration { return span(r, 215*time.Second, 290*time.Second) }
				failures = 3 + r.IntN(2)
			}
		} else {
			switch r.IntN(4) {
			case 0: // too few
				failures = 2
			case 1: // too slow
				failures, pause = 3+r.IntN(3), span(r, 31*time.Minute, 40*time.Minute)
			case 2: // they run for longer
				run = func() time.Duration { return span(r, 310*time.Second, 390*time.Second) }
			default: // it works at times
				failures, success = 4, 2
			}
		}
		at := o.From + span(r, 30*time.Minute, o.To-o.From-4*time.Hour)
		gpus := 1
		if r.IntN(4) == 0 {
			gpus = min(4, o.GPUsPerNode)
		}
		for n := range failures {
			j := workload.Job{ID: "loop" + strconv.Itoa(i) + "-" + strconv.Itoa(n), User: l.user, Key: l.key,
				Submit: at, Duration: run(), GPUs: workload.GPUs(gpus), Status: workload.Failed}
			if n == success {
				j.Status, j.Duration = workload.Completed, span(r, 2*time.Minute, 20*time.Minute)
			}
			if o.Varied { // each attempt waits longer than the one before, and needs other GPUs
				j.GPUs = workload.GPUs(1 + r.IntN(min(4, o.GPUsPerNode)))
				pause = min(pause*3/2, 40*time.Minute)
				if r.IntN(4) == 0 { // another one of the key fails after a longer time
					more := j
					more.ID, more.Duration = j.ID+"-more", span(r, 8*time.Minute, 25*time.Minute)
					l.jobs = append(l.jobs, more)
				}
			}
			l.jobs = append(l.jobs, j)
			at += j.Duration + pause
		}
		out = append(out, l)
	}
	return out
}

// labelLoops labels the keys whose jobs failed as the definition says when they ran.
func (s *Stream) labelLoops(o *Options, loops []*loop) {
	if !o.wants("crash_loop") {
		return
	}
	of := map[string][]*run{}
	seen := map[string]bool{}
	for _, r := range s.runs {
		name := r.job.User + "/" + r.job.Key
		if r.ends && r.job.User != "" {
			of[name] = append(of[name], r)
		}
		if r.ends {
			seen[name] = true
		}
	}
	s.Units["crash_loop"] = len(seen)
	injected := map[string]bool{}
	for _, l := range loops {
		injected[l.user+"/"+l.key] = true
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		runs := of[name]
		slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(a.end, b.end) })
		label, ok := findLoop(runs)
		switch {
		case !ok:
		case injected[name]:
			label.Entity = name
			s.Labels = append(s.Labels, label)
		default: // the trace's own
			s.unclear(name, label.From, label.To, "crash_loop")
		}
	}
}

// findLoop applies the definition to the ends of a key's jobs.
func findLoop(runs []*run) (label Label, found bool) {
	var failed []*run
	near := true
	for _, r := range runs {
		switch {
		case r.job.Status == workload.Completed:
			failed = failed[:0]
		case (r.job.Status == workload.Failed || r.job.Status == workload.OutOfMemory) && r.span() < loopRun:
			failed = append(failed, r)
		}
		n := len(failed)
		if n < loopFailures || r != failed[n-1] {
			continue
		}
		first := failed[n-loopFailures]
		within := r.end - first.end
		if within > loopWithin {
			continue
		}
		if !found {
			label, found = Label{Rule: "crash_loop", From: first.start}, true
		}
		label.To = r.end
		easy := within <= loopWithin*7/10
		for _, f := range failed[n-loopFailures:] {
			easy = easy && f.span() <= loopRun*7/10
		}
		near = near && !easy
	}
	if !found {
		return label, false
	}
	label.Near = near
	for _, r := range runs {
		if r.start >= label.From && r.end <= label.To {
			label.WastedGPUHours += float64(r.gpus()) * r.span().Hours()
		}
	}
	return label, true
}

// give draws a telemetry profile for a job.
func (s *Stream) give(r *run, x *rand.Rand) {
	p := &r.prof
	p.level = between(x, .3, .95)
	p.memory = min(s.curves.memory.at(x.Float64()), highMemory-.03)
	p.phase = span(x, 0, time.Hour)
	switch n := x.IntN(100); {
	case n < 20: // reads data between epochs
		p.level = between(x, .6, .95)
		p.every, p.dip = span(x, time.Hour, 3*time.Hour), span(x, 5*time.Minute, 18*time.Minute)
	case n < 70: // writes checkpoints
		p.every, p.dip = span(x, 25*time.Minute, time.Hour), span(x, 30*time.Second, 4*time.Minute)
	case n < 78: // little use, by design
		p.kind, p.level = small, between(x, .185, .3)
	case n < 84 && r.span() < 110*time.Minute:
		p.kind, p.level = notebook, between(x, .3, .7)
		s.labels[r.job.ID] = []string{"interactive"}
	case n < 90 && r.gpus() == 1:
		p.kind, p.level = inference, between(x, .03, .08)
		s.labels[r.job.ID] = []string{"inference", "hoard-ok"}
	case n < 94 && r.span() > 3*time.Hour: // without samples for a time
		from := r.start + span(x, 20*time.Minute, r.span()-2*time.Hour)
		p.gap = [2]time.Duration{from, from + span(x, 10*time.Minute, 100*time.Minute)}
	}
	if r.job.Status == workload.Unknown || !r.job.Status.Ended() {
		r.job.Status = workload.Completed
		if r.span() > 10*time.Minute {
			switch n := x.IntN(100); {
			case n < 12:
				r.job.Status = workload.Failed
			case n < 25:
				r.job.Status = workload.Cancelled
			}
		}
	}
}

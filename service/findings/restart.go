package findings

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

const (
	// pastEvents is how far back events are read, longer than the longest window of the built-in rules, and
	// pastSamples the samples.
	pastEvents  = 8 * 24 * time.Hour
	pastSamples = 6 * time.Hour
	// maxEvents are held while events are read; if there are more, events of a shorter time.
	maxEvents = 150_000
	// pruneAfter is how many events are read at least before older ones are dropped.
	pruneAfter = 20_000
	// attempts to read events and samples that go together.
	attempts = 3
)

// restart makes a scanner, gives it stored records, and continues the open findings: ones that it does not find again
// are closed.
func (w *watch) restart(of Scheduler, period time.Duration) {
	k := w.keeper
	k.reading.Lock()
	defer k.reading.Unlock()
	w.in.Lock()
	w.lost = false // stored records include them
	w.in.Unlock()
	w.scanned = k.o.Now()
	var old map[key]*patterns.Finding
	var s *scan
	var err error
	for range attempts {
		old = map[key]*patterns.Finding{}
		if s, err = w.read(of, period, old); err != nil || !w.missed(s) {
			break
		}
	}
	if w.ctx.Err() != nil {
		return
	}
	if err != nil {
		k.o.Log.Error("what is stored is not examined for patterns", "scheduler", w.id, "err", err)
		if w.scan, err = w.begin(of, period, w.found); err != nil {
			k.o.Log.Error("nothing is examined for patterns", "scheduler", w.id, "err", err)
			w.scan = nil
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := k.now()
	for _, f := range slices.SortedFunc(maps.Values(w.open), order) {
		found := old[f.key()]
		switch {
		case found != nil && found.Open:
			f.carried = max(0, f.WastedGPUHours-found.WastedGPUHours)
			s.update(f, found)
		case found != nil && found.Closed.After(f.Opened):
			s.update(f, found)
			w.list.close(f, found.Closed)
			w.tell("closed", f, now)
			w.dirty = true
		default:
			f.Lost = true
			w.list.close(f, f.Updated)
			w.dirty = true
		}
	}
	for _, f := range s.Open() {
		if w.open[key{f.Rule, f.Entity}] == nil {
			one := s.convert(f)
			if w.add(one, now) {
				w.tell("opened", one, now)
				w.dirty = true
			} else {
				w.count(unkept, 1)
			}
		}
	}
}

// missed reports whether events came in after the stored ones were read that are earlier than the samples read since.
func (w *watch) missed(s *scan) bool {
	w.in.Lock()
	defer w.in.Unlock()
	return slices.ContainsFunc(w.queue.events, func(e workload.Event) bool {
		return e.Time < s.feed.Bound() && !s.known[e.ID]
	})
}

// begin makes the scanner.
func (w *watch) begin(of Scheduler, period time.Duration, found func(*patterns.Finding)) (*scan, error) {
	s := &scan{of: of, price: w.keeper.o.Price, zero: of.Zero, period: cmp.Or(period, 15*time.Second),
		guessed: period == 0}
	if s.zero.IsZero() {
		s.zero = time.Unix(0, 0).UTC()
	}
	s.base = time.Duration(s.zero.UnixNano())
	var err error
	s.Scanner, err = patterns.New(patterns.Options{Zero: s.zero, Cluster: of.Cluster, Rules: w.keeper.o.Rules,
		Period: s.period, OnFinding: found})
	if err != nil {
		return nil, err
	}
	s.feed = feed.New(s.Scanner, max(lateness, patterns.Lateness(s.period)))
	w.scan = s // found needs it
	return s, nil
}

// read makes a scanner and gives it stored records; old becomes the last finding of each rule and entity.
func (w *watch) read(of Scheduler, period time.Duration, old map[key]*patterns.Finding) (*scan, error) {
	source := w.keeper.source
	p := past{jobs: map[string][]workload.Event{}, nodes: map[string]workload.Event{}, span: pastEvents}
	err := source.Events(w.ctx, w.id, func(e workload.Event) error {
		p.add(e)
		return w.ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	sampled, err := source.Sampled(w.id)
	if err != nil {
		return nil, err
	}
	events := p.events()
	latest := time.Duration(w.scanned.UnixNano())
	if len(events) > 0 {
		last := time.Duration(of.Zero.UnixNano()) + p.latest
		latest, sampled = max(latest, last), max(sampled, last)
	}
	latest += ahead
	from := min(sampled, latest) - pastSamples
	if period == 0 {
		var g feed.Gaps
		enough := errors.New("enough")
		err := source.Samples(w.ctx, w.id, from, latest, func(x *telemetry.GPUSample) error {
			if g.Add(x); g.Len() >= enoughGaps {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			return nil, err
		}
		if g.Len() >= enoughGaps {
			period = g.Period()
		}
	}
	reading := true
	s, err := w.begin(of, period, func(f *patterns.Finding) {
		if !reading {
			w.found(f)
			return
		}
		old[key{f.Rule, f.Entity}] = f.Clone()
	})
	if err != nil {
		return nil, err
	}
	s.known = make(map[string]bool, len(events))
	for i := range events {
		s.known[events[i].ID] = true
	}
	next := 0
	until := func(at time.Duration) {
		for ; next < len(events) && events[next].Time < at; next++ {
			w.put(patterns.Record{Event: &events[next]})
		}
	}
	for hour := from.Truncate(time.Hour); hour < min(latest, sampled); hour += time.Hour {
		type dated struct {
			at     time.Duration
			record patterns.Record
		}
		var rows []dated
		begin, end := max(from, hour), min(latest, hour+time.Hour)
		err := source.Samples(w.ctx, w.id, begin, end, func(x *telemetry.GPUSample) error {
			rows = append(rows, dated{x.Time - s.base, patterns.Record{GPU: new(*x)}})
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = source.Iterations(w.ctx, w.id, begin, end, func(x *telemetry.Iteration) error {
			rows = append(rows, dated{x.Time - s.base, patterns.Record{Iteration: new(*x)}})
			return nil
		})
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(rows, func(a, b dated) int { return cmp.Compare(a.at, b.at) })
		for _, r := range rows {
			until(r.at)
			w.put(r.record)
		}
	}
	until(workload.MaxSubmit + 1)
	w.flush()
	s.joined = s.Joins() // of samples that were stored before
	reading = false
	return s, w.ctx.Err()
}

// past are stored events: all of a span before the latest, all of jobs that are active, and the last of each node.
type past struct {
	jobs   map[string][]workload.Event
	nodes  map[string]workload.Event
	other  []workload.Event
	n      int
	next   int // of n, when older events are dropped
	latest time.Duration
	span   time.Duration
}

func (p *past) add(e workload.Event) {
	if p.n == 0 || e.Time > p.latest {
		p.latest = e.Time
	}
	p.n += 1 + len(e.Active)
	if e.Kind.OfNode() {
		p.nodes[e.Node] = e
	}
	if e.Kind.OfJob() {
		p.jobs[e.Job.ID] = append(p.jobs[e.Job.ID], e)
	} else {
		p.other = append(p.other, e)
	}
	if p.n < p.next {
		return
	}
	for p.prune(); p.n > maxEvents*3/4 && p.span > time.Hour; p.prune() {
		p.span /= 2
	}
	p.next = min(max(2*p.n, pruneAfter), max(p.n+pruneAfter, maxEvents))
}

// prune drops jobs that ended before the span.
func (p *past) prune() {
	from := p.latest - p.span
	p.other = slices.DeleteFunc(p.other, func(e workload.Event) bool { return e.Time < from })
	p.n = len(p.other)
	for i := range p.other {
		p.n += len(p.other[i].Active)
	}
	for id, events := range p.jobs {
		if last := events[len(events)-1]; last.Kind == workload.Finished && last.Time < from {
			delete(p.jobs, id)
			continue
		}
		p.n += len(events)
	}
}

// events returns the events that are left, in order of time.
func (p *past) events() []workload.Event {
	p.prune()
	out := slices.Clone(p.other)
	for _, e := range p.nodes {
		if e.Time < p.latest-p.span {
			out = append(out, e)
		}
	}
	for _, events := range p.jobs {
		out = append(out, events...)
	}
	slices.SortStableFunc(out, workload.CompareEvents)
	return out
}

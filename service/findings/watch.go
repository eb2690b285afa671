package findings

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

const (
	// lateness is how late records may be at least: collectors send their samples together.
	lateness = 2 * time.Minute
	// ahead is how far samples and iterations may be ahead of the service's clock and of the latest event.
	ahead = 10 * time.Minute
	// enoughGaps show the period of samples.
	enoughGaps = 50
	// again is the least time between two scans of stored records because records were dropped.
	again = time.Hour
)

// The results that counts has.
const (
	examined = "examined"
	late     = "late"    // samples and iterations that came after later ones were examined
	tooEarly = "ahead"   // samples and iterations
	dropped  = "dropped" // there was no room
	unkept   = "unkept"  // findings, for which there was no room
)

// waiting are records that came in.
type waiting struct {
	events     []workload.Event
	samples    []telemetry.GPUSample
	iterations []telemetry.Iteration
	guardrails []patterns.Guardrail
}

func (x *waiting) len() int {
	return len(x.events) + len(x.samples) + len(x.iterations) + len(x.guardrails)
}

// watch examines the records of a scheduler, in a goroutine of its own.
type watch struct {
	keeper *Keeper
	id     string
	ctx    context.Context
	stop   context.CancelFunc
	ended  chan struct{}
	wake   chan struct{}

	// The queue has a lock of its own, so that taking it in does not wait for a disk.
	in     sync.Mutex
	queue  waiting
	lost   bool               // events were dropped since the last scan of stored records
	hourly patterns.Guardrail // taken in last
	counts map[string]int64
	joins  telemetry.JoinCounts

	mu sync.Mutex // taken before in
	list

	// Fields below are the goroutine's.
	scan    *scan
	scanned time.Time // when stored records were read, by the service's clock
	dirty   bool      // w.mu
}

// scan is a scanner with the scheduler that it was made for.
type scan struct {
	*patterns.Scanner
	of     Scheduler
	price  func() float64
	zero   time.Time
	base   time.Duration // zero since the Unix epoch
	period time.Duration
	// guessed says that the period is not that of samples yet.
	guessed bool
	feed    *feed.Feed
	joined  telemetry.JoinCounts // that the watch has counted
	event   time.Duration        // the latest
	gaps    feed.Gaps
	known   map[string]bool // ids of events that were read from the store
}

func (w *watch) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// enqueue adds records to the queue, or drops them.
func (w *watch) enqueue(x waiting) {
	w.in.Lock()
	if q, n := &w.queue, x.len(); q.len()+n > maxQueue {
		w.counts[dropped] += int64(n)
		w.lost = w.lost || len(x.events) > 0
	} else {
		q.events, q.samples = append(q.events, x.events...), append(q.samples, x.samples...)
		q.iterations, q.guardrails = append(q.iterations, x.iterations...), append(q.guardrails, x.guardrails...)
	}
	w.in.Unlock()
	w.wakeUp()
}

// run examines the queue until the watch is stopped.
func (w *watch) run() {
	defer close(w.ended)
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		}
		w.examine()
	}
}

// examine examines the queue.
func (w *watch) examine() {
	k := w.keeper
	of, err := k.source.Scheduler(w.id)
	if err != nil { // it is quarantined or gone
		in, _ := w.take()
		w.count(dropped, in.len())
		return
	}
	w.in.Lock()
	lost := w.lost && k.o.Now().Sub(w.scanned) >= again
	w.in.Unlock()
	if w.scan == nil || w.scan.of.Version != of.Version || lost {
		w.restart(of, 0)
	}
	if w.ctx.Err() != nil || w.scan == nil {
		return
	}
	in, now := w.take()
	s := w.scan
	for i := range in.events {
		if e := &in.events[i]; !s.known[e.ID] {
			w.put(patterns.Record{Event: e})
		}
	}
	if now.Sub(w.scanned) > time.Minute {
		s.known = nil // events read when the scan began do not come in any more
	}
	latest := max(s.event, time.Duration(now.UnixNano())-s.base) + ahead + s.base
	was, early := s.feed.Late(), 0
	measured := func(at time.Duration, r patterns.Record) {
		if at > latest {
			early++
			return
		}
		w.put(r)
	}
	for i := range in.samples {
		measured(in.samples[i].Time, patterns.Record{GPU: &in.samples[i]})
	}
	for i := range in.iterations {
		measured(in.iterations[i].Time, patterns.Record{Iteration: &in.iterations[i]})
	}
	for i := range in.guardrails {
		measured(in.guardrails[i].Time, patterns.Record{Guardrail: &in.guardrails[i]})
	}
	missed := s.feed.Late() - was
	w.count(late, missed)
	w.count(tooEarly, early)
	w.count(examined, in.len()-missed-early)
	w.flush()
	w.countJoins()
	if period := s.periodSeen(); s.guessed && period != 0 && period != s.period {
		w.restart(of, period)
	}
	w.store()
}

// take empties the queue.
func (w *watch) take() (waiting, time.Time) {
	w.in.Lock()
	defer w.in.Unlock()
	in := w.queue
	w.queue = waiting{}
	return in, w.keeper.o.Now()
}

func (w *watch) count(what string, n int) {
	w.in.Lock()
	defer w.in.Unlock()
	w.counts[what] += int64(n)
}

// countJoins counts samples by how the scan joined them to jobs.
func (w *watch) countJoins() {
	now := w.scan.Joins()
	w.in.Lock()
	defer w.in.Unlock()
	for how := range now {
		w.joins[how] += now[how] - w.scan.joined[how]
	}
	w.scan.joined = now
}

// put gives a record to the feed. One that is refused is logged: it was checked before it was stored.
func (w *watch) put(r patterns.Record) {
	s := w.scan
	if r.Event != nil {
		s.event = max(s.event, r.Event.Time)
	} else if s.guessed && r.GPU != nil && s.gaps.Len() < enoughGaps {
		s.gaps.Add(r.GPU)
	}
	if err := s.feed.Put(r); err != nil {
		w.keeper.o.Log.Warn("a record is not examined", "scheduler", w.id, "err", err)
	}
}

// flush examines the records that no other can precede.
func (w *watch) flush() {
	if err := w.scan.feed.Flush(); err != nil {
		w.keeper.o.Log.Error("the scan does not go on", "scheduler", w.id, "err", err)
	}
}

// periodSeen is the period of samples, 0 until it is known.
func (s *scan) periodSeen() time.Duration {
	if s.gaps.Len() < enoughGaps {
		return 0
	}
	return s.gaps.Period()
}

// found takes in the reports of the scanner about new records.
func (w *watch) found(f *patterns.Finding) {
	k := w.keeper
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = true
	now := k.now()
	old := w.open[key{f.Rule, f.Entity}]
	switch {
	case old == nil && f.Open:
		one := w.scan.convert(f)
		if !w.add(one, now) {
			w.count(unkept, 1)
			return
		}
		w.tell("opened", one, now)
	case old != nil:
		w.scan.update(old, f)
		if !f.Open {
			w.list.close(old, f.Closed)
			w.tell("closed", old, now)
		}
	}
}

// tell hands a finding on, unless it is silent.
func (w *watch) tell(event string, f *Finding, now time.Time) {
	if w.keeper.o.Notify != nil && !f.Silent(now) {
		w.keeper.o.Notify(&Notice{Event: event, Scheduler: w.id, Finding: *f.clone()})
	}
}

// convert makes a finding of a report of the scanner.
func (s *scan) convert(f *patterns.Finding) *Finding {
	out := &Finding{Finding: *f.Clone()}
	out.Open, out.Closed, out.ID = true, time.Time{}, idOf(out)
	s.update(out, f)
	return out
}

// update brings the numbers of a finding up to date. When it began and opened stays.
func (s *scan) update(f *Finding, from *patterns.Finding) {
	f.Job, f.Confidence, f.Action, f.Updated = from.Job, from.Confidence, from.Action, from.Closed
	f.WastedGPUHours = max(f.WastedGPUHours, f.carried+from.WastedGPUHours)
	f.Cost = f.WastedGPUHours * s.price()
	f.Evidence = slices.Clone(from.Evidence)
}

// save writes the findings. w.mu is held.
func (w *watch) save() error { return w.keeper.o.write(w.keeper.path(w.id), w.content()) }

// store writes the findings if they changed. If that fails, it is tried again with the next records.
func (w *watch) store() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirty {
		return
	}
	if err := w.save(); err != nil {
		w.keeper.o.Log.Error("findings are not stored", "scheduler", w.id, "err", err)
		return
	}
	w.dirty = false
}

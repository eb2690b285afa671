// Package feed puts the records of a scan into order of time: the only place with a rule for late records. A Feed
// orders one stream, and Files merges recorded ones.
package feed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// batch is the span of records that are put into order at once.
const batch = time.Minute

// Feed gives records to a Scanner in order of time. A record waits until all that may precede it have come: lateness
// bounds how late these are, in the time of records. One that comes after later records were given has missed its turn:
// an event then counts from the latest of these, as the state of jobs and nodes depends on it; others are left out and
// counted. It is for one goroutine.
type Feed struct {
	to       *patterns.Scanner
	lateness time.Duration
	begun    bool
	bound    time.Duration // records before it were given
	newest   time.Duration
	alone    bool // all records have the time of the newest
	leapt    bool // a record was far beyond the newest, at ahead
	ahead    time.Duration
	left     int // that leapt, at the end
	held     []held
	sorted   bool
	late     int
}

// leap bounds how far the time of one record can bring all: clocks are wrong at times, and all later ones would be
// late. One beyond waits for its turn, until records of another time beyond confirm it.
const leap = 24 * time.Hour

type held struct {
	at     time.Duration
	rank   int
	record patterns.Record
}

// New returns a feed of records that are late by at most lateness.
func New(to *patterns.Scanner, lateness time.Duration) *Feed {
	return &Feed{to: to, lateness: lateness, sorted: true}
}

// Put takes in a record, which must not change until it was given to the scanner. An iteration without a time has that
// of the newest record.
func (f *Feed) Put(r patterns.Record) error {
	at, err := f.to.Check(r)
	if err != nil {
		return err
	}
	if r.Iteration != nil && r.Iteration.Time == 0 {
		at = f.newest
	}
	if !f.begun {
		f.begun, f.alone, f.newest, f.bound = true, true, at, at-f.lateness
	} else if f.alone && at < f.newest-leap { // the first one leapt
		f.leapt, f.ahead, f.newest, f.bound = true, f.newest, at, at-f.lateness
	}
	f.alone = f.alone && at == f.newest
	if at < f.bound {
		if r.Event == nil {
			f.late++
			return nil
		}
		at = f.bound
	}
	x := held{at, r.Rank(), r}
	if n := len(f.held); n > 0 && before(&x, &f.held[n-1]) < 0 {
		f.sorted = false
	}
	f.held = append(f.held, x)
	if at > f.newest+leap {
		if !f.leapt || f.ahead <= f.newest+leap || f.ahead == at {
			f.leapt, f.ahead = true, at
			return nil
		}
		at, f.ahead = min(at, f.ahead), max(at, f.ahead)
	}
	if at <= f.newest {
		return nil
	}
	if f.newest = at; at-f.lateness >= f.bound+batch {
		return f.Flush()
	}
	return nil
}

func before(a, b *held) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) }

// Flush gives the scanner the records that no other can precede.
func (f *Feed) Flush() error {
	if until := f.newest - f.lateness; f.begun && until > f.bound {
		f.bound = until
		return f.give(until)
	}
	return nil
}

// give gives the scanner the records before an instant.
func (f *Feed) give(until time.Duration) error {
	if !f.sorted {
		slices.SortStableFunc(f.held, func(a, b held) int { return before(&a, &b) })
		f.sorted = true
	}
	n := 0
	for ; n < len(f.held) && f.held[n].at < until; n++ {
		if err := f.to.Apply(f.held[n].at, f.held[n].record); err != nil {
			return err
		}
	}
	rest := copy(f.held, f.held[n:])
	clear(f.held[rest:])
	f.held = f.held[:rest]
	return f.to.Advance(min(until, f.newest))
}

// Advance says that only late records are missing before t, which is since the scanner's zero.
func (f *Feed) Advance(t time.Duration) error {
	if f.begun && t > f.newest {
		f.newest = t
		return f.Flush()
	}
	return nil
}

// Close gives the scanner the rest, and closes it.
func (f *Feed) Close() error {
	if f.begun {
		ahead := func(x held) bool { return x.at == f.ahead }
		isEvent := func(x held) bool { return ahead(x) && x.record.Event != nil }
		switch n := len(f.held); {
		case !f.leapt:
		case f.ahead <= f.newest+leap || slices.ContainsFunc(f.held, isEvent):
			f.newest = max(f.newest, f.ahead) // an event counts, however long nothing happened before
		default:
			f.held = slices.DeleteFunc(f.held, ahead)
			f.left = n - len(f.held)
		}
		if err := f.give(f.newest + 1); err != nil {
			return err
		}
	}
	return f.to.Close()
}

// Late returns the number of records that were left out.
func (f *Feed) Late() int { return f.late }

// Newest returns the time of the newest record, and Bound the instant before which all was given.
func (f *Feed) Newest() time.Duration { return f.newest }

// Bound returns the instant before which all records were given.
func (f *Feed) Bound() time.Duration { return f.bound }

// Notes returns the scanner's notes, and one of late records.
func (f *Feed) Notes() []string {
	out := f.to.Notes()
	if f.left > 0 {
		out = append(out, fmt.Sprintf("%d records are more than %v after all others and are left out: check their clock",
			f.left, leap))
	}
	if f.late > 0 {
		out = append(out, fmt.Sprintf("%d records were later than %v and are left out: sort them by time", f.late,
			f.lateness))
	}
	return out
}

// Gaps finds the sampling period of GPUs from the times between two samples of one. The zero value is ready for use.
type Gaps struct {
	last map[telemetry.GPU]time.Duration
	all  []time.Duration
}

// Add takes in the time of a sample.
func (g *Gaps) Add(s *telemetry.GPUSample) {
	if g.last == nil {
		g.last = map[telemetry.GPU]time.Duration{}
	}
	if was, ok := g.last[s.GPU]; ok && s.Time > was {
		g.all = append(g.all, s.Time-was)
	}
	g.last[s.GPU] = s.Time
}

// Len returns the number of gaps.
func (g *Gaps) Len() int { return len(g.all) }

// Period returns the median gap in whole multiples of 15 s, as the times of samples jitter, from 15 s to 1 h; 0 without
// a gap.
func (g *Gaps) Period() time.Duration {
	if len(g.all) == 0 {
		return 0
	}
	slices.Sort(g.all)
	const grid = 15 * time.Second
	return min(time.Hour, max(grid, (g.all[len(g.all)/2]+grid-time.Second)/grid*grid))
}

// NodeNames returns the names of the nodes that events name and jobs ran on, in order.
func NodeNames(w *workload.Workload, events []workload.Event) []string {
	seen := map[string]bool{}
	var note func(list []workload.Event)
	note = func(list []workload.Event) {
		for i := range list {
			if e := &list[i]; e.Node != "" {
				seen[e.Node] = true
			}
			for _, n := range list[i].Placement {
				seen[n.Node] = true
			}
			note(list[i].Active)
		}
	}
	note(events)
	lists := map[string]bool{}
	for i := range w.Jobs() {
		text := w.Jobs()[i].Nodes
		if text == "" || lists[text] {
			continue
		}
		lists[text] = true
		names, err := slurmtext.HostList(text)
		if err != nil {
			continue
		}
		for _, n := range names {
			seen[n] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Places reports whether names can be the names of a cluster's nodes, by number; if not, it says why. Then it removes
// the placements of events, as it is not known where jobs ran.
func Places(c workload.Cluster, names []string, events []workload.Event) (why string) {
	for i := range c.Groups {
		if c.Groups[i].GPUsPerNode != c.Groups[0].GPUsPerNode {
			why = "the nodes of the cluster have different sizes"
		}
	}
	if n := c.Nodes(); n > 0 && len(names) > n {
		why = fmt.Sprintf("the trace names %d nodes, and the cluster has %d", len(names), n)
	}
	if len(names) == 0 || why == "" {
		return ""
	}
	for i := range events {
		events[i].Placement = nil
	}
	return why
}

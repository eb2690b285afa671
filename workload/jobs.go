package workload

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// JobHistory is a job from its submission to an instant, as its events report it.
type JobHistory struct {
	// ActiveJob is the job at the instant, or at its end. It has no Placement.
	ActiveJob
	// FirstStart is the instant of the first start, if Starts is above 0.
	FirstStart time.Duration
	// Ended says that the job ended, at End. Missing says that it did not, and that a later snapshot lacks it: its
	// end is not known, and it was last seen at End.
	Ended, Missing bool
	End            time.Duration
	// On is where the job runs, or ran last, by the names of nodes.
	On []NodeShare
	// Spells are the times in which it held GPUs.
	Spells []Spell

	event string // that submitted it
}

// Place is a job's place in the order of submissions. The zero value is none.
type Place struct {
	Submit time.Duration
	Event  string // the id of the event that submitted it
	ID     string
}

// before reports whether a job was submitted before the one of a place.
func (p Place) before(r *record) bool {
	return cmp.Or(cmp.Compare(r.submit, p.Submit), cmp.Compare(r.submitID, p.Event), cmp.Compare(r.id, p.ID)) < 0
}

// scanned bounds the jobs that a call of Jobs looks at.
const scanned = 4096

// Jobs calls f with jobs, the latest submission first, until it returns false: those that were there at some time in
// [from, to], as of the instant to, and were submitted before the one of a place. A call looks at a bounded number of
// jobs; if there may be more, it returns the place to go on from.
func (l *Ledger) Jobs(from, to time.Duration, after Place, f func(*JobHistory) bool) (Place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	all := l.arrivals.sorted
	n := sort.Search(len(all), func(i int) bool { return all[i].submit > to })
	if after != (Place{}) {
		n = min(n, sort.Search(len(all), func(i int) bool { return !after.before(all[i]) }))
	}
	seen := latest(&l.snapshots, to)
	var h JobHistory
	var scratch openRecord
	for i := n - 1; i >= 0; i-- {
		r := all[i]
		if n-i > scanned {
			last := all[i+1]
			return Place{last.submit, last.submitID, last.id}, true
		}
		if r.ended && r.end() < from {
			continue
		}
		if known := r.history(&h, &scratch, to, seen); known && (!h.Missing || h.End >= from) && !f(&h) {
			return Place{r.submit, r.submitID, r.id}, i > 0
		}
	}
	return Place{}, false
}

// Job returns a job as of an instant, and whether it is known by then.
func (l *Ledger) Job(id string, at time.Duration) (JobHistory, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.jobs[id]
	if r == nil || !r.submitted {
		return JobHistory{}, false
	}
	var h JobHistory
	known := r.history(&h, &openRecord{}, at, latest(&l.snapshots, at))
	return h, known
}

// history is the job as of an instant, before which the last snapshot was taken at another. It uses the memory of h's
// Spells and of scratch.
func (r *record) history(h *JobHistory, scratch *openRecord, at, seen time.Duration) (known bool) {
	open := r.unpackInto(scratch, true)
	spells := h.Spells[:0]
	if spells == nil {
		spells = []Spell{}
	}
	f := folded{spells: spells}
	f.replay(open, at)
	missing := !f.ended && f.last < seen
	if missing {
		at = f.last
		f = folded{spells: spells}
		f.replay(open, at)
	}
	*h = JobHistory{ActiveJob: f.ActiveJob, FirstStart: f.first, Ended: f.ended, Missing: missing, On: f.placement,
		Spells: f.spells, event: r.submitID}
	if h.Ended || missing {
		h.Running, h.End = false, f.accountedTo
	}
	return f.known
}

// Place returns the place of the job in the order of submissions.
func (h *JobHistory) Place() Place { return Place{h.Submit, h.event, h.ID} }

// Node is a node as its events report it.
type Node struct {
	Name string
	GPUs int // 0 where neither its events nor the registered cluster say
	// Up says that it takes jobs, and Draining that it takes no more.
	Up, Draining bool
}

// Nodes returns the nodes that have events until an instant, in order of name.
func (l *Ledger) Nodes(at time.Duration) (out []Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.nodes {
		if e := l.nodeAt(name, at); e != nil {
			n := Node{Name: name, GPUs: e.gpus, Up: e.kind == NodeUp, Draining: e.kind == NodeDrained}
			if g := l.groupOf(name, e); n.GPUs == 0 && g >= 0 && g < len(l.cluster.Groups) {
				n.GPUs = l.cluster.Groups[g].GPUsPerNode
			}
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

package workload

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Finish is a job that ended, as its events report it.
type Finish struct {
	Job
	End     time.Duration
	RunTime time.Duration // held GPUs, restarts included
	Starts  int
}

// Ledger folds events into State and history. Its answers depend on the set
// of events only: they may come in any order, late or twice. The cost of an
// answer grows with the jobs it speaks of, not with all jobs ever; the memory
// held grows until Forget. It is not for concurrent use.
type Ledger struct {
	cluster Cluster
	jobs    map[string]*record
	nodes   map[string][]nodeEvent // in order of (time, id)
	names   []string               // of nodes that placements name
	named   map[string]int         // places in names
	horizon time.Duration          // Forget's
	forgot  bool

	// Jobs that were submitted, as far as is known.
	active   []*record // not finished, bySubmit
	finished []*record // byEnd
	arrivals []*record // all of them, bySubmit
}

type record struct {
	id     string
	events []jobEvent // in order of (time, rank, id)
	// From the first Submitted and the first Finished; nil and false if
	// there is none.
	submitted *jobEvent
	ended     bool
	end       time.Duration
}

type jobEvent struct {
	id            string
	kind          EventKind
	time          time.Duration
	gpus          MilliGPU
	status        Status
	job           *Job       // of Submitted
	placement     []NodeGPUs // nodes by their place in Ledger.names
	attained      time.Duration
	hasAttained   bool
	levelAttained time.Duration
	hasLevel      bool
	leaseUntil    time.Duration
	sharesWith    string
	pool          int
}

type nodeEvent struct {
	time time.Duration
	id   string
	kind EventKind
	gpus int
}

// NewLedger starts without events. The cluster is the one registered; node
// events change its number of nodes.
func NewLedger(c Cluster) *Ledger {
	return &Ledger{cluster: c, jobs: map[string]*record{}, nodes: map[string][]nodeEvent{}, named: map[string]int{}}
}

// Apply adds an event that is valid (Event.Validate). It reports false for one
// that changes nothing: an event applied before, one before the horizon of a job
// or node that is forgotten, or one of a configuration.
func (l *Ledger) Apply(e Event) bool {
	switch {
	case e.Kind.OfNode():
		if l.tooOld(e.Time) {
			return false
		}
		events, added := insert(l.nodes[e.Node],
			nodeEvent{time: e.Time, id: e.ID, kind: e.Kind, gpus: e.NodeGPUs}, nodeEvent.compare)
		l.nodes[e.Node] = events
		return added
	case e.Kind.OfJob():
		if l.jobs[e.Job.ID] == nil && l.tooOld(e.Time) {
			return false
		}
		return l.applyJob(&e)
	}
	return false
}

func (l *Ledger) tooOld(t time.Duration) bool { return l.forgot && t < l.horizon }

func (l *Ledger) applyJob(e *Event) bool {
	r := l.jobs[e.Job.ID]
	if r == nil {
		r = &record{id: e.Job.ID}
		l.jobs[e.Job.ID] = r
	}
	je := jobEvent{id: e.ID, kind: e.Kind, time: e.Time, gpus: e.Job.GPUs, status: e.Job.Status,
		placement: l.name(e.Placement),
		attained:  e.Attained, hasAttained: e.HasAttained, levelAttained: e.LevelAttained,
		hasLevel: e.HasLevel, leaseUntil: e.LeaseUntil, sharesWith: e.SharesWith, pool: e.Pool}
	if e.Kind == Submitted {
		j := e.Job
		j.Submit = e.Time
		j.Duration = 0
		je.job = &j
	}
	events, added := insert(r.events, je, jobEvent.compare)
	r.events = events
	if !added || e.Kind != Submitted && e.Kind != Finished {
		return added
	}
	l.unlist(r)
	r.submitted, r.ended = nil, false
	for i := range r.events {
		if ev := &r.events[i]; ev.kind == Submitted && r.submitted == nil {
			c := *ev // the slice moves
			r.submitted = &c
		}
	}
	if r.submitted != nil {
		for i := range r.events {
			if ev := &r.events[i]; ev.kind == Finished {
				// No job ends before it begins: clocks may differ.
				r.ended, r.end = true, max(ev.time, r.submitted.time)
				break
			}
		}
	}
	l.list(r)
	return true
}

func (l *Ledger) list(r *record) {
	if r.submitted == nil {
		return
	}
	l.arrivals, _ = insert(l.arrivals, r, bySubmit)
	if r.ended {
		l.finished, _ = insert(l.finished, r, byEnd)
	} else {
		l.active, _ = insert(l.active, r, bySubmit)
	}
}

func (l *Ledger) unlist(r *record) {
	if r.submitted == nil {
		return
	}
	l.arrivals = remove(l.arrivals, r, bySubmit)
	if r.ended {
		l.finished = remove(l.finished, r, byEnd)
	} else {
		l.active = remove(l.active, r, bySubmit)
	}
}

// bySubmit orders jobs by submission. Ties break by the id of the event that submitted
// of it, so that the order does not depend on which came first.
func bySubmit(a, b *record) int {
	return cmp.Or(cmp.Compare(a.submitted.time, b.submitted.time), cmp.Compare(a.submitted.id, b.submitted.id),
		cmp.Compare(a.id, b.id))
}

func byEnd(a, b *record) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id)) }

// rank orders events of one job at one instant: a job is submitted before it
// starts, and a preemption at the instant of a resume came first.
var rank = [...]int{Submitted: 0, Preempted: 1, Started: 2, Resumed: 3, Resized: 4, Finished: 5}

func (e jobEvent) compare(o jobEvent) int {
	return cmp.Or(cmp.Compare(e.time, o.time), cmp.Compare(rank[e.kind], rank[o.kind]), cmp.Compare(e.id, o.id))
}

func (e nodeEvent) compare(o nodeEvent) int {
	return cmp.Or(cmp.Compare(e.time, o.time), cmp.Compare(e.id, o.id))
}

// insert adds v to a sorted slice that does not have it. Events mostly come in
// order: it looks at the end first.
func insert[T any](s []T, v T, compare func(a, b T) int) (out []T, added bool) {
	if n := len(s); n == 0 || compare(s[n-1], v) < 0 {
		return append(s, v), true
	}
	i, found := slices.BinarySearchFunc(s, v, compare)
	if found {
		return s, false
	}
	return slices.Insert(s, i, v), true
}

func remove[T any](s []T, v T, compare func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(s, v, compare)
	if !found {
		panic("workload: ledger: a job is not where it was listed")
	}
	return slices.Delete(s, i, i+1)
}

// State is what is known of an instant: of all events at or before it. Events
// that came late count, so that asking again for a past instant can give more.
func (l *Ledger) State(at time.Duration) State {
	s := State{At: at, Cluster: l.clusterAt(at)}
	later := sort.Search(len(l.finished), func(i int) bool { return l.finished[i].end > at })
	running := append(slices.Clone(l.active), l.finished[later:]...)
	slices.SortFunc(running, bySubmit)
	for _, r := range running {
		if a, _, ok := r.fold(at); ok {
			if s.Jobs == nil {
				s.Jobs = make([]ActiveJob, 0, len(running))
			}
			s.Jobs = append(s.Jobs, a)
		}
	}
	l.number(&s)
	s.dissolvePairs()
	return s
}

// dissolvePairs forgets the partners that have ended or were stopped since.
func (s *State) dissolvePairs() {
	var since map[string]time.Duration // when running jobs were started, by their id
	for i := range s.Jobs {
		a := &s.Jobs[i]
		if a.SharesWith == "" {
			continue
		}
		if since == nil {
			since = map[string]time.Duration{}
			for k := range s.Jobs {
				if s.Jobs[k].Running {
					since[s.Jobs[k].ID] = s.Jobs[k].Since
				}
			}
		}
		if began, ok := since[a.SharesWith]; !ok || began > a.Since {
			a.SharesWith = ""
		}
	}
}

// Finishes are the jobs that ended in [from, to), in order of end, then id.
func (l *Ledger) Finishes(from, to time.Duration) []Finish {
	var out []Finish
	i := sort.Search(len(l.finished), func(i int) bool { return l.finished[i].end >= from })
	for ; i < len(l.finished) && l.finished[i].end < to; i++ {
		r := l.finished[i]
		_, f, _ := r.fold(r.end)
		out = append(out, *f)
	}
	return out
}

// Arrivals are the jobs submitted in [from, to), in order of submission, as
// submitted: Duration is zero.
func (l *Ledger) Arrivals(from, to time.Duration) []Job {
	var out []Job
	i := sort.Search(len(l.arrivals), func(i int) bool { return l.arrivals[i].submitted.time >= from })
	for ; i < len(l.arrivals) && l.arrivals[i].submitted.time < to; i++ {
		out = append(out, *l.arrivals[i].submitted.job)
	}
	return out
}

// Forget drops the jobs that ended before an instant, and returns how many.
// Later answers about instants before it lack them. Events before it count only
// for jobs still remembered, so that a repetition brings no job back.
func (l *Ledger) Forget(before time.Duration) int {
	if l.forgot && before <= l.horizon {
		return 0
	}
	l.forgot, l.horizon = true, before
	n := sort.Search(len(l.finished), func(i int) bool { return l.finished[i].end >= before })
	for _, r := range l.finished[:n] {
		delete(l.jobs, r.id)
	}
	l.finished = slices.Clone(l.finished[n:])
	l.arrivals = slices.DeleteFunc(l.arrivals, func(r *record) bool { return l.jobs[r.id] != r })
	for _, r := range l.jobs {
		if r.submitted == nil && r.events[len(r.events)-1].time < before {
			delete(l.jobs, r.id)
		}
	}
	for name, events := range l.nodes {
		// The last event before the instant still says whether the node is up.
		if i := sort.Search(len(events), func(i int) bool { return events[i].time >= before }); i > 1 {
			l.nodes[name] = slices.Clone(events[i-1:])
		}
	}
	return n
}

// clusterAt is the cluster registered, each group less its nodes that are down,
// or its nodes that are up if these are more: a scheduler may report all its
// nodes or only failures. Nodes that are down count if they are named by their number,
// which they keep (State.Down). The size reported for a node overrides its group's.
func (l *Ledger) clusterAt(at time.Duration) Cluster {
	c := l.cluster
	if len(l.nodes) == 0 {
		return c
	}
	c.Groups = slices.Clone(c.Groups)
	if len(c.Groups) == 0 {
		c.Groups = make([]NodeGroup, 1)
	}
	type count struct{ listed, gone, gpus int }
	of := make([]count, len(c.Groups))
	for name := range l.nodes {
		e := l.nodeAt(name, at)
		if e == nil {
			continue
		}
		n := &of[max(0, l.groupOf(name, e))]
		if e.kind == NodeUp {
			n.gpus = max(n.gpus, e.gpus)
		}
		if e.kind != NodeDown || l.numbered(name) {
			n.listed++
		} else {
			n.gone++
		}
	}
	for i, n := range of {
		g := &c.Groups[i]
		g.Nodes = max(n.listed, g.Nodes-n.gone, 0)
		if n.gpus > 0 {
			g.GPUsPerNode = n.gpus
		}
	}
	return c
}

// nodeAt is the last event of a node until an instant, nil if there is none.
func (l *Ledger) nodeAt(name string, at time.Duration) *nodeEvent {
	events := l.nodes[name]
	i := sort.Search(len(events), func(i int) bool { return events[i].time > at })
	if i == 0 {
		return nil
	}
	return &events[i-1]
}

// numbered reports whether a node is named by its number in the registered cluster.
func (l *Ledger) numbered(name string) bool {
	n, err := strconv.Atoi(name)
	return err == nil && l.cluster.GroupOf(n) >= 0 && strconv.Itoa(n) == name
}

// groupOf is the group of a node: that of its number in the registered cluster,
// if its name is one, or the first group of nodes of the size reported. It is -1
// if neither is known.
func (l *Ledger) groupOf(name string, e *nodeEvent) int {
	groups := l.cluster.Groups
	if len(groups) <= 1 {
		return 0
	}
	if n, err := strconv.Atoi(name); err == nil {
		if g := l.cluster.GroupOf(n); g >= 0 {
			return g
		}
	}
	if e == nil || e.gpus == 0 {
		return -1
	}
	return slices.IndexFunc(groups, func(g NodeGroup) bool { return g.GPUsPerNode == e.gpus })
}

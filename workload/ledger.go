package workload

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"
)

// Finish is a job that ended, as its events report it.
type Finish struct {
	Job
	End     time.Duration
	RunTime time.Duration // held GPUs, restarts included, without Lost
	Starts  int
	// Lost and LostStarts are the run time and the starts whose progress preemptions lost.
	Lost       time.Duration
	LostStarts int
}

// Spell is a time in which a job held the same GPUs.
type Spell struct {
	Job
	From, To time.Duration
	// Held is the number of GPUs. Spread reports whether they are on more nodes than that
	// number needs, as far as placements are reported.
	Held   int
	Spread bool
	// Resumed and Resized report whether the job continued where it had been stopped, and on another number of GPUs.
	Resumed, Resized bool
	// Lost is the run time, of this spell and earlier ones, whose progress was lost at the end of it.
	Lost time.Duration
	// SharesWith is the id of the running job whose GPUs this one joined at From, empty if
	// there is none.
	SharesWith string
	placement  []NodeShare
}

// Placement is where the job ran, by the names of nodes, as far as it is reported.
func (s *Spell) Placement() []NodeShare { return s.placement }

// Ledger folds events into State and history. Its answers depend on the set
// of events only: they may come in any order, late or twice. The cost of an
// answer grows with the jobs it speaks of, not with all jobs ever, and that of
// events with their number, whatever their order; the memory held grows until
// Forget. It is safe for concurrent use.
type Ledger struct {
	mu        sync.Mutex // guards all below
	cluster   Cluster
	jobs      map[string]*record
	nodes     map[string]*ordered[nodeEvent]
	snapshots ordered[time.Duration] // instants
	listings  ordered[time.Duration] // of the snapshots that list nodes
	horizon   time.Duration          // Forget's
	forgot    bool
	late      map[*record]bool // jobs that ended and got events since, which are not packed
	packer    packer
	spare     []*openRecord // emptied, for the next jobs

	// Jobs that were submitted, as far as is known.
	active   list // not finished, bySubmit
	finished list // byEnd
	arrivals list // all of them, bySubmit
}

// record is a job. Its events are packed once it ended.
type record struct {
	id       string
	open     *openRecord
	packed   string
	submit   time.Duration // of the submission; the zero values if there is none
	submitID string
	known    time.Duration // when the submission was reported: later, if only a snapshot did
	finish   time.Duration // of the first Finished, if ended
	// submitted and ended say that the two are known.
	submitted, ended bool
}

// openRecord is the events of a job.
type openRecord struct {
	ordered[jobEvent]
	// submission is the first event that describes the job, if it is submitted.
	submission jobEvent
}

// end is when a job that was submitted and ended did so. No job ends before it begins:
// clocks may differ.
func (r *record) end() time.Duration { return max(r.finish, r.known) }

// jobEvent is an event of a job. If observed, it is of a snapshot, and the kind is the state of
// the job: Started if it ran, Submitted if it waited.
type jobEvent struct {
	id            string
	kind          EventKind
	observed      bool
	status        Status
	hasAttained   bool
	hasLevel      bool
	lost          bool
	pool          int
	time          time.Duration
	gpus          MilliGPU
	job           *Job // of Submitted and observed jobs
	placement     []NodeShare
	attained      time.Duration
	levelAttained time.Duration
	leaseUntil    time.Duration
	holdUntil     time.Duration
	startUp       time.Duration
	sharesWith    string
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
	return &Ledger{cluster: c, jobs: map[string]*record{}, nodes: map[string]*ordered[nodeEvent]{},
		late: map[*record]bool{}}
}

// Apply adds an event that is valid (Event.Validate). It changes nothing if it was
// applied before, is one before the horizon of a job or node that is forgotten, or is of a
// configuration.
func (l *Ledger) Apply(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Kind.OfNode():
		l.applyNode(&e)
	case e.Kind.OfJob():
		l.applyJob(&e, false)
	case e.Kind == TakenSnapshot:
		if l.tooOld(e.Time) {
			return
		}
		l.snapshots.add(e.Time, cmp.Compare)
		listing := false
		for i := range e.Active {
			one := e.Active[i]
			one.ID, one.Time = e.ID, e.Time
			if one.Kind.OfNode() {
				listing = true
				l.applyNode(&one)
			} else {
				l.applyJob(&one, true)
			}
		}
		if listing {
			l.listings.add(e.Time, cmp.Compare)
		}
	}
}

func (l *Ledger) tooOld(t time.Duration) bool { return l.forgot && t < l.horizon }

func (l *Ledger) applyNode(e *Event) {
	if l.tooOld(e.Time) {
		return
	}
	events := l.nodes[e.Node]
	if events == nil {
		events = &ordered[nodeEvent]{}
		l.nodes[e.Node] = events
	}
	events.add(nodeEvent{time: e.Time, id: e.ID, kind: e.Kind, gpus: e.NodeGPUs}, nodeEvent.compare)
}

func (l *Ledger) applyJob(e *Event, observed bool) {
	r := l.jobs[e.Job.ID]
	if r == nil {
		if l.tooOld(e.Time) {
			return
		}
		r = &record{id: e.Job.ID, open: l.newOpen()}
		l.jobs[e.Job.ID] = r
	}
	je := jobEvent{id: e.ID, kind: e.Kind, observed: observed, time: e.Time, gpus: e.Job.GPUs, status: e.Job.Status,
		placement: e.Placement, attained: e.Attained, hasAttained: e.HasAttained, levelAttained: e.LevelAttained,
		hasLevel: e.HasLevel, leaseUntil: e.LeaseUntil, sharesWith: e.SharesWith, pool: e.Pool,
		lost: e.Lost, holdUntil: e.HoldUntil, startUp: e.StartUp}
	if je.describes() {
		j := e.Job
		j.Duration = 0
		if !observed {
			j.Submit = e.Time
		}
		j.Submit = min(j.Submit, e.Time)
		je.job = &j
	} else if r.ended && e.Time > r.finish {
		return // counts for nothing
	}
	if r.open == nil {
		r.open, r.packed = r.unpack(true), ""
		l.late[r] = true
	}
	if r.submitted && je.repeats(&r.open.submission) && je.compare(r.open.submission) > 0 {
		return
	}
	r.open.add(je, jobEvent.compare)
	wasListed, wasFinished, end := r.submitted, r.submitted && r.ended, r.end()
	switch {
	case je.describes() && (!r.submitted || je.compare(r.open.submission) < 0):
		r.open.submission = je
		moved := r.submitted && (r.submit != je.job.Submit || r.submitID != je.id)
		r.submitted, r.submit, r.submitID, r.known = true, je.job.Submit, je.id, je.time
		l.arrivals.moved = l.arrivals.moved || moved
		l.active.moved = l.active.moved || moved
	case je.kind == Finished && (!r.ended || je.time < r.finish):
		r.ended, r.finish = true, je.time
	default:
		return
	}
	if !r.submitted {
		return
	}
	if !wasListed {
		l.arrivals.add(r, bySubmit)
		if !r.ended {
			l.active.add(r, bySubmit)
		}
	}
	switch {
	case !r.ended:
	case !wasFinished:
		l.active.left = l.active.left || wasListed
		l.finished.add(r, byEnd)
		open := r.open
		r.pack(&l.packer)
		l.recycle(open)
	case r.end() != end:
		l.finished.moved = true
	}
}

// maxSpare bounds the spare records of a ledger, and spareEvents the events of one.
const (
	maxSpare    = 64
	spareEvents = 4
)

// newOpen returns a record without events.
func (l *Ledger) newOpen() *openRecord {
	if n := len(l.spare); n > 0 {
		o := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return o
	}
	return &openRecord{ordered: ordered[jobEvent]{sorted: make([]jobEvent, 0, spareEvents)}}
}

// recycle keeps the memory of a record whose job is packed.
func (l *Ledger) recycle(o *openRecord) {
	if len(l.spare) < maxSpare && cap(o.sorted) == spareEvents {
		sorted := o.sorted[:spareEvents]
		clear(sorted)
		*o = openRecord{ordered: ordered[jobEvent]{sorted: sorted[:0]}}
		l.spare = append(l.spare, o)
	}
}

// describes reports whether an event describes its job.
func (e *jobEvent) describes() bool { return e.observed || e.kind == Submitted }

// repeats reports whether an event submits a job that another one describes.
func (e *jobEvent) repeats(submission *jobEvent) bool {
	return e.kind == Submitted && !e.observed && e.compare(*submission) != 0
}

// bySubmit orders jobs by submission. Ties break by the id of the event that submitted
// of it, so that the order does not depend on which came first.
func bySubmit(a, b *record) int {
	return cmp.Or(cmp.Compare(a.submit, b.submit), cmp.Compare(a.submitID, b.submitID), cmp.Compare(a.id, b.id))
}

func byEnd(a, b *record) int { return cmp.Or(cmp.Compare(a.end(), b.end()), cmp.Compare(a.id, b.id)) }

// rank orders events of one job at one instant: a job is submitted before it
// starts, and a preemption at the instant of a resume came first.
var rank = [...]int{Submitted: 0, Preempted: 1, Started: 2, Resumed: 3, Resized: 4, Finished: 6}

const observedRank = 5

func (e jobEvent) rank() int {
	if e.observed {
		return observedRank
	}
	return rank[e.kind]
}

func (e jobEvent) compare(o jobEvent) int {
	if c := cmp.Compare(e.time, o.time); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(e.rank(), o.rank()), cmp.Compare(e.id, o.id))
}

func (e nodeEvent) compare(o nodeEvent) int {
	return cmp.Or(cmp.Compare(e.time, o.time), cmp.Compare(e.id, o.id))
}

// settle brings the lists up to date.
func (l *Ledger) settle() {
	known := func(r *record) bool { return l.jobs[r.id] == r }
	l.arrivals.settle(bySubmit, known)
	l.active.settle(bySubmit, func(r *record) bool { return !r.ended && known(r) })
	l.finished.settle(byEnd, known)
}

// State returns the state at an instant, from all events at or before it. Events
// that came late count, so that asking again for a past instant can give more.
func (l *Ledger) State(at time.Duration) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	s := State{At: at, Cluster: l.clusterAt(at)}
	finished := l.finished.sorted
	later := sort.Search(len(finished), func(i int) bool { return finished[i].end() > at })
	running := append(slices.Clone(l.active.sorted), finished[later:]...)
	slices.SortFunc(running, bySubmit)
	seen := latest(&l.snapshots, at)
	var placed [][]NodeShare
	for _, r := range running {
		if f := r.fold(at, true); f.known && !f.ended && f.last >= seen {
			if s.Jobs == nil {
				s.Jobs, placed = make([]ActiveJob, 0, len(running)), make([][]NodeShare, 0, len(running))
			}
			s.Jobs, placed = append(s.Jobs, f.ActiveJob), append(placed, f.placement)
		}
	}
	l.number(&s, placed)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	var out []Finish
	finished := l.finished.sorted
	i := sort.Search(len(finished), func(i int) bool { return finished[i].end() >= from })
	for ; i < len(finished) && finished[i].end() < to; i++ {
		r := finished[i]
		f := r.fold(r.end(), false)
		out = append(out, Finish{Job: f.Job, End: r.end(), RunTime: f.RunTime, Starts: f.Starts, Lost: f.Lost,
			LostStarts: f.LostStarts})
	}
	return out
}

// Arrivals are the jobs submitted in [from, to), in order of submission, as
// submitted: Duration is zero.
func (l *Ledger) Arrivals(from, to time.Duration) []Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	var out []Job
	all := l.arrivals.sorted
	i := sort.Search(len(all), func(i int) bool { return all[i].submit >= from })
	for ; i < len(all) && all[i].submit < to; i++ {
		out = append(out, *all[i].unpack(false).submission.job)
	}
	return out
}

// Spells returns the spells that end after an instant or are under way at another, in order of submission
// and time. They may begin before the first and end at the second at the latest.
func (l *Ledger) Spells(from, to time.Duration) []Spell {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	finished := l.finished.sorted
	ended := sort.Search(len(finished), func(i int) bool { return finished[i].end() > from })
	jobs := append(slices.Clone(l.active.sorted), finished[ended:]...)
	slices.SortFunc(jobs, bySubmit)
	var out []Spell
	for _, r := range jobs {
		f := folded{spells: []Spell{}}
		f.replay(r.unpack(true), to)
		for _, s := range f.spells {
			if s.To > from {
				s.Job, s.Spread = f.Job, l.spread(&s)
				out = append(out, s)
			}
		}
	}
	return out
}

// spread reports whether a spell's GPUs are on more nodes than their number needs.
func (l *Ledger) spread(s *Spell) bool {
	if len(s.placement) < 2 {
		return false
	}
	name, groups := s.placement[0].Node, l.cluster.Groups
	perNode := 0
	for _, g := range groups {
		perNode = max(perNode, g.GPUsPerNode)
	}
	var e *nodeEvent
	if l.nodes[name] != nil {
		e = l.nodeAt(name, s.From)
	}
	if g := l.groupOf(name, e); g >= 0 && g < len(groups) {
		perNode = groups[g].GPUsPerNode
	}
	return len(s.placement) > max((s.Held+perNode-1)/max(perNode, 1), int(s.Request().NodeCount))
}

// Forget drops the jobs that ended before an instant, and returns how many. Jobs that a
// snapshot before it does not list are dropped as well, and so are nodes that have been down
// since, beyond a number.
// Later answers about instants before it lack them. Events before it count only
// for jobs still remembered, so that a repetition brings no job back.
func (l *Ledger) Forget(before time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forgot && before <= l.horizon {
		return 0
	}
	l.settle()
	l.forgot, l.horizon = true, before
	finished := l.finished.sorted
	n := sort.Search(len(finished), func(i int) bool { return finished[i].end() >= before })
	for _, r := range finished[:n] {
		delete(l.jobs, r.id)
	}
	seen := latest(&l.snapshots, before-1)
	for _, r := range l.jobs {
		if r.ended && r.submitted {
			continue
		}
		if last := r.open.last(); !r.submitted && last < before || last < seen {
			delete(l.jobs, r.id)
		}
	}
	for r := range l.late {
		r.pack(&l.packer)
	}
	clear(l.late)
	l.arrivals.left, l.active.left, l.finished.left = true, true, true
	l.settle()
	for _, times := range []*ordered[time.Duration]{&l.snapshots, &l.listings} {
		all := times.all(cmp.Compare)
		i, _ := slices.BinarySearch(all, before)
		times.sorted = slices.Clone(all[max(0, i-1):]) // the last one before still has the absent ones
	}
	for _, events := range l.nodes {
		// The last event before the instant still says whether the node is up.
		all := events.all(nodeEvent.compare)
		if i := sort.Search(len(all), func(i int) bool { return all[i].time >= before }); i > 1 {
			events.sorted = slices.Clone(all[i-1:])
		}
	}
	l.forgetNodes(before)
	return n
}

// Remainder returns a filter of the part of an event that counts for remembered jobs, and whether
// there is one: events of its jobs and nodes, and the parts of snapshots about these.
func (l *Ledger) Remainder() func(Event) (Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := func(o *ordered[time.Duration]) time.Duration {
		if all := o.all(cmp.Compare); len(all) > 0 {
			return all[0]
		}
		return math.MaxInt64
	}
	snapshot, listing := first(&l.snapshots), first(&l.listings)
	nodes := make(map[string]time.Duration, len(l.nodes))
	for name, events := range l.nodes {
		nodes[name] = events.all(nodeEvent.compare)[0].time
	}
	counts := func(e *Event, at time.Duration) bool {
		if e.Kind.OfNode() {
			since, known := nodes[e.Node]
			return known && at >= since
		}
		return e.Kind.OfJob() && l.jobs[e.Job.ID] != nil
	}
	return func(e Event) (Event, bool) {
		if e.Kind != TakenSnapshot {
			return e, counts(&e, e.Time)
		}
		all := e.Active
		e.Active = nil
		for i := range all {
			if counts(&all[i], e.Time) || all[i].Kind.OfNode() && e.Time >= listing {
				e.Active = append(e.Active, all[i])
			}
		}
		return e, len(e.Active) > 0 || e.Time >= snapshot
	}
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
	events := l.nodes[name].all(nodeEvent.compare)
	i := sort.Search(len(events), func(i int) bool { return events[i].time > at })
	if i == 0 {
		return nil
	}
	e := &events[i-1]
	if seen := latest(&l.listings, at); e.time < seen { // by then it was gone
		e = &nodeEvent{time: seen, id: e.id, kind: NodeDown, gpus: e.gpus}
	}
	return e
}

// forgetNodes drops nodes that have been down since before an instant, the first ones first,
// as far as there are more of them than the cluster may have lost.
func (l *Ledger) forgetNodes(before time.Duration) {
	var down []string
	for name := range l.nodes {
		e, all := l.nodeAt(name, before), l.nodes[name].sorted
		if e != nil && e.kind == NodeDown && all[len(all)-1].time < before {
			down = append(down, name)
		}
	}
	spare := 1000 + 2*l.cluster.Nodes()
	if len(down) <= spare {
		return
	}
	slices.SortFunc(down, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.nodeAt(a, before).time, l.nodeAt(b, before).time), cmp.Compare(a, b))
	})
	for _, name := range down[:len(down)-spare] {
		delete(l.nodes, name)
	}
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

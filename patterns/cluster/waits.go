package cluster

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
)

// Quantile returns one of values in any order.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[stats.NearestRank(q, len(sorted))]
}

// Runs are how long jobs ran.
type Runs struct {
	byKey map[string]*history
	n     int
	hours float64 // their sum
}

// history has the latest runs of a key, in hours.
type history struct {
	hours []float64
	next  int
}

const maxHistory = 256 // runs of a key

// add adds a run of a key, one of at most most.
func (r *Runs) add(key string, hours float64, most int) {
	r.n++
	r.hours += hours
	h := r.byKey[key]
	if h == nil {
		if key == "" || len(r.byKey) >= most {
			return
		}
		h = &history{}
		r.byKey[key] = h
	}
	if len(h.hours) < maxHistory {
		h.hours = append(h.hours, hours)
		return
	}
	h.hours[h.next] = hours
	h.next = (h.next + 1) % maxHistory
}

// Quantile returns a quantile of the run times of a key, where there are some.
func (r *Runs) Quantile(key string, q float64) (hours float64, known bool) {
	h := r.byKey[key]
	if h == nil {
		return 0, false
	}
	return quantile(h.hours, q), true
}

// Work returns the GPU-hours that a job asks for: by its limit, or as its key usually takes. Without either they are
// guessed as the mean of the jobs that ended.
func (s *State) Work(j *Job) (hours float64, guessed, known bool) {
	if j.Limit > 0 {
		return j.Share * j.Limit.Hours(), false, true
	}
	if usual, known := s.Runs.Quantile(j.Key, .5); known {
		return j.Share * usual, false, true
	}
	if s.Runs.n > 0 {
		return j.Share * s.Runs.hours / float64(s.Runs.n), true, true
	}
	return 0, true, false
}

// Waits are the waits of the last week, by width of job in powers of two.
type Waits struct {
	list   [32][]waited // in order of their ends
	sorted [32][]float64
}

// waited is a wait that ended.
type waited struct{ at, wait time.Duration }

func widthClass(gpus int) int { return bits.Len(uint(max(1, gpus) - 1)) }

func (w *Waits) add(gpus int, at, wait time.Duration) {
	c := widthClass(gpus)
	w.list[c] = append(w.list[c], waited{at, wait})
	w.sorted[c] = nil
}

const week = 7 * 24 * time.Hour

// Usual returns the 95th percentile of the waits of a width over the week before an instant.
func (w *Waits) Usual(gpus int, now time.Duration) (hours float64, known bool) {
	c := widthClass(gpus)
	if w.sorted[c] == nil {
		w.prune(c, now)
		for _, x := range w.list[c] {
			w.sorted[c] = append(w.sorted[c], x.wait.Hours())
		}
		slices.Sort(w.sorted[c])
	}
	sorted := w.sorted[c]
	if len(sorted) == 0 {
		return 0, false
	}
	return sorted[stats.NearestRank(.95, len(sorted))], true
}

// prune drops the waits of a class that are older than a week.
func (w *Waits) prune(class int, now time.Duration) {
	w.sorted[class] = nil
	old := slices.IndexFunc(w.list[class], func(x waited) bool { return x.at >= now-week })
	if old < 0 {
		old = len(w.list[class])
	}
	w.list[class] = append(w.list[class][:0], w.list[class][old:]...)
}

// overtakers are the jobs of a pool that started, and the sums of their work from each on, as of an instant.
type overtakers struct {
	started []overtaker
	work    []float64 // nil where it is out of date
	asOf    time.Duration
}

// overtaker is a job that has started.
type overtaker struct {
	submit time.Duration
	work   float64 // GPU-hours
}

func (o *overtakers) add(submit time.Duration, work float64) {
	o.started = append(o.started, overtaker{submit, work})
	o.work = nil
}

// dropOvertakers forgets the started jobs of a pool that no pending job was submitted before.
func (s *State) dropOvertakers(p *Pool) {
	oldest := s.Now
	for _, j := range s.Pending.List {
		oldest = min(oldest, j.Submit)
	}
	p.overtakers.started = slices.DeleteFunc(p.overtakers.started, func(o overtaker) bool { return o.submit <= oldest })
}

// Overtaken returns the work of the jobs in a pending job's queue that were submitted later and started.
func (s *State) Overtaken(j *Job) float64 {
	p := s.Attributed(j)
	o := &p.overtakers
	if o.asOf != s.Now || o.work == nil {
		s.dropOvertakers(p)
		slices.SortStableFunc(o.started, func(a, b overtaker) int { return cmp.Compare(a.submit, b.submit) })
		o.work = append(o.work[:0], make([]float64, len(o.started)+1)...)
		for i := len(o.started) - 1; i >= 0; i-- {
			o.work[i] = o.work[i+1] + o.started[i].work
		}
		o.asOf = s.Now
	}
	i, _ := slices.BinarySearchFunc(o.started[:len(o.work)-1], j.Submit+1,
		func(o overtaker, t time.Duration) int { return cmp.Compare(o.submit, t) })
	return o.work[i]
}

// Hourly forgets old statistics, and jobs that only samples name whose samples have ended.
func (s *State) Hourly() {
	for c := range s.Waits.list {
		s.Waits.prune(c, s.Now)
	}
	for _, p := range s.Pools {
		s.dropOvertakers(p)
	}
	for _, j := range slices.Clone(s.Running.List) {
		if last := max(j.Sampled, j.Progress); j.inferred && s.Now-last > time.Hour {
			s.remove(j, last)
		}
	}
}

// need is a kind of request; jobs of one kind wait for the same reasons.
type need struct {
	Tenant string
	GPUs   int
}

// Causes of waits, inferred from the state of a job's queue once a minute.
const (
	waitQuota         = iota
	waitFragmentation // fits by count, not by place
	waitPriority      // jobs that started meanwhile took as much as it asks for
	waitCapacity
	waitHeadOfLine // fits, and a job that does not is ahead
	waitLimits     // it may not start yet
	WaitCannotTell
	Causes
)

// attribute adds the time since the last tick to the causes for which the requests of a pool wait. A queue without
// nodes of its own has all nodes of the cluster.
func (s *State) attribute(p *Pool) {
	dt := min(Tick, s.Now-p.attributed)
	if p.attributed == 0 {
		dt = Tick
	}
	p.attributed = s.Now
	if len(p.Pending) == 0 {
		return
	}
	on := p
	if len(p.nodes) == 0 && !p.sampled {
		on = s.PoolOf(AllJobs)
	}
	free, known := on.Free()
	placeable := !on.sampled && on.Unplaced == 0 && len(on.nodes) > 0
	blocked := false // a request that does not fit
	for n := range p.Pending {
		blocked = blocked || n.GPUs > free
	}
	for n := range p.Pending {
		w := p.waiting[n]
		if w == nil {
			continue
		}
		cause := WaitCannotTell
		t := s.Tenants[n.Tenant]
		switch {
		case t != nil && t.Quota > 0 && t.Held+n.GPUs > t.Quota:
			cause = waitQuota
		case !known:
		case n.GPUs > free && on.started >= n.GPUs:
			cause = waitPriority
		case n.GPUs > free:
			cause = waitCapacity
		case placeable && on.fits(n.GPUs, 1) == 0:
			cause = waitFragmentation
		case blocked:
			cause = waitHeadOfLine
		}
		w[cause] += dt
	}
}

// SampleQueues records the series of queues, partitions and tenants.
func (s *State) SampleQueues() {
	for _, p := range s.Pools {
		if p.sampled && s.Now-p.sampledAt > 2*time.Minute+s.Late {
			p.sampled = false
		}
		free, known := p.Free()
		s.attribute(p)
		if known {
			s.putNow(&p.Part, PartitionFree, float64(free))
			if c := p.Capacity(); c > 0 {
				s.putNow(&p.Subject, QueueFree, float64(free)/float64(c))
			}
			s.sampleBlocked(p, free)
		}
		if p.Used {
			s.putNow(&p.Subject, QueuePending, float64(p.PendingGPUs()))
		}
		p.Flow.Served += float64(p.held) * Tick.Hours()
	}
	for _, p := range s.Pools {
		p.started = 0
	}
	for _, vc := range s.Cluster.VCs {
		t := s.Tenants[vc.Tenant]
		if t.Quota <= 0 {
			continue
		}
		s.putNow(&t.Subject, TenantUse, float64(t.Held)/float64(t.Quota))
		waiting := 0.
		if len(s.Pending.List) > t.pending {
			waiting = 1
		}
		s.putNow(&t.Subject, TenantOthersWaiting, waiting)
	}
}

// sampleBlocked records fragmentation: 1 where there are enough free GPUs for the smallest request and no pending
// gang can be placed, else 0; nothing where the nodes of a running job are not known.
func (s *State) sampleBlocked(p *Pool, free int) {
	if p.Part.Series.Slots[PartitionBlocked] == 0 || len(p.nodes) == 0 || p.Unplaced > 0 {
		return
	}
	if free == 0 || len(p.Pending) == 0 {
		s.putNow(&p.Part, PartitionBlocked, 0)
		return
	}
	counts := map[int]int{}
	for n, c := range p.Pending {
		counts[n.GPUs] += c
	}
	least, blocked := math.MaxInt, 1.
	for size, c := range counts {
		least = min(least, size)
		if p.fits(size, c) > 0 {
			blocked = 0
		}
	}
	if free < least {
		blocked = 0
	}
	s.putNow(&p.Part, PartitionBlocked, blocked)
}

// fits returns how many requests of a size, at most a number, fit the free GPUs of nodes: gangs wider
// than a node on nodes with an equal share each.
func (p *Pool) fits(size, most int) int {
	largest := 0
	for _, n := range p.nodes {
		largest = max(largest, n.gpus)
	}
	if size <= 0 || largest == 0 {
		return 0
	}
	nodes := (size + largest - 1) / largest
	each := (size + nodes - 1) / nodes
	places := 0
	for _, n := range p.nodes {
		places += n.free() / each
		if places >= nodes*most {
			return most
		}
	}
	return places / nodes
}

// WaitedSoFar returns how long the pending jobs of a pool have waited.
func (s *State) WaitedSoFar(p *Pool) (out []time.Duration) {
	for _, j := range s.Pending.List {
		if p.Name == AllJobs || p.Name == j.Queue {
			out = append(out, max(0, s.Now-max(j.Submit, j.Hold)))
		}
	}
	return out
}

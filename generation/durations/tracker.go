package durations

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/pq"
	"github.com/autosched/autosched/workload"
)

// none is the place of a job, group or batch that does not exist.
const none = int32(-1)

// Tracker passes over a history once, in time, and gives the features of any job that has been
// submitted as a predictor may know it at that instant (Row). Nothing that
// happens later reaches it: a job's duration shows only once the job has ended. An
// event costs O(1), a row O(K + near) time and no memory.
type Tracker struct {
	history []Record
	ends    []int32 // the jobs that ended, by their end
	at      time.Duration

	arrived, ended int // how many of history and of ends lie behind
	jobs           []tracked
	groups         []group
	batches        []batch
	passing        pq.Queue[crossing]
}

// tracked is Tracker's state of a job.
type tracked struct {
	tenant, width, key, user int32 // groups; key and user may be none
	batch                    int32
	before, after            int32 // neighbours in submission among the tenant's jobs
	bin                      uint8 // of its time so far
	ended                    bool
}

// A batch is a sweep: jobs of one tenant with gaps of at most workload.BatchGap.
// Half of Philly's jobs are in batches of a hundred or more, within which
// ln(duration) has a standard deviation of 0.30 against 2.06 over all.
type batch struct {
	first, last   int32 // jobs
	before        int32 // the tenant's batch before it
	size, ended   int32
	lastEnded     int32
	sumLn, sumLn2 float64 // of ended jobs
}

// group is statistics of the jobs of a tenant; or of a tenant with the same number of
// GPUs (a width), of a key, of a user, or of everybody.
type group struct {
	last    int32 // arrival
	batch   int32 // the last
	size    int32
	ended   int32
	sumLn   float64           // of ended jobs
	stopped [Bins]float64     // ended jobs by bin
	running [Bins]float64     // others by the bin they are in
	recent  [recentEnds]int32 // ended jobs, the latest at (ended-1) % recentEnds
	jobs    counts            // of ended jobs
	even    counts            // of ended jobs, the n-th of its batch counting 1/n
}

const (
	everybody  = int32(0) // the group of all jobs
	recentEnds = 16
)

// counts are weights of ended jobs by bin of duration, in units that grow, so that
// older ones are worth less.
type counts struct {
	bins [Bins]float64
	unit float64
}

func (c *counts) add(bin uint8, weight, halfLife float64) {
	c.unit *= math.Exp2(weight / halfLife)
	if c.unit > 1e100 {
		for b := range c.bins {
			c.bins[b] /= c.unit
		}
		c.unit = 1
	}
	c.bins[bin] += weight * c.unit
}

// A job that ended counts half when as many more have; batches likewise.
const (
	jobsHalfLife = 100
	evenHalfLife = 20
)

// NewTracker starts before the first job. The history is in order of submission.
func NewTracker(history []Record) (*Tracker, error) {
	t := &Tracker{history: history, at: math.MinInt64, jobs: make([]tracked, len(history))}
	type name struct {
		kind, text string
		gpus       int
	}
	places := map[name]int32{{}: everybody}
	place := func(n name) int32 {
		p, ok := places[n]
		if !ok {
			p = int32(len(places))
			places[n] = p
		}
		return p
	}
	for i := range history {
		r := &history[i]
		if i > 0 && r.Submit < history[i-1].Submit {
			return nil, fmt.Errorf("durations: history is not in order of submission: %s comes after %s",
				history[i-1].ID, r.ID)
		}
		if r.Ended {
			t.ends = append(t.ends, int32(i))
		}
		j := &t.jobs[i]
		*j = tracked{key: none, user: none, before: none, after: none}
		j.tenant = place(name{"tenant", r.Tenant, 0})
		j.width = place(name{"width", r.Tenant, r.GPUs.Whole()})
		if r.Key != "" {
			j.key = place(name{"key", r.Key, 0})
		}
		if r.User != "" {
			j.user = place(name{"user", r.User, 0})
		}
	}
	slices.SortFunc(t.ends, func(a, b int32) int {
		return cmp.Or(cmp.Compare(history[a].Until, history[b].Until), cmp.Compare(a, b))
	})
	t.groups = make([]group, len(places))
	for i := range t.groups {
		t.groups[i] = group{last: none, batch: none, jobs: counts{unit: 1}, even: counts{unit: 1}}
	}
	return t, nil
}

// Advance takes in the events until an instant, the instant included. It does
// not go back.
func (t *Tracker) Advance(at time.Duration) {
	if at < t.at {
		panic("durations: a tracker does not go back in time")
	}
	t.at = at
	for {
		arrives := t.arrived < len(t.history) && t.history[t.arrived].Submit <= at
		ends := t.ended < len(t.ends) && t.history[t.ends[t.ended]].Until <= at
		switch {
		case arrives && (!ends || t.history[t.arrived].Submit <= t.history[t.ends[t.ended]].Until):
			t.pass(t.history[t.arrived].Submit)
			t.arrive(int32(t.arrived))
			t.arrived++
		case ends:
			t.pass(t.history[t.ends[t.ended]].Until)
			t.end(t.ends[t.ended])
			t.ended++
		default:
			t.pass(at)
			return
		}
	}
}

// pass moves the jobs that have run into their next bin by an instant.
func (t *Tracker) pass(at time.Duration) {
	for len(t.passing) > 0 && t.passing[0].at <= at {
		i := t.passing.Pop().job
		if j := &t.jobs[i]; !j.ended {
			t.move(j, -1)
			j.bin++
			t.move(j, 1)
			t.watch(i)
		}
	}
}

// move counts a job in or out of the bin it runs in.
func (t *Tracker) move(j *tracked, by float64) {
	for _, n := range [...]int32{everybody, j.tenant, j.width, j.key, j.user} {
		if n != none {
			t.groups[n].running[j.bin] += by
		}
	}
}

// watch waits for the instant at which a running job leaves its bin, if it does
// before its history ends.
func (t *Tracker) watch(i int32) {
	j, r := &t.jobs[i], &t.history[i]
	if j.bin == Bins-1 {
		return
	}
	bound := binBounds[j.bin]
	if ran := r.Ran.Seconds(); ran >= bound {
		t.passing.Push(crossing{r.Begin + time.Duration(float64(r.Until-r.Begin)*(bound/ran)), i})
	}
}

func (t *Tracker) arrive(i int32) {
	j := &t.jobs[i]
	g := &t.groups[j.tenant]
	if j.before = g.last; g.last != none {
		t.jobs[g.last].after = i
	}
	if g.last == none || t.history[i].Submit-t.history[g.last].Submit > workload.BatchGap {
		t.batches = append(t.batches, batch{first: i, before: g.batch, lastEnded: none})
		g.batch = int32(len(t.batches) - 1)
	}
	j.batch = g.batch
	b := &t.batches[j.batch]
	b.last = i
	b.size++
	for _, n := range [...]int32{everybody, j.tenant, j.width, j.key, j.user} {
		if n != none {
			t.groups[n].last = i
			t.groups[n].size++
		}
	}
	t.move(j, 1)
	t.watch(i)
}

func (t *Tracker) end(i int32) {
	j := &t.jobs[i]
	s := max(1, t.history[i].Ran.Seconds())
	t.move(j, -1)
	j.ended = true
	j.bin = binOf(s)
	ln := math.Log(s)
	b := &t.batches[j.batch]
	b.ended++
	b.lastEnded = i
	b.sumLn += ln
	b.sumLn2 += ln * ln
	for _, n := range [...]int32{everybody, j.tenant, j.width, j.key, j.user} {
		if n == none {
			continue
		}
		g := &t.groups[n]
		g.recent[g.ended%recentEnds] = i
		g.ended++
		g.sumLn += ln
		g.stopped[j.bin]++
		g.jobs.add(j.bin, 1, jobsHalfLife)
		g.even.add(j.bin, 1/float64(b.ended), evenHalfLife)
	}
}

// ran is the work that a submitted job has done by now.
func (t *Tracker) ran(i int32) time.Duration {
	if r := &t.history[i]; !t.jobs[i].ended {
		return r.ranAt(t.at)
	}
	return t.history[i].Ran
}

// latest is the n-th latest ended job of a group, from 1, none if there are fewer.
func (g *group) latest(n int32) int32 {
	if n > g.ended || n > recentEnds {
		return none
	}
	return g.recent[(g.ended-n)%recentEnds]
}

// crossing is the instant at which a running job leaves its bin.
type crossing struct {
	at  time.Duration
	job int32
}

// Before implements pq.Orderable.
func (c crossing) Before(d crossing) bool { return c.at < d.at }

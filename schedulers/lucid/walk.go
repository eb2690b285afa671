package lucid

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/simulator"
)

// NewSRTF is the preemptive shortest-remaining-time policy of the simulator
// published by Lucid's authors, to compare with its results: told true
// durations, it orders waiting and running jobs together, waiting ones first
// among equals, and asks again whenever the order of a running and a waiting
// job turns in a way that matters. It wants a Round of a second.
func NewSRTF() simulator.Policy { return &walk{turns: true} }

// NewTiresias is the two-queue Tiresias of the same simulator: jobs that have
// attained more than a threshold of GPU-time come after the others, both in
// order of submission, running ones first among equals. It wants the Round on
// which that simulator decides, a minute.
func NewTiresias(threshold time.Duration) simulator.Policy { return &walk{threshold: threshold} }

// walk is a policy that walks all active jobs in order with a quota of all
// GPUs, passes over who does not fit, stops the running ones of these first and
// then starts the waiting ones that did fit, in that order, if they find a
// place. Every plan costs time in proportion to the active jobs.
//
// Ties go to whoever entered the line of the waiting, or of the running, first.
// Resuming, it does not know who did.
type walk struct {
	turns     bool // by remaining time, and running jobs come closer to their end
	threshold time.Duration

	s *simulator.Sim
	// The lines of the waiting and of the running are sorted. By remaining time, a
	// running job's key is the instant at which nothing is left, so that it stays
	// the same while the job runs at its full speed.
	waiting, running []place
	marks            []mark // by job
	odd              int    // running jobs whose keys have to be found again
	held             int    // GPUs of the running
	entered          int64
	stop, start      []simulator.ID
}

// place is a job's place in its line: by key, then by entry into the line.
type place struct {
	mark
	id   simulator.ID
	gpus int32
	odd  bool
}

type mark struct{ key, entry int64 }

func (a mark) before(b mark) bool { return a.key < b.key || a.key == b.key && a.entry < b.entry }

// Clairvoyant implements simulator.Clairvoyant: the remaining time is read.
func (*walk) Clairvoyant() {}

func (p *walk) Reset(s *simulator.Sim) {
	p.s, p.waiting, p.running, p.marks = s, p.waiting[:0], p.running[:0], p.marks[:0]
	p.odd, p.held, p.entered = 0, 0, 0
}

func (p *walk) Admit(j simulator.ID, _ simulator.Seen) {
	for int(j) >= len(p.marks) {
		p.marks = append(p.marks, mark{})
	}
	p.enter(j)
}

// enter puts a job at the end of the line of the waiting or the running.
func (p *walk) enter(j simulator.ID) {
	p.entered++
	if p.s.JobRunning(j) {
		p.run(j, p.entered, !p.turns && p.watch(j))
		return
	}
	p.waiting = p.insert(p.waiting, place{mark: mark{p.key(j), p.entered}, id: j, gpus: int32(p.s.JobGPUs(j))})
}

// run puts a job into the line of the running.
func (p *walk) run(j simulator.ID, entry int64, watched bool) {
	key, odd := p.keyRunning(j, watched)
	a := place{mark: mark{key, entry}, id: j, gpus: int32(p.s.JobGPUs(j)), odd: odd}
	p.running = p.insert(p.running, a)
	p.held += int(a.gpus)
	if odd {
		p.odd++
	}
}

// rest takes a job out of the line of the running.
func (p *walk) rest(j simulator.ID) place {
	var a place
	p.running, a = p.leave(p.running, j)
	p.held -= int(a.gpus)
	if a.odd {
		p.odd--
	}
	return a
}

func (p *walk) insert(line []place, a place) []place {
	p.marks[a.id] = a.mark
	return slices.Insert(line, find(line, a.mark), a)
}

func (p *walk) leave(line []place, j simulator.ID) ([]place, place) {
	i := find(line, p.marks[j])
	a := line[i]
	if a.id != j {
		panic("lucid: a job is not where it was put")
	}
	return slices.Delete(line, i, i+1), a
}

// find is where a place is in a line, or would be.
func find(line []place, m mark) int {
	return sort.Search(len(line), func(i int) bool { return !line[i].before(m) })
}

// watch asks to be called once a running job has attained too much, and reports
// whether that is the instant at which it will have.
func (p *walk) watch(j simulator.ID) bool {
	g := time.Duration(p.s.JobGPUs(j))
	if rest := p.threshold + 1 - p.s.JobAttained(j); rest > 0 {
		p.s.SetQuantum(j, p.s.Now()+(rest+g-1)/g)
	}
	return p.s.JobServedFrom(j) == p.s.Now() && p.s.JobHeld(j) == int(g)
}

// Quantum implements simulator.Quantumed.
func (p *walk) Quantum(j simulator.ID) { p.run(j, p.rest(j).entry, false) }

func (p *walk) Finish(j simulator.ID) { p.rest(j) }

func (p *walk) key(j simulator.ID) int64 {
	if p.turns {
		return int64(p.s.JobLeft(j))
	}
	k := int64(p.s.JobSubmit(j))
	if p.s.JobAttained(j) > p.threshold {
		k += math.MaxInt64 / 2 // after every submission
	}
	return k
}

// keyRunning is a running job's key in its line. It is odd if it has to be found
// again in the next plan: while the job restarts, is slower than alone and in
// its place, or shares its GPUs, or until it has attained too much if it is not
// watched.
func (p *walk) keyRunning(j simulator.ID, watched bool) (key int64, odd bool) {
	if !p.turns {
		return p.key(j), !watched && p.s.JobAttained(j) <= p.threshold
	}
	now := p.s.Now()
	return int64(now) + p.key(j), p.s.JobRate(j) != 1 || p.s.JobReady(j) > now || p.s.JobShares(j)
}

// refresh finds keys again. Jobs that have nothing left and were not found out
// are equal.
func (p *walk) refresh() {
	now, all := int64(p.s.Now()), p.odd > 0
	n := 0
	for ; n < len(p.running) && (all || p.turns && p.running[n].key <= now); n++ {
		a := &p.running[n]
		switch {
		case a.odd:
			if a.key, a.odd = p.keyRunning(a.id, false); !a.odd {
				p.odd--
			}
		case p.turns && a.key < now:
			a.key = now
		}
		p.marks[a.id] = a.mark
	}
	line := p.running[:n]
	for i := 1; i < n; i++ {
		x := line[i]
		k := i
		for ; k > 0 && x.before(line[k-1].mark); k-- {
			line[k] = line[k-1]
		}
		line[k] = x
	}
}

func (p *walk) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	p.refresh()
	p.choose()
	if len(p.stop) == 0 && len(p.start) == 0 {
		return
	}
	plan.ExchangeInOrder(p.stop, p.start)
	if p.turns {
		p.foresee()
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.rest(j)
			p.enter(j)
		}
	}
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.waiting, _ = p.leave(p.waiting, j)
			p.enter(j)
		}
	}
}

// choose walks both lines, in order of their keys. Of equals, the waiting come
// first by remaining time, the running otherwise.
func (p *walk) choose() {
	p.stop, p.start = p.stop[:0], p.start[:0]
	quota, behind := p.s.Cluster().TotalGPUs(), p.held
	k, since, ties := 0, int64(0), int64(1)
	if p.turns {
		since, ties = int64(p.s.Now()), 0
	}
	for i := range p.waiting {
		w := &p.waiting[i]
		for end := w.key + since + ties; k < len(p.running) && p.running[k].key < end; k++ {
			quota, behind = p.pass(k, quota, behind)
		}
		if g := int(w.gpus); g <= quota {
			quota -= g
			p.start = append(p.start, w.id)
		}
	}
	for ; k < len(p.running) && behind > quota; k++ { // the others fit
		quota, behind = p.pass(k, quota, behind)
	}
}

// pass takes a running job's GPUs off the quota, or notes that it is to stop,
// and off those of the jobs yet to be passed.
func (p *walk) pass(k, quota, behind int) (int, int) {
	a := &p.running[k]
	g := int(a.gpus)
	if g <= quota {
		return quota - g, behind - g
	}
	p.stop = append(p.stop, a.id)
	return quota, behind - g
}

// foresee asks to be called when a running job passes one that was chosen and
// found no place. Passing one that did not fit the quota changes nothing. The
// lines are still those before the exchange.
func (p *walk) foresee() {
	now := int64(p.s.Now())
	started := int64(math.MaxInt64) // key of the next that was started
	for i := len(p.start) - 1; i >= 0; i-- {
		j := p.start[i]
		key := p.marks[j].key
		if p.s.JobRunning(j) {
			started = key
			continue
		}
		next := started
		for k := find(p.running, mark{key: now + key, entry: -1}); k < len(p.running); k++ {
			if p.s.JobRunning(p.running[k].id) {
				next = min(next, p.running[k].key-now)
				break
			}
		}
		if next < math.MaxInt64 {
			p.s.WakeAt(time.Duration(now + next - key + 1))
		}
	}
}

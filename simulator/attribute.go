package simulator

import "time"

// Cause is why a job waits.
type Cause uint8

const (
	// CauseQuota: its tenant's quota has no room for it, whatever is free.
	CauseQuota Cause = iota
	// CauseFragmentation: enough GPUs are free, but no place that a gang of its
	// size may have.
	CauseFragmentation
	// CausePriority: fewer GPUs are free than it asks for; others went first.
	CausePriority
	// CauseHeadOfLine: a place is free and the policy did not start it: the head
	// of the line blocks, the next round is not due, or an admission rule holds
	// it back.
	CauseHeadOfLine

	causes = 4
)

var causeNames = [causes]string{"quota", "fragmentation", "priority", "head_of_line"}

func (c Cause) String() string { return causeNames[c] }

// jobTime is a sum of job-time that neither overflows nor rounds.
type jobTime struct{ s, ns int64 }

// add counts jobs waiting for a span.
func (t *jobTime) add(jobs int, dt time.Duration) {
	t.s += int64(dt/time.Second) * int64(jobs)
	t.ns += int64(dt%time.Second) * int64(jobs)
	t.s += t.ns / int64(time.Second)
	t.ns %= int64(time.Second)
}

func (t jobTime) seconds() float64 { return float64(t.s) + float64(t.ns)/1e9 }

// attribute charges the coming span, in which nothing happens, to the causes for
// which jobs wait.
func (s *Sim) attribute(dt time.Duration) {
	if s.waiting == 0 {
		return
	}
	for i := range s.kinds.list {
		if k := &s.kinds.list[i]; k.jobs > 0 && !k.key.warmUp {
			k.delays[s.cause(&k.key)].add(k.jobs, dt)
		}
	}
}

func (s *Sim) cause(k *kindKey) Cause {
	g := int(k.gpus)
	if !s.tenantMay(k.tenant, g) {
		return CauseQuota
	}
	if s.place.mode == Count {
		if !s.place.counts(g, k.where) {
			return CausePriority
		}
		return CauseHeadOfLine
	}
	if g > s.place.total(k.pool, k.where) {
		return CausePriority
	}
	if !s.finds(*k) {
		return CauseFragmentation
	}
	return CauseHeadOfLine
}

// Delay is the queueing delay that is due to one cause.
type Delay struct {
	Cause string `json:"cause"`
	// Seconds is the mean over the jobs that have become active.
	Seconds float64 `json:"s_per_job"`
	// Share of all queueing delay.
	Share float64 `json:"share"`
}

// Delays says why jobs have waited since the run began; they are kept with
// Options.Attribute. Together they are all queueing delay: each instant of each
// job's waiting has one cause, the first of quota, priority, fragmentation and
// head of line that holds for the job alone.
func (s *Sim) Delays() []Delay {
	var sums [causes]jobTime
	for i := range s.kinds.list {
		sums = plus(sums, s.kinds.list[i].delays)
	}
	jobs := 0
	for i := range s.jobs {
		if s.counts(ID(i)) {
			jobs++
		}
	}
	return delaysOf(sums, jobs)
}

func plus(a, b [causes]jobTime) [causes]jobTime {
	for c := range a {
		a[c].s, a[c].ns = a[c].s+b[c].s, a[c].ns+b[c].ns
	}
	return a
}

// delaysOf converts sums of waiting to means over a number of jobs.
func delaysOf(sums [causes]jobTime, jobs int) []Delay {
	var total jobTime
	for _, d := range sums {
		total.s += d.s
		total.ns += d.ns
	}
	out := make([]Delay, causes)
	for c := range out {
		d := sums[c].seconds()
		out[c].Cause = Cause(c).String()
		if jobs > 0 {
			out[c].Seconds = d / float64(jobs)
		}
		if t := total.seconds(); t > 0 {
			out[c].Share = d / t
		}
	}
	return out
}

// CauseOf is the cause for which a waiting job waits now.
func (s *Sim) CauseOf(id ID) Cause {
	key := s.kinds.list[s.kind(id)].key
	return s.cause(&key)
}

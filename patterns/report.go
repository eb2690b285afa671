package patterns

import (
	"math"
	"time"
)

// JobReport says of a job that ended what limited it and why it waited.
type JobReport struct {
	Job string `json:"job"`
	// Bottleneck is compute_underused, data_pipeline, communication, memory_bound or
	// cannot_tell, and Evidence what that rests on.
	Bottleneck string     `json:"bottleneck"`
	Evidence   []Evidence `json:"evidence,omitempty"`
	// Stability is stable, normal or unstable by the spread of its iterations' times, empty if
	// that is not known.
	Stability string `json:"stability,omitempty"`
	// Waits is the time that the job waited, by inferred cause: quota, fragmentation,
	// priority, capacity, head_of_line, limits, cannot_tell.
	Waits map[string]time.Duration `json:"waits_ns,omitempty"`
}

// Why a job waits. The causes are inferred from the state of its queue once a minute.
const (
	waitQuota         = iota
	waitFragmentation // fits by count, not by place
	waitPriority      // jobs that started meanwhile took as much as it asks for
	waitCapacity
	waitHeadOfLine // fits, and a job that does not is ahead
	waitLimits     // it may not start yet
	waitCannotTell
	causes
)

var causeNames = [causes]string{"quota", "fragmentation", "priority", "capacity", "head_of_line", "limits",
	"cannot_tell"}

// attribute adds the time since the last tick to the causes for which the requests of a pool wait. A
// queue without nodes of its own has those of the cluster.
func (s *Scanner) attribute(p *pool) {
	dt := min(tick, s.now-p.attributed)
	if p.attributed == 0 {
		dt = tick
	}
	p.attributed = s.now
	if len(p.pending) == 0 {
		return
	}
	on := p
	if len(p.nodes) == 0 && !p.hasSample {
		on = s.pools[allJobs]
	}
	free, known := on.free()
	placeable := !on.hasSample && on.unplaced == 0 && len(on.nodes) > 0
	blocked := false // a request that does not fit
	for n := range p.pending {
		blocked = blocked || n.gpus > free
	}
	for n := range p.pending {
		w := p.waiting[n]
		if w == nil {
			continue
		}
		cause := waitCannotTell
		t := s.tenants[n.tenant]
		switch {
		case t != nil && t.quota > 0 && t.held+n.gpus > t.quota:
			cause = waitQuota
		case !known:
		case n.gpus > free && on.started >= n.gpus:
			cause = waitPriority
		case n.gpus > free:
			cause = waitCapacity
		case placeable && on.fits(n.gpus, 1) == 0:
			cause = waitFragmentation
		case blocked:
			cause = waitHeadOfLine
		}
		w[cause] += dt
	}
}

// Bounds of the classes of bottlenecks, as shares.
const (
	lowBusy      = .2 // mean
	lowMemory    = .3
	highBusy     = .8
	fullMemory   = .9
	manyDips     = .1 // of a GPU's samples begin a dip
	narrowerBusy = .7 // of what narrower jobs of the key have
	leastSamples = 40 // of a class
)

// keyBusy is how busy the narrowest job of a key was.
type keyBusy struct {
	gpus int
	busy float64
}

// report is what is known of a job that has ended.
func (s *Scanner) report(j *job) *JobReport {
	r := &JobReport{Job: j.name, Bottleneck: "cannot_tell", Stability: j.stability}
	for i, w := range j.waits {
		if i == waitCannotTell && w > 0 && j.hold > j.submit {
			held := min(w, j.hold-j.submit)
			w -= held
			r.wait("limits", held)
		}
		r.wait(causeNames[i], w)
	}
	if j.samples < leastSamples {
		return r
	}
	busy := j.busySum / float64(j.samples)
	memory, hasMemory := 0., j.occupied > 0
	if hasMemory {
		memory = j.memorySum / float64(j.occupied)
	}
	add := func(what string, value, threshold float64) {
		r.Evidence = append(r.Evidence, Evidence{What: what, Value: math.Round(1e4*value) / 1e4,
			Threshold: threshold, Unit: "share", From: s.at(j.start), To: s.at(s.now)})
	}
	dips := float64(j.dips) / float64(j.samples)
	narrow := s.busyByKey[j.key]
	switch {
	case j.key != "" && narrow.gpus > 0 && j.gpus >= 2*narrow.gpus && busy < narrowerBusy*narrow.busy:
		r.Bottleneck = "communication"
		add("busy relative to narrower jobs of its key", busy/narrow.busy, narrowerBusy)
	case hasMemory && memory > fullMemory && busy > highBusy:
		r.Bottleneck = "memory_bound"
		add("memory", memory, fullMemory)
		add("busy", busy, highBusy)
	case j.gpus == 1 && j.hasRows && dips > manyDips:
		r.Bottleneck = "data_pipeline"
		add("samples that begin a dip", dips, manyDips)
	case hasMemory && busy < lowBusy && memory < lowMemory:
		r.Bottleneck = "compute_underused"
		add("busy", busy, lowBusy)
		add("memory", memory, lowMemory)
	}
	if j.key != "" && (narrow.gpus == 0 || j.gpus < narrow.gpus) && len(s.busyByKey) < s.o.Cap {
		s.busyByKey[j.key] = keyBusy{j.gpus, busy}
	}
	return r
}

func (r *JobReport) wait(cause string, d time.Duration) {
	if d <= 0 {
		return
	}
	if r.Waits == nil {
		r.Waits = map[string]time.Duration{}
	}
	r.Waits[cause] += d
}

package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Summary describes the samples of a file: the quantities, their rates, and where
// samples are missing. It keeps a few numbers for each GPU, queue or worker.
type Summary struct {
	sources map[source]*spell
	deltas  map[time.Duration]int // between the samples of a source, rounded
	nodes   map[string]bool
	jobs    map[string]bool
	ranges  []Range
	gaps    []Gap // the longest
	known   Field

	first, last                           time.Duration
	timed, unsorted, repeated, lost, xids int
}

// source identifies the subject of samples.
type source struct {
	gpu    GPU    // of GPU samples
	name   string // queue, or job of a worker
	worker int
}

type spell struct {
	first, last time.Duration
	samples     int
}

// throttled are the reasons for which a busy GPU is slower than it can be.
const throttled = ThrottleSoftwarePower | ThrottleHardware | ThrottleSoftwareThermal | ThrottleHardwareThermal |
	ThrottlePowerBrake

// Range is the range of a quantity. A throttled clock and an Xid error count as 1, others as
// 0: their means are shares of the samples.
type Range struct {
	Name    string  `json:"name"` // with its unit, as in the project's CSV
	Samples int     `json:"samples"`
	Least   float64 `json:"least"`
	Mean    float64 `json:"mean"`
	Most    float64 `json:"most"`
	sum     float64
}

// Gap is a span without samples of a source.
type Gap struct {
	Of   string        `json:"of"`
	From time.Duration `json:"-"`
	To   time.Duration `json:"-"`
}

// keptGaps is how many of the longest gaps are named.
const keptGaps = 5

// NewSummary describes nothing yet.
func NewSummary() *Summary {
	s := &Summary{sources: map[source]*spell{}, deltas: map[time.Duration]int{}, nodes: map[string]bool{},
		jobs: map[string]bool{}}
	for _, name := range fieldNames {
		s.ranges = append(s.ranges, Range{Name: name})
	}
	return s
}

// Visit adds the records of a file.
func (s *Summary) Visit() Visit {
	return Visit{
		GPU:       func(x *GPUSample) error { s.AddGPU(x); return nil },
		Queue:     func(x *QueueSample) error { s.AddQueue(x); return nil },
		Iteration: func(x *Iteration) error { s.AddIteration(x); return nil },
	}
}

// AddGPU adds a sample.
func (s *Summary) AddGPU(x *GPUSample) {
	s.add(source{gpu: x.GPU}, x.Time)
	s.nodes[x.Node] = true
	if x.Job != "" {
		s.jobs[x.Job] = true
	}
	if x.Lost {
		s.lost++
	}
	if x.Has(Xid) && x.Xid != 0 {
		s.xids++
	}
	s.known |= x.Known
	for i := range s.ranges {
		if x.Known&(1<<i) == 0 {
			continue
		}
		var v float64
		switch f := Field(1 << i); f {
		case Throttle:
			if x.Throttle&throttled != 0 {
				v = 1
			}
		case Xid:
			if x.Xid != 0 {
				v = 1
			}
		case Processes:
			v = float64(x.Processes)
		default:
			v = *quantityOf(f).At(x)
		}
		s.ranges[i].add(v)
	}
}

func (r *Range) add(v float64) {
	if r.Samples == 0 {
		r.Least, r.Most = v, v
	}
	r.Samples++
	r.sum += v
	r.Least, r.Most = min(r.Least, v), max(r.Most, v)
}

// AddQueue adds a sample.
func (s *Summary) AddQueue(x *QueueSample) { s.add(source{name: x.Queue}, x.Time) }

// AddIteration adds a step.
func (s *Summary) AddIteration(x *Iteration) {
	s.jobs[x.Job] = true
	s.add(source{name: x.Job, worker: x.Worker}, x.Time)
}

func (s *Summary) add(of source, at time.Duration) {
	p := s.sources[of]
	if p == nil {
		p = &spell{}
		s.sources[of] = p
	}
	p.samples++
	if at == 0 { // not known
		return
	}
	if s.timed == 0 {
		s.first, s.last = at, at
	}
	s.timed++
	s.first, s.last = min(s.first, at), max(s.last, at)
	switch {
	case p.last == 0:
		p.first, p.last = at, at
		return
	case at == p.last:
		s.repeated++
		return
	case at < p.last:
		s.unsorted++
		p.first = min(p.first, at)
		return
	}
	delta := at - p.last
	s.deltas[rounded(delta)]++
	if len(s.gaps) < keptGaps || delta > s.gaps[len(s.gaps)-1].To-s.gaps[len(s.gaps)-1].From {
		s.keep(Gap{of.String(), p.last, at})
	}
	p.last = at
}

// keep keeps the longest gaps, the first ones of equal ones.
func (s *Summary) keep(g Gap) {
	s.gaps = append(s.gaps, g)
	slices.SortStableFunc(s.gaps, func(a, b Gap) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	s.gaps = s.gaps[:min(len(s.gaps), keptGaps)]
}

// rounded bounds how many spans there are.
func rounded(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, time.Minute,
		time.Hour} {
		if d < 1000*unit {
			return max(d.Round(unit), time.Millisecond)
		}
	}
	return d.Round(24 * time.Hour)
}

func (x source) String() string {
	switch {
	case x.gpu.Node != "":
		return x.gpu.String()
	case x.name == "":
		return "cluster"
	}
	return x.name
}

// String names a GPU as node:index, and an instance of it as node:index/instance.
func (g GPU) String() string {
	name := g.Node + ":" + strconv.Itoa(g.Index)
	if g.Instance >= 0 {
		name += "/" + strconv.Itoa(g.Instance)
	}
	return name
}

// Report is a Summary in numbers.
type Report struct {
	// GPUs counts the ones with samples, instances of them included.
	GPUs    int `json:"gpus,omitempty"`
	Nodes   int `json:"nodes,omitempty"`
	Queues  int `json:"queues,omitempty"`
	Workers int `json:"workers,omitempty"`
	Jobs    int `json:"jobs,omitempty"`
	// Start and End are since the Unix epoch, 0 where no record has a time.
	Start, End time.Duration `json:"-"`
	// Period is the median time between the samples of a GPU or queue, 0 if none has two.
	Period time.Duration `json:"-"`
	// Coverage is the share of the samples that the period promises between the first and
	// last of each GPU or queue.
	Coverage float64 `json:"coverage"`
	// Gaps is the number of times that a GPU or queue had no sample for more than three
	// periods; Longest are the longest of them.
	Gaps    int   `json:"gaps"`
	Longest []Gap `json:"-"`
	// Unsorted is the number of samples earlier than the one before of the same GPU or
	// queue, Repeated the ones at the same instant.
	Unsorted int `json:"unsorted"`
	Repeated int `json:"repeated"`
	// Lost is the number of samples of GPUs that did not answer, Xids of samples with an
	// error.
	Lost       int     `json:"lost"`
	Xids       int     `json:"xids"`
	Quantities []Range `json:"quantities,omitempty"`
}

// gapPeriods is how many periods without a sample make a gap.
const gapPeriods = 3

// Report describes the added samples, which are of one kind.
func (s *Summary) Report(kind Kind) *Report {
	r := &Report{Jobs: len(s.jobs), Nodes: len(s.nodes), Start: s.first, End: s.last, Unsorted: s.unsorted,
		Repeated: s.repeated, Lost: s.lost, Xids: s.xids}
	switch kind {
	case GPUs:
		r.GPUs = len(s.sources)
	case Queues:
		r.Queues = len(s.sources)
	case Iterations:
		r.Workers = len(s.sources)
	}
	for i := range s.ranges {
		if x := s.ranges[i]; x.Samples > 0 {
			x.Mean = x.sum / float64(x.Samples)
			r.Quantities = append(r.Quantities, x)
		}
	}
	if kind == Iterations { // steps have no period
		return r
	}
	n := 0
	for _, count := range s.deltas {
		n += count
	}
	if n == 0 {
		return r
	}
	below := 0
	for _, d := range slices.Sorted(maps.Keys(s.deltas)) {
		if below += s.deltas[d]; 2*below >= n && r.Period == 0 {
			r.Period = d
		}
		if d > gapPeriods*r.Period && r.Period > 0 {
			r.Gaps += s.deltas[d]
		}
	}
	var have, want float64
	for _, p := range s.sources {
		have += float64(p.samples)
		want += float64((p.last-p.first+r.Period/2)/r.Period + 1)
	}
	r.Coverage = min(1, (have-float64(s.repeated))/want)
	for _, g := range s.gaps {
		if g.To-g.From > gapPeriods*r.Period {
			r.Longest = append(r.Longest, g)
		}
	}
	return r
}

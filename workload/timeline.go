package workload

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Timeline sums up jobs by rows, of tenants or of nodes, and by equal parts of a time, its buckets.
type Timeline struct {
	From, To time.Duration
	Rows     []TimelineRow
	// Jobs is the number of jobs that were there. Placed is the share of their GPU-time whose nodes are reported.
	Jobs   int
	Placed float64
}

// TimelineRow is a tenant, or several whose names have no room; or nodes that follow each other by name.
type TimelineRow struct {
	First, Last string // the names; both empty of the tenants without room
	Members     int    // tenants, or nodes
	GPUs        int    // of the nodes, or the quota; 0 where it is not known
	// Busy and Waiting are the mean numbers of GPUs held and asked for in each bucket, Running and Queued the numbers
	// of jobs that held and asked for some at some time in it. No job waits for a node.
	Busy, Waiting   []float64
	Running, Queued []int32
}

// TimelineBy says what the rows of a timeline are.
type TimelineBy uint8

// The rows.
const (
	ByTenant TimelineBy = iota
	ByNode
)

// stretch is a time in which a job held or asked for GPUs of a row.
type stretch struct {
	key      int32
	job      int32 // -1 of a correction, which is of no job
	gpus     float32
	waits    bool
	from, to time.Duration
}

// TimelineBuilder makes a timeline of jobs.
type TimelineBuilder struct {
	by           TimelineBy
	from, to     time.Duration
	known        time.Duration
	keys         map[string]int32
	names        []string
	stretches    []stretch
	jobs         int32
	held, placed float64
}

// NewTimeline returns a builder of the timeline of [from, to), which must not be empty, of jobs that are known until an
// instant. Its rows of nodes are of those that Node and jobs name.
func NewTimeline(by TimelineBy, from, to, known time.Duration) *TimelineBuilder {
	return &TimelineBuilder{by: by, from: from, to: to, known: min(known, to), keys: map[string]int32{}}
}

// Node adds a node, which may have no job.
func (b *TimelineBuilder) Node(name string) { b.key(name) }

func (b *TimelineBuilder) key(name string) int32 {
	k, ok := b.keys[name]
	if !ok {
		k = int32(len(b.names))
		b.keys[name], b.names = k, append(b.names, name)
	}
	return k
}

// Add adds a job as of the end of the timeline, or of the instant until which jobs are known, without the jobs of other
// rows than those that has accepts, if it is not nil.
func (b *TimelineBuilder) Add(h *JobHistory, has func(node string) bool) {
	if h.Submit >= b.to {
		return
	}
	b.jobs++
	at := h.Submit
	for i := range h.Spells {
		s := &h.Spells[i]
		b.wait(h, at, s.From)
		at = s.To
		gpus := h.GPUs.Of(s.Held)
		held := b.span(s.From, s.To) * gpus
		b.held += held
		if len(s.placement) > 0 {
			b.placed += held
		}
		if b.by == ByTenant {
			b.add(h.Tenant, float32(gpus), b.jobs, false, s.From, s.To)
			continue
		}
		for _, n := range s.placement {
			if has == nil || has(n.Node) {
				b.add(n.Node, float32(h.GPUs.Of(n.GPUs)), b.jobs, false, s.From, s.To)
			}
		}
	}
	end := b.known
	if h.Ended || h.Missing {
		end = h.End
	}
	if !h.Running {
		b.wait(h, at, end)
	}
}

func (b *TimelineBuilder) wait(h *JobHistory, from, to time.Duration) {
	if b.by == ByTenant {
		b.add(h.Tenant, float32(h.GPUs.Count()), b.jobs, true, from, to)
	}
}

// Share counts the GPUs of two jobs that were added, which they share, once: half for each.
func (b *TimelineBuilder) Share(j *Joint, has func(node string) bool) {
	twice := b.span(j.From, j.To) * j.GPUs
	b.held -= twice
	if len(j.Placement) > 0 {
		b.placed -= twice
	}
	if b.by == ByTenant {
		for _, h := range []*JobHistory{&j.Guest, &j.Host} {
			b.add(h.Tenant, float32(-j.GPUs/2), -1, false, j.From, j.To)
		}
		return
	}
	for _, n := range j.Placement {
		if has == nil || has(n.Node) {
			b.add(n.Node, float32(-j.Guest.GPUs.Of(n.GPUs)), -1, false, j.From, j.To)
		}
	}
}

// span is the part of a time within the timeline, in seconds.
func (b *TimelineBuilder) span(from, to time.Duration) float64 {
	return max(0, min(to, b.to)-max(from, b.from)).Seconds()
}

func (b *TimelineBuilder) add(row string, gpus float32, job int32, waits bool, from, to time.Duration) {
	if b.span(from, to) > 0 {
		b.stretches = append(b.stretches, stretch{b.key(row), job, gpus, waits, max(from, b.from),
			min(to, b.to)})
	}
}

// Build returns a timeline of at most a number of rows and buckets. Of more tenants, those with the least GPU-time,
// held or asked for, share the last row; of more nodes, as many as necessary share each. gpus is the size of a node, or
// the quota of a tenant, 0 where it is not known.
func (b *TimelineBuilder) Build(rows, buckets int, gpus func(name string) int) *Timeline {
	t := &Timeline{From: b.from, To: b.to, Jobs: int(b.jobs)}
	if b.held > 0 {
		t.Placed = b.placed / b.held
	}
	rowOf := b.rows(t, max(1, rows), gpus)
	sums := make([]rowSums, len(t.Rows))
	for i := range sums {
		for w := range 2 {
			sums[i][w] = kindSums{gpus: make([]float64, buckets+1), jobs: make([]int32, buckets+1), next: -1}
		}
	}
	step := (b.to - b.from).Seconds() / float64(buckets)
	for i := range b.stretches {
		s := &b.stretches[i]
		k := 0
		if s.waits {
			k = 1
		}
		sums[rowOf[s.key]][k].add(s, (s.from-b.from).Seconds()/step, (s.to-b.from).Seconds()/step)
	}
	for i := range t.Rows {
		t.Rows[i].Busy, t.Rows[i].Running = sums[i][0].result()
		t.Rows[i].Waiting, t.Rows[i].Queued = sums[i][1].result()
	}
	return t
}

// rows makes the rows, and returns that of each key.
func (b *TimelineBuilder) rows(t *Timeline, most int, gpus func(string) int) []int {
	order := make([]int32, len(b.names))
	weight := make([]float64, len(b.names))
	for i := range order {
		order[i] = int32(i)
	}
	for i := range b.stretches {
		s := &b.stretches[i]
		weight[s.key] += float64(s.gpus) * (s.to - s.from).Seconds()
	}
	slices.SortFunc(order, func(x, y int32) int {
		byName := cmp.Compare(b.names[x], b.names[y])
		if b.by == ByNode {
			return byName
		}
		return cmp.Or(cmp.Compare(weight[y], weight[x]), byName)
	})
	rowOf := make([]int, len(order))
	together := (len(order) + most - 1) / most // nodes
	for i, key := range order {
		row, name := i, b.names[key]
		switch {
		case b.by == ByNode:
			row = i / together
		case len(order) > most && i >= most-1:
			row, name = most-1, ""
		}
		if row == len(t.Rows) {
			t.Rows = append(t.Rows, TimelineRow{First: name})
		}
		t.Rows[row].Last = name
		t.Rows[row].Members++
		t.Rows[row].GPUs += gpus(b.names[key])
		rowOf[key] = row
	}
	return rowOf
}

// rowSums are the sums of a row, of jobs that hold GPUs and of those that wait.
type rowSums [2]kindSums

// kindSums are differences from bucket to bucket, so that the cost of a stretch does not grow with its length.
type kindSums struct {
	gpus []float64 // GPUs times the part of a bucket
	jobs []int32
	// job was counted last, in buckets before next.
	job  int32
	next int
	more []float64 // changes of the GPUs of whole buckets
}

// add adds a stretch between two places, in buckets.
func (k *kindSums) add(s *stretch, from, to float64) {
	n := len(k.gpus) - 1
	first := min(int(from), n-1)
	last := min(max(int(math.Ceil(to))-1, first), n-1)
	g := float64(s.gpus)
	if k.more == nil {
		k.more = make([]float64, n+1)
	}
	if first == last {
		k.gpus[first] += g * (to - from)
	} else {
		k.gpus[first] += g * (float64(first+1) - from)
		k.gpus[last] += g * (to - float64(last))
		k.more[first+1] += g
		k.more[last] -= g
	}
	if s.job < 0 {
		return
	}
	if k.job != s.job {
		k.job, k.next = s.job, -1
	}
	if first = max(first, k.next); first <= last {
		k.jobs[first]++
		k.jobs[last+1]--
		k.next = last + 1
	}
}

func (k *kindSums) result() ([]float64, []int32) {
	n := len(k.gpus) - 1
	whole, jobs := 0.0, int32(0)
	for i := range n {
		if k.more != nil {
			whole += k.more[i]
		}
		k.gpus[i] = math.Round((k.gpus[i]+whole)*1e3) / 1e3
		jobs += k.jobs[i]
		k.jobs[i] = jobs
	}
	return k.gpus[:n], k.jobs[:n]
}

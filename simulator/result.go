package simulator

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
)

// Outcome is the result of one job.
type Outcome struct {
	ID     ID
	Submit time.Duration
	// Start is the first start. For a job that was active when the run resumed
	// it is only known to be before.
	Start       time.Duration
	End         time.Duration
	Wait        time.Duration // all spells
	RunTime     time.Duration // on the GPUs asked for, alone and not spread
	Restart     time.Duration // GPUs held without progress
	Attained    time.Duration // GPU-time
	Floor       time.Duration // the least JCT that any configuration of the policy could have given it (Sim.least)
	Preemptions int
	GPUs        int
	Members     int  // equal jobs that it stands for, 1 is itself
	Spread      bool // in its last spell
	Strayed     bool // spread in some spell
	TimedOut    bool // ended at its time limit; RunTime is the time until then
	Cancelled   bool // ended by the policy (Plan.Cancel), likewise
	// Rho is the finish-time fairness JCT / T_id, where T_id is the run time
	// times max(1, GPUs x mean number of active jobs over its life / GPUs of the
	// cluster): above 1 is worse than an equal share (Themis).
	// For a job that was active when the run resumed, the run time before it is
	// taken to be the GPU-time received over the GPUs asked for (restarts and slow
	// places included), and the active jobs before it as many as at that instant.
	Rho float64
	// Deadline is the instant by which the job should have ended, 0 for none.
	Deadline time.Duration
	// Slowdown is the time on GPUs, restarts apart, over the run time at full speed:
	// above 1 where the job was spread or shared GPUs, below where it had more of
	// them than it asks for.
	Slowdown float64
	// Draw is the sum of Options.Meter in this run.
	Draw Draw
}

// Missed reports whether the job ended after its deadline.
func (o *Outcome) Missed() bool { return o.Deadline != 0 && o.End > o.Deadline }

// JCT is the job completion time.
func (o *Outcome) JCT() time.Duration { return o.End - o.Submit }

// Outcomes appends the outcomes of the jobs that have ended, in order of ID, but for
// jobs whose run time is not known.
func (s *Sim) Outcomes(dst []Outcome) []Outcome {
	for i := range s.jobs {
		if s.hasOutcome(ID(i)) {
			dst = append(dst, s.outcome(ID(i)))
		}
	}
	return dst
}

func (s *Sim) hasOutcome(id ID) bool { return s.jobs[id].phase == done && s.known(id) }

// known reports whether a job counts and its run time is known: a job that ran when its trace was written holds its
// GPUs as long as it had by then, one that waited as long as is expected, and neither has a JCT.
func (s *Sim) known(id ID) bool { return s.counts(id) && s.spec(id).Status.Ended() }

// counts reports whether a job was submitted after the warm-up.
func (s *Sim) counts(id ID) bool {
	return s.opts.CountFrom == 0 || s.spec(id).Submit >= s.opts.CountFrom
}

// warms reports whether the instant before t is in the warm-up.
func (s *Sim) warms(t time.Duration) bool { return s.opts.CountFrom != 0 && t <= s.opts.CountFrom }

// outcome is the result of a job that has ended.
func (s *Sim) outcome(id ID) Outcome {
	j, spec := &s.jobs[id], s.spec(id)
	work := max(1, j.work-j.left) // less than all of it at a time limit
	o := Outcome{
		ID: id, Submit: spec.Submit, Start: j.first, End: j.ends, Deadline: spec.Deadline,
		Wait: j.waited, RunTime: work, Restart: j.restart, Attained: j.attained, Floor: j.floor,
		Preemptions: int(j.preempts), GPUs: int(j.gpus), Members: int(j.members), Spread: j.spread, Strayed: j.strayed,
		TimedOut: j.cut == atLimit, Cancelled: j.cut == cancelled,
	}
	if int(id) < len(s.drawn) {
		o.Draw = s.drawn[id]
	}
	o.Slowdown = float64(o.JCT()-j.waited-j.restart) / float64(work)
	if s.opts.Peer.RestartOutsideJCT {
		o.End -= j.restart
	}
	alone := float64(work) * max(1, float64(j.gpus/j.members)*j.load/float64(s.gpus))
	o.Rho = float64(o.JCT()) / alone
	return o
}

// integrals over time of the cluster's state.
type integrals struct {
	seconds    float64
	busy       float64 // GPUs in use
	waiting    float64 // jobs
	queued     float64 // GPUs
	fragmented float64 // free GPUs on partly used nodes while jobs wait
	busyArrive float64 // busy until the last submission
	arrive     float64 // seconds until the last submission
	lost       float64 // GPUs of nodes that are down, and idle ones of nodes that drain
	lostArrive float64 // lost until the last submission
}

func (m *integrals) add(s *Sim, dt float64) {
	m.seconds += dt
	m.busy += float64(s.place.usable-s.place.idle) * dt
	if s.place.usable != s.gpus {
		m.lost += float64(s.gpus-s.place.usable) * dt
	}
	if s.waiting > 0 {
		m.waiting += float64(s.waiting) * dt
		m.queued += float64(s.queued) * dt
		m.fragmented += float64(s.place.fragmented()) * dt
	}
}

func (m *integrals) lastSubmit(s *Sim) {
	m.busyArrive, m.arrive, m.lostArrive = m.busy, m.seconds, m.lost
	for i := range s.tenants {
		t := &s.tenants[i]
		s.accrue(t)
		t.usage.arrive = t.usage.held
	}
}

// Objectives are functions of the outcomes of jobs alone. Spans are in
// seconds, shares between 0 and 1.
type Objectives struct {
	Jobs     int     `json:"jobs"`
	AvgJCT   float64 `json:"avg_jct_s"`
	P50JCT   float64 `json:"p50_jct_s"`
	P95JCT   float64 `json:"p95_jct_s"`
	P99JCT   float64 `json:"p99_jct_s"`
	AvgQueue float64 `json:"avg_queue_s"`
	P95Queue float64 `json:"p95_queue_s"`
	// Makespan is the last end minus the first submission.
	Makespan    float64 `json:"makespan_s"`
	Preemptions int     `json:"preemptions"`
	FTFLe1      float64 `json:"ftf_le_1"` // share of jobs with rho <= 1
	MaxRho      float64 `json:"max_rho"`
	P95Rho      float64 `json:"p95_rho"`
	// RestartGPUHours were held by resumed jobs without progress.
	RestartGPUHours float64 `json:"restart_gpu_hours"`
	SpreadShare     float64 `json:"spread_share"` // of jobs, in their last spell
	// Slowdown is the mean of Outcome.Slowdown.
	Slowdown float64 `json:"slowdown"`
	// DeadlineMisses is the share that ended late of the DeadlineJobs, the jobs
	// that have a deadline.
	DeadlineJobs   int     `json:"deadline_jobs"`
	DeadlineMisses float64 `json:"deadline_misses"`
	// TimedOut is the number of jobs that ended at their time limit.
	TimedOut int `json:"timed_out"`
	// Cancelled is the number of jobs that the policy ended before their time (Plan.Cancel).
	Cancelled int `json:"cancelled"`
}

// Summary are the objectives and intermediate metrics of a run.
type Summary struct {
	Objectives
	// Utilization is the GPU-time in use over capacity, that of nodes that are up,
	// between the first and the last submission.
	Utilization float64 `json:"utilization"`
	// AvgWaiting and AvgQueuedGPUs are means over time of the jobs that wait and
	// of the GPUs they ask for; WaitingBySize are the former's parts, without jobs of the warm-up. Fragmentation
	// is the mean of the share of GPUs that are free on partly used nodes while jobs
	// wait.
	AvgWaiting    float64 `json:"avg_waiting_jobs"`
	AvgQueuedGPUs float64 `json:"avg_queued_gpus"`
	WaitingBySize BySize  `json:"avg_waiting_jobs_by_gpus"`
	Fragmentation float64 `json:"fragmentation"`
	Events        int     `json:"events"`
}

// Summarize describes a run so far: the jobs that have ended, and the cluster
// until now.
func (s *Sim) Summarize() Summary {
	all := s.describe(1, func(*job) int { return 0 })
	sum := Summary{Objectives: all[0], Events: s.events}
	total := float64(s.gpus)
	if m := s.metrics; m.seconds > 0 {
		if had := m.arrive*total - m.lostArrive; had > 0 {
			sum.Utilization = m.busyArrive / had
		}
		sum.AvgWaiting = m.waiting / m.seconds
		sum.AvgQueuedGPUs = m.queued / m.seconds
		sum.WaitingBySize = s.waitedBySize(m.seconds)
		if had := m.seconds*total - m.lost; had > 0 {
			sum.Fragmentation = m.fragmented / had
		}
	}
	return sum
}

// waitedBySize is the mean number of waiting jobs by size over a span in seconds:
// the integral of a number of jobs is the sum of their times.
func (s *Sim) waitedBySize(seconds float64) (by BySize) {
	for i := range s.jobs {
		if !s.counts(ID(i)) {
			continue
		}
		waited := s.JobWaited(ID(i))
		if ID(i) < s.base {
			waited = max(0, waited-s.state.Jobs[i].WaitTime)
		}
		by[SizeClass(s.JobGPUs(ID(i)))] += waited.Seconds()
	}
	for k := range by {
		by[k] /= seconds
	}
	return by
}

// Describe computes the functions of the outcomes alone, a group counted as
// often as it has members.
func Describe(out []Outcome) Objectives {
	return describe(new([]float64), 1, func(add func(int, *Outcome)) {
		for i := range out {
			add(0, &out[i])
		}
	})[0]
}

// quantiles are the objectives that need a value of every outcome.
var quantiles = [...]struct {
	of  func(*Outcome) float64
	set func(*Objectives, []float64) // of sorted values
}{
	{func(o *Outcome) float64 { return o.JCT().Seconds() }, func(sum *Objectives, v []float64) {
		sum.P50JCT, sum.P95JCT, sum.P99JCT = stats.Quantile(v, .5), stats.Quantile(v, .95), stats.Quantile(v, .99)
	}},
	{func(o *Outcome) float64 { return o.Wait.Seconds() }, func(sum *Objectives, v []float64) {
		sum.P95Queue = stats.Quantile(v, .95)
	}},
	{func(o *Outcome) float64 { return o.Rho }, func(sum *Objectives, v []float64) {
		sum.P95Rho, sum.MaxRho = stats.Quantile(v, .95), v[len(v)-1]
	}},
}

// describe is Describe of groups of outcomes, which each adds. It asks for them once for the
// sums and once for each of the quantiles, so that memory holds one value of each.
func describe(memory *[]float64, groups int, each func(add func(group int, o *Outcome))) []Objectives {
	sums, last, ends, jobs := make([]Objectives, groups), make([]time.Duration, groups), make([]int, groups), 0
	first := make([]time.Duration, groups)
	each(func(g int, o *Outcome) {
		if sums[g].Jobs == 0 {
			first[g], last[g] = o.Submit, o.End
		}
		sums[g].add(o)
		first[g], last[g] = min(first[g], o.Submit), max(last[g], o.End)
	})
	for g := range sums {
		sums[g].average()
		sums[g].Makespan = (last[g] - first[g]).Seconds()
		jobs += sums[g].Jobs
	}
	*memory = resized(*memory, jobs)
	for _, q := range quantiles {
		at := 0
		for g := range sums {
			ends[g] = at
			at += sums[g].Jobs
		}
		each(func(g int, o *Outcome) {
			for range max(1, o.Members) {
				(*memory)[ends[g]] = q.of(o)
				ends[g]++
			}
		})
		for g := range sums {
			if v := (*memory)[ends[g]-sums[g].Jobs : ends[g]]; len(v) > 0 {
				slices.Sort(v)
				q.set(&sums[g], v)
			}
		}
	}
	return sums
}

// describe is describe of the outcomes so far, by the group of a job.
func (s *Sim) describe(groups int, of func(*job) int) []Objectives {
	return describe(&s.column, groups, func(add func(int, *Outcome)) {
		var o Outcome // one for all: it escapes
		for i := range s.jobs {
			if s.hasOutcome(ID(i)) {
				o = s.outcome(ID(i))
				add(of(&s.jobs[i]), &o)
			}
		}
	})
}

// add sums up an outcome.
func (sum *Objectives) add(o *Outcome) {
	for range max(1, o.Members) {
		sum.Jobs++
		sum.AvgJCT += o.JCT().Seconds()
		sum.AvgQueue += o.Wait.Seconds()
		sum.Preemptions += o.Preemptions
		sum.Slowdown += o.Slowdown
		if o.Rho <= 1 {
			sum.FTFLe1++
		}
		if o.Spread {
			sum.SpreadShare++
		}
		if o.Deadline != 0 {
			sum.DeadlineJobs++
		}
		if o.Missed() {
			sum.DeadlineMisses++
		}
		if o.TimedOut {
			sum.TimedOut++
		}
		if o.Cancelled {
			sum.Cancelled++
		}
	}
	sum.RestartGPUHours += o.Restart.Hours() * float64(o.GPUs)
}

// average makes means of the sums.
func (sum *Objectives) average() {
	n := float64(max(1, sum.Jobs))
	sum.AvgJCT /= n
	sum.AvgQueue /= n
	sum.FTFLe1 /= n
	sum.SpreadShare /= n
	sum.Slowdown /= n
	if sum.DeadlineJobs > 0 {
		sum.DeadlineMisses /= float64(sum.DeadlineJobs)
	}
}

// BySize is a quantity by the number of GPUs that jobs ask for, in the order of
// SizeNames.
type BySize [4]float64

// SizeNames are one GPU, up to half a usual node of eight, up to a node, more.
var SizeNames = [len(BySize{})]string{"1", "2-4", "5-8", "9+"}

// SizeClass returns the index of a number of GPUs.
func SizeClass(gpus int) int {
	switch {
	case gpus <= 1:
		return 0
	case gpus <= 4:
		return 1
	case gpus <= 8:
		return 2
	}
	return 3
}

// MarshalJSON writes an object with the names of the sizes.
func (b BySize) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, v := range b {
		fmt.Fprintf(&out, ",%q:%g", SizeNames[i], v)
	}
	out.Bytes()[0] = '{'
	out.WriteByte('}')
	return out.Bytes(), nil
}

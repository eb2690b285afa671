// Package inject makes labelled streams to measure pattern rules on. Real job rows are placed
// on a cluster by simulation, their GPUs get telemetry drawn from published distributions, and
// cases of each pattern are put in at a known prevalence, with hard negatives beside them, which
// look like the pattern and by its definition are not.
//
// Job, key and GPU patterns are put into the jobs of the trace. Patterns of queues, pending
// jobs, configurations and the cluster need a history that is known to be free of them, and
// are put into partitions of scripted jobs beside the trace's. Quotas, which are looked at over a
// week, have streams of their own (NewQuotas).
package inject

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Rules are the patterns that can be injected.
var Rules = []string{"config_regression", "crash_loop", "cv_class", "fragmentation", "hoarding", "idle_allocation",
	"iteration_outlier", "memory_pressure", "never_ending", "preemption_thrash", "queue_spiral", "quota_hoarding",
	"starvation", "straggler", "throttle"}

// Options of a stream. Trace, From and To are needed; zero values of others are defaults.
type Options struct {
	Trace    *workload.Workload
	From, To time.Duration // of the trace's clock; jobs submitted in between are used
	// Nodes of GPUsPerNode are the cluster of the trace's jobs, 20 of 8 by default.
	Nodes, GPUsPerNode int
	// Load is the GPU-time that the jobs ask for over the capacity, 1.2 by default. A trace
	// that asks for more is thinned by chance.
	Load float64
	// Curves names the cluster whose telemetry is drawn: philly (the default), pai, seren, kalos.
	Curves string
	// Period is the time between two samples of a GPU, a minute by default.
	Period time.Duration
	// Prevalence is the share of a rule's entities that are positive, .05 by default.
	Prevalence float64
	// Rules to inject, all by default. None are injected for an empty list that is not nil.
	Rules []string
	// Varied injects other shapes: use that falls slowly, comes in bursts and waves or idles in
	// several spells, processes that come and go, heavy tails, waste that begins in the middle of a
	// job, two patterns in one job, and telemetry of which some is lost, comes twice or late.
	Varied bool
	Seed   uint64
}

// main is the partition of the trace's jobs.
const main = "batch"

// Label is an injected case.
type Label struct {
	Rule string `json:"rule"`
	// Entity is named as patterns.Entity.Name.
	Entity string        `json:"entity"`
	From   time.Duration `json:"from_ns"` // since the trace's zero
	To     time.Duration `json:"to_ns"`
	// Near says that it lies within 30 % of a threshold of the rule's definition.
	Near           bool    `json:"near"`
	WastedGPUHours float64 `json:"wasted_gpu_hours"`
	// Also lists rules that may hold for the same entity because of the case.
	Also []string `json:"also,omitempty"`
}

// Record is one entry of a stream; one of its pointers is set, and valid until the next.
type Record struct {
	At        time.Duration // since the trace's zero
	Event     *workload.Event
	GPU       *telemetry.GPUSample
	Queue     *telemetry.QueueSample
	Iteration *telemetry.Iteration
	Guardrail *patterns.Guardrail
}

// Stream is the input of a scan, with its labels.
type Stream struct {
	Zero     time.Time
	From, To time.Duration
	Cluster  workload.Cluster
	Nodes    []string // their names, by number
	Period   time.Duration
	Labels   []Label // in order of rule, entity, time
	// Unclear are times in which some rules (Also) may or may not hold for an entity, because of
	// a hard negative of another rule. Their findings are neither right nor wrong.
	Unclear []Label
	// Units is the number of entities that each rule can hold for, negatives included.
	Units map[string]int
	// GPUDays is the capacity of the trace's cluster over the window.
	GPUDays float64
	// Jobs is the number of the trace's jobs that ran, Wide the number left out as
	// wider than half of the cluster.
	Jobs, Wide int

	seed     uint64
	varied   bool
	perNode  int
	curves   *curves
	runs     []*run // of the trace, in order of start
	last     map[string]*run
	discrete []Record // in order of time
	labels   map[string][]string
	scripted map[string]bool // jobs and queues of scripted partitions
	dark     []maintenance
	waits    []wait
	events   []workload.Event
}

// scriptedRules are injected into scripted partitions only.
var scriptedRules = []string{"fragmentation", "queue_spiral", "starvation"}

// Judged reports whether a rule's findings on an entity are known to be right or wrong. Findings on
// queues and waiting jobs of the trace itself are not: a real history may have their patterns.
func (s *Stream) Judged(rule, entity string) bool {
	return slices.Contains(Rules, rule) && (!slices.Contains(scriptedRules, rule) || s.scripted[entity])
}

// JobLabels are the labels of a job, such as interactive.
func (s *Stream) JobLabels(j *workload.Job) []string { return s.labels[j.ID] }

// Events are the events of jobs and configurations, in order of time.
func (s *Stream) Events() []workload.Event { return s.events }

// newStream is a stream of the trace's cluster without jobs.
func newStream(o *Options) (*Stream, error) {
	o.defaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	c, err := readCurves(o.Curves)
	if err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	s := &Stream{Zero: o.Trace.Zero(), From: o.From, To: o.To, Period: o.Period, Units: map[string]int{},
		seed: o.Seed, varied: o.Varied, perNode: o.GPUsPerNode, curves: c,
		labels: map[string][]string{}, scripted: map[string]bool{}}
	s.GPUDays = float64(o.Nodes*o.GPUsPerNode) * (o.To - o.From).Hours() / 24
	s.addNodes(main, o.Nodes, o.GPUsPerNode)
	return s, nil
}

// New places the jobs and chooses the cases.
func New(o Options) (*Stream, error) {
	s, err := newStream(&o)
	if err != nil {
		return nil, err
	}
	loops := newLoops(&o)
	if err := s.place(&o, loops); err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	s.chooseCases(&o, loops)
	s.jobEvents()
	s.scenes(&o)
	s.finish()
	return s, nil
}

func (o *Options) defaults() {
	o.Nodes, o.GPUsPerNode = cmp.Or(o.Nodes, 20), cmp.Or(o.GPUsPerNode, 8)
	o.Load, o.Prevalence = cmp.Or(o.Load, 1.2), cmp.Or(o.Prevalence, .05)
	o.Period, o.Curves = cmp.Or(o.Period, time.Minute), cmp.Or(o.Curves, "philly")
	if o.Rules == nil {
		o.Rules = Rules
	}
}

func (o *Options) check() error {
	switch {
	case o.Trace == nil || o.From < 0 || o.To-o.From < 6*time.Hour:
		return fmt.Errorf("window: %v to %v of a trace: want at least 6 hours", o.From, o.To)
	case o.Nodes < 1 || o.GPUsPerNode < 1 || o.Nodes*o.GPUsPerNode > 1e5:
		return fmt.Errorf("cluster: %d nodes x %d GPUs: want 1 to 100,000 GPUs", o.Nodes, o.GPUsPerNode)
	case !(o.Load > 0 && o.Load <= 10):
		return fmt.Errorf("load: %g is not above 0 and at most 10", o.Load)
	case !(o.Prevalence > 0 && o.Prevalence <= .5):
		return fmt.Errorf("prevalence: %g is not above 0 and at most .5", o.Prevalence)
	case o.Period < time.Second || o.Period > time.Minute || time.Minute%o.Period != 0:
		return fmt.Errorf("period: %v does not divide a minute into whole parts of a second or more", o.Period)
	}
	for _, r := range o.Rules {
		if !slices.Contains(Rules, r) {
			return fmt.Errorf("rules: %q is not one of %v", r, Rules)
		}
	}
	return nil
}

// wants reports whether a rule is to be injected.
func (o *Options) wants(rule string) bool { return slices.Contains(o.Rules, rule) }

// count is a share of n, rounded by chance so that the mean over many streams is exact.
func count(r *rand.Rand, share float64, n int) int { return int(share*float64(n) + r.Float64()) }

// addNodes adds a partition of nodes, and returns the number of the first.
func (s *Stream) addNodes(partition string, nodes, gpus int) int {
	first := len(s.Nodes)
	s.Cluster.Groups = append(s.Cluster.Groups, workload.NodeGroup{Name: partition, Nodes: nodes, GPUsPerNode: gpus,
		Partition: partition})
	for i := range nodes {
		s.Nodes = append(s.Nodes, partition+"-n"+strconv.Itoa(i))
	}
	return first
}

func (s *Stream) epoch(at time.Duration) time.Duration { return time.Duration(s.Zero.UnixNano()) + at }

// finish sorts the stream.
func (s *Stream) finish() {
	slices.SortStableFunc(s.events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	for i := range s.events {
		s.discrete = append(s.discrete, Record{At: s.events[i].Time, Event: &s.events[i]})
	}
	slices.SortStableFunc(s.discrete, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	slices.SortFunc(s.Labels, func(a, b Label) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.From, b.From))
	})
}

// Records are the stream in order of time, except for late records of a varied stream.
func (s *Stream) Records() iter.Seq[Record] {
	if s.varied {
		return s.disturbed(s.ordered())
	}
	return s.ordered()
}

func (s *Stream) ordered() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		g := newGenerator(s)
		next := 0
		for t := s.From; t < s.To; t += s.Period {
			for next < len(s.discrete) && s.discrete[next].At <= t {
				if !yield(s.discrete[next]) {
					return
				}
				next++
			}
			if !g.tick(t, yield) {
				return
			}
		}
		for _, r := range s.discrete[next:] {
			if r.At < s.To && !yield(r) {
				return
			}
		}
	}
}

// stream is a random stream of a purpose.
func (s *Stream) stream(purpose string, more ...uint64) *rand.Rand {
	return rng.Stream("inject "+purpose, s.seed, more...)
}

// between draws a number evenly.
func between(r *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }

// span draws a time evenly, in seconds.
func span(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)/int64(time.Second)+1))*time.Second
}

// Package patterns finds causes of waste on a cluster: jobs that hold GPUs and do not use them,
// queues that grow by themselves, nodes that slow a gang down. A Scanner reads events and
// telemetry once, in about the order of their times, and reports a Finding for every rule
// and entity for as long as the rule holds. Rules are data; the built-in ones are Builtin.
package patterns

import (
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Options of a scan. The zero value of all but Zero and Cluster is a default.
type Options struct {
	// Zero is the wall-clock time of instant 0 of Event.Time. Samples have times since the
	// Unix epoch.
	Zero time.Time
	// Cluster is the hardware. Without groups it is unknown, and so are free GPUs: rules that need them find nothing,
	// and Notes reports it.
	Cluster workload.Cluster
	// Nodes are the names that placements and samples give the nodes, by number. Without
	// them a node's name is its number, or that of the next record which has a new one.
	Nodes []string
	// Rules are the rules to apply, Builtin by default.
	Rules *RuleSet
	// Period is the time between two samples of a GPU, 15 s by default.
	Period time.Duration
	// Price is that of a GPU-hour; without it findings have no cost.
	Price float64
	// Labels returns the labels of a job that rules name, such as interactive and hoard-ok; nil: none.
	Labels func(*workload.Job) []string
	// Cap bounds the entities that a rule keeps state of at once, 50,000 by default. Others are
	// not examined, which Notes reports.
	Cap int
	// OnFinding receives a finding when it opens, when its evidence is updated (at most once
	// an hour) and when it closes. The finding is valid during the call; Clone keeps it.
	OnFinding func(*Finding)
	// OnJob receives, when a job has ended, the class of its bottleneck and why it waited.
	OnJob func(*JobReport)
}

// Entity is the subject of a finding. Kind is that of the rule's last group_by: job, tenant, user, key,
// queue, node, partition, gpu, worker, config_version or cluster. Name has the values of all, with
// slashes between them: 123, u1/train.sh (of user, key), n1:0 (a GPU), 123/6 (of job, worker).
type Entity struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

func (e Entity) String() string { return e.Kind + "/" + e.Name }

// Evidence is a number that a finding rests on.
type Evidence struct {
	What      string  `json:"what"`
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold"`
	Unit      string  `json:"unit,omitempty"`
	// From and To are the span that it was measured over.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Finding says that a rule holds for an entity.
type Finding struct {
	Rule   string `json:"rule"`
	Entity Entity `json:"entity"`
	Job    string `json:"job,omitempty"`  // that the entity is, or is part of
	Node   string `json:"node,omitempty"` // of a worker, where placements show it
	// Began is when the waste began as far as the evidence reaches, Opened when the rule first held, Closed when it no
	// longer did. While Open, the rule holds, and Closed is the instant until which a scan has examined it; the
	// service, whose findings stay open between scans, leaves it zero.
	Began  time.Time `json:"began"`
	Opened time.Time `json:"opened"`
	Closed time.Time `json:"closed,omitzero"`
	Open   bool      `json:"open"`
	// Confidence is from 0 to 1: how much of the evidence was measured, and how far beyond the
	// thresholds it lies. It is not a calibrated probability.
	Confidence     float64 `json:"confidence"`
	WastedGPUHours float64 `json:"wasted_gpu_hours"`
	Cost           float64 `json:"cost,omitempty"` // WastedGPUHours x Options.Price
	// Affected are the jobs and tenants that pay for it besides the entity: the job that it is part of, its tenant, and
	// the first jobs of other tenants that waited, when it opened, where it wastes GPUs: tenant/t, job/4711.
	Affected []string   `json:"affected,omitempty"`
	Evidence []Evidence `json:"evidence"`
	// Action names the remedy, Words explains it to a person.
	Action string `json:"action"`
	Words  string `json:"words"`
}

// Clone copies a finding.
func (f *Finding) Clone() *Finding {
	c := *f
	c.Affected, c.Evidence = slices.Clone(f.Affected), slices.Clone(f.Evidence)
	return &c
}

// Record is one observation: one of its fields is set.
type Record struct {
	Event     *workload.Event
	GPU       *telemetry.GPUSample
	Queue     *telemetry.QueueSample
	Iteration *telemetry.Iteration
	Message   *Message
	Guardrail *Guardrail
}

// Rank orders records of one instant: lines of logs, events, samples of queues with iterations and guardrails, samples
// of GPUs.
func (r *Record) Rank() int {
	switch {
	case r.Message != nil:
		return 0
	case r.Event != nil:
		return 1
	case r.GPU != nil:
		return 3
	}
	return 2
}

// name names a record in errors.
func (r *Record) name() string {
	switch {
	case r.Event != nil:
		return "event " + r.Event.ID
	case r.GPU != nil:
		return fmt.Sprintf("sample of %s:%d", r.GPU.Node, r.GPU.Index)
	case r.Queue != nil:
		return "sample of queue " + r.Queue.Queue
	case r.Iteration != nil:
		return "iteration of " + r.Iteration.Job
	case r.Message != nil:
		return "message of " + r.Message.Job
	}
	return "guardrail " + r.Guardrail.Name
}

// Message is a line of a log, or a reason that a job ended, such as OUT_OF_MEMORY.
type Message struct {
	Time   time.Duration // since the Unix epoch
	Source string        // the program that wrote it, as rules name it; empty if unknown
	Job    string
	Node   string
	Text   string
}

// Guardrail is a measurement that a configuration must not worsen, over the hour before
// Time, with the interval in which it was forecast.
type Guardrail struct {
	Time      time.Duration // since the Unix epoch
	Revision  string        // the configuration in force
	Name      string
	Value     float64
	Low, High float64
	// Applied is when the configuration was put in force, since the Unix epoch; 0 where an event says so.
	Applied time.Duration
	// DemandOutside says that the demand itself left its own forecast interval.
	DemandOutside bool
}

package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EventKind is the change of a job, a node or the configuration.
type EventKind uint8

// The events a scheduler reports.
const (
	EventUnknown EventKind = iota
	Submitted
	Started
	Preempted
	Resumed
	Resized
	Finished
	NodeUp
	NodeDown
	ConfigApplied
	NodeDrained
	TakenSnapshot
	Heartbeat // nothing but the time
)

var eventNames = [...]string{"unknown", "submitted", "started", "preempted", "resumed", "resized", "finished",
	"node_up", "node_down", "config_applied", "node_drained", "snapshot", "heartbeat"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", k)
}

// Event is one fact about a job or a node, at scheduler time.
type Event struct {
	ID   string // unique within the scheduler; a repeated id is the same event
	Kind EventKind
	Time time.Duration // since the ledger's zero
	// Job identifies the job of a job event. The other fields of Job count on
	// Submitted (all but Duration) and on Resized (GPUs) and Finished (Status).
	Job Job
	// Placement is where the job runs, on Started, Resumed and Resized.
	Placement []NodeShare
	// SharesWith is the job whose GPUs the job shares, on Started and Resumed, and Pool
	// the part of the nodes it runs in, or waits for on Submitted, as in ActiveJob.
	SharesWith string
	Pool       int
	// Attained is the job's attained service until Time as its scheduler counts
	// it, in GPU-time, if HasAttained.
	Attained    time.Duration
	HasAttained bool
	// LevelAttained and LeaseUntil are as in ActiveJob, where HasLevel and a
	// LeaseUntil other than 0 say they are known.
	LevelAttained time.Duration
	HasLevel      bool
	LeaseUntil    time.Duration
	// Lost says on Preempted that the job's progress was lost. HoldUntil is the instant before which a
	// job that waits may not start, on Submitted and Preempted, 0 for none.
	Lost      bool
	HoldUntil time.Duration
	// StartUp is how long a job had held its GPUs before it ran, on Started and Resumed. It counts as run time.
	StartUp time.Duration
	// Labels classify the job, with commas between: debug, interactive. On Submitted, and on Started
	// within a snapshot; no simulation uses them.
	Labels string
	// Node is the node of a node event; GPUs its size on NodeUp.
	Node     string
	NodeGPUs int
	// Revision is the configuration revision in force. Instance, Hash and Epoch count on
	// ConfigApplied: which instance of the scheduler put it in force, and the content hash and
	// the epoch with which it was offered; zero if not known.
	Revision string
	Instance string
	Hash     string
	Epoch    Epoch
	// Active is the state at the instant of a snapshot: every active job, Started if it
	// runs and Submitted if it waits, with its description and Job.Submit; and every node,
	// NodeUp or NodeDrained, unless there is none. An active job or a node that it does not
	// have is gone since the last event of it. Ids and times are the snapshot's.
	Active []Event
}

// Epoch identifies a life of the service's store, within which revisions count up.
type Epoch struct {
	// ID is unique.
	ID string `json:"id"`
	// Counter is higher than the counters of all former epochs: the milliseconds since the Unix epoch at
	// which this one began, or one more than the counter before.
	Counter int64 `json:"counter"`
}

// NodeEvent is an event of a node of a known cluster. From NodeDrained on, no job starts
// on the node, and the running ones go on; NodeDown stops them.
type NodeEvent struct {
	At   time.Duration // since the workload's zero
	Node int           // its number in the cluster
	Kind EventKind     // NodeUp, NodeDown or NodeDrained
}

// Limits of an event.
const (
	MaxPool   = 255
	MaxPlaces = 1 << 14 // nodes of a placement
	MaxActive = 200_000 // jobs and nodes of a snapshot
)

// OfJob reports whether the event is about a job.
func (k EventKind) OfJob() bool { return k >= Submitted && k <= Finished }

// OfNode reports whether the event is about a node.
func (k EventKind) OfNode() bool { return k == NodeUp || k == NodeDown || k == NodeDrained }

// CompareEvents orders events by time, then by kind, then by id.
func CompareEvents(a, b Event) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

// Validate names the first field that makes no sense by itself: "field: why".
func (e *Event) Validate() error {
	switch {
	case e.ID == "":
		return fmt.Errorf("event_id: is required")
	case e.Kind == EventUnknown || int(e.Kind) >= len(eventNames):
		return fmt.Errorf("kind: %d is not a known kind of event", e.Kind)
	case e.Time > MaxSubmit || e.Time < -MaxSubmit:
		return fmt.Errorf("time: is more than a hundred years from the zero")
	case e.Kind.OfJob() && e.Job.ID == "":
		return fmt.Errorf("job.job_id: is required")
	case e.Kind.OfNode() && e.Node == "":
		return fmt.Errorf("node.node_id: is required")
	case (e.Kind == Submitted || e.Kind == Resized) && (e.Job.GPUs <= 0 || e.Job.GPUs > GPUs(MaxGPUs)):
		return fmt.Errorf("job.milli_gpus: %g is not between 0 and %d", float64(e.Job.GPUs)/1000, MaxGPUs)
	case e.Job.Status > Failed && e.Job.Status != TimedOut && e.Job.Status != OutOfMemory:
		return fmt.Errorf("job.end_status: %d is not known", e.Job.Status)
	case e.NodeGPUs < 0 || e.NodeGPUs > MaxGPUsPerNode:
		return fmt.Errorf("node.gpus: %d is not from 0 to %d", e.NodeGPUs, MaxGPUsPerNode)
	case e.Pool < 0 || e.Pool > MaxPool:
		return fmt.Errorf("pool: %d is not from 0 to %d", e.Pool, MaxPool)
	case e.HoldUntil > MaxSubmit || e.HoldUntil < -MaxSubmit:
		return fmt.Errorf("hold_until_time: is more than a hundred years from the zero")
	case e.LevelAttained < 0:
		return fmt.Errorf("level_attained: %v is negative", e.LevelAttained)
	case e.StartUp < 0:
		return fmt.Errorf("start_up: %v is negative", e.StartUp)
	case e.Attained < 0:
		return fmt.Errorf("attained_service: %v is negative", e.Attained)
	}
	if n := len(e.Placement); n > MaxPlaces {
		return fmt.Errorf("placement: has %d nodes, more than %d", n, MaxPlaces)
	}
	if e.Kind.OfJob() {
		if field, why := e.Job.checkRequest(); field != "" {
			switch field {
			case "cpus":
				field = "milli_cpus"
			case "memory":
				field = "memory_bytes"
			}
			return fmt.Errorf("job.request.%s: %s", field, why)
		}
	}
	if err := e.validateSnapshot(); err != nil {
		return err
	}
	for i, p := range e.Placement {
		switch {
		case p.Node == "":
			return fmt.Errorf("placement[%d].node_id: is required", i)
		case p.GPUs <= 0 || p.GPUs > MaxGPUsPerNode:
			return fmt.Errorf("placement[%d].gpus: %d is not from 1 to %d", i, p.GPUs, MaxGPUsPerNode)
		}
		if _, err := p.Numbers(); err != nil {
			return fmt.Errorf("placement[%d].gpu_indexes: %w", i, err)
		}
	}
	if n := strings.Count(e.Labels, ","); n >= maxLabels || e.Labels != "" &&
		slices.Contains(strings.Split(e.Labels, ","), "") {
		return fmt.Errorf("job.rule_labels: more than %d, or an empty one", maxLabels)
	}
	return nil
}

// maxLabels is how many labels a job may have.
const maxLabels = 16

// validateSnapshot names the first part of a snapshot that makes no sense.
func (e *Event) validateSnapshot() error {
	switch n := len(e.Active); {
	case n == 0:
		return nil
	case e.Kind != TakenSnapshot:
		return fmt.Errorf("snapshot: is for snapshots only, not for %v", e.Kind)
	case n > MaxActive:
		return fmt.Errorf("snapshot: has %d jobs and nodes, more than %d", n, MaxActive)
	}
	type part struct{ job, node string }
	seen := make(map[part]bool, len(e.Active))
	for i := range e.Active {
		one := e.Active[i]
		one.ID, one.Time = e.ID, e.Time
		if one.Kind != Started && one.Kind != Submitted && one.Kind != NodeUp && one.Kind != NodeDrained {
			return fmt.Errorf("snapshot: part %d is %v", i, one.Kind)
		}
		err := one.Validate()
		switch {
		case err != nil:
			return fmt.Errorf("snapshot: part %d: %w", i, err)
		case one.Kind.OfJob() && (one.Job.Submit > e.Time || one.Job.Submit < -MaxSubmit):
			return fmt.Errorf("snapshot: job %s was submitted after the snapshot, or a hundred years before",
				one.Job.ID)
		case one.Kind.OfJob() && (one.Job.GPUs <= 0 || one.Job.GPUs > GPUs(MaxGPUs)):
			return fmt.Errorf("snapshot: job %s: GPUs: %g is not between 0 and %d", one.Job.ID,
				float64(one.Job.GPUs)/1000, MaxGPUs)
		case seen[part{one.Job.ID, one.Node}]:
			return fmt.Errorf("snapshot: has %s%s twice", one.Job.ID, one.Node)
		}
		seen[part{one.Job.ID, one.Node}] = true
	}
	return nil
}

// NodeShare is a share of a node by the name that node events give it.
type NodeShare struct {
	Node string
	GPUs int
	// Indexes are the numbers of the GPUs on the node with commas between, empty where they are not known.
	Indexes string
}

// Indexes writes the numbers of GPUs for a NodeShare.
func Indexes(numbers []int32) string {
	var out []byte
	for i, n := range numbers {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(n), 10)
	}
	return string(out)
}

// Numbers are the numbers of the GPUs on the node, nil where they are not known.
func (n *NodeShare) Numbers() (out []int, err error) {
	if n.Indexes == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(n.Indexes, ",") {
		i, err := strconv.Atoi(text)
		if err != nil || i < 0 || i >= MaxGPUsPerNode || slices.Contains(out, i) {
			return nil, fmt.Errorf("%q is no number of a GPU from 0 to %d, or is there twice", text, MaxGPUsPerNode-1)
		}
		out = append(out, i)
	}
	if len(out) != n.GPUs {
		return nil, fmt.Errorf("are %d, and not as many as GPUs, %d", len(out), n.GPUs)
	}
	return out, nil
}

// Shares names the nodes of a placement by their numbers.
func Shares(p []NodeGPUs) []NodeShare {
	if len(p) == 0 {
		return nil
	}
	out := make([]NodeShare, len(p))
	for i, n := range p {
		out[i] = NodeShare{Node: strconv.Itoa(n.Node), GPUs: n.GPUs}
	}
	return out
}

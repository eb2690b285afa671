package workload

import (
	"fmt"
	"strconv"
	"time"
)

// EventKind says what happened to a job, a node or the configuration.
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
)

var eventNames = [...]string{"unknown", "submitted", "started", "preempted", "resumed", "resized", "finished", "node_up", "node_down", "config_applied"}

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
	// Attained is the job's attained service until Time as its scheduler counts
	// it, in GPU-time, where HasAttained says that it is told.
	Attained    time.Duration
	HasAttained bool
	// LevelAttained and LeaseUntil are as in ActiveJob, where HasLevel and a
	// LeaseUntil other than 0 say they are known.
	LevelAttained time.Duration
	HasLevel      bool
	LeaseUntil    time.Duration
	// Node is the node of NodeUp and NodeDown; GPUs its size on NodeUp.
	Node     string
	NodeGPUs int
	// Revision is the configuration revision in force.
	Revision string
}

// NodeShare is a share of a node by the name that node events give it.
type NodeShare struct {
	Node string
	GPUs int
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

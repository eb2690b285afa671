// Package capacity infers the cluster on which a history was recorded.
package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// DefaultGPUsPerNode is assumed where the history does not show the size of nodes.
const DefaultGPUsPerNode = 8

// ErrUnknown is the error for a history that does not show its cluster.
var ErrUnknown = errors.New("the history does not show its cluster: it has no list of machines, and most jobs have " +
	"neither a start nor the names of their nodes")

// Source is the basis of an inferred cluster.
type Source string

// The sources, best first.
const (
	Given       Source = "given"       // Evidence.Nodes
	Declared    Source = "declared"    // the history states its cluster
	Machines    Source = "machines"    // a list of machines among its files
	NodeLists   Source = "node-lists"  // the names of the nodes on which jobs ran
	Concurrency Source = "concurrency" // the most GPUs in use at once: a lower bound
)

// Evidence is further knowledge beside the jobs.
type Evidence struct {
	// Machines are the nodes that the history's files list or, if Declared, state.
	Machines []workload.NodeGroup
	Declared bool
	// Nodes and GPUsPerNode are the size of the cluster as far as it is given, else 0.
	Nodes, GPUsPerNode int
}

// Inferred is a cluster and its basis.
type Inferred struct {
	Cluster workload.Cluster
	Source  Source
	// Jobs is the number of jobs that are evidence.
	Jobs int
	// Peak is the most GPUs in use at once, and At the first instant of it, where the
	// source is Concurrency.
	Peak workload.MilliGPU
	At   time.Time
	// Assumed says that GPUs per node are DefaultGPUsPerNode.
	Assumed bool
	// Nodes are the names of the nodes in order of number, and Changes when they come and
	// go, where the source is NodeLists.
	Nodes   []string
	Changes []workload.NodeEvent
	// Unfilled says that the size of nodes is the most that jobs held there, and that no job
	// is known to have waited: nodes may have more.
	Unfilled bool
}

// String describes the cluster and its basis.
func (i Inferred) String() string {
	text := i.Cluster.String()
	switch i.Source {
	case Declared:
		text += ", as the trace states"
	case Machines:
		text += ", from the list of machines"
	case NodeLists:
		text += fmt.Sprintf(", from the node lists of %d jobs", i.Jobs)
		if i.Unfilled {
			text = fmt.Sprintf("at least %s, none of which waited for %.0f min: nodes may have more GPUs", text,
				waited.Minutes())
		}
		if n := len(i.changing()); n > 0 {
			text += fmt.Sprintf("; nodes that come or go during the history: %d", n)
		}
	case Concurrency:
		text = fmt.Sprintf("at least %s, because %d GPUs were in use at %s, by the recorded starts of %d jobs", text,
			i.Peak.Cover(), i.At.Format(time.RFC3339), i.Jobs)
	}
	if i.Assumed {
		text += fmt.Sprintf("; %d GPUs per node are assumed", DefaultGPUsPerNode)
	}
	return text
}

// changing are the nodes that come or go.
func (i Inferred) changing() map[int]bool {
	nodes := map[int]bool{}
	for _, c := range i.Changes {
		nodes[c.Node] = true
	}
	return nodes
}

// Infer returns the cluster of a history: the given parts, and the rest from the best source
// there is: the machines that the history states or lists; the nodes on which its jobs ran;
// or the most GPUs that they held at once, rounded up to whole nodes. The latter two need
// the nodes or the start of at least half of the jobs, and are lower bounds. The error is
// ErrUnknown if there is none.
func Infer(w *workload.Workload, e Evidence) (Inferred, error) {
	i := Inferred{Source: Given}
	perNode := e.GPUsPerNode
	var l *lists
	if len(e.Machines) == 0 {
		l = readLists(w)
	}
	named := l != nil && 2*l.jobs >= w.Len() && l.jobs > 0
	switch {
	case e.Nodes != 0:
		groups := e.Machines
		if perNode == 0 && named {
			groups = l.infer(0).Cluster.Groups
		}
		perNode = cmp.Or(perNode, equalNodes(groups))
	case len(e.Machines) > 0:
		i.Cluster.Groups = slices.Clone(e.Machines)
		for k := range i.Cluster.Groups {
			g := &i.Cluster.Groups[k]
			g.GPUsPerNode = cmp.Or(e.GPUsPerNode, g.GPUsPerNode)
		}
		if i.Source = Machines; e.Declared {
			i.Source = Declared
		}
		return i, i.Cluster.Validate()
	case named:
		i = l.infer(perNode)
		return i, i.Cluster.Validate()
	default:
		if i = peak(w); 2*i.Jobs < w.Len() || i.Jobs == 0 {
			return i, ErrUnknown
		}
	}
	i.Assumed = perNode == 0
	perNode = cmp.Or(perNode, DefaultGPUsPerNode)
	i.Cluster = workload.Uniform(cmp.Or(e.Nodes, (i.Peak.Cover()+perNode-1)/perNode), perNode)
	return i, i.Cluster.Validate()
}

// equalNodes is the number of GPUs of every node, 0 if they differ or there are none.
func equalNodes(groups []workload.NodeGroup) int {
	size := 0
	for k := range groups {
		if k > 0 && groups[k].GPUsPerNode != size {
			return 0
		}
		size = groups[k].GPUsPerNode
	}
	return size
}

// peak finds the most GPUs that jobs held at once. A job holds its GPUs from its recorded
// start for its run time; at one instant, GPUs are given back before others are taken.
func peak(w *workload.Workload) Inferred {
	i := Inferred{Source: Concurrency}
	held := workload.MilliGPU(0)
	sweep(w.Jobs(), func(j *workload.Job, starts bool) {
		if !starts {
			held -= j.GPUs
			return
		}
		i.Jobs++
		if held += j.GPUs; held > i.Peak {
			i.Peak, i.At = held, w.Clock(j.Submit+j.Wait)
		}
	})
	return i
}

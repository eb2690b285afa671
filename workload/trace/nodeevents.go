package trace

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// NodeEvents are the node events of a file: CSV with the
// columns time, node, event and, if nodes are added, gpus. Instants are as in
// ParseInstant. Nodes are numbers from 0, the cluster's first. An event is down
// (the jobs on the node stop), drain (no job starts on it), up (after one of the two), or
// add: a node of a number of GPUs that is not there before.
type NodeEvents struct {
	file string
	rows []nodeRow
}

type nodeRow struct {
	line  int
	since func(zero time.Time) time.Duration
	node  int
	event string
	gpus  int // 0 if it does not say
}

var nodeKinds = map[string]workload.EventKind{"down": workload.NodeDown, "drain": workload.NodeDrained,
	"up": workload.NodeUp, "add": workload.NodeUp}

// maxNodeEvents bounds a file taken for one of node events by mistake.
const maxNodeEvents = 1_000_000

// OpenNodeEvents reads a file of node events.
func OpenNodeEvents(path string) (*NodeEvents, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadNodeEvents(f, filepath.Base(path))
}

// ReadNodeEvents reads node events. name is the file of errors, which name the line too.
func ReadNodeEvents(r io.Reader, name string) (*NodeEvents, error) {
	table := csv.NewReader(r)
	table.Comment, table.TrimLeadingSpace, table.ReuseRecord = '#', true, true
	head, err := table.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	columns := map[string]int{}
	if strings.Count(strings.Join(head, ","), "|") >= 3 {
		return nil, fmt.Errorf("%s:1: it looks like what sacctmgr prints of nodes: 'autosched slurm init --saved' makes "+
			"node events of it", name)
	}
	for i, c := range head {
		c = strings.TrimPrefix(strings.TrimSpace(c), "\ufeff")
		if _, twice := columns[c]; twice || !slices.Contains([]string{"time", "node", "event", "gpus"}, c) {
			return nil, fmt.Errorf("%s:1: column %q: the columns are time, node, event and, if nodes are added, gpus",
				name, c)
		}
		columns[c] = i
	}
	for _, c := range []string{"time", "node", "event"} {
		if _, ok := columns[c]; !ok {
			return nil, fmt.Errorf("%s:1: column %q is missing: the first line is time,node,event or "+
				"time,node,event,gpus", name, c)
		}
	}
	e := &NodeEvents{file: name}
	for {
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			return e, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := table.FieldPos(0)
		if len(e.rows) == maxNodeEvents {
			return nil, fmt.Errorf("%s:%d: is more than a million node events", name, line)
		}
		field := func(c string) string {
			if i, ok := columns[c]; ok {
				return strings.TrimSpace(record[i])
			}
			return ""
		}
		row, err := parseNodeRow(field)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		row.line = line
		e.rows = append(e.rows, row)
	}
}

func parseNodeRow(field func(column string) string) (row nodeRow, err error) {
	if row.since = readInstant(field("time")); row.since == nil {
		return row, fmt.Errorf("time: instant %q: "+noInstant, field("time"), "the trace's zero")
	}
	if row.node, err = strconv.Atoi(field("node")); err != nil || row.node < 0 || row.node >= workload.MaxNodes {
		return row, fmt.Errorf("node: %q is not a number from 0 to %d", field("node"), workload.MaxNodes-1)
	}
	row.event = field("event")
	if _, ok := nodeKinds[row.event]; !ok {
		return row, fmt.Errorf("event: %q is not down, drain, up or add", row.event)
	}
	if text := field("gpus"); text != "" {
		if row.gpus, err = strconv.Atoi(text); err != nil || row.gpus < 1 || row.gpus > workload.MaxGPUsPerNode {
			return row, fmt.Errorf("gpus: %q is not a number from 1 to %d", text, workload.MaxGPUsPerNode)
		}
	}
	return row, nil
}

// Len is the number of events.
func (e *NodeEvents) Len() int { return len(e.rows) }

// On returns the events in order of time, and the cluster with the nodes that are added:
// before, they are down. Added nodes are numbered on from the cluster's. Nodes with as many
// GPUs as a node of the last group, or of a number that the file does not say, belong to
// it; others begin a group.
func (e *NodeEvents) On(c workload.Cluster, zero time.Time) (workload.Cluster, []workload.NodeEvent, error) {
	type event struct {
		workload.NodeEvent
		row *nodeRow
	}
	all := make([]event, len(e.rows))
	for i := range e.rows {
		row := &e.rows[i]
		all[i] = event{workload.NodeEvent{At: row.since(zero), Node: row.node, Kind: nodeKinds[row.event]}, row}
		if at := all[i].At; at > workload.MaxSubmit || at < -workload.MaxSubmit {
			return c, nil, e.fault(row, "time: is more than a hundred years from the zero %s",
				zero.Format(time.RFC3339))
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	first, added := c.Nodes(), map[int]*nodeRow{}
	for i := range all {
		row := all[i].row
		known := row.node < first || added[row.node] != nil
		switch {
		case row.event == "add" && known:
			return c, nil, e.fault(row, "node: %d is in the cluster already; what comes back is up", row.node)
		case row.event == "add":
			added[row.node] = row
		case !known:
			return c, nil, e.fault(row, "node: %d is not in the cluster, which begins with nodes 0 to %d, and was not "+
				"added before", row.node, first-1)
		}
	}
	c.Groups = slices.Clone(c.Groups)
	out := make([]workload.NodeEvent, 0, len(added)+len(all))
	for i, n := range slices.Sorted(maps.Keys(added)) {
		if n != first+i {
			return c, nil, e.fault(added[n], "node: %d is added, but no node %d: number added nodes from %d on",
				n, first+i, first)
		}
		last := &c.Groups[len(c.Groups)-1]
		if g := added[n].gpus; g == 0 || g == last.GPUsPerNode {
			last.Nodes++
		} else {
			c.Groups = append(c.Groups, workload.NodeGroup{Nodes: 1, GPUsPerNode: g})
		}
		out = append(out, workload.NodeEvent{At: -workload.MaxSubmit, Node: n, Kind: workload.NodeDown})
	}
	for i := range all {
		row := all[i].row
		if g := c.Groups[c.GroupOf(row.node)].GPUsPerNode; row.gpus != 0 && row.gpus != g {
			return c, nil, e.fault(row, "gpus: node %d has %d GPUs, not %d", row.node, g, row.gpus)
		}
		out = append(out, all[i].NodeEvent)
	}
	return c, out, c.Validate()
}

// WriteNodeEvents writes the changes that events make to the nodes of a cluster, as
// ReadNodeEvents reads them, and returns how many there are. All nodes of the cluster are
// up at first. Nodes have the numbers that numberNodes gives their names.
func WriteNodeEvents(w io.Writer, zero time.Time, c workload.Cluster, events []workload.Event) (
	changes int, err error) {
	events = slices.DeleteFunc(slices.Clone(events), func(e workload.Event) bool { return !e.Kind.OfNode() })
	slices.SortStableFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	number, state := numberNodes(c, events), map[int]workload.EventKind{}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "time,node,event,gpus")
	for _, e := range events {
		n, ok := number[e.Node]
		before, seen := state[n]
		added := n >= c.Nodes() && !seen
		if !ok || added && e.Kind != workload.NodeUp || !added && e.Kind == cmp.Or(before, workload.NodeUp) {
			continue
		}
		state[n] = e.Kind
		name, gpus := map[workload.EventKind]string{
			workload.NodeUp: "up", workload.NodeDown: "down", workload.NodeDrained: "drain"}[e.Kind], ""
		if added {
			name, gpus = "add", strconv.Itoa(e.NodeGPUs)
		}
		changes++
		fmt.Fprintf(out, "%s,%d,%s,%s\n", zero.Add(e.Time).Format(time.RFC3339Nano), n, name, gpus)
	}
	return changes, out.Flush()
}

// numberNodes gives the nodes of events, which are in order of time, their numbers: a
// name that is a number of the cluster is that number. The others, in order of name, get
// the rest of the first group of their size, of any where it is not known; and those
// for which nothing is left the numbers after the cluster's, in order of their first
// NODE_UP, without which they have none.
func numberNodes(c workload.Cluster, events []workload.Event) map[string]int {
	number, taken := map[string]int{}, map[int]bool{}
	size, order := map[string]int{}, []string(nil)
	for _, e := range events {
		if n, err := strconv.Atoi(e.Node); err == nil && c.GroupOf(n) >= 0 && strconv.Itoa(n) == e.Node {
			number[e.Node], taken[n] = n, true
		} else if e.Kind == workload.NodeUp && size[e.Node] == 0 {
			size[e.Node], order = e.NodeGPUs, append(order, e.Node)
		} else if _, ok := size[e.Node]; !ok {
			size[e.Node] = 0
		}
	}
	free, end := make([]int, len(c.Groups)), make([]int, len(c.Groups)) // numbers of each group
	for g, n := 0, 0; g < len(free); g++ {
		free[g], end[g] = n, n+c.Groups[g].Nodes
		n = end[g]
	}
	for _, name := range slices.Sorted(maps.Keys(size)) {
		for g := range free {
			for free[g] < end[g] && taken[free[g]] {
				free[g]++
			}
			if s := size[name]; free[g] < end[g] && (s == 0 || s == c.Groups[g].GPUsPerNode) {
				number[name] = free[g]
				free[g]++
				break
			}
		}
	}
	next := c.Nodes()
	for _, name := range order {
		if _, ok := number[name]; !ok {
			number[name] = next
			next++
		}
	}
	return number
}

func (e *NodeEvents) fault(row *nodeRow, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", e.file, row.line, fmt.Sprintf(format, args...))
}

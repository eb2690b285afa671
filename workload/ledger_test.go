package workload

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var testCluster = Uniform(4, 8)

func apply(t rapid.TB, l *Ledger, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := e.Validate(); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		l.Apply(e)
	}
}

// ev is an event of job a, at seconds. Its id has kind and time.
func ev(kind EventKind, job string, at int) Event {
	return Event{ID: fmt.Sprintf("%s-%v-%d", job, kind, at), Kind: kind, Time: time.Duration(at) * time.Second,
		Job: Job{ID: job, GPUs: 2000}}
}

func TestLedgerTellsAJobsLife(t *testing.T) {
	submit := ev(Submitted, "a", 10)
	submit.Job.Tenant, submit.Job.Duration = "x", time.Hour
	start := ev(Started, "a", 15)
	start.Placement = []NodeShare{{Node: "1", GPUs: 2}}
	start.LeaseUntil = 30 * time.Second
	preempt := ev(Preempted, "a", 25)
	preempt.LevelAttained, preempt.HasLevel = 20*time.Second, true
	resume := ev(Resumed, "a", 40)
	resize := ev(Resized, "a", 50)
	resize.Job.GPUs = 4000
	finish := ev(Finished, "a", 70)
	finish.Job.Status = Completed
	l := NewLedger(testCluster)
	apply(t, l, finish, resize, preempt, start, resume, submit) // late events count

	job := Job{ID: "a", Tenant: "x", Submit: 10 * time.Second, GPUs: 2000}
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for at, want := range map[int]*ActiveJob{
		9:  nil,
		12: {Job: job, Since: s(10), WaitTime: s(2)},
		20: {Job: job, Running: true, Held: 2, Since: s(15), WaitTime: s(5), RunTime: s(5), Attained: s(10), Starts: 1,
			LeaseUntil: s(30), Placement: []NodeGPUs{{Node: 1, GPUs: 2}}},
		30: {Job: job, Since: s(25), WaitTime: s(10), RunTime: s(10), Attained: s(20), Starts: 1, Preemptions: 1,
			LevelAttained: s(20), HasLevel: true},
		60: {Job: job, Running: true, Held: 4, Resizes: 1, Since: s(50), WaitTime: s(20), RunTime: s(30),
			Attained: s(80), Starts: 2, Preemptions: 1, LevelAttained: s(20), HasLevel: true},
		70: nil,
	} {
		got := l.State(s(at))
		if want == nil {
			if got.Jobs != nil {
				t.Errorf("at %d: %+v", at, got.Jobs)
			}
			continue
		}
		if len(got.Jobs) != 1 || !reflect.DeepEqual(got.Jobs[0], *want) {
			t.Errorf("at %d: %+v, want %+v", at, got.Jobs, *want)
		}
		if e := got.Elapsed(0); e != s(at-10) {
			t.Errorf("at %d: elapsed %v", at, e)
		}
	}
	ended := job
	ended.Status = Completed
	if got := l.Finishes(s(70), s(71)); len(got) != 1 ||
		!reflect.DeepEqual(got[0], Finish{Job: ended, End: s(70), RunTime: s(40), Starts: 2}) {
		t.Errorf("finishes %+v", got)
	}
	if got := l.Finishes(s(0), s(70)); got != nil {
		t.Errorf("finishes %+v", got)
	}
	if got := l.Arrivals(s(10), s(11)); len(got) != 1 || got[0] != job {
		t.Errorf("arrivals %+v", got)
	}
}

// TestLedgerKnowsForWhichNodesJobsWait: until they have started once.
func TestLedgerKnowsForWhichNodesJobsWait(t *testing.T) {
	asks := ev(Submitted, "a", 0)
	asks.Pool = 1
	l := NewLedger(testCluster)
	apply(t, l, asks, ev(Started, "a", 10), ev(Preempted, "a", 20))
	for at, want := range map[int]int{5: 1, 15: 0, 25: 0} {
		if got := l.State(time.Duration(at) * time.Second).Jobs[0].Pool; got != want {
			t.Errorf("at %d s a is of pool %d, want %d", at, got, want)
		}
	}
}

// TestRunTimeOfSnapshot: a job whose start is not known, as the store was lost, runs for as long as its service says,
// at most since its submission; one whose start is known, since then.
func TestRunTimeOfSnapshot(t *testing.T) {
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for name, c := range map[string]struct {
		attained, since int
		before          []Event
	}{
		"lost":             {120, 140, nil},
		"more than it can": {900, 100, nil},
		"nothing":          {0, 200, nil},
		"known":            {120, 150, []Event{ev(Submitted, "a", 100), ev(Started, "a", 150)}},
	} {
		one := ev(Started, "a", 200)
		one.Job.Submit, one.Attained, one.HasAttained = s(100), s(c.attained), true
		l := NewLedger(testCluster)
		apply(t, l, append(c.before,
			Event{ID: "snapshot", Kind: TakenSnapshot, Time: s(200), Active: []Event{one}})...)
		j := l.State(s(250)).Jobs[0]
		if j.Since != s(c.since) || j.RunTime != s(250-c.since) || j.WaitTime != s(c.since-100) ||
			j.Attained != s(c.attained)+s(50)*time.Duration(j.Held) {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

// TestLedgerKnowsPairs: a pair lasts until the job that was there first has left.
func TestLedgerKnowsPairs(t *testing.T) {
	join := ev(Started, "b", 30)
	join.SharesWith, join.Pool = "a", 2
	l := NewLedger(testCluster)
	apply(t, l, ev(Submitted, "a", 0), ev(Started, "a", 10), ev(Submitted, "b", 20), join, ev(Preempted, "a", 40),
		ev(Resumed, "a", 50), ev(Preempted, "b", 60))
	for at, want := range map[int]string{35: "a", 45: "", 55: "", 65: ""} {
		b := l.State(time.Duration(at) * time.Second).Jobs[1]
		if b.SharesWith != want {
			t.Errorf("at %d s b shares with %q, want %q", at, b.SharesWith, want)
		}
		if want := map[bool]int{true: 2}[b.Running]; b.Pool != want {
			t.Errorf("at %d s b runs in pool %d, want %d", at, b.Pool, want)
		}
	}
}

func TestLedgerForgivesContradictions(t *testing.T) {
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for name, c := range map[string]struct {
		events  []Event
		at      int
		running bool
		run     time.Duration
		starts  int
	}{
		"started twice": {[]Event{ev(Submitted, "a", 0), ev(Started, "a", 1), ev(Started, "a", 5)}, 10,
			true, s(9), 1},
		"preempted while waiting":    {[]Event{ev(Submitted, "a", 0), ev(Preempted, "a", 1)}, 10, false, 0, 0},
		"started before it is asked": {[]Event{ev(Submitted, "a", 4), ev(Started, "a", 1)}, 10, true, s(6), 1},
		"preempted and resumed at once": {[]Event{ev(Submitted, "a", 0), ev(Started, "a", 1), ev(Preempted, "a", 5),
			ev(Resumed, "a", 5)}, 10, true, s(9), 2},
		"started and preempted at once": {[]Event{ev(Submitted, "a", 0), ev(Started, "a", 5), ev(Preempted, "a", 5)},
			10, false, 0, 1},
	} {
		l := NewLedger(testCluster)
		apply(t, l, c.events...)
		a := l.State(s(c.at)).Jobs[0]
		if a.Running != c.running || a.RunTime != c.run || a.Starts != c.starts ||
			a.RunTime+a.WaitTime != s(c.at)-a.Submit {
			t.Errorf("%s: %+v", name, a)
		}
	}
	l := NewLedger(testCluster)
	apply(t, l, ev(Finished, "a", 3), ev(Started, "b", 1))
	if got := l.State(s(10)); got.Jobs != nil || l.Finishes(0, s(10)) != nil || l.Arrivals(0, s(10)) != nil {
		t.Errorf("jobs nobody submitted: %+v", got)
	}
	apply(t, l, ev(Submitted, "a", 5)) // its clock was ahead
	if f := l.Finishes(0, s(10)); len(f) != 1 || f[0].End != s(5) || f[0].RunTime != 0 {
		t.Errorf("%+v", f)
	}
	// A hundred years on a million GPUs cannot be counted; it must not wrap.
	big := ev(Submitted, "c", 0)
	big.Job.GPUs = GPUs(MaxGPUs)
	apply(t, l, big, ev(Started, "c", 0))
	if a := l.State(MaxSubmit).Jobs[0]; a.ID != "c" || a.Attained != math.MaxInt64 {
		t.Errorf("%+v", a)
	}
}

func TestEventValidate(t *testing.T) {
	for field, edit := range map[string]func(*Event){
		"event_id":             func(e *Event) { e.ID = "" },
		"time":                 func(e *Event) { e.Time = MaxSubmit + 1 },
		"job.job_id":           func(e *Event) { e.Job.ID = "" },
		"job.milli_gpus":       func(e *Event) { e.Job.GPUs = 0 },
		"job.end_status":       func(e *Event) { e.Job.Status = 9 },
		"kind":                 func(e *Event) { e.Kind = 99 },
		"node.node_id":         func(e *Event) { e.Kind = NodeUp },
		"node.gpus":            func(e *Event) { e.NodeGPUs = MaxGPUsPerNode + 1 },
		"level_attained":       func(e *Event) { e.LevelAttained = -1 },
		"attained_service":     func(e *Event) { e.Attained = -1 },
		"placement[1].node_id": func(e *Event) { e.Placement = []NodeShare{{Node: "a", GPUs: 1}, {GPUs: 1}} },
		"placement[0].gpus":    func(e *Event) { e.Placement = []NodeShare{{Node: "a"}} },
		"placement[0].gpu_indexes": func(e *Event) {
			e.Placement = []NodeShare{{Node: "a", GPUs: 2, Indexes: "1,1"}}
		},
		"placement[1].gpu_indexes": func(e *Event) {
			e.Placement = []NodeShare{{Node: "a", GPUs: 2, Indexes: "1,0"}, {Node: "b", GPUs: 2, Indexes: "3"}}
		},
		"job.rule_labels": func(e *Event) { e.Labels = "debug," },
	} {
		e := ev(Submitted, "a", 0)
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		edit(&e)
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Events that change nothing are distinguished from events that do.
func TestLedgerReportsRepetitions(t *testing.T) {
	l := NewLedger(testCluster)
	submitted, up := ev(Submitted, "a", 0), Event{ID: "up", Kind: NodeUp, Node: "n", NodeGPUs: 8}
	apply(t, l, submitted, up)
	for _, e := range []Event{submitted, up, {ID: "c", Kind: ConfigApplied, Revision: "1"}} {
		before := l.State(0)
		l.Apply(e)
		if now := l.State(0); len(now.Jobs) != 1 || !reflect.DeepEqual(now, before) {
			t.Errorf("%+v changes the ledger: %+v", e, now)
		}
	}
}

func TestLedgerCountsNodes(t *testing.T) {
	node := func(kind EventKind, name string, at, gpus int) Event {
		return Event{ID: fmt.Sprint(kind, name, at), Kind: kind, Time: time.Duration(at), Node: name, NodeGPUs: gpus}
	}
	failures := NewLedger(testCluster) // gets failures only
	apply(t, failures, node(NodeUp, "n1", 20, 8), node(NodeDown, "n1", 10, 0))
	all := NewLedger(testCluster) // gets every node
	for i := range 5 {
		apply(t, all, node(NodeUp, fmt.Sprint(i), i, 4))
	}
	apply(t, all, node(NodeDown, "3", 10, 0))
	for _, c := range []struct {
		l           *Ledger
		at          time.Duration
		nodes, gpus int
	}{{failures, 9, 4, 8}, {failures, 10, 3, 8}, {failures, 20, 4, 8}, {all, 0, 4, 4}, {all, 4, 5, 4},
		{all, 10, 4, 4}} {
		state := c.l.State(c.at)
		if got := state.Available(); got.Nodes() != c.nodes || got.GPUsPerNode() != c.gpus {
			t.Errorf("at %d: %v, want %d x %d", c.at, got, c.nodes, c.gpus)
		}
	}
}

// TestReservedNodesAreNumbered: a state has the reservations of named nodes by the numbers that it gives these nodes,
// without those that are down.
func TestReservedNodesAreNumbered(t *testing.T) {
	c := Uniform(4, 8)
	at := func(number int, name string) ReservedNode { return ReservedNode{Number: number, Name: name} }
	c.Site.Reservations = []Reservation{{Nodes: []ReservedNode{at(0, "n1"), at(1, "n2")}},
		{Nodes: []ReservedNode{at(3, "n10")}}, {Nodes: []ReservedNode{at(1, "")}}}
	node := func(kind EventKind, name string, at int) Event {
		return Event{ID: fmt.Sprint(kind, name, at), Kind: kind, Time: time.Duration(at), Node: name, NodeGPUs: 8}
	}
	reserved := func(l *Ledger, at time.Duration) string {
		var out []string
		s := l.State(at)
		for _, r := range s.Cluster.Site.Reservations {
			out = append(out, fmt.Sprint(r.Nodes))
		}
		return fmt.Sprint(s.Cluster.Nodes(), out)
	}
	listed, silent := NewLedger(c), NewLedger(c)
	for _, name := range []string{"n1", "n2", "n3", "n10"} { // in order of name: n1 n10 n2 n3
		apply(t, listed, node(NodeUp, name, 1))
	}
	apply(t, listed, node(NodeDown, "n1", 2))
	apply(t, silent, node(NodeDown, "n1", 2)) // only failures are reported
	for _, w := range []struct {
		l    *Ledger
		at   time.Duration
		want string
	}{{listed, 1, "4 [[{0 n1} {2 n2}] [{1 n10}] [{1 }]]"}, {listed, 2, "3 [[{1 n2}] [{0 n10}] [{1 }]]"},
		{silent, 2, "3 [[{1 n2}] [{0 n10}] [{1 }]]"}} {
		if got := reserved(w.l, w.at); got != w.want {
			t.Errorf("at %d: %s, want %s", w.at, got, w.want)
		}
	}
	numbered := NewLedger(c) // nodes are known by their numbers, as those of a simulated cluster
	for i, job := range []string{"a", "b", "c"} {
		started := ev(Started, job, 0)
		started.Placement = []NodeShare{{Node: fmt.Sprint(3 - i), GPUs: 1}}
		apply(t, numbered, Event{ID: "s" + job, Kind: Submitted, Job: Job{ID: job, GPUs: GPUs(1)}}, started)
	}
	if got := reserved(numbered, 2); got != "4 [[{0 n1} {1 1}] [{3 3}] [{1 }]]" {
		t.Errorf("by number: %s", got)
	}
	if got := c.Site.Reservations[0].Nodes; got[0].Number != 0 || got[1].Number != 1 {
		t.Errorf("the registered cluster became %v", got)
	}
}

// Nodes of a cluster of groups are counted and numbered by group: by their
// number, or by their size.
func TestLedgerCountsNodesByGroup(t *testing.T) {
	c := Cluster{Groups: []NodeGroup{{Nodes: 2, GPUsPerNode: 8}, {Nodes: 3, GPUsPerNode: 4}}}
	l := NewLedger(c)
	node := func(kind EventKind, name string, at, gpus int) Event {
		return Event{ID: fmt.Sprint(kind, name, at), Kind: kind, Time: time.Duration(at), Node: name, NodeGPUs: gpus}
	}
	run := func(job string, at int, nodes ...NodeShare) []Event {
		started := ev(Started, job, 0)
		started.Time, started.Placement = time.Duration(at), nodes
		return []Event{{ID: "s" + job, Kind: Submitted, Time: time.Duration(at), Job: Job{ID: job, GPUs: GPUs(1)}},
			started}
	}
	apply(t, l, node(NodeUp, "four", 1, 4), node(NodeUp, "eight", 1, 8), node(NodeDown, "4", 2, 0),
		node(NodeDown, "eight", 3, 0))
	apply(t, l, run("a", 1, NodeShare{Node: "four", GPUs: 1})...)
	apply(t, l, run("b", 1, NodeShare{Node: "eight", GPUs: 1})...)
	apply(t, l, run("c", 1, NodeShare{Node: "1", GPUs: 1})...)
	for _, w := range []struct {
		at            time.Duration
		eights, fours int
		placed        []int
	}{{1, 2, 3, []int{2, 0, 1}}, {2, 2, 2, []int{2, 0, 1}}, {3, 1, 2, []int{2, -1, 0}}} {
		s := l.State(w.at)
		if c := s.Available(); c.Groups[0].Nodes != w.eights || c.Groups[1].Nodes != w.fours {
			t.Errorf("at %d: %v", w.at, c)
		}
		for i, want := range w.placed {
			if got := s.Jobs[i].Placement; len(got) != 1 || got[0].Node != want {
				t.Errorf("at %d: job %s runs on %v, want node %d", w.at, s.Jobs[i].ID, got, want)
			}
		}
	}
	if c.Groups[0].Nodes != 2 || c.Groups[1].Nodes != 3 {
		t.Errorf("the registered cluster became %v", c)
	}
}

func TestLedgerNumbersNodes(t *testing.T) {
	node := func(kind EventKind, name string) Event {
		return Event{ID: fmt.Sprint(kind, name), Kind: kind, Node: name, NodeGPUs: 8}
	}
	run := func(job string, nodes ...string) []Event {
		start := ev(Started, job, 0)
		for _, n := range nodes {
			start.Placement = append(start.Placement, NodeShare{Node: n, GPUs: 1})
		}
		return []Event{ev(Submitted, job, 0), start}
	}
	for name, c := range map[string]struct {
		events [][]Event
		want   string // node numbers of jobs a, b, ...
	}{
		"numbers stand for themselves": {[][]Event{run("a", "3", "0"), run("b", "2")}, "[3 0] [2]"},
		"no such number":               {[][]Event{run("a", "1"), run("b", "4"), run("c", "01")}, "[1] [2] [0]"},
		"more nodes than there are": {[][]Event{run("a", "v", "w", "x"), run("b", "z", "y")},
			"[0 1 2] [-1 3]"},
		"names in order": {[][]Event{run("a", "x"), run("b", "w", "x")}, "[1] [0 1]"},
		"joined with all the node events": {[][]Event{run("a", "rack-b"), run("b", "rack-d"),
			{node(NodeUp, "rack-a"), node(NodeUp, "rack-b"), node(NodeUp, "rack-c"), node(NodeUp, "rack-d")}},
			"[1] [3]"},
		"unknown among all that are reported": {[][]Event{run("a", "0"),
			{node(NodeUp, "a"), node(NodeUp, "b"), node(NodeUp, "c"), node(NodeUp, "d")}, run("b", "d")}, "[-1] [3]"},
		"down":          {[][]Event{run("a", "0"), run("b", "3"), {node(NodeDown, "0")}}, "[-1] [3]"},
		"down, by name": {[][]Event{run("a", "x"), run("b", "y"), {node(NodeDown, "x")}}, "[-1] [0]"},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(testCluster)
			for _, events := range c.events {
				apply(t, l, events...)
			}
			var got []string
			for _, a := range l.State(time.Second).Jobs {
				var nodes []int
				for _, n := range a.Placement {
					nodes = append(nodes, n.Node)
				}
				got = append(got, fmt.Sprint(nodes))
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("jobs run on %s, want %s", got, c.want)
			}
		})
	}
}

// TestLedgerListsClosedNodes: nodes that are down keep their number if that is their
// name, and draining ones are counted, whatever their name.
func TestLedgerListsClosedNodes(t *testing.T) {
	l := NewLedger(testCluster) // four nodes
	for i, x := range []struct {
		kind EventKind
		name string
	}{
		{NodeDown, "2"}, {NodeDrained, "0"}, {NodeDrained, "rack-a"},
		{NodeUp, "0"}, {NodeDown, "rack-a"}, {NodeUp, "2"},
	} {
		apply(t, l, Event{ID: fmt.Sprint(i), Kind: x.kind, Time: time.Duration(i), Node: x.name, NodeGPUs: 8})
	}
	for at, want := range []string{
		"4 [2] [] 3", "4 [2] [0] 2", "4 [2] [0 1] 1", "4 [2] [1] 2", "3 [2] [] 2", "3 [] [] 3",
	} {
		s := l.State(time.Duration(at))
		if got := fmt.Sprint(s.Cluster.Nodes(), s.Down, s.Draining, s.Available().Nodes()); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

func TestLedgerTakesReportedService(t *testing.T) {
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	l := NewLedger(testCluster)
	reported := ev(Preempted, "a", 10)
	reported.Attained, reported.HasAttained = s(7), true // it does not count restarts
	apply(t, l, ev(Submitted, "a", 0), ev(Started, "a", 0), reported, ev(Resumed, "a", 20))
	for at, want := range map[int]time.Duration{5: s(10), 15: s(7), 25: s(17)} {
		if a := l.State(s(at)).Jobs[0]; a.Attained != want {
			t.Errorf("at %d s: attained %v, want %v", at, a.Attained, want)
		}
	}
	again := ev(Resized, "a", 30)
	again.Attained, again.HasAttained = s(100), true
	apply(t, l, again)
	if a := l.State(s(31)).Jobs[0]; a.Attained != s(102) || a.RunTime != s(21) {
		t.Errorf("%+v", a)
	}
}

// genEvents are events of a few jobs and nodes at a few instants: mostly
// sensible lives, with ties and contradictions.
func genEvents(t *rapid.T) []Event {
	kinds := []EventKind{Submitted, Submitted, Started, Preempted, Resumed, Resized, Finished, NodeUp, NodeDown,
		ConfigApplied, TakenSnapshot}
	n := rapid.IntRange(0, 40).Draw(t, "events")
	out := make([]Event, n)
	for i := range out {
		e := Event{ID: fmt.Sprintf("e%02d", i), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Time: time.Duration(rapid.IntRange(0, 12).Draw(t, "time"))}
		switch e.Kind {
		case NodeUp, NodeDown:
			e.Node, e.NodeGPUs = rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
				rapid.IntRange(1, 8).Draw(t, "node gpus")
		case ConfigApplied:
		case TakenSnapshot:
			for _, job := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 3,
				rapid.ID).Draw(t, "active") {
				one := Event{Kind: rapid.SampledFrom([]EventKind{Submitted, Started}).Draw(t, "runs"),
					Job: Job{ID: job, GPUs: 1000, Submit: e.Time - time.Duration(rapid.IntRange(0, 3).Draw(t, "age"))}}
				if one.Kind == Started && rapid.Bool().Draw(t, "placed") {
					one.Placement = []NodeShare{{Node: "n1", GPUs: rapid.IntRange(1, 2).Draw(t, "held")}}
				}
				e.Active = append(e.Active, one)
			}
			for _, node := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n1", "n2"}), 0, 2,
				rapid.ID).Draw(t, "nodes") {
				e.Active = append(e.Active, Event{Kind: NodeUp, Node: node, NodeGPUs: 8})
			}
		default:
			e.Job = Job{ID: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "job"),
				GPUs: MilliGPU(rapid.IntRange(1, 9000).Draw(t, "gpus"))}
			for range rapid.IntRange(0, 2).Draw(t, "places") {
				e.Placement = append(e.Placement,
					NodeShare{Node: rapid.SampledFrom([]string{"n1", "n2", "n3", "0"}).Draw(t, "place"), GPUs: 1})
			}
			e.HasAttained = rapid.Bool().Draw(t, "attained")
			e.Attained = time.Duration(i)
			e.HasLevel = rapid.Bool().Draw(t, "level")
			e.LevelAttained = time.Duration(i)
			e.LeaseUntil = time.Duration(rapid.IntRange(0, 9).Draw(t, "lease"))
		}
		out[i] = e
	}
	return out
}

// answers is all a ledger reports.
func answers(l *Ledger) []any {
	var out []any
	for at := time.Duration(-1); at <= 13; at++ {
		out = append(out, l.State(at), l.Finishes(at-3, at), l.Arrivals(at-3, at))
	}
	return out
}

func TestLedgerDependsOnTheSetOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := genEvents(t)
		one := NewLedger(testCluster)
		apply(t, one, events...)
		other := NewLedger(testCluster)
		twice := append(slices.Clone(events), events...)
		for _, e := range rapid.Permutation(twice).Draw(t, "order") {
			other.Apply(e)
			if rapid.Bool().Draw(t, "ask") { // asking changes nothing
				other.State(5)
			}
		}
		if a, b := answers(one), answers(other); !reflect.DeepEqual(a, b) {
			t.Fatalf("in order:\n%+v\nshuffled:\n%+v", a, b)
		}
	})
}

func TestLedgerStateNeedsNoFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := genEvents(t)
		at := time.Duration(rapid.IntRange(-1, 13).Draw(t, "at"))
		all, past := NewLedger(testCluster), NewLedger(testCluster)
		for _, e := range events {
			apply(t, all, e)
			if e.Time <= at {
				apply(t, past, e)
			}
		}
		if a, b := all.State(at), past.State(at); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v\nwithout later events:\n%+v", a, b)
		}
		if a, b := all.Finishes(-1, at+1), past.Finishes(-1, at+1); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v\nwithout later events:\n%+v", a, b)
		}
		ids := map[string]bool{}
		state := all.State(at)
		for i, a := range state.Jobs {
			if ids[a.ID] || a.RunTime < 0 || a.WaitTime < 0 || a.RunTime+a.WaitTime != state.Elapsed(i) {
				t.Fatalf("%+v", a)
			}
			ids[a.ID] = true
		}
	})
}

func TestLedgerForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := genEvents(t)
		before := time.Duration(rapid.IntRange(0, 13).Draw(t, "before"))
		l, whole := NewLedger(testCluster), NewLedger(testCluster)
		apply(t, l, events...)
		apply(t, whole, events...)
		n := l.Forget(before)
		if want := len(whole.Finishes(-1, before)); n != want || l.Forget(before) != 0 {
			t.Fatalf("forgot %d jobs, want %d", n, want)
		}
		for _, e := range events { // repetitions bring nothing back
			if e.Time < before {
				l.Apply(e)
			}
		}
		for at := before; at <= 13; at++ {
			if a, b := l.State(at), whole.State(at); !reflect.DeepEqual(a, b) {
				t.Fatalf("state at %d: %+v, want %+v", at, a, b)
			}
			if a, b := l.Finishes(before, at), whole.Finishes(before, at); !reflect.DeepEqual(a, b) {
				t.Fatalf("finishes until %d: %+v, want %+v", at, a, b)
			}
			if a, b := l.Arrivals(before, at), whole.Arrivals(before, at); !reflect.DeepEqual(a, b) {
				t.Fatalf("arrivals until %d: %+v, want %+v", at, a, b)
			}
		}
	})
}

// The cost of a state grows with the active jobs, however much history there is.
func BenchmarkLedgerState(b *testing.B) {
	for _, jobs := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			l := NewLedger(testCluster)
			for i := range jobs {
				id := fmt.Sprintf("j%06d", i)
				apply(b, l, ev(Submitted, id, i), ev(Started, id, i+10))
				if i >= 500 {
					apply(b, l, ev(Finished, fmt.Sprintf("j%06d", i-500), i))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if s := l.State(time.Duration(jobs) * time.Second); len(s.Jobs) != 500 {
					b.Fatal(len(s.Jobs))
				}
			}
		})
	}
}

func BenchmarkLedgerApply(b *testing.B) {
	b.ReportAllocs()
	l := NewLedger(testCluster)
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("j%08d", i)
		apply(b, l, ev(Submitted, id, i), ev(Started, id, i+10), ev(Finished, id, i+500))
	}
}

// TestLeaseBeforeZero: instants before the zero are as good as others.
func TestLeaseBeforeZero(t *testing.T) {
	l := NewLedger(testCluster)
	job := Job{ID: "a", Submit: -20 * time.Second, GPUs: GPUs(1)}
	apply(t, l, Event{ID: "1", Kind: Submitted, Time: -20 * time.Second, Job: job},
		Event{ID: "2", Kind: Started, Time: -20 * time.Second, Job: Job{ID: "a"}, LeaseUntil: -5 * time.Second})
	if s := l.State(-10 * time.Second); len(s.Jobs) != 1 || s.Jobs[0].LeaseUntil != -5*time.Second {
		t.Errorf("%+v", s.Jobs)
	}
}

package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

func TestNodeEvents(t *testing.T) {
	e, err := ReadNodeEvents(strings.NewReader("# what happened\nnode, event, time, gpus\n"+
		"3,down,2017-10-09T01:00:00Z,\n3,up,2h,8\n4,add,90m,\n5,add,60,4\n6,add,60,4\n5,drain,7200,\n"), "nodes.csv")
	if err != nil {
		t.Fatal(err)
	}
	c, events, err := e.On(workload.Uniform(4, 8), time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c); got != "5 nodes x 8 GPUs + 2 nodes x 4 GPUs" {
		t.Errorf("the cluster becomes %s", got)
	}
	var got []string
	for _, x := range events {
		if x.At == -workload.MaxSubmit {
			x.At = -1
		}
		got = append(got, fmt.Sprint(x.At, x.Node, x.Kind))
	}
	want := "-1ns 4 node_down; -1ns 5 node_down; -1ns 6 node_down; 1m0s 5 node_up; 1m0s 6 node_up; 1h0m0s 3 node_down; " +
		"1h30m0s 4 node_up; 2h0m0s 3 node_up; 2h0m0s 5 node_drained"
	if got := strings.Join(got, "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestBadNodeEvents(t *testing.T) {
	const head = "time,node,event,gpus\n"
	for text, want := range map[string]string{
		"":                               `nodes.csv:1: column "time" is missing`,
		"time,node,what\n":               `nodes.csv:1: column "what"`,
		"time,node,node\n":               `nodes.csv:1: column "node"`,
		"time,node\n":                    `nodes.csv:1: column "event" is missing`,
		"g3|20|30|DRAIN*|a, b|root(0)\n": `slurm init --saved`,
		head + "1,2,down\n":              `nodes.csv: record on line 2: wrong number of fields`,
		head + "soon,2,down,\n":          `nodes.csv:2: time: instant "soon"`,
		head + "#\n1,-1,down,\n":         `nodes.csv:3: node: "-1" is not a number from 0`,
		head + "1,2,gone,\n":             `nodes.csv:2: event: "gone" is not down, drain, up or add`,
		head + "1,2,down,0\n":            `nodes.csv:2: gpus: "0" is not a number from 1`,
		head + "1,2,down,4\n":            `nodes.csv:2: gpus: node 2 has 8 GPUs, not 4`,
		head + "1,2,add,8\n":             `nodes.csv:2: node: 2 is in the cluster already`,
		head + "1,4,up,\n":               `nodes.csv:2: node: 4 is not in the cluster, which begins with nodes 0 to 3`,
		head + "9,4,add,\n1,4,up,":       `nodes.csv:3: node: 4 is not in the cluster`,
		head + "1,4,add,\n1,6,add,":      `nodes.csv:3: node: 6 is added, but no node 5: number added nodes from 4 on`,
		head + "9000000h,0,up,\n":        `nodes.csv:2: time: instant "9000000h"`,
		head + "999999h,0,up,\n":         `nodes.csv:2: time: is more than a hundred years`,
	} {
		e, err := ReadNodeEvents(strings.NewReader(text), "nodes.csv")
		if err == nil {
			_, _, err = e.On(workload.Uniform(4, 8), time.Time{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzNodeEvents: whatever is read is either an error that names the file, or events in
// order on nodes that there are.
func FuzzNodeEvents(f *testing.F) {
	f.Add([]byte("time,node,event,gpus\n1,2,down,\n2h,2,up,8\n3h,4,add,4\n"))
	f.Add([]byte("node,event,time\n0,drain,2017-10-09T01:00:00Z\n"))
	f.Add([]byte("time,node,event\n\"1\n\",0,up\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ReadNodeEvents(strings.NewReader(string(text)), "nodes.csv")
		var c workload.Cluster
		var events []workload.NodeEvent
		if err == nil {
			c, events, err = e.On(workload.Uniform(4, 8), time.Unix(0, 0))
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "nodes.csv:") {
				t.Errorf("%v names no file", err)
			}
			return
		}
		for i, x := range events {
			if x.Node < 0 || x.Node >= c.Nodes() || i > 0 && x.At < events[i-1].At || !x.Kind.OfNode() {
				t.Errorf("event %d of %v on %v", i, events, c)
			}
		}
	})
}

// Node events are read back: names get the numbers of the cluster, and events that
// change nothing are left out.
func TestWriteNodeEvents(t *testing.T) {
	zero := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 8}, {Nodes: 1, GPUsPerNode: 4}}}
	var events []workload.Event
	at := func(hour int, kind workload.EventKind, node string, gpus int) {
		events = append(events, workload.Event{Kind: kind, Time: time.Duration(hour) * time.Hour, Node: node,
			NodeGPUs: gpus})
	}
	at(5, workload.NodeUp, "b", 8) // out of order
	at(0, workload.NodeUp, "0", 8) // is up
	at(1, workload.NodeUp, "a", 4)
	at(2, workload.NodeDown, "b", 0)
	at(2, workload.NodeDown, "b", 0) // again
	at(3, workload.NodeDrained, "a", 0)
	at(4, workload.NodeDown, "c", 0) // not there yet
	at(6, workload.NodeUp, "c", 8)
	at(7, workload.NodeDown, "c", 0)
	events = append(events, workload.Event{Kind: workload.Submitted})
	var out strings.Builder
	n, err := WriteNodeEvents(&out, zero, c, events)
	const want = `time,node,event,gpus
2026-03-02T02:00:00Z,1,down,
2026-03-02T03:00:00Z,2,drain,
2026-03-02T05:00:00Z,1,up,
2026-03-02T06:00:00Z,3,add,8
2026-03-02T07:00:00Z,3,down,
`
	if err != nil || n != 5 || out.String() != want {
		t.Fatalf("%d, %v:\n%s", n, err, out.String())
	}
	read, err := ReadNodeEvents(strings.NewReader(want), "nodes.csv")
	if err != nil {
		t.Fatal(err)
	}
	grown, changes, err := read.On(c, zero)
	if err != nil || grown.Nodes() != 4 || len(changes) != 6 {
		t.Fatalf("%v, %v, %v", grown, changes, err)
	}
}

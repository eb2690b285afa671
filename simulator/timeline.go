package simulator

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// Timeline writes a run in the Chrome trace event format, for viewers such as
// Perfetto. Each node is a process and each track of it a slot, which holds one
// job's GPUs on the node at a time: as many slots as the most jobs that were ever
// there at once. A spell of a job is one complete event on each of its nodes,
// named after the job's tenant, as viewers colour by name (after the job where
// there is no tenant). Preemptions are instant events on the slots that they
// free, changes of configuration (Mark) instant events across the trace. Where
// GPUs are only counted, one process stands for the cluster.
//
// Timestamps are microseconds since the run's begin. Events are written when
// they end, so memory holds only open ones. Make Observe the run's
// Options.Observer and call Close after it.
type Timeline struct {
	sim     *Sim
	zero    time.Time
	w       *bufio.Writer
	err     error
	events  int
	now     time.Duration
	opened  []ID // at now, not seated yet
	spells  map[ID]*spell
	nodes   map[int]*nodeTrack
	tenants map[string]int
}

// spell is a job's time on its GPUs.
type spell struct {
	from   time.Duration
	at     []workload.NodeGPUs
	slots  []int // by entry of at; nil until seated
	rate   float64
	shares bool
	resume bool
}

// nodeTrack is which slots of a node are taken.
type nodeTrack struct {
	taken []bool
}

// colours are names that trace viewers reserve; a tenant has one by order of
// appearance.
var colours = [...]string{"thread_state_running", "rail_response", "rail_animation", "thread_state_iowait",
	"cq_build_passed", "rail_load",
	"thread_state_runnable", "cq_build_running", "generic_work", "vsync_highlight_color", "startup", "good"}

// NewTimeline begins a trace of sim, whose instants count from zero.
func NewTimeline(w io.Writer, sim *Sim, zero time.Time) *Timeline {
	t := &Timeline{sim: sim, zero: zero, w: bufio.NewWriterSize(w, 64<<10),
		spells: map[ID]*spell{}, nodes: map[int]*nodeTrack{}, tenants: map[string]int{}}
	t.write(`{"displayTimeUnit":"ms","traceEvents":[`)
	return t
}

// Observe processes an event.
func (t *Timeline) Observe(e Event) {
	t.until(e.Time)
	if e.Kind.OfNode() {
		t.event(traceEvent{Name: e.Kind.String(), Phase: "i", Scope: "p", Time: t.micros(e.Time),
			Process: e.Node + 1, Category: "node", Args: &traceArgs{Text: "node " + strconv.Itoa(e.Node)}})
		return
	}
	switch e.Kind {
	case workload.Started, workload.Resumed:
		t.open(e.Job, e.Kind == workload.Resumed)
	case workload.Resized:
		t.end(e.Job, "")
		t.open(e.Job, true)
	case workload.Preempted:
		t.end(e.Job, "preempted")
	case workload.Finished:
		t.end(e.Job, "finished")
	}
}

// until seats the events opened at instants before one. Of one instant, starts may
// be reported before the preemptions that make room for them.
func (t *Timeline) until(at time.Duration) {
	if at == t.now {
		return
	}
	for _, id := range t.opened {
		if s := t.spells[id]; s != nil && s.slots == nil {
			t.seat(s)
		}
	}
	t.opened, t.now = t.opened[:0], at
}

func (t *Timeline) open(id ID, resume bool) {
	s := &spell{from: t.now, at: t.sim.Placement(nil, id), resume: resume,
		rate: t.sim.JobRate(id), shares: t.sim.JobShares(id)}
	if len(s.at) == 0 {
		s.at = []workload.NodeGPUs{{Node: 0, GPUs: t.sim.JobHeld(id)}}
	}
	t.spells[id] = s
	t.opened = append(t.opened, id)
}

// seat gives a spell the first free slot of each of its nodes.
func (t *Timeline) seat(s *spell) {
	s.slots = make([]int, len(s.at))
	for i, n := range s.at {
		node := t.nodes[n.Node]
		if node == nil {
			node = &nodeTrack{}
			t.nodes[n.Node] = node
			name := "node " + strconv.Itoa(n.Node)
			if t.sim.place.mode == Count {
				name = "cluster"
			}
			t.meta("process_name", n.Node, -1, name)
			t.meta("process_sort_index", n.Node, -1, n.Node)
		}
		slot := slices.Index(node.taken, false)
		if slot < 0 {
			slot = len(node.taken)
			node.taken = append(node.taken, false)
			t.meta("thread_name", n.Node, slot, "slot "+strconv.Itoa(slot))
			t.meta("thread_sort_index", n.Node, slot, slot)
		}
		node.taken[slot] = true
		s.slots[i] = slot
	}
}

// end writes a spell that is over. One that took no time leaves no trace.
func (t *Timeline) end(id ID, why string) {
	s := t.spells[id]
	if s == nil {
		return
	}
	delete(t.spells, id)
	if s.slots == nil {
		return
	}
	spec := t.sim.Spec(id)
	for i, n := range s.at {
		t.nodes[n.Node].taken[s.slots[i]] = false
		t.event(traceEvent{Name: sliceName(spec), Phase: "X", Time: t.micros(s.from), Span: micro(t.now - s.from),
			Process: n.Node + 1, Thread: s.slots[i] + 1,
			Category: category(spec), Colour: t.colour(spec.Tenant),
			Args: &traceArgs{Job: spec.ID, Tenant: spec.Tenant, User: spec.User, Model: spec.Model,
				GPUs: n.GPUs, Nodes: len(s.at), Rate: s.rate, Shares: s.shares, Resumed: s.resume, End: why}})
		if why == "preempted" {
			t.event(traceEvent{Name: "preempted", Phase: "i", Scope: "t", Time: t.micros(t.now),
				Process: n.Node + 1, Thread: s.slots[i] + 1, Category: "preemption",
				Args: &traceArgs{Job: spec.ID, Tenant: spec.Tenant, GPUs: n.GPUs}})
		}
	}
}

// Mark notes something that concerns the whole cluster, such as a change of
// configuration, at the simulation's present instant.
func (t *Timeline) Mark(name, text string) {
	t.until(t.sim.Now())
	t.event(traceEvent{Name: name, Phase: "i", Scope: "g", Time: t.micros(t.sim.Now()),
		Process: 1, Thread: 1, Category: "configuration", Args: &traceArgs{Text: text}})
}

// Close ends open events at the simulation's present instant, and the
// trace. It does not close the writer.
func (t *Timeline) Close() error {
	t.until(t.sim.Now())
	for id := range ID(t.sim.Len()) {
		t.end(id, "")
	}
	tail, err := json.Marshal(map[string]string{"zero": t.zero.Add(t.sim.began).UTC().Format(time.RFC3339Nano)})
	if err != nil {
		return err
	}
	t.write("\n],\"otherData\":" + string(tail) + "}\n")
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

// traceEvent is an event as viewers read it.
type traceEvent struct {
	Name     string     `json:"name"`
	Category string     `json:"cat,omitempty"`
	Phase    string     `json:"ph"`
	Scope    string     `json:"s,omitempty"`
	Time     micro      `json:"ts"`
	Span     micro      `json:"dur,omitempty"`
	Process  int        `json:"pid"`
	Thread   int        `json:"tid,omitempty"`
	Colour   string     `json:"cname,omitempty"`
	Args     *traceArgs `json:"args,omitempty"`
}

type traceArgs struct {
	Job       string  `json:"job,omitempty"`
	Tenant    string  `json:"tenant,omitempty"`
	User      string  `json:"user,omitempty"`
	Model     string  `json:"model,omitempty"`
	GPUs      int     `json:"gpus,omitempty"`  // on this node
	Nodes     int     `json:"nodes,omitempty"` // of the job
	Rate      float64 `json:"rate,omitempty"`  // when the spell began
	Shares    bool    `json:"shares,omitempty"`
	Resumed   bool    `json:"resumed,omitempty"`
	End       string  `json:"end,omitempty"`
	Text      string  `json:"text,omitempty"`
	Name      string  `json:"name,omitempty"`
	SortIndex *int    `json:"sort_index,omitempty"`
}

// micro is a span in nanoseconds, written in microseconds without rounding.
type micro time.Duration

func (m micro) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt(nil, int64(m)/1000, 10)
	if rest := int64(m) % 1000; rest > 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return b, nil
}

func (t *Timeline) micros(at time.Duration) micro { return micro(at - t.sim.began) }

func (t *Timeline) meta(kind string, node, slot int, value any) {
	e := traceEvent{Name: kind, Phase: "M", Process: node + 1, Thread: slot + 1, Args: &traceArgs{}}
	switch v := value.(type) {
	case string:
		e.Args.Name = v
	case int:
		e.Args.SortIndex = &v
	}
	t.event(e)
}

func (t *Timeline) event(e traceEvent) {
	text, err := json.Marshal(e)
	if err != nil {
		t.err = err
		return
	}
	if t.events > 0 {
		t.write(",")
	}
	t.events++
	t.write("\n")
	t.write(string(text))
}

func (t *Timeline) write(text string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(text)
	}
}

func (t *Timeline) colour(tenant string) string {
	i, ok := t.tenants[tenant]
	if !ok {
		i = len(t.tenants)
		t.tenants[tenant] = i
	}
	return colours[i%len(colours)]
}

func sliceName(j *workload.Job) string {
	if j.Tenant != "" {
		return j.Tenant
	}
	return j.ID
}

func category(j *workload.Job) string {
	if j.Tenant != "" {
		return "tenant " + j.Tenant
	}
	return "job"
}

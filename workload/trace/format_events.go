package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// eventsFormat is a scheduler's log of reports to the service: one event in JSON to a line,
// as the API has it. A job ran for as long as it held GPUs, restarts included; its wait
// is known where it started once. Jobs without an end ran until the last event.
var eventsFormat = Format{
	Name: "events", About: "events of the service's API, one in JSON to a line, as simulate --events-out writes them",
	Header: `{"eventId":"1","kind":"SUBMITTED","schedulerTime":"2026-01-01T00:00:00Z","job":{"jobId":"a","milliGpus":1000}}`,
	detect: func(head []byte) bool {
		line := lines.Header(head)
		return bytes.HasPrefix(line, []byte("{")) && bytes.Contains(line, []byte(`"eventId"`)) &&
			bytes.Contains(line, []byte(`"schedulerTime"`))
	},
	read:   readEvents,
	finish: finishEvents,
}

// eventLine is an event as the API writes it in JSON.
type eventLine struct {
	ID        string          `json:"eventId"`
	Kind      string          `json:"kind"`
	Time      time.Time       `json:"schedulerTime"`
	Job       *eventJob       `json:"job,omitempty"`
	Node      *eventNode      `json:"node,omitempty"`
	Placement []eventNodeGPUs `json:"placement,omitempty"`
	Revision  json.Number     `json:"configurationRevision,omitempty"`
	Instance  string          `json:"instanceId,omitempty"`
	Hash      string          `json:"contentHash,omitempty"`
	Epoch     *eventEpoch     `json:"epoch,omitempty"`
	Snapshot  *eventSnapshot  `json:"snapshot,omitempty"`
	Lost      bool            `json:"progressLost,omitempty"`
	HoldUntil *time.Time      `json:"holdUntilTime,omitempty"`
	StartUp   span            `json:"startUp,omitempty"`
}

type eventEpoch struct {
	ID      string `json:"id,omitempty"`
	Counter whole  `json:"counter,omitempty"`
}

type eventSnapshot struct {
	Jobs  []eventActive `json:"jobs,omitempty"`
	Nodes []eventNode   `json:"nodes,omitempty"`
}

type eventActive struct {
	Job       *eventJob       `json:"job"`
	Submit    time.Time       `json:"submitTime"`
	Running   bool            `json:"running,omitempty"`
	Placement []eventNodeGPUs `json:"placement,omitempty"`
}

type eventJob struct {
	ID       string     `json:"jobId"`
	User     string     `json:"user,omitempty"`
	Tenant   string     `json:"tenant,omitempty"`
	Key      string     `json:"key,omitempty"`
	Model    string     `json:"model,omitempty"`
	GPUs     whole      `json:"milliGpus,omitempty"`
	End      string     `json:"endStatus,omitempty"`
	Deadline *time.Time `json:"deadlineTime,omitempty"`

	Request *eventRequest `json:"request,omitempty"`
	Labels  []string      `json:"ruleLabels,omitempty"`
}

// eventRequest is a job's request.
type eventRequest struct {
	GPUModel  string `json:"gpuModel,omitempty"`
	Partition string `json:"partition,omitempty"`
	CPUs      whole  `json:"milliCpus,omitempty"`
	Memory    whole  `json:"memoryBytes,omitempty"`
	TimeLimit span   `json:"timeLimit,omitempty"`
	NodeCount int32  `json:"nodeCount,omitempty"`
	Nice      int32  `json:"nice,omitempty"`
	Priority  whole  `json:"priority,omitempty"`
	QOS       string `json:"qos,omitempty"`
	Account   string `json:"account,omitempty"`
	Requeue   string `json:"requeue,omitempty"`
	HoldOff   span   `json:"holdOff,omitempty"`
}

// whole is a whole number, which may be quoted.
type whole int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *whole) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	v, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	*n = whole(v)
	return err
}

// span is a time span such as "3600s".
type span time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (d *span) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	text, seconds := strings.CutSuffix(strings.Trim(string(b), `"`), "s")
	n, reason := parseDecimal([]byte(text), 9)
	if reason != "" || !seconds {
		return fmt.Errorf("%s is not a span such as 3600s", b)
	}
	*d = span(n)
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (d span) MarshalJSON() ([]byte, error) {
	return append(appendDecimal([]byte{'"'}, int64(d), 9), `s"`...), nil
}

type eventNode struct {
	ID       string `json:"nodeId"`
	GPUs     int    `json:"gpus,omitempty"`
	Draining bool   `json:"draining,omitempty"`
}

type eventNodeGPUs struct {
	Node    string  `json:"nodeId"`
	GPUs    int     `json:"gpus"`
	Indexes []int32 `json:"gpuIndexes,omitempty"`
}

// Values of the API's enums by name.
var (
	eventKinds    = byName(workload.Submitted, workload.Heartbeat)
	eventEnds     = byName(workload.Completed, workload.OutOfMemory)
	eventRequeues = byName(workload.RequeueResumes, workload.RequeueRestarts)
)

type enum interface {
	~uint8
	fmt.Stringer
}

func byName[V enum](first, last V) map[string]V {
	names := map[string]V{}
	for v := first; v <= last; v++ {
		names[enumName(v)] = v
	}
	return names
}

func enumName[V enum](v V) string { return strings.ToUpper(v.String()) }

// named is the value of a name, 0 without one.
func named[V enum](names map[string]V, field, name string) (V, error) {
	v, known := names[name]
	if !known && name != "" && !strings.HasSuffix(name, "_UNSPECIFIED") {
		return v, fmt.Errorf("%s: is not one of %s", field, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return v, nil
}

// recordedEvents is the state after the lines read.
type recordedEvents struct {
	ledger    *workload.Ledger
	last      time.Duration
	submitted map[string]bool // jobs, and whether their submission is known
	evicted   map[string]bool // jobs that had run before, for a time that is not known
}

func readEvents(in *input) error {
	in.wallClock = true
	if in.state == nil {
		in.state = &recordedEvents{ledger: workload.NewLedger(workload.Cluster{}), submitted: map[string]bool{}}
	}
	s := in.state.(*recordedEvents)
	for {
		line, err := in.next()
		if err != nil || line == nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if line[0] == '#' {
			if err := in.comment(string(line)); err != nil {
				return fmt.Errorf("line %d: %w", in.line, err)
			}
			continue
		}
		if err := in.row(); err != nil {
			return err
		}
		var x eventLine
		if err := json.Unmarshal(line, &x); err != nil {
			in.reject("line", "is not an event of the API in JSON", line)
			continue
		}
		e, err := x.event()
		if err != nil {
			field, reason, _ := strings.Cut(err.Error(), ": ")
			in.reject(field, reason, line)
			continue
		}
		if in.opts.Events != nil {
			in.opts.Events(&e)
		}
		if e.Kind.OfJob() {
			s.submitted[e.Job.ID] = s.submitted[e.Job.ID] || e.Kind == workload.Submitted
			in.hasKeys = in.hasKeys || e.Job.Key != ""
			s.ledger.Apply(e)
		}
		if e.Kind == workload.TakenSnapshot {
			for i := range e.Active {
				if e.Active[i].Kind.OfJob() {
					s.submitted[e.Active[i].Job.ID] = true
				}
			}
			s.ledger.Apply(e)
		}
		s.last = max(s.last, e.Time)
	}
}

// event converts a line. An error names its field: "field: why".
func (x *eventLine) event() (e workload.Event, err error) {
	e = workload.Event{ID: x.ID, Placement: shares(x.Placement), Lost: x.Lost, Revision: x.Revision.String(),
		StartUp: time.Duration(x.StartUp), Instance: x.Instance, Hash: x.Hash}
	if x.Epoch != nil {
		e.Epoch = workload.Epoch{ID: x.Epoch.ID, Counter: int64(x.Epoch.Counter)}
	}
	if e.Kind, err = named(eventKinds, "kind", x.Kind); err != nil {
		return e, err
	}
	if e.Time, err = sinceEpoch("schedulerTime", &x.Time); err != nil {
		return e, err
	}
	if x.HoldUntil != nil {
		until, err := sinceEpoch("holdUntilTime", x.HoldUntil)
		if err != nil {
			return e, err
		}
		e.HoldUntil = workload.DeadlineAt(until)
	}
	switch {
	case e.Kind == workload.TakenSnapshot && x.Snapshot != nil:
		err = x.Snapshot.read(&e)
	case e.Kind.OfJob() && x.Job != nil:
		err = x.Job.read(&e)
	case e.Kind.OfNode() && x.Node != nil:
		e.Node, e.NodeGPUs = x.Node.ID, x.Node.GPUs
	}
	if err == nil {
		err = e.Validate()
	}
	return e, err
}

// sinceEpoch is the time of a field since 1970.
func sinceEpoch(field string, t *time.Time) (time.Duration, error) {
	if s := t.Unix(); s < firstSecond || s > lastSecond {
		return 0, fmt.Errorf("%s: %s", field, badYears)
	}
	return time.Duration(t.UnixNano()), nil
}

func shares(list []eventNodeGPUs) (out []workload.NodeShare) {
	for _, x := range list {
		out = append(out, workload.NodeShare{Node: x.Node, GPUs: x.GPUs, Indexes: workload.Indexes(x.Indexes)})
	}
	return out
}

// read reads the jobs and nodes of a snapshot.
func (x *eventSnapshot) read(e *workload.Event) error {
	for i := range x.Jobs {
		a := &x.Jobs[i]
		submit, err := sinceEpoch("snapshot.jobs.submitTime", &a.Submit)
		if err != nil {
			return err
		}
		one := workload.Event{Kind: workload.Submitted, Placement: shares(a.Placement)}
		if a.Running {
			one.Kind = workload.Started
		}
		if a.Job != nil {
			if err := a.Job.read(&one); err != nil {
				return fmt.Errorf("snapshot.jobs.%w", err)
			}
		}
		one.Job.Submit = submit
		e.Active = append(e.Active, one)
	}
	for i := range x.Nodes {
		one := workload.Event{Kind: workload.NodeUp, Node: x.Nodes[i].ID, NodeGPUs: x.Nodes[i].GPUs}
		if x.Nodes[i].Draining {
			one.Kind = workload.NodeDrained
		}
		e.Active = append(e.Active, one)
	}
	return nil
}

// read reads the job of an event.
func (j *eventJob) read(e *workload.Event) (err error) {
	e.Job = workload.Job{ID: j.ID, User: j.User, Tenant: j.Tenant, Key: j.Key, Model: j.Model,
		GPUs: workload.MilliGPU(j.GPUs)}
	if e.Job.Status, err = named(eventEnds, "job.endStatus", j.End); err != nil {
		return err
	}
	if j.Deadline != nil {
		at, err := sinceEpoch("job.deadlineTime", j.Deadline)
		if err != nil {
			return err
		}
		e.Job.Deadline = workload.DeadlineAt(at)
	}
	if slices.ContainsFunc(j.Labels, func(l string) bool { return l == "" || strings.Contains(l, ",") }) {
		return errors.New("job.ruleLabels: has one that is empty or has a comma")
	}
	e.Labels = strings.Join(j.Labels, ",")
	if q := j.Request; q != nil {
		r := workload.Request{GPUModel: q.GPUModel, Partition: q.Partition, MilliCPUs: int64(q.CPUs),
			Memory: int64(q.Memory), TimeLimit: time.Duration(q.TimeLimit), NodeCount: q.NodeCount, Nice: q.Nice,
			Priority: int64(q.Priority), QOS: q.QOS, Account: q.Account, HoldOff: time.Duration(q.HoldOff)}
		r.Requeue, err = named(eventRequeues, "job.request.requeue", q.Requeue)
		e.Job.Requested = r.Shared()
	}
	return err
}

func finishEvents(in *input) error {
	s := in.state.(*recordedEvents)
	in.state = nil
	end := s.last + 1
	for _, f := range s.ledger.Finishes(-workload.MaxSubmit, end) {
		j := f.Job
		delete(s.submitted, j.ID)
		j.Duration = f.RunTime
		if f.Starts == 1 && f.LostStarts == 0 && !s.evicted[j.ID] {
			setWait(&j, f.End-j.Submit-f.RunTime)
		}
		in.recorded(&j, f.Starts > 0)
	}
	var pending []workload.Job
	state := s.ledger.State(s.last)
	for i := range state.Jobs {
		a := &state.Jobs[i]
		delete(s.submitted, a.ID)
		j := a.Job
		if a.RunTime == 0 {
			pending = append(pending, j)
			continue
		}
		j.Duration, j.Status = a.RunTime, workload.Running
		in.recorded(&j, true)
	}
	for _, id := range slices.Sorted(maps.Keys(s.submitted)) {
		if s.submitted[id] {
			in.report.leaveOut("its end is not among the events, and a later snapshot does not have it")
		} else {
			in.report.leaveOut("its submission is not among the events")
		}
	}
	in.addPending(pending)
	in.report.Merged = max(0, in.report.Rows-in.report.Rejected-in.report.LeftOut-in.taken) // a snapshot has many jobs
	return nil
}

// recorded adds the job of a ledger.
func (in *input) recorded(j *workload.Job, ran bool) {
	switch {
	case !ran:
		in.report.leaveOut(neverRan)
	case j.Duration == 0:
		in.report.leaveOut(tooShort)
	case j.Duration > workload.MaxDuration:
		in.reject("schedulerTime", tooLong, []byte(j.ID))
	default:
		in.addOnce(j)
	}
}

// EventWriter writes events as eventsFormat reads them.
type EventWriter struct {
	w    *json.Encoder
	zero time.Time
}

// NewEventWriter writes events whose times count from zero. A comment before them has
// metadata: whether they are synthetic, and the nodes of the cluster, if known.
func NewEventWriter(w io.Writer, zero time.Time, synthetic bool, machines ...workload.NodeGroup) (*EventWriter, error) {
	line, err := comment(zero, synthetic, machines)
	if err == nil {
		_, err = w.Write(line)
	}
	return &EventWriter{json.NewEncoder(w), zero}, err
}

// Write writes one event.
func (w *EventWriter) Write(e *workload.Event) error {
	x := eventLine{ID: e.ID, Time: w.zero.Add(e.Time), Revision: json.Number(e.Revision), Lost: e.Lost,
		StartUp: span(e.StartUp)}
	if e.HoldUntil != 0 {
		at := w.zero.Add(e.HoldUntil)
		x.HoldUntil = &at
	}
	x.Kind = enumName(e.Kind)
	switch {
	case eventKinds[x.Kind] == workload.EventUnknown:
		return fmt.Errorf("trace: event %s: kind %v cannot be written", e.ID, e.Kind)
	case e.Kind.OfNode():
		x.Node = &eventNode{ID: e.Node, GPUs: e.NodeGPUs}
	case e.Kind.OfJob():
		x.Job = w.job(e)
	case e.Kind == workload.TakenSnapshot:
		x.Snapshot = w.snapshot(e)
	}
	x.Placement, x.Instance, x.Hash = placement(e), e.Instance, e.Hash
	if e.Epoch != (workload.Epoch{}) {
		x.Epoch = &eventEpoch{e.Epoch.ID, whole(e.Epoch.Counter)}
	}
	return w.w.Encode(x)
}

func (w *EventWriter) job(e *workload.Event) *eventJob {
	job := &e.Job
	j := &eventJob{ID: job.ID, User: job.User, Tenant: job.Tenant, Key: job.Key, Model: job.Model,
		GPUs: whole(job.GPUs), End: enumName(job.Status)}
	if d := job.Deadline; d != 0 {
		at := w.zero.Add(d)
		j.Deadline = &at
	}
	if e.Labels != "" {
		j.Labels = strings.Split(e.Labels, ",")
	}
	if r := job.Request(); r != (workload.Request{}) {
		j.Request = &eventRequest{GPUModel: r.GPUModel, Partition: r.Partition, CPUs: whole(r.MilliCPUs),
			Memory: whole(r.Memory), TimeLimit: span(r.TimeLimit), NodeCount: r.NodeCount, Nice: r.Nice,
			Priority: whole(r.Priority), QOS: r.QOS, Account: r.Account, Requeue: enumName(r.Requeue),
			HoldOff: span(r.HoldOff)}
	}
	return j
}

func placement(e *workload.Event) (out []eventNodeGPUs) {
	for _, n := range e.Placement {
		one := eventNodeGPUs{Node: n.Node, GPUs: n.GPUs}
		numbers, _ := n.Numbers() // validated as it was read
		for _, i := range numbers {
			one.Indexes = append(one.Indexes, int32(i))
		}
		out = append(out, one)
	}
	return out
}

func (w *EventWriter) snapshot(e *workload.Event) *eventSnapshot {
	out := &eventSnapshot{}
	for i := range e.Active {
		one := &e.Active[i]
		if one.Kind.OfNode() {
			out.Nodes = append(out.Nodes, eventNode{one.Node, one.NodeGPUs, one.Kind == workload.NodeDrained})
			continue
		}
		out.Jobs = append(out.Jobs, eventActive{Job: w.job(one), Submit: w.zero.Add(one.Job.Submit),
			Running: one.Kind == workload.Started, Placement: placement(one)})
	}
	return out
}

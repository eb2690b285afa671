package trace

import (
	"bytes"
	"encoding/json"
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
}

type eventEpoch struct {
	ID      string      `json:"id,omitempty"`
	Counter json.Number `json:"counter,omitempty"`
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
	ID       string      `json:"jobId"`
	User     string      `json:"user,omitempty"`
	Tenant   string      `json:"tenant,omitempty"`
	Key      string      `json:"key,omitempty"`
	Model    string      `json:"model,omitempty"`
	GPUs     json.Number `json:"milliGpus,omitempty"`
	End      string      `json:"endStatus,omitempty"`
	Deadline *time.Time  `json:"deadlineTime,omitempty"`

	Request *eventRequest `json:"request,omitempty"`
	Labels  []string      `json:"ruleLabels,omitempty"`
}

// eventRequest is a job's request; spans are in seconds, such as "3600s".
type eventRequest struct {
	GPUModel  string      `json:"gpuModel,omitempty"`
	Partition string      `json:"partition,omitempty"`
	CPUs      json.Number `json:"milliCpus,omitempty"`
	Memory    json.Number `json:"memoryBytes,omitempty"`
	TimeLimit string      `json:"timeLimit,omitempty"`
	NodeCount int32       `json:"nodeCount,omitempty"`
	Nice      int32       `json:"nice,omitempty"`
	Priority  json.Number `json:"priority,omitempty"`
	QOS       string      `json:"qos,omitempty"`
	Account   string      `json:"account,omitempty"`
	Requeue   string      `json:"requeue,omitempty"`
	HoldOff   string      `json:"holdOff,omitempty"`
}

var eventRequeues = map[string]workload.RequeueMode{"": workload.RequeueUnknown,
	"REQUEUE_MODE_UNSPECIFIED": workload.RequeueUnknown, "RESUME": workload.RequeueResumes,
	"RESTART": workload.RequeueRestarts}

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

var eventKinds = map[string]workload.EventKind{
	"SUBMITTED": workload.Submitted, "STARTED": workload.Started, "PREEMPTED": workload.Preempted,
	"RESUMED": workload.Resumed, "RESIZED": workload.Resized, "FINISHED": workload.Finished,
	"NODE_UP": workload.NodeUp, "NODE_DOWN": workload.NodeDown, "NODE_DRAINED": workload.NodeDrained,
	"CONFIG_APPLIED": workload.ConfigApplied, "SNAPSHOT": workload.TakenSnapshot, "HEARTBEAT": workload.Heartbeat,
}

var eventEnds = map[string]workload.Status{"": workload.Unknown, "END_STATUS_UNSPECIFIED": workload.Unknown,
	"COMPLETED": workload.Completed, "CANCELLED": workload.Cancelled, "FAILED": workload.Failed,
	"TIMED_OUT": workload.TimedOut, "OUT_OF_MEMORY": workload.OutOfMemory}

// recordedEvents is the state after the lines read.
type recordedEvents struct {
	ledger    *workload.Ledger
	last      time.Duration
	submitted map[string]bool // jobs, and whether their submission is known
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
		e, field, reason := x.event()
		if reason != "" {
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

// event converts a line; field and reason name its fault.
func (x *eventLine) event() (e workload.Event, field, reason string) {
	kind, known := eventKinds[x.Kind]
	if !known {
		return e, "kind", "is not a known kind of event"
	}
	if s := x.Time.Unix(); s < firstSecond || s > lastSecond {
		return e, "schedulerTime", badYears
	}
	e = workload.Event{ID: x.ID, Kind: kind, Time: time.Duration(x.Time.UnixNano())}
	if e.ID == "" {
		return e, "eventId", isEmpty
	}
	switch {
	case kind == workload.TakenSnapshot:
		field, reason = x.Snapshot.read(&e)
	case kind.OfJob():
		field, reason = x.Job.read(&e)
	case kind.OfNode():
		field, reason = x.Node.read(&e)
	}
	e.Placement, e.Lost, e.Revision = shares(x.Placement), x.Lost, x.Revision.String()
	e.Instance, e.Hash = x.Instance, x.Hash
	if x.Epoch != nil {
		e.Epoch.ID = x.Epoch.ID
		var err error
		if e.Epoch.Counter, err = strconv.ParseInt(x.Epoch.Counter.String(), 10, 64); err != nil && x.Epoch.Counter != "" {
			return e, "epoch.counter", "is not a whole number"
		}
	}
	if d := x.HoldUntil; d != nil {
		if d.Unix() < firstSecond || d.Unix() > lastSecond {
			return e, "holdUntilTime", badYears
		}
		e.HoldUntil = workload.DeadlineAt(time.Duration(d.UnixNano()))
	}
	if reason != "" {
		return e, field, reason
	}
	if err := e.Validate(); err != nil {
		field, reason, _ = strings.Cut(err.Error(), ": ")
	}
	return e, field, reason
}

// ParseEvent reads an event of the service's API from a line of JSON, as EventWriter writes it. Its times are since
// the Unix epoch.
func ParseEvent(line []byte) (workload.Event, error) {
	var x eventLine
	if err := json.Unmarshal(line, &x); err != nil {
		return workload.Event{}, fmt.Errorf("is not an event of the API in JSON: %w", err)
	}
	e, field, reason := x.event()
	if reason != "" {
		return e, fmt.Errorf("%s %s", field, reason)
	}
	return e, nil
}

func (n *eventNode) read(e *workload.Event) (field, reason string) {
	if n == nil || n.ID == "" {
		return "node.nodeId", isEmpty
	}
	e.Node, e.NodeGPUs = n.ID, n.GPUs
	return "", ""
}

func shares(list []eventNodeGPUs) (out []workload.NodeShare) {
	for _, x := range list {
		out = append(out, workload.NodeShare{Node: x.Node, GPUs: x.GPUs, Indexes: workload.Indexes(x.Indexes)})
	}
	return out
}

// read reads the jobs and nodes of a snapshot.
func (x *eventSnapshot) read(e *workload.Event) (field, reason string) {
	if x == nil {
		return "", ""
	}
	for i := range x.Jobs {
		a := &x.Jobs[i]
		one := workload.Event{Kind: workload.Submitted}
		if s := a.Submit.Unix(); s < firstSecond || s > lastSecond {
			return "snapshot.jobs.submitTime", badYears
		}
		if field, reason := a.Job.read(&one); reason != "" {
			return "snapshot.jobs." + field, reason
		}
		if a.Running {
			one.Kind = workload.Started
		}
		one.Job.Submit, one.Placement = time.Duration(a.Submit.UnixNano()), shares(a.Placement)
		e.Active = append(e.Active, one)
	}
	for i := range x.Nodes {
		one := workload.Event{Kind: workload.NodeUp}
		if x.Nodes[i].Draining {
			one.Kind = workload.NodeDrained
		}
		if field, reason := x.Nodes[i].read(&one); reason != "" {
			return "snapshot." + field, reason
		}
		e.Active = append(e.Active, one)
	}
	return "", ""
}

// read reads the job of an event.
func (j *eventJob) read(e *workload.Event) (field, reason string) {
	if j == nil || j.ID == "" {
		return "job.jobId", isEmpty
	}
	known := false
	e.Job = workload.Job{ID: j.ID, User: j.User, Tenant: j.Tenant, Key: j.Key, Model: j.Model}
	if e.Job.Status, known = eventEnds[j.End]; !known {
		return "job.endStatus", "is not COMPLETED, CANCELLED, FAILED, TIMED_OUT or OUT_OF_MEMORY"
	}
	if j.GPUs != "" {
		n, err := strconv.ParseInt(j.GPUs.String(), 10, 64)
		if err != nil || n < 0 || n > int64(workload.GPUs(workload.MaxGPUs)) {
			return "job.milliGpus", outOfRange
		}
		e.Job.GPUs = workload.MilliGPU(n)
	}
	if e.Kind == workload.Submitted && e.Job.GPUs == 0 {
		return "job.milliGpus", "is not positive"
	}
	if d := j.Deadline; d != nil {
		if d.Unix() < firstSecond || d.Unix() > lastSecond {
			return "job.deadlineTime", badYears
		}
		e.Job.Deadline = workload.DeadlineAt(time.Duration(d.UnixNano()))
	}
	for _, l := range j.Labels {
		if l == "" || strings.Contains(l, ",") {
			return "job.ruleLabels", "has one that is empty or has a comma"
		}
	}
	e.Labels = strings.Join(j.Labels, ",")
	if j.Request != nil {
		return j.Request.read(&e.Job)
	}
	return "", ""
}

// read reads a job's request.
func (q *eventRequest) read(j *workload.Job) (field, reason string) {
	r := workload.Request{GPUModel: q.GPUModel, Partition: q.Partition, NodeCount: q.NodeCount, Nice: q.Nice,
		QOS: q.QOS, Account: q.Account}
	known := false
	if r.Requeue, known = eventRequeues[q.Requeue]; !known {
		return "job.request.requeue", "is not RESUME or RESTART"
	}
	for _, n := range []struct {
		name string
		from json.Number
		to   *int64
		most int64
	}{{"milliCpus", q.CPUs, &r.MilliCPUs, workload.MaxMilliCPUs},
		{"memoryBytes", q.Memory, &r.Memory, workload.MaxMemory},
		{"priority", q.Priority, &r.Priority, workload.MaxPriority}} {
		if n.from == "" {
			continue
		}
		var err error
		if *n.to, err = strconv.ParseInt(n.from.String(), 10, 64); err != nil || *n.to < 0 || *n.to > n.most {
			return "job.request." + n.name, outOfRange
		}
	}
	for _, d := range []struct {
		name, from string
		to         *time.Duration
	}{{"timeLimit", q.TimeLimit, &r.TimeLimit}, {"holdOff", q.HoldOff, &r.HoldOff}} {
		if d.from == "" {
			continue
		}
		n, bad := parseDecimal([]byte(strings.TrimSuffix(d.from, "s")), 9)
		if bad != "" || n < 0 || n > int64(workload.MaxDuration) || !strings.HasSuffix(d.from, "s") {
			return "job.request." + d.name, "is not a span such as 3600s, up to ten years"
		}
		*d.to = time.Duration(n)
	}
	if j.Requested = r.Shared(); r.NodeCount < 0 || r.NodeCount > 0 && int64(j.GPUs)%(1000*int64(r.NodeCount)) != 0 {
		return "job.request.nodeCount", "is a number of nodes that cannot share the GPUs equally"
	}
	return "", ""
}

func finishEvents(in *input) error {
	s := in.state.(*recordedEvents)
	in.state = nil
	end := s.last + 1
	for _, f := range s.ledger.Finishes(-workload.MaxSubmit, end) {
		j := f.Job
		delete(s.submitted, j.ID)
		j.Duration = f.RunTime
		j.Wait, j.HasWait = f.End-j.Submit-f.RunTime, f.Starts == 1 && f.LostStarts == 0
		if !j.HasWait || j.Wait < 0 || j.Wait > workload.MaxDuration {
			j.Wait, j.HasWait = 0, false
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
	x := eventLine{ID: e.ID, Time: w.zero.Add(e.Time), Revision: json.Number(e.Revision), Lost: e.Lost}
	if e.HoldUntil != 0 {
		at := w.zero.Add(e.HoldUntil)
		x.HoldUntil = &at
	}
	for name, kind := range eventKinds {
		if kind == e.Kind {
			x.Kind = name
		}
	}
	switch {
	case x.Kind == "":
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
		x.Epoch = &eventEpoch{e.Epoch.ID, json.Number(strconv.FormatInt(e.Epoch.Counter, 10))}
	}
	return w.w.Encode(x)
}

func (w *EventWriter) job(e *workload.Event) *eventJob {
	job := &e.Job
	j := &eventJob{ID: job.ID, User: job.User, Tenant: job.Tenant, Key: job.Key, Model: job.Model}
	if job.GPUs != 0 {
		j.GPUs = json.Number(strconv.FormatInt(int64(job.GPUs), 10))
	}
	for name, status := range eventEnds {
		if status == job.Status && status != workload.Unknown {
			j.End = name
		}
	}
	if d := job.Deadline; d != 0 {
		at := w.zero.Add(d)
		j.Deadline = &at
	}
	if e.Labels != "" {
		j.Labels = strings.Split(e.Labels, ",")
	}
	if r := job.Request(); r != (workload.Request{}) {
		j.Request = requestLine(&r)
	}
	return j
}

func requestLine(r *workload.Request) *eventRequest {
	number := func(n int64) json.Number {
		if n == 0 {
			return ""
		}
		return json.Number(strconv.FormatInt(n, 10))
	}
	span := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return string(append(appendDecimal(nil, int64(d), 9), 's'))
	}
	q := &eventRequest{GPUModel: r.GPUModel, Partition: r.Partition, CPUs: number(r.MilliCPUs),
		Memory: number(r.Memory), TimeLimit: span(r.TimeLimit), NodeCount: r.NodeCount, Nice: r.Nice,
		Priority: number(r.Priority), QOS: r.QOS,
		Account: r.Account, HoldOff: span(r.HoldOff)}
	for name, mode := range eventRequeues {
		if mode == r.Requeue && mode != workload.RequeueUnknown {
			q.Requeue = name
		}
	}
	return q
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

package slurm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/slurmtext"
)

// tracker derives events from listings of Slurm's accounting. An event that is derived again has the same id.
type tracker struct {
	Cluster string `json:"cluster"`
	// KeepProgress: a requeued job goes on where it was, as it writes checkpoints.
	KeepProgress bool            `json:"keep_progress"`
	Jobs         map[string]*job `json:"jobs"` // by the key of Slurm
	Nodes        map[string]node `json:"nodes,omitempty"`
	// ShardsPerGPU is the number of shards of a GPU, 0 if none or not known.
	ShardsPerGPU int `json:"shards_per_gpu,omitempty"`
	// Polled is when the nodes were looked at last.
	Polled time.Time `json:"polled,omitzero"`
	// drained: no record is on its way to slurmdbd, as far as slurmctld says.
	drained bool
	// changed are the keys of jobs that differ from the file of the state; nil if that has to be written anew.
	changed map[string]bool
}

// touch notes that a job differs.
func (t *tracker) touch(key string) {
	if t.changed != nil {
		t.changed[key] = true
	}
}

// job is the reported state of a job.
type job struct {
	ID         string           `json:"id"` // unique for ever: keys come again
	Submit     time.Time        `json:"submit"`
	Details    description      `json:"details"`
	Submitted  bool             `json:"submitted,omitempty"`
	Withheld   bool             `json:"withheld,omitempty"` // seen to wait for something else than the scheduler
	Starts     int              `json:"starts,omitempty"`
	Running    bool             `json:"running,omitempty"`
	Resizing   bool             `json:"resizing,omitempty"`
	Nodes      []string         `json:"nodes,omitempty"`    // while it runs
	Start      time.Time        `json:"start,omitzero"`     // since when it holds its GPUs, while it runs
	Attained   time.Duration    `json:"attained,omitempty"` // GPU-time before that, as far as it counts
	Over       time.Time        `json:"over,omitzero"`      // when it ended
	PendingRow uint64           `json:"doubt,omitempty"`    // a row whose successor may still be missing
	Rows       map[uint64]phase `json:"rows"`
}

// description describes a job to the service.
type description struct {
	Name, User, Account, Partition, QOS string
	GPUs                                milliGPUs
	Nodes                               int // 0 if they have unequal shares or no whole GPUs
	Limit                               time.Duration
	MilliCPUs, Memory                   int64  // 0 if unknown
	Type                                string `json:",omitempty"` // of GPUs that are asked for, empty if any
}

// phase is the reported part of a row.
type phase struct {
	Started bool `json:"started,omitempty"`
	Ended   bool `json:"ended,omitempty"`
}

// apply merges a listing and returns its new events. reasons says why jobs wait; nil if that is not known. resync
// reports that jobs which the service has wait for something else now: a snapshot leaves them out.
func (t *tracker) apply(rows []row, reasons map[string]string, now time.Time) (events []*pb.Event, resync bool) {
	superseded := make([]bool, len(rows)) // a row of the same job follows
	latest := map[string]time.Time{}      // submission among the rows that follow, by key
	for i := range slices.Backward(rows) {
		r := &rows[i]
		submit, there := latest[r.key]
		if superseded[i] = there && !submit.Before(r.submit); !superseded[i] {
			latest[r.key] = r.submit
		}
	}
	for i := range rows {
		r := &rows[i]
		new, leaves := t.row(r, superseded[i], reasons, now)
		events, resync = append(events, new...), resync || leaves
	}
	slices.SortStableFunc(events, func(a, b *pb.Event) int {
		return a.SchedulerTime.AsTime().Compare(b.SchedulerTime.AsTime())
	})
	return events, resync
}

// row merges a row; one is superseded where a later row of its job follows.
func (t *tracker) row(r *row, superseded bool, reasons map[string]string, now time.Time) (events []*pb.Event,
	resync bool) {
	former := t.Jobs[r.key]
	j := t.jobOf(r)
	state := func() [5]any { return [...]any{j.Details, j.Submitted, j.Withheld, j.PendingRow, j.Rows[r.db]} }
	before := state()
	defer func() {
		if j != former || len(events) > 0 || state() != before {
			t.touch(r.key)
		}
	}()
	m := merge{tracker: t, job: j, row: r, at: j.Rows[r.db]}
	if m.at.Ended {
		return nil, false
	}
	waits := r.start.IsZero() && !r.ended()
	if waits && j.Starts == 0 && reasons != nil {
		if held, leaves := m.hold(reasons[r.key], now); held {
			return nil, leaves
		}
	}
	if d := r.description; waits && j.Starts == 0 && j.Details != d {
		if j.Details = d; j.Submitted { // an event says what a job is once: it leaves, and another one waits since then
			j.ID = fmt.Sprintf("%s/%s/%d/%d", t.Cluster, r.key, r.submit.Unix(), now.Unix())
			j.Submitted, resync = false, true
		}
	}
	if waits && r.eligible.IsZero() {
		return nil, false
	}
	cancelled := r.ended() && r.start.IsZero() // before it waited: it is left out
	if !j.Submitted && !cancelled {
		m.submit(now)
	}
	if !r.start.IsZero() && !m.at.Started {
		m.start()
	}
	if r.ended() && r.state.Name != "PENDING" {
		_, requeued := reasons[r.key]
		m.end(superseded, t.drained && !requeued)
	}
	j.Rows[r.db] = m.at
	return m.events, resync
}

// jobOf returns the job of a row: a new one if the key is new, or comes again behind the end of another job.
func (t *tracker) jobOf(r *row) *job {
	j := t.Jobs[r.key]
	if j != nil && (j.Over.IsZero() || j.Rows[r.db] != (phase{})) {
		return j
	}
	j = &job{ID: fmt.Sprintf("%s/%s/%d", t.Cluster, r.key, r.submit.Unix()), Submit: r.submit, Rows: map[uint64]phase{},
		Details: r.description}
	if t.Jobs == nil {
		t.Jobs = map[string]*job{}
	}
	t.Jobs[r.key] = j
	return j
}

// merge derives the events of one row.
type merge struct {
	*tracker
	job    *job
	row    *row
	at     phase // of the row
	events []*pb.Event
}

func (m *merge) emit(kind pb.Event_Kind, id string, when time.Time) *pb.Event {
	e := &pb.Event{EventId: m.job.ID + "/" + id, Kind: kind, SchedulerTime: timestamppb.New(when),
		Job: &pb.JobDetails{JobId: m.job.ID}}
	m.events = append(m.events, e)
	return e
}

// eligible is the instant from which the job may start.
func (m *merge) eligible() time.Time {
	if m.row.eligible.Before(m.row.submit) {
		return m.row.submit
	}
	return m.row.eligible
}

// hold reports whether a job that waits is held by anything but the scheduler, and whether the service has it as
// waiting.
func (m *merge) hold(reason string, now time.Time) (held, leaves bool) {
	held = withheld(reason) || m.eligible().After(now)
	leaves = held && m.job.Submitted
	m.job.Submitted = m.job.Submitted && !held
	m.job.Withheld = held || m.job.Withheld && !m.job.Submitted
	return held, leaves
}

// submit reports a job that waits for the scheduler or has started: from its eligible time on, or if it was held from
// now on, and not behind its start.
func (m *merge) submit(now time.Time) {
	started := !m.row.start.IsZero()
	when, id := m.eligible(), "submitted"
	if m.job.Withheld {
		if when = now; started && m.row.start.Before(now) {
			when = m.row.start
		}
		id = fmt.Sprint(id, "/", when.Unix())
	}
	if started && when.After(m.row.start) {
		when = m.row.start
	}
	m.job.Submitted, m.job.Submit = true, when
	m.emit(pb.Event_SUBMITTED, id, when).Job = m.details(m.job)
}

// start reports a start: the first of the job, one after a requeue, or another size.
func (m *merge) start() {
	j, r := m.job, m.row
	kind := pb.Event_RESUMED
	switch {
	case j.Resizing:
		kind = pb.Event_RESIZED
	case j.Starts == 0:
		kind = pb.Event_STARTED
	}
	switch {
	case kind == pb.Event_RESIZED && !j.Start.IsZero():
		j.Attained = j.attained(r.start)
	case kind == pb.Event_RESIZED, kind == pb.Event_RESUMED && m.KeepProgress && j.Attained == 0:
		j.Attained = unknown // it was not recorded
	}
	m.at.Started = true
	j.Starts++
	j.Running, j.Resizing, j.Nodes, j.Start, j.Details.GPUs = true, false, r.nodes, r.start, r.GPUs
	e := m.emit(kind, fmt.Sprint(r.db, "/started"), r.start)
	e.Placement = placement(r.nodes, r.GPUs)
	switch {
	case kind == pb.Event_RESIZED:
		e.Job.MilliGpus = int64(r.GPUs)
	case kind == pb.Event_RESUMED && !m.KeepProgress:
		e.AttainedService = durationpb.New(0)
	}
}

// end reports the end of a row. last reports that no later row is to come, as far as slurmctld and slurmdbd say.
func (m *merge) end(superseded, last bool) {
	switch state := m.row.state.Name; {
	case state == "RESIZING":
		m.job.Resizing = true
	case state == "REQUEUED" || superseded:
		m.preempted()
	case (state == "PREEMPTED" || state == "NODE_FAIL") && (m.job.PendingRow != m.row.db || !last):
		m.job.PendingRow = m.row.db // it may be requeued: a later listing shows that
		return
	default:
		m.finished()
	}
	m.at.Ended = true
}

// preempted reports that the job starts again, from the beginning unless it keeps its progress.
func (m *merge) preempted() {
	if m.at.Started {
		e := m.emit(pb.Event_PREEMPTED, fmt.Sprint(m.row.db, "/ended"), m.row.end)
		if !m.KeepProgress {
			e.AttainedService = durationpb.New(0)
		}
	}
	m.job.stop(m.row.end)
	if !m.KeepProgress {
		m.job.Attained = 0
	}
}

// finished reports the end of the job.
func (m *merge) finished() {
	if m.job.Submitted {
		e := m.emit(pb.Event_FINISHED, fmt.Sprint(m.row.db, "/ended"), m.row.end)
		e.Job.EndStatus = endStatuses[m.row.state.Outcome]
		if m.row.suspended && m.at.Started {
			e.AttainedService = durationpb.New(gpuTime(m.row.elapsed, m.row.GPUs))
		}
	}
	m.job.stop(m.row.end)
	m.job.Over = m.row.end
}

// stop takes the job's GPUs away.
func (j *job) stop(at time.Time) {
	j.Attained = j.attained(at)
	j.Running, j.Nodes, j.Start = false, nil, time.Time{}
}

const (
	unknown      = -1                // GPU-time of a job whose start was not recorded
	mostAttained = math.MaxInt64 - 1 // GPU-time that the API takes
)

// attained is the GPU-time that a job has had at an instant.
func (j *job) attained(now time.Time) time.Duration {
	if j.Start.IsZero() || j.Attained == unknown {
		return j.Attained
	}
	since := gpuTime(now.Sub(j.Start), j.Details.GPUs)
	return min(j.Attained, mostAttained-since) + since
}

// gpuTime is the GPU-time of a job that has run for a time, 0 at least and mostAttained at most.
func gpuTime(ran time.Duration, gpus milliGPUs) time.Duration {
	high, low := max(0, ran)/1000, max(0, ran)%1000
	if high > (mostAttained-low*time.Duration(gpus)/1000)/time.Duration(max(1, gpus)) {
		return mostAttained
	}
	return high*time.Duration(gpus) + low*time.Duration(gpus)/1000
}

// endStatuses are the outcomes of jobs in the API.
var endStatuses = [...]pb.JobDetails_EndStatus{slurmtext.Completed: pb.JobDetails_COMPLETED,
	slurmtext.Cancelled: pb.JobDetails_CANCELLED, slurmtext.Failed: pb.JobDetails_FAILED,
	slurmtext.TimedOut: pb.JobDetails_TIMED_OUT, slurmtext.OutOfMemory: pb.JobDetails_OUT_OF_MEMORY}

// placement shares the GPUs of a job out on its nodes; nil if these are not equal and whole, as the listing does not
// say how.
func placement(nodes []string, gpus milliGPUs) []*pb.NodePlacement {
	each := gpus.evenly(len(nodes))
	if each == 0 {
		return nil
	}
	var out []*pb.NodePlacement
	for _, n := range nodes {
		out = append(out, &pb.NodePlacement{NodeId: n, Gpus: int32(each)})
	}
	return out
}

// holdOff is how long slurmctld leaves a requeued job alone: the life of its credential and a second.
const holdOff = 121 * time.Second

// details describes a job to the service.
func (t *tracker) details(j *job) *pb.JobDetails {
	d := &j.Details
	request := &pb.JobRequest{Partition: d.Partition, Qos: d.QOS, Account: d.Account, NodeCount: int32(d.Nodes),
		MilliCpus: d.MilliCPUs, MemoryBytes: d.Memory, GpuModel: d.Type,
		Requeue: pb.JobRequest_RESTART, HoldOff: durationpb.New(holdOff)}
	if t.KeepProgress {
		request.Requeue = pb.JobRequest_RESUME
	}
	if d.Limit > 0 {
		request.TimeLimit = durationpb.New(d.Limit)
	}
	return &pb.JobDetails{JobId: j.ID, User: d.User, Tenant: d.Account, Key: d.Name, MilliGpus: int64(d.GPUs),
		Request: request}
}

// snapshot returns all active jobs and nodes.
func (t *tracker) snapshot(now time.Time) *pb.Event {
	s := &pb.Snapshot{}
	for _, key := range slices.Sorted(maps.Keys(t.Jobs)) {
		j := t.Jobs[key]
		if !j.Submitted || !j.Over.IsZero() {
			continue
		}
		a := &pb.ActiveJob{Job: t.details(j), SubmitTime: timestamppb.New(j.Submit),
			Running: j.Running, Placement: placement(j.Nodes, j.Details.GPUs)}
		if !j.Start.IsZero() && j.Attained != unknown {
			a.AttainedService = durationpb.New(j.attained(now))
		}
		s.Jobs = append(s.Jobs, a)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Nodes)) {
		if n := t.Nodes[name]; n.State != "down" {
			s.Nodes = append(s.Nodes, &pb.NodeDetails{NodeId: name, Gpus: int32(n.GPUs), Draining: n.State == "draining"})
		}
	}
	return &pb.Event{Kind: pb.Event_SNAPSHOT, SchedulerTime: timestamppb.New(now), Snapshot: s}
}

// applyNodes merges the nodes, and the times in which they were down or drained.
func (t *tracker) applyNodes(nodes []node, outages []outage, now time.Time) []*pb.Event {
	var events []*pb.Event
	emit := func(id string, when time.Time, n node) {
		kind := map[string]pb.Event_Kind{"up": pb.Event_NODE_UP, "draining": pb.Event_NODE_DRAINED,
			"down": pb.Event_NODE_DOWN}[n.State]
		details := &pb.NodeDetails{NodeId: n.Name}
		if n.State == "up" {
			details.Gpus = int32(n.GPUs)
		}
		events = append(events, &pb.Event{EventId: fmt.Sprintf("%s/node/%s/%s/%d", t.Cluster, n.Name, id, when.Unix()),
			Kind: kind, SchedulerTime: timestamppb.New(when), Node: details})
	}
	if t.Nodes == nil {
		t.Nodes = map[string]node{}
	}
	for _, n := range nodes {
		before, known := t.Nodes[n.Name]
		if !known || before.GPUs != n.GPUs {
			emit("up", now, node{n.Name, n.GPUs, "up"})
			before.State = "up"
		}
		var last outage
		for _, o := range outages {
			if o.node == n.Name && !o.start.Before(last.start) {
				last = o
			}
		}
		blip := known && n.State == "up" && before.State == "up" && last.start.After(t.Polled) && !last.end.IsZero()
		switch {
		case blip:
			emit(last.state, last.start, node{n.Name, n.GPUs, last.state})
			emit("up", last.end, n)
		case n.State == before.State:
		case known && n.State == "up" && last.end.After(t.Polled):
			emit("up", last.end, n)
		case known && n.State == last.state && last.end.IsZero() && last.start.After(t.Polled):
			emit(n.State, last.start, n)
		default:
			emit(n.State, now, n)
		}
		t.Nodes[n.Name] = n
	}
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(t.Nodes)), func(name string) bool {
		return len(nodes) == 0 || slices.ContainsFunc(nodes, func(n node) bool { return n.Name == name })
	})
	for _, name := range gone {
		n := t.Nodes[name]
		n.State = "down"
		emit("gone", now, n)
		delete(t.Nodes, name)
	}
	t.Polled = now
	slices.SortStableFunc(events, func(a, b *pb.Event) int {
		return cmp.Compare(a.SchedulerTime.AsTime().Unix(), b.SchedulerTime.AsTime().Unix())
	})
	return events
}

// forget drops jobs that no listing since an instant has.
func (t *tracker) forget(since time.Time) {
	for key, j := range t.Jobs {
		if !j.Over.IsZero() && j.Over.Before(since) {
			delete(t.Jobs, key)
			t.touch(key)
		}
	}
}

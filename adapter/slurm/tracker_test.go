package slurm

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/slurmtext"
)

const columnsHead = "JobID|JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|" +
	"ReqTRES|AllocTRES|NNodes|NodeList|DBIndex|Suspended\n"

// listed makes a listing of rows: JobID, JobIDRaw, State, Submit, Eligible, Start, End, GPUs, nodes and DBIndex.
func listed(rows ...string) []row {
	var b strings.Builder
	b.WriteString(columnsHead)
	for _, r := range rows {
		f := strings.Fields(r)
		tres := "cpu=1,gres/gpu=" + f[7]
		fmt.Fprintf(&b, "%s|%s|job|u|a|p|q|%s|%s|%s|%s|%s|0|10|%s|%s|1|%s|%s|00:00:00\n", f[0], f[1], f[2], f[3], f[4],
			f[5], f[6], tres, tres, f[8], f[9])
	}
	out, _ := rowsIn(b.String(), 0)
	return out
}

// rowsIn reads a listing with a header and bars.
func rowsIn(text string, shardsPerGPU int) ([]row, []error) {
	records, err := slurmtext.Table(text)
	if err != nil {
		panic(err)
	}
	return rowsOf(records, shardsPerGPU)
}

// TestDatabaseIndexOfAllBits: the index of a row is that of slurmdbd from 24.11 on, too.
func TestDatabaseIndexOfAllBits(t *testing.T) {
	const index = 12323687467422869504
	if rows := listed(fmt.Sprintf("1 1 RUNNING 1000 1000 1010 Unknown 1 n1 %d", uint64(index))); len(rows) != 1 ||
		rows[0].db != index {
		t.Errorf("%+v", rows)
	}
}

// reported lists the events that a listing causes.
func reported(t *tracker, now int64, reasons map[string]string, rows ...string) []string {
	events, _ := t.apply(listed(rows...), reasons, time.Unix(now, 0))
	var out []string
	for _, e := range events {
		id := strings.TrimPrefix(e.Job.JobId, "c/")
		out = append(out, fmt.Sprintf("%d %s %s", e.SchedulerTime.Seconds, e.Kind, id))
	}
	return out
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestJobLife(t *testing.T) {
	c := &tracker{Cluster: "c"}
	same(t, reported(c, 105, map[string]string{"7": "Resources"}, "7 7 PENDING 100 100 None Unknown 4 x 1"), "100 SUBMITTED 7/100")
	same(t, reported(c, 115, nil, "7 7 RUNNING 100 100 110 Unknown 4 g[1-2] 1"), "110 STARTED 7/100")
	same(t, reported(c, 115, nil, "7 7 RUNNING 100 100 110 Unknown 4 g[1-2] 1")) // again: nothing is new
	// It is preempted, and waits for its hold-off.
	same(t, reported(c, 130, map[string]string{"7": "BeginTime"}, "7 7 PREEMPTED 100 100 110 120 4 g[1-2] 1",
		"7 7 PENDING 120 241 None Unknown 4 x 3"), "120 PREEMPTED 7/100")
	same(t, reported(c, 300, nil, "7 7 PREEMPTED 100 100 110 120 4 g[1-2] 1", "7 7 COMPLETED 120 241 250 290 4 g1 3"),
		"250 RESUMED 7/100", "290 FINISHED 7/100")
	// The id comes again for another job.
	same(t, reported(c, 400, nil, "7 7 COMPLETED 120 241 250 290 4 g1 3", "7 7 RUNNING 390 390 391 Unknown 1 g1 9"),
		"390 SUBMITTED 7/390", "391 STARTED 7/390")
}

// TestRequest: events have the resources that a job asks for, of heterogeneous jobs the sum.
func TestRequest(t *testing.T) {
	const line = "%s|%s|job|u|a|p|q|%s|100|100|%s|Unknown|0|10|%s|%s|1|g1|%s|00:00:00\n"
	rows, faults := rowsIn(columnsHead+
		fmt.Sprintf(line, "7", "7", "PENDING", "None", "billing=16,cpu=16,gres/gpu=4,mem=62.5G,node=1", "", "1")+
		fmt.Sprintf(line, "8", "8", "RUNNING", "110", "cpu=1,gres/gpu=1,mem=100M", "cpu=2,gres/gpu=1,mem=512", "2")+
		fmt.Sprintf(line, "9+0", "9", "RUNNING", "110", "", "cpu=8,gres/gpu=2,mem=1T", "3")+
		fmt.Sprintf(line, "9+1", "10", "RUNNING", "110", "", "cpu=4,gres/gpu=1", "4")+
		fmt.Sprintf(line, "11", "11", "RUNNING", "110", "", "cpu=-1,gres/gpu=1,mem=hello", "5")+
		fmt.Sprintf(line, "12", "12", "RUNNING", "110", "", "cpu=9999999,gres/gpu=1,mem=9999999P", "6"), 0)
	if text := fmt.Sprint(faults); len(faults) != 2 || !strings.Contains(text, "job 11: AllocTRES has a number of C") ||
		!strings.Contains(text, "job 12: AllocTRES has a number of C") {
		t.Errorf("faults: %v", faults)
	}
	if steps, faults := rowsIn(columnsHead+fmt.Sprintf(line, "7.batch", "7.batch", "RUNNING", "110", "",
		"cpu=1,gres/gpu=1,mem=1x", "1"), 0); len(steps)+len(faults) > 0 {
		t.Errorf("a step is %v, %v", steps, faults)
	}
	c := &tracker{Cluster: "c"}
	events, _ := c.apply(rows, nil, time.Unix(120, 0))
	got := map[string][2]int64{}
	for _, e := range events {
		if e.Kind == pb.Event_SUBMITTED {
			got[e.Job.JobId] = [2]int64{e.Job.Request.MilliCpus, e.Job.Request.MemoryBytes}
		}
	}
	want := map[string][2]int64{"c/7/100": {16000, 62.5 * (1 << 30)}, "c/8/100": {2000, 512 << 20},
		"c/9/100": {12000, 1 << 40}}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, a := range c.snapshot(time.Unix(120, 0)).Snapshot.Jobs {
		if r := a.Job.Request; want[a.Job.JobId] != [2]int64{r.MilliCpus, r.MemoryBytes} {
			t.Errorf("the snapshot has %v", a)
		}
	}
}

// TestEndStatus: a job that its time limit cut has not failed, and one without memory says so.
func TestEndStatus(t *testing.T) {
	for state, want := range map[string]pb.JobDetails_EndStatus{"COMPLETED": pb.JobDetails_COMPLETED,
		"TIMEOUT": pb.JobDetails_TIMED_OUT, "CANCELLED": pb.JobDetails_CANCELLED, "DEADLINE": pb.JobDetails_FAILED,
		"FAILED": pb.JobDetails_FAILED, "OUT_OF_MEMORY": pb.JobDetails_OUT_OF_MEMORY} {
		c := &tracker{Cluster: "c"}
		events, _ := c.apply(listed("7 7 "+state+" 100 100 110 120 4 g1 1"), nil, time.Unix(130, 0))
		if n := len(events); n != 3 || events[2].Kind != pb.Event_FINISHED || events[2].Job.EndStatus != want {
			t.Errorf("%s: %v, want %v", state, events, want)
		}
	}
}

// TestSnapshotAttained: a snapshot has the service that jobs have received, of all runs if they keep their progress.
func TestSnapshotAttained(t *testing.T) {
	for keep, want := range map[bool][]string{false: {"", "20s", "", "40s", "1m40s"},
		true: {"", "20s", "", "1m20s", "2m20s"}} {
		c := &tracker{Cluster: "c", KeepProgress: keep}
		var got []string
		for _, at := range []struct {
			now  int64
			rows []string
		}{
			{105, []string{"7 7 PENDING 100 100 None Unknown 4 x 1"}},
			{115, []string{"7 7 RUNNING 100 100 110 Unknown 4 g1 1"}},
			{130, []string{"7 7 PREEMPTED 100 100 110 120 4 g1 1", "7 7 PENDING 120 241 None Unknown 4 x 3"}},
			{260, []string{"7 7 PREEMPTED 100 100 110 120 4 g1 1", "7 7 RUNNING 120 241 250 Unknown 4 g1 3"}},
			{275, []string{"7 7 RESIZING 120 241 250 270 4 g1 3", "7 7 RUNNING 120 241 270 Unknown 4 g1 5"}},
		} {
			state, err := json.Marshal(c) // of the poller
			if err != nil {
				t.Fatal(err)
			}
			c = &tracker{}
			if err := json.Unmarshal(state, c); err != nil {
				t.Fatal(err)
			}
			c.apply(listed(at.rows...), nil, time.Unix(at.now, 0))
			text := ""
			if a := c.snapshot(time.Unix(at.now, 0)).Snapshot.Jobs[0]; a.AttainedService != nil {
				text = a.AttainedService.AsDuration().String()
			}
			got = append(got, text)
		}
		same(t, got, want...)
	}
	c := &tracker{Cluster: "c"}
	c.apply(listed("7 7 RUNNING 100 100 110 Unknown 100000 g1 1"), nil, time.Unix(115, 0))
	if a := c.snapshot(time.Unix(1e9, 0)).Snapshot.Jobs[0]; a.AttainedService.AsDuration() != math.MaxInt64-1 {
		t.Errorf("too much service to count is %v", a.AttainedService)
	}
	// A poller that did not record the start leaves the service to count.
	c = &tracker{Cluster: "c"}
	c.apply(listed("7 7 RUNNING 100 100 110 Unknown 4 g1 1"), nil, time.Unix(115, 0))
	c.Jobs["7"].Start = time.Time{}
	for i, rows := range [][]string{{"7 7 RUNNING 100 100 110 Unknown 4 g1 1"},
		{"7 7 RESIZING 100 100 110 120 4 g1 1", "7 7 RUNNING 100 100 120 Unknown 2 g1 3"}} {
		c.apply(listed(rows...), nil, time.Unix(130, 0))
		if a := c.snapshot(time.Unix(130, 0)).Snapshot.Jobs[0]; a.AttainedService != nil || !a.Running {
			t.Errorf("%d: %v", i, a)
		}
	}
}

// TestRequeuedLater: a job whose row ended has ended once slurmctld and slurmdbd have no other: the row of its requeue
// may take its time, as after slurmdbd was away.
func TestRequeuedLater(t *testing.T) {
	const failed = "7 7 NODE_FAIL 100 100 110 120 4 g1 1"
	c := &tracker{Cluster: "c", drained: true}
	same(t, reported(c, 125, nil, failed), "100 SUBMITTED 7/100", "110 STARTED 7/100")
	same(t, reported(c, 130, map[string]string{"7": "BeginTime"}, failed)) // slurmctld has it
	c.drained = false
	same(t, reported(c, 140, nil, failed)) // or its records are on their way
	same(t, reported(c, 150, nil, failed, "7 7 RUNNING 120 120 141 Unknown 4 g2 3"), "120 PREEMPTED 7/100",
		"141 RESUMED 7/100")

	c = &tracker{Cluster: "c", drained: true}
	same(t, reported(c, 125, nil, failed), "100 SUBMITTED 7/100", "110 STARTED 7/100")
	same(t, reported(c, 140, nil, failed), "120 FINISHED 7/100")
}

// Jobs that wait for something else than the scheduler are not submitted to it until they wait for it.
func TestHeldJobs(t *testing.T) {
	c := &tracker{Cluster: "c"}
	const waits = "7 7 PENDING 100 100 None Unknown 4 x 1"
	same(t, reported(c, 105, map[string]string{"7": "QOSMaxGRESPerUser"}, waits))
	same(t, reported(c, 205, map[string]string{"7": "Priority"}, waits), "205 SUBMITTED 7/100")
	_, resync := c.apply(listed(waits), map[string]string{"7": "JobHeldAdmin"}, time.Unix(300, 0))
	if s := c.snapshot(time.Unix(300, 0)).GetSnapshot(); !resync || len(s.GetJobs()) != 0 {
		t.Errorf("a job that is held again is in the snapshot: %v", s)
	}
	same(t, reported(c, 405, nil, "7 7 CANCELLED 100 100 None 400 4 x 1")) // by then the service has forgotten it
	same(t, reported(c, 505, nil, "8 8 CANCELLED 100 100 None 400 4 x 2")) // never waited
}

// TestWithheld: limits of QOS by account have names of their own; Slurm lists some reasons with more behind them.
func TestWithheld(t *testing.T) {
	for reason, want := range map[string]bool{
		"": false, "Priority": false, "Resources": false, "None": false, "Nodes_required": false,
		"ReqNodeNotAvail, May be reserved for other job": false, "ReqNodeNotAvail, Reserved for maintenance": true,
		"ReqNodeNotAvail, UnavailableNodes:g[1-2]": true, "NodeDown": true, "Cleaning": true, "DeadLine": true,
		"PartitionConfig": true, "user env retrieval failed requeued held": true,
		"MaxGRESPerAccount": true, "MaxJobsPerAccount": true, "QOSMaxGRESPerUser": true, "AssocGrpGRES": true,
		"AccountNotAllowed": true, "DependencyNeverSatisfied": true, "Licenses": true, "JobHeldUser": true,
	} {
		if got := withheld(reason); got != want {
			t.Errorf("%q: %v", reason, got)
		}
	}
}

// TestThrottle: the tasks of an array beyond its throttle wait for others of it, whatever the reason of the first.
func TestThrottle(t *testing.T) {
	got := reasonsOf("7_[3-6%3]|PD|Priority\n7_1|R|None\n7_2|R|None\n" +
		"8_[1-2]|PD|Resources\n9|PD|JobHeldUser\n10_[1-3%3]|PD|None\n")
	want := map[string]string{"7_3": "Priority", "7_4": "JobArrayTaskLimit", "7_5": "JobArrayTaskLimit",
		"7_6": "JobArrayTaskLimit", "8_1": "Resources", "8_2": "Resources", "9": "JobHeldUser", "10_1": "None",
		"10_2": "None", "10_3": "None"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestArraysAndHeterogeneousJobs(t *testing.T) {
	c := &tracker{Cluster: "c"}
	same(t, reported(c, 105, map[string]string{"15_3": "JobArrayTaskLimit", "15_4": "JobArrayTaskLimit"},
		"15_1 18 RUNNING 100 100 101 Unknown 8 g1 18", "15_2 19 RUNNING 100 100 101 Unknown 8 g2 19",
		"15_[3-4%2] 15 PENDING 100 100 None Unknown 8 x 17"),
		"100 SUBMITTED 15_1/100", "100 SUBMITTED 15_2/100", "101 STARTED 15_1/100", "101 STARTED 15_2/100")
	same(t, reported(c, 205, nil, "15_3 20 RUNNING 100 200 200 Unknown 8 g1 25", "15_4 15 COMPLETED 100 200 200 204 8 g2 17"),
		"200 SUBMITTED 15_4/100", "200 STARTED 15_4/100", "200 SUBMITTED 15_3/100", "200 STARTED 15_3/100",
		"204 FINISHED 15_4/100")
	rows := listed("16+0 16 RUNNING 300 300 310 Unknown 2 g1 21", "16+1 17 RUNNING 300 300 310 Unknown 4 g2 22")
	events, _ := c.apply(rows, nil, time.Unix(320, 0))
	if len(events) != 2 || events[0].Job.MilliGpus != 6000 {
		t.Errorf("a heterogeneous job is %v", events)
	}
}

func TestNodeEvents(t *testing.T) {
	c := &tracker{Cluster: "c"}
	at := func(now int64, text string, outages ...outage) []string {
		var out []string
		nodes, _, err := nodesOf(text)
		if err != nil {
			t.Error(err)
		}
		for _, e := range c.applyNodes(nodes, outages, time.Unix(now, 0).UTC()) {
			out = append(out, fmt.Sprintf("%d %s %s", e.SchedulerTime.Seconds, e.Kind, e.Node.NodeId))
		}
		return out
	}
	text := func(state string) string {
		return "NodeName=g1 State=IDLE Gres=gpu:8 X=1\nNodeName=g2 State=" + state +
			" Gres=gpu:8\nNodeName=login State=IDLE Gres=(null)\n"
	}
	same(t, at(100, text("IDLE")), "100 NODE_UP g1", "100 NODE_UP g2")
	same(t, at(200, text("MIXED+DRAIN"), outage{"g2", "draining", time.Unix(150, 0), time.Time{}}), "150 NODE_DRAINED g2")
	same(t, at(300, text("IDLE"), outage{"g2", "draining", time.Unix(150, 0), time.Unix(260, 0)}), "260 NODE_UP g2")
	same(t, at(400, text("IDLE"), outage{"g2", "down", time.Unix(350, 0), time.Unix(354, 0)}),
		"350 NODE_DOWN g2", "354 NODE_UP g2")
	same(t, at(500, "NodeName=g1 State=IDLE Gres=gpu:8\n"), "500 NODE_DOWN g2")
}

// TestRecordedRows reads a recorded listing: each job once, with its outcome.
func TestRecordedRows(t *testing.T) {
	text, err := os.ReadFile("testdata/arrays_hetjobs_requeues.psv")
	if err != nil {
		t.Fatal(err)
	}
	c := &tracker{Cluster: "c"}
	rows, faults := rowsIn(string(text), 0)
	if len(faults) > 0 {
		t.Error(faults)
	}
	events, _ := c.apply(rows, nil, time.Unix(1<<31, 0))
	counts := map[pb.Event_Kind]int{}
	ids := map[string]bool{}
	for _, e := range events {
		counts[e.Kind]++
		if ids[e.EventId] {
			t.Errorf("%s is there twice", e.EventId)
		}
		ids[e.EventId] = true
	}
	got := fmt.Sprint(counts)
	if want := "map[SUBMITTED:25 STARTED:25 PREEMPTED:1 FINISHED:25]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if again, _ := c.apply(rows, nil, time.Unix(1<<31, 0)); len(again) > 0 {
		t.Errorf("%d events again", len(again))
	}
}

// TestParts: jobs on MIG instances, shares by MPS and shards are as wide as in a trace, and have no placement on whole
// GPUs; their service counts their part of a GPU.
func TestParts(t *testing.T) {
	const line = "%d|%[1]d|job|u|a|p|q|RUNNING|100|100|110|Unknown|0|10||cpu=1,%s|1|g1|%[1]d|00:00:00\n"
	text := columnsHead
	for i, tres := range []string{"gres/gpu=2,gres/gpu:1g.10gb=2", "gres/mps=30", "gres/shard=4", "gres/gpu=2"} {
		text += fmt.Sprintf(line, i+1, tres)
	}
	rows, faults := rowsIn(text, 8)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	c := &tracker{Cluster: "c"}
	c.apply(rows, nil, time.Unix(120, 0))
	state, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	c = &tracker{}
	if err := json.Unmarshal(state, c); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range c.snapshot(time.Unix(120, 0)).Snapshot.Jobs {
		got = append(got, fmt.Sprint(a.Job.MilliGpus, " ", a.AttainedService.AsDuration(), " ", len(a.Placement)))
	}
	same(t, got, "286 2.86s 0", "300 3s 0", "500 5s 0", "2000 20s 1")
	if rows, faults = rowsIn(text, 0); len(rows) != 3 || len(faults) != 1 ||
		!strings.Contains(faults[0].Error(), "job 3: AllocTRES has shards of GPUs, and nodes do not") {
		t.Errorf("%d rows, %v", len(rows), faults)
	}
	// Notes with whole numbers of GPUs are read.
	var d description
	if err := json.Unmarshal([]byte(`{"GPUs": 8, "Nodes": 1}`), &d); err != nil || d.GPUs != 8000 {
		t.Errorf("%v: %+v", err, d)
	}
}

// TestShardsPerGPU: nodes say how many shards a GPU has, if all that have some have the same number.
func TestShardsPerGPU(t *testing.T) {
	for gres, want := range map[[2]string]int{{"gpu:8", "gpu:4"}: 0, {"gpu:2,shard:16", "gpu:a100:4,shard:a100:32"}: 8,
		{"gpu:2,shard:16", "gpu:8"}: 8, {"gpu:2,shard:16", "gpu:2,shard:8"}: 0, {"gpu:2,shard:15", "gpu:1"}: 0} {
		text := fmt.Sprintf("NodeName=a State=IDLE Gres=%s\nNodeName=b State=IDLE Gres=%s\n", gres[0], gres[1])
		if nodes, got, err := nodesOf(text); err != nil || got != want || len(nodes) != 2 {
			t.Errorf("%v: %d, %v, %v; want %d", gres, got, nodes, err, want)
		}
	}
}

// TestManyRows: a week of a busy cluster is read in time that is linear in its rows.
func TestManyRows(t *testing.T) {
	rows := make([]row, 200_000)
	at := time.Unix(1000, 0)
	for i := range rows {
		rows[i] = row{key: fmt.Sprint(i % 150_000), db: uint64(i), description: description{GPUs: 1000},
			submit: at, eligible: at, start: at.Add(1), end: at.Add(time.Duration(i + 2)),
			state: slurmtext.ParseJobState("COMPLETED")}
	}
	c := &tracker{Cluster: "c"}
	counts := map[pb.Event_Kind]int{}
	events, _ := c.apply(rows, nil, at.Add(time.Hour))
	for _, e := range events {
		counts[e.Kind]++
	}
	const want = "map[SUBMITTED:150000 STARTED:150000 PREEMPTED:50000 RESUMED:50000 FINISHED:150000]"
	if got := fmt.Sprint(counts); got != want {
		t.Error(got)
	}
}

// TestChangedWaiting: a job that waits and asks for something else leaves, and waits since then as another one; one
// that is held changes without an event.
func TestChangedWaiting(t *testing.T) {
	c := &tracker{Cluster: "c"}
	at := time.Unix(100, 0).UTC()
	waits := row{key: "7", db: 70, submit: at, eligible: at,
		description: description{GPUs: 2000, Nodes: 1, Limit: time.Hour, QOS: "low"}}
	look := func(now int64, reason string) (events []*pb.Event, resync bool) {
		return c.apply([]row{waits}, map[string]string{"7": reason}, time.Unix(now, 0))
	}
	first, resync := look(110, "Priority")
	if len(first) != 1 || resync {
		t.Fatalf("%v %v", first, resync)
	}
	if again, resync := look(120, "Priority"); len(again) != 0 || resync {
		t.Errorf("nothing changed: %v %v", again, resync)
	}
	waits.Limit, waits.GPUs = 2*time.Hour, 4000
	got, resync := look(130, "Priority")
	if len(got) != 1 || !resync || got[0].Kind != pb.Event_SUBMITTED || got[0].Job.JobId != "c/7/100/130" ||
		got[0].SchedulerTime.Seconds != 100 || got[0].Job.MilliGpus != 4000 ||
		got[0].Job.Request.TimeLimit.AsDuration() != 2*time.Hour {
		t.Errorf("%v %v", got, resync)
	}
	if s := c.snapshot(time.Unix(131, 0)).Snapshot.Jobs; len(s) != 1 || s[0].Job.JobId != "c/7/100/130" {
		t.Errorf("the snapshot has %v", s)
	}
	if _, resync := look(140, "JobHeldUser"); !resync {
		t.Error("it is held")
	}
	waits.QOS = "high"
	if held, resync := look(150, "JobHeldUser"); len(held) != 0 || resync {
		t.Errorf("a held job: %v %v", held, resync)
	}
	got, resync = look(160, "Priority")
	if len(got) != 1 || resync || got[0].SchedulerTime.Seconds != 160 || got[0].Job.Request.Qos != "high" {
		t.Errorf("after the hold: %v %v", got, resync)
	}
	waits.start, waits.Limit = time.Unix(170, 0), time.Minute
	got, resync = look(180, "")
	if len(got) != 1 || resync || got[0].Kind != pb.Event_STARTED || got[0].Job.JobId != "c/7/100/130" {
		t.Errorf("after its start: %v %v", got, resync)
	}
}

// TestCloudNodes: CLOUD nodes of slurm.conf that are off, and so in no listing, are capacity.
func TestCloudNodes(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/scontrol", "#!/bin/sh\necho 'NodeName=c1 Gres=gpu:8 State=IDLE+CLOUD'\n")
	f.write("slurm.conf", "NodeName=DEFAULT Gres=gpu:h100:8\nNodeName=c[1-3] State=CLOUD\nNodeName=g1 State=UNKNOWN\n"+
		"NodeName=login State=CLOUD Gres=none:1\n")
	nodes, _, err := Commands{Conf: f.dir + "/slurm.conf"}.nodes(t.Context())
	want := []node{{"c1", 8, "up"}, {"c2", 8, "up"}, {"c3", 8, "up"}}
	if err != nil || !slices.Equal(nodes, want) {
		t.Errorf("%v %v, want %v", nodes, err, want)
	}
	nodes, _, err = Commands{Conf: f.dir + "/other.conf"}.nodes(t.Context())
	if err != nil || !slices.Equal(nodes, want[:1]) {
		t.Errorf("without slurm.conf: %v %v", nodes, err)
	}
}

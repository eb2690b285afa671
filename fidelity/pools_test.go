package fidelity

import (
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// held is a job that waits for hours and then runs for hours.
func held(id, partition string, gpus, submit, wait, run int) workload.Job {
	hours := func(n int) time.Duration { return time.Duration(n) * time.Hour }
	return workload.Job{ID: id, Tenant: "t", GPUs: workload.GPUs(gpus), Submit: hours(submit), HasWait: true,
		Wait: hours(wait), Duration: hours(run), Requested: workload.Request{Partition: partition}.Shared()}
}

// historyOf is an input with the pairs of its jobs, which no simulated cluster lets wait.
func historyOf(t *testing.T, c workload.Cluster, jobs ...workload.Job) (*Input, []pair) {
	w, err := workload.New("t", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	in := &Input{Trace: w, Cluster: c, To: 1000 * time.Hour}
	var pairs []pair
	for i := range w.Jobs() {
		pairs = append(pairs, pair{job: &w.Jobs()[i], recorded: w.Jobs()[i].Wait})
	}
	return in, pairs
}

// TestReserved: a job that waits beside free GPUs is held up by a reservation if a wider one waits before it for more
// than are free.
func TestReserved(t *testing.T) {
	wide, small := held("wide", "", 16, 1, 99, 10), held("small", "", 2, 2, 98, 1)
	big := held("big", "", 12, 0, 0, 100)
	larger, later := held("big", "", 20, 0, 0, 100), wide
	later.Submit, later.Wait = 3*time.Hour, 97*time.Hour
	half := wide
	half.Wait = 49 * time.Hour // starts at 50, in a history that cannot be
	for name, c := range map[string]struct {
		cluster        workload.Cluster
		jobs           []workload.Job
		idle, reserved int // hours of small
	}{
		"behind a wide job":     {workload.Uniform(2, 8), []workload.Job{big, wide, small}, 98, 98},
		"alone":                 {workload.Uniform(2, 8), []workload.Job{big, small}, 98, 0},
		"before a wide job":     {workload.Uniform(2, 8), []workload.Job{big, small, later}, 98, 0},
		"the wide job fits":     {workload.Uniform(4, 8), []workload.Job{big, wide, small}, 98, 0},
		"no room":               {workload.Uniform(1, 13), []workload.Job{big, wide, small}, 0, 0},
		"the wide job has gone": {workload.Uniform(4, 8), []workload.Job{larger, half, small}, 88, 48},
	} {
		t.Run(name, func(t *testing.T) {
			in, pairs := historyOf(t, c.cluster, c.jobs...)
			idle, reserved := poolsOf(in).idle(pairs)
			for i := range pairs {
				if pairs[i].job.ID == "small" && (idle[i].Hours() != float64(c.idle) ||
					reserved[i].Hours() != float64(c.reserved)) {
					t.Errorf("%v beside free GPUs, %v of it reserved; want %d h, %d h", idle[i], reserved[i], c.idle,
						c.reserved)
				}
			}
		})
	}
}

// site has two nodes in long and short, and one in gpu.
var site = workload.Cluster{Groups: []workload.NodeGroup{{Name: "a", Nodes: 2, GPUsPerNode: 8, Partition: "long,short"},
	{Name: "b", Nodes: 1, GPUsPerNode: 4, Partition: "gpu"}}}

// TestPools: free GPUs of other nodes than a job's are not free for it.
func TestPools(t *testing.T) {
	in, pairs := historyOf(t, site, held("x", "long", 16, 0, 0, 10), held("y", "short", 4, 1, 9, 1),
		held("z", "gpu", 2, 1, 4, 1))
	p := poolsOf(in)
	idle, _ := p.idle(pairs)
	if len(p.all) != 2 || p.all[0].size != 16000 || p.all[1].size != 4000 || idle[1] != 0 || idle[2] != 4*time.Hour {
		t.Errorf("%d pools, waits beside free GPUs %v", len(p.all), idle)
	}
}

// TestNoLimitOfAllNodes: most waiting is of one partition, whose jobs hold all of its nodes at times: that is no limit.
func TestNoLimitOfAllNodes(t *testing.T) {
	in, pairs := historyOf(t, site, held("full", "long", 16, 0, 0, 10), held("y", "long", 4, 20, 9, 1),
		held("z", "gpu", 2, 1, 0, 1), held("z2", "gpu", 2, 2, 0, 1), held("z3", "gpu", 2, 3, 0, 1))
	excess := []float64{0, 0, 0, 0, 0}
	for i := range pairs {
		if pairs[i].job.ID == "y" {
			excess[i] = 9 * 3600
		}
	}
	if who := concentration(pairs, excess, 9*3600, in, poolsOf(in)); who != "" {
		t.Errorf("a limit: %s", who)
	}
	in, pairs = historyOf(t, site, held("half", "long", 8, 0, 0, 10), held("y", "long", 4, 20, 9, 1),
		held("z", "gpu", 2, 1, 0, 1), held("z2", "gpu", 2, 2, 0, 1), held("z3", "gpu", 2, 3, 0, 1))
	if who := concentration(pairs, excess, 9*3600, in, poolsOf(in)); !strings.Contains(who,
		"partition long has 100 % of it with 40 % of the jobs, and never held more than 8 GPUs") {
		t.Errorf("a limit of half of the nodes: %q", who)
	}
}

// TestReservationsAreACause: half of all waiting is beside free GPUs behind a wide job.
func TestReservationsAreACause(t *testing.T) {
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []workload.Job
	add := func(j workload.Job, n int) {
		j.ID = j.ID + string(rune('a'+n/26)) + string(rune('a'+n%26))
		jobs = append(jobs, j)
	}
	// A wide job waits for its turn, five small ones behind it beside four free GPUs, and short ones pass all.
	for k := range 12 {
		at := 50 * k
		add(held("big", "", 12, at, 0, 20), k)
		add(held("wide", "", 16, at+1, 19, 20), k)
		for i := range 5 {
			add(held("small", "", 1, at+2, 38, 5), 5*k+i)
		}
		for i := range 10 {
			add(held("quick", "", 1, at+3+i, 0, 1), 10*k+i)
		}
	}
	w, err := workload.New("t", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Space.Parse(s.Space.Default(), []string{"backfill=true"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Full(t.Context(), Input{Trace: w, Cluster: workload.Uniform(2, 8), To: 700 * time.Hour, Scheduler: s,
		Config: config, Recorded: "slurm"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range r.Causes {
		names = append(names, c.Name)
	}
	if len(names) == 0 || names[0] != KeptRoom {
		t.Fatalf("causes %q", names)
	}
	if c := r.Causes[0]; !strings.Contains(c.Evidence, "or a strict order") {
		t.Errorf("evidence that names backfill alone: %s", c.Evidence)
	}
}

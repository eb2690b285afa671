package fidelity_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

// fifo is first in, first out, with or without backfill.
func fifo(t testing.TB, backfill string) (*schedulers.Scheduler, space.Config) {
	return scheduler(t, "fifo", "backfill="+backfill)
}

func scheduler(t testing.TB, name string, set ...string) (*schedulers.Scheduler, space.Config) {
	t.Helper()
	s, err := schedulers.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Space.Parse(s.Space.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

const days = 8

// cluster is the one that histories are made on.
var cluster = workload.Uniform(8, 8)

// jobs is a workload that keeps cluster busy, of three tenants.
func jobs(t testing.TB) *workload.Workload {
	t.Helper()
	w, err := synth.Generate(t.Context(), synth.Options{Days: days, Load: .8, Cluster: workload.Uniform(4, 8),
		MaxDuration: 12 * time.Hour, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(w.Jobs())
	for i := range all {
		if all[i].Tenant = string("aaabbbbccc"[i%10]); all[i].GPUs.Whole() > 8 {
			all[i].Tenant = "c"
		}
	}
	return workload.NewSorted("jobs", w.Zero(), all, true)
}

// recorded is the history that a cluster and a scheduler make of a workload.
func recorded(t testing.TB, w *workload.Workload, c workload.Cluster, s *schedulers.Scheduler, config space.Config,
	o simulator.Options) *workload.Workload {
	t.Helper()
	var sim simulator.Sim
	if err := sim.Start(c, w, s.New(config), o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(w.Jobs())
	for _, x := range sim.Outcomes(nil) {
		j := &all[x.ID]
		j.Wait, j.HasWait = x.Start-x.Submit, true
		j.Duration = x.Attained / time.Duration(x.GPUs)
	}
	return workload.NewSorted("history", w.Zero(), all, true)
}

// input simulates a history on the cluster under a scheduler that is said to have run it.
func input(h *workload.Workload, s *schedulers.Scheduler, c space.Config) fidelity.Input {
	from, to := h.Span()
	return fidelity.Input{Trace: h, From: from, To: to + 1, Cluster: cluster, Scheduler: s, Config: c, Recorded: s.Name}
}

func full(t testing.TB, in fidelity.Input) *fidelity.Report {
	t.Helper()
	r, err := fidelity.Full(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", r.Grade, r.Why)
	for _, c := range r.Causes {
		t.Logf("%s: %s (%s)", c.Name, c.Evidence, c.Do)
	}
	for i := range r.Orders {
		t.Logf("order %s: %.3f", r.Orders[i].Name(), r.Orders[i].Delay.Factor)
	}
	if r.Calibration != nil {
		c := r.Calibration
		t.Logf("calibration %v %d: %.3f -> %.3f, %s", c.Changed, c.Nodes, c.Before.Factor, c.After.Factor, c.Grade)
	}
	if r.Outages != nil {
		t.Logf("outages: %d hours, %d nodes, factor %.2f", r.Outages.Hours, r.Outages.Least, r.Outages.Delay.Factor)
	}
	return r
}

// causes are the names of the causes of the difference.
func causes(r *fidelity.Report) string {
	var names []string
	for _, c := range r.Causes {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// TestExact: a simulation equal to the record has no error, and nothing to explain or
// calibrate.
func TestExact(t *testing.T) {
	s, c := fifo(t, "true")
	r := full(t, input(recorded(t, jobs(t), cluster, s, c, simulator.Options{}), s, c))
	d := r.Delay
	if r.Grade != fidelity.Describes || r.Refused || d.P5 != 0 || d.P95 != 0 || d.KS != 0 || d.Rank != 1 ||
		d.Factor != 1 {
		t.Errorf("%s: %s: %+v", r.Grade, r.Why, d)
	}
	if d.Delayed < 100 || r.Compared < 1000 || r.WarmUp == 0 || r.Unrecorded != 0 || r.JCT.Factor != 1 {
		t.Errorf("%d of %d jobs are delayed, %d in the warm-up: %+v", d.Delayed, r.Compared, r.WarmUp, r.JCT)
	}
	if len(r.Causes) > 0 || !r.Orders[0].Simulated || r.Calibration.Changed || r.Refusal("--x") != nil {
		t.Errorf("causes %v, order %+v, calibration %v", r.Causes, r.Orders[0], r.Calibration)
	}
	var by []string
	for _, g := range r.Groups {
		by = append(by, g.By)
	}
	if by = slices.Compact(by); strings.Join(by, " ") != "GPUs tenant hour" {
		t.Errorf("groups by %v", by)
	}
}

// TestPlantedCause makes histories that differ from the simulation in one respect, which
// the report names.
func TestPlantedCause(t *testing.T) {
	testshared.Full(t)
	backfill, with := fifo(t, "true")
	_, without := fifo(t, "false")
	sjf, shortest := scheduler(t, "sjf", "backfill=true")
	w := jobs(t)
	ran := func(c workload.Cluster, s *schedulers.Scheduler, config space.Config,
		o simulator.Options) *workload.Workload {
		return recorded(t, w, c, s, config, o)
	}
	var drained []workload.NodeEvent
	for n := range 5 {
		drained = append(drained, workload.NodeEvent{At: 3 * 24 * time.Hour, Node: n, Kind: workload.NodeDrained})
	}
	for n := range 5 {
		drained = append(drained, workload.NodeEvent{At: 5 * 24 * time.Hour, Node: n, Kind: workload.NodeUp})
	}
	// Tenant a is held to one node, and the others have seven.
	var a, bc []workload.Job
	for _, j := range w.Jobs() {
		if j.Tenant == "a" {
			a = append(a, j)
		} else {
			bc = append(bc, j)
		}
	}
	part := func(jobs []workload.Job, nodes int) []workload.Job {
		w := workload.NewSorted("part", w.Zero(), jobs, true)
		return recorded(t, w, workload.Uniform(nodes, 8), backfill, with, simulator.Options{}).Jobs()
	}
	limited, err := workload.New("history", w.Zero(), append(part(a, 1), part(bc, 7)...))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		history *workload.Workload
		grade   fidelity.Grade
		causes  string
		says    string // in the evidence of the first
	}{
		"fewer nodes": {ran(workload.Uniform(5, 8), backfill, with, simulator.Options{}), fidelity.Not,
			fidelity.LessCapacity, "40 of its 64 GPUs"},
		"more nodes": {ran(workload.Uniform(16, 8), backfill, with, simulator.Options{}), fidelity.Not,
			fidelity.MoreCapacity, "the cluster's 64"},
		"drained for two days": {ran(cluster, backfill, with, simulator.Options{Nodes: drained}), fidelity.Roughly,
			fidelity.LessCapacity, "2017-10-12, 2017-10-13"},
		"a limit": {limited, fidelity.Not,
			fidelity.Limit, "tenant a"},
		"shortest first": {ran(cluster, sjf, shortest, simulator.Options{}), fidelity.Not,
			fidelity.OtherScheduler + ", " + fidelity.OtherOrder, "sjf with backfill"},
		"blocking": {ran(cluster, backfill, without, simulator.Options{}), fidelity.Roughly,
			fidelity.OtherScheduler, "fifo without backfill"},
	} {
		t.Run(name, func(t *testing.T) {
			r := full(t, input(c.history, backfill, with))
			if causes(r) != c.causes || !strings.Contains(r.Causes[0].Evidence, c.says) {
				t.Errorf("causes %s, want %s", causes(r), c.causes)
			}
			if name == "drained for two days" && (r.Outages == nil || r.Outages.Hours < 24 || r.Outages.Least > 4 ||
				r.Outages.Delay.Factor > 1.4 || r.Delay.Factor < 1.8) {
				t.Errorf("outages %+v", r.Outages)
			}
			if nodes := map[string]int{"fewer nodes": 5, "more nodes": 16}[name]; nodes > 0 &&
				(r.Calibration.Nodes != nodes || r.Calibration.After.Factor != 1 || r.Calibration.Before.Factor < 2) {
				t.Errorf("calibration %+v", r.Calibration)
			}
			if r.Grade != c.grade || r.Refused != (r.Refusal("--x") != nil) || r.Refused != (r.Grade == fidelity.Not) {
				t.Errorf("%s, want %s; refused %v", r.Grade, c.grade, r.Refused)
			}
		})
	}
}

// TestPreempted: the delay of a preemptive scheduler is that until the first start, and jobs that
// were preempted are not taken to need more GPUs.
func TestPreempted(t *testing.T) {
	s, c := scheduler(t, "tiresias")
	w := jobs(t)
	h := recorded(t, w, cluster, s, c, simulator.Options{})
	all := slices.Clone(h.Jobs())
	for i := range all {
		all[i].Duration = w.Jobs()[i].Duration
	}
	r := full(t, input(workload.NewSorted("history", w.Zero(), all, true), s, c))
	if r.Grade != fidelity.Describes || r.Delay.Factor != 1 || r.Queue <= r.Delay.Simulated || len(r.Causes) > 0 ||
		r.PeakGPUs <= 64 {
		t.Errorf("%s: %s: %v", r.Grade, r.Why, r.Causes)
	}
}

// TestGrades: knowledge of the scheduler that ran the history, and of the delays.
func TestGrades(t *testing.T) {
	s, c := fifo(t, "true")
	tiresias, ladder := scheduler(t, "tiresias")
	h := recorded(t, jobs(t), cluster, s, c, simulator.Options{})
	unknown := input(h, s, c)
	unknown.Recorded = ""
	if r := full(t, unknown); r.Grade != fidelity.Incomparable || r.Refused || r.Calibration != nil ||
		!strings.Contains(r.Why, "it is not known which scheduler") {
		t.Errorf("%s: %s", r.Grade, r.Why)
	}
	other := input(h, tiresias, ladder)
	other.Recorded = "fifo"
	if r := full(t, other); r.Grade != fidelity.Incomparable || r.Refused || !strings.Contains(r.Why, "is fifo") ||
		r.Orders[0].Name() != "fifo with backfill" {
		t.Errorf("%s: %s", r.Grade, r.Why)
	}
	bare := slices.Clone(h.Jobs())
	for i := range bare {
		bare[i].HasWait = i%100 == 0
		bare[i].Requested = workload.Request{TimeLimit: bare[i].Duration}.Shared()
	}
	few := input(workload.NewSorted("few", h.Zero(), bare, true), s, c)
	if r := full(t, few); r.Grade != fidelity.Incomparable || r.Unrecorded == 0 || r.Delay.Jobs != 0 ||
		!strings.Contains(r.Why, "jobs can be compared, and a grade takes 30") {
		t.Errorf("%s: %s", r.Grade, r.Why)
	}
	for i := range bare {
		bare[i].HasWait = false
	}
	none := input(workload.NewSorted("none", h.Zero(), bare, true), s, c)
	if r := full(t, none); r.Grade != fidelity.Incomparable || r.Why != fidelity.NoDelays {
		t.Errorf("%s: %s", r.Grade, r.Why)
	}
	for i := range bare {
		bare[i].HasWait = i%3 > 0
	}
	most := input(workload.NewSorted("most", h.Zero(), bare, true), s, c)
	if r := full(t, most); r.Grade != fidelity.Describes || causes(r) != fidelity.TimeLimits ||
		r.Unrecorded+r.WarmUp+r.Compared != r.Jobs || r.Unrecorded != (h.Len()+2)/3 {
		t.Errorf("%s: %s: %+v", r.Grade, r.Why, r.Causes)
	}
	for name, ok := range map[string]bool{"unknown": true, "other": true, "fifo": true, "slurn": false, "": false} {
		if err := fidelity.CheckRecorded(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAtOneInstant: jobs that are all submitted at once have no first half to calibrate on.
func TestAtOneInstant(t *testing.T) {
	s, c := fifo(t, "false")
	var all []workload.Job
	for i := range 60 {
		all = append(all, workload.Job{ID: fmt.Sprint(i), GPUs: workload.GPUs(64), Duration: time.Hour, HasWait: true,
			Wait: time.Duration(i) * time.Hour})
	}
	h := workload.NewSorted("burst", time.Unix(0, 0), all, true)
	if r := full(t, input(h, s, c)); r.Grade != fidelity.Describes || r.Calibration != nil {
		t.Errorf("%s: %s", r.Grade, r.Why)
	}
}

// TestUnended: jobs that had not ended have no JCT to compare.
func TestUnended(t *testing.T) {
	s, c := fifo(t, "true")
	all := slices.Clone(recorded(t, jobs(t), cluster, s, c, simulator.Options{}).Jobs())
	for i := range all {
		all[i].Status = workload.Running
	}
	r := full(t, input(workload.NewSorted("running", time.Unix(0, 0), all, true), s, c))
	if r.Grade != fidelity.Incomparable || r.Compared != 0 || r.Unended != len(all) {
		t.Errorf("%s: %s; %d compared, %d not ended", r.Grade, r.Why, r.Compared, r.Unended)
	}
}

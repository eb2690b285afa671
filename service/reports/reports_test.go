package reports_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// house is a service on a directory, which can be opened again.
type house struct {
	t          *testing.T
	dir        string
	store      stores.Store
	failing    bool // reports are not stored
	schedulers *controller.Service
	*reports.Keeper
}

func (h *house) AppendReports(uid string, all []reports.Report, keep reports.Keep) ([]bool, []reports.Key, error) {
	if h.failing {
		return nil, nil, errors.New("the disk fails")
	}
	return h.store.AppendReports(uid, all, keep)
}

func (h *house) Reports(uid string, after reports.Key, visit func(*reports.Report) bool) (damage, err error) {
	return h.store.Reports(uid, after, visit)
}

func (h *house) open() {
	h.t.Helper()
	var err error
	if h.store, err = stores.Open(h.dir, store.Options{}); err != nil {
		h.t.Fatal(err)
	}
	never := func(context.Context, round.Input) (round.Decision, error) {
		panic("an external scheduler has no rounds")
	}
	if h.schedulers, err = controller.NewService(controller.Options{Store: h.store, Decide: never}); err != nil {
		h.t.Fatal(err)
	}
	go func() { _ = h.schedulers.Run(context.Background(), controller.Hooks{}) }()
	h.Keeper = reports.New(reports.Options{Store: h, Schedulers: h.schedulers})
}

func (h *house) close() {
	h.Keeper.Close()
	h.schedulers.Close()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// newHouse has an external scheduler s.
func newHouse(t *testing.T, mode controller.Mode) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	h.open()
	t.Cleanup(func() { h.close() })
	reg := controller.Registration{ID: "s", Type: controller.External, Objective: "wait", Mode: mode,
		Cluster: workload.Uniform(1, 8), Policy: controller.DefaultPolicy(), Params: []space.Param{
			{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.9)}}}
	if _, err := h.schedulers.Register(t.Context(), controller.Call{}, reg); err != nil {
		t.Fatal(err)
	}
	h.apply(1)
	return h
}

func (h *house) apply(revision int64) {
	h.t.Helper()
	if _, _, err := h.schedulers.Acknowledge(h.t.Context(), controller.Call{}, "s", revision,
		rollout.Ack{State: rollout.AckApplied}); err != nil {
		h.t.Fatal(err)
	}
}

// adopt has a study's configuration proposed, approved and applied, and returns its revision.
func (h *house) adopt(x float64, maximize bool) int64 {
	h.t.Helper()
	sp, err := h.schedulers.Space("s")
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := h.schedulers.Propose(h.t.Context(), controller.Call{}, "s", sp.Default().With("x", space.Num(x)),
		"found", rollout.Evidence{
			Trial: "schedulers/s/studies/first/trials/1", Metric: "wait", Maximize: maximize})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.schedulers.Approve(h.t.Context(), controller.Call{}, "s", rollout.Approve{Revision: c.Revision},
		nil); err != nil {
		h.t.Fatal(err)
	}
	h.apply(c.Revision)
	return c.Revision
}

// report sends a report of wait every five minutes from a time on, and returns the time after the last.
func (h *house) report(revision int64, from time.Time, n int, value func(i int) float64) time.Time {
	h.t.Helper()
	var all []reports.Report
	for i := range n {
		all = append(all, reports.Report{Key: reports.Key{Time: from.Add(time.Duration(i) * reports.Interval)},
			Revision: revision, Metrics: map[string]float64{"wait": value(i)}})
	}
	got, err := h.Append(h.t.Context(), controller.Call{}, "s", all)
	if err != nil || slices.ContainsFunc(got, func(o reports.Outcome) bool { return o != reports.Stored }) {
		h.t.Fatal(got, err)
	}
	return from.Add(time.Duration(n) * reports.Interval)
}

func (h *house) must(want reports.Outcome, one reports.Report) {
	h.t.Helper()
	got, err := h.Append(h.t.Context(), controller.Call{}, "s", []reports.Report{one})
	if err != nil || got[0] != want {
		h.t.Fatalf("%+v: %v %v, want %v", one, got, err, want)
	}
}

func (h *house) list() (out []reports.Report) {
	h.t.Helper()
	err := h.List("s", reports.Key{}, func(r *reports.Report) bool { out = append(out, *r); return true })
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *house) offered() *rollout.Configuration {
	h.t.Helper()
	c, err := h.schedulers.Current("s", "")
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *house) modify(f func(c *controller.Scheduler)) {
	h.t.Helper()
	_, err := h.schedulers.Modify(h.t.Context(), controller.Call{}, "s",
		func(c *controller.Scheduler) error { f(c); return nil })
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) watching() string {
	h.t.Helper()
	_, st, err := h.schedulers.Scheduler("s")
	if err != nil {
		h.t.Fatal(err)
	}
	return st.Watching
}

// Reports count once, are there after a restart, and give the same means then.
func TestReports(t *testing.T) {
	h := newHouse(t, controller.Recommend)
	at := func(minutes int, instance string) reports.Key {
		return reports.Key{Time: noon.Add(time.Duration(minutes) * time.Minute), Instance: instance}
	}
	h.must(reports.Stored, reports.Report{Key: at(0, "a"), Revision: 1, Metrics: map[string]float64{"wait": 10}})
	h.must(reports.Stored, reports.Report{Key: at(0, "b"), Revision: 1,
		Metrics: map[string]float64{"wait": 20, "jobs": 3}})
	h.must(reports.Duplicate, reports.Report{Key: at(0, "b"), Revision: 1, Metrics: map[string]float64{"wait": 99}})
	h.must(reports.Stored, reports.Report{Key: at(7, "a"), Revision: 1, Metrics: map[string]float64{"wait": 45}})
	got, err := h.Append(t.Context(), controller.Call{}, "s", []reports.Report{
		{Key: at(8, "a"), Revision: 1, Metrics: map[string]float64{"wait": 45}},
		{Key: at(8, "a"), Revision: 1, Metrics: map[string]float64{"wait": 46}},
		{Key: at(-8*24*60, "a"), Revision: 1, Metrics: map[string]float64{"wait": 1}}})
	want := []reports.Outcome{reports.Stored, reports.Duplicate, reports.Late}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	means := func() []reports.Summary {
		t.Helper()
		all, err := h.Summaries("s")
		if err != nil || len(all) != 2 || all[0].Metric != "jobs" || all[1].Mean != 30 || all[1].Intervals != 2 ||
			all[1].Reports != 4 || all[1].Latest != 45 || !all[1].To.Equal(noon.Add(10*time.Minute)) {
			t.Fatalf("%+v %v", all, err)
		}
		return all
	}
	before := fmt.Sprintf("%+v", means())
	kept := h.list()
	h.close()
	h.open()
	if after := fmt.Sprintf("%+v", means()); after != before {
		t.Errorf("after a restart\n%s, before\n%s", after, before)
	}
	if again := h.list(); len(kept) != 4 || !reflect.DeepEqual(again, kept) {
		t.Errorf("after a restart %+v, before %+v", again, kept)
	}
	h.failing = true
	if _, err := h.Append(t.Context(), controller.Call{}, "s", []reports.Report{{Key: at(9, ""), Revision: 1,
		Metrics: map[string]float64{"wait": 1}}}); err == nil {
		t.Error("what is not stored is acknowledged")
	}
	h.failing = false
	means()
	if _, err := h.Append(t.Context(), controller.Call{}, "none", nil); !errors.Is(err, controller.ErrNotFound) {
		t.Error(err)
	}
}

// Old reports and reports beyond the most are dropped by whole intervals, so that a restart finds the same means.
func TestRetention(t *testing.T) {
	h := newHouse(t, controller.Recommend)
	r := rand.New(rand.NewPCG(1, 2))
	at := noon
	for range 40 {
		var all []reports.Report
		for range 1500 {
			at = at.Add(time.Duration(r.IntN(18_000)) * time.Millisecond)
			all = append(all, reports.Report{Key: reports.Key{Time: at}, Revision: 1,
				Metrics: map[string]float64{"wait": r.Float64()}})
		}
		if _, err := h.Append(t.Context(), controller.Call{}, "s", all); err != nil {
			t.Fatal(err)
		}
	}
	all, err := h.Summaries("s")
	if n := len(h.list()); err != nil || n > reports.MaxReports || n < reports.MaxReports-200 || all[0].Reports != n {
		t.Errorf("%d reports are kept, %+v %v", n, all, err)
	}
	h.must(reports.Stored, reports.Report{Key: reports.Key{Time: at.Add(reports.Retention - time.Hour)}, Revision: 1,
		Metrics: map[string]float64{"wait": 1}})
	kept := h.list()
	if from := kept[0].Time; from.Before(at.Add(-time.Hour-reports.Interval)) || len(kept) < 100 {
		t.Errorf("%d reports from %v are kept, the last but one is of %v", len(kept), from, at)
	}
	before, err := h.Summaries("s")
	if err != nil {
		t.Fatal(err)
	}
	h.close()
	h.open()
	if after, err := h.Summaries("s"); err != nil || after[0].Reports != before[0].Reports ||
		after[0].Intervals != before[0].Intervals || !after[0].From.Equal(before[0].From) {
		t.Errorf("after a restart %+v, before %+v: %v", after, before, err)
	}
}

func TestMaxMetrics(t *testing.T) {
	h := newHouse(t, controller.Recommend)
	one := func(minute int, names ...int) reports.Report {
		r := reports.Report{Key: reports.Key{Time: noon.Add(time.Duration(minute) * time.Minute)}, Revision: 1,
			Metrics: map[string]float64{}}
		for _, n := range names {
			r.Metrics[fmt.Sprint("m", n)] = 1
		}
		return r
	}
	for n := range reports.MaxMetrics {
		h.must(reports.Stored, one(n, n))
	}
	h.must(reports.TooMany, one(100, 0, 99))
	h.must(reports.Stored, one(100, 0, 1))
	h.must(reports.Stored, one(8*24*60, 99)) // earlier ones are dropped
}

// A revision that does worse in the metric it was tuned for is gone back from in mode AUTO and proposed to be in mode
// RECOMMEND, and its values are parked; one that does as well stays. A restart in between changes nothing.
func TestTakenBack(t *testing.T) {
	for _, test := range []struct {
		name     string
		mode     controller.Mode
		maximize bool
		ratio    float64
		state    rollout.RevisionState // of the revision that comes back; "" for none
	}{
		{"worse", controller.Auto, false, 1.5, rollout.Published},
		{"worse, maximized", controller.Auto, true, .6, rollout.Published},
		{"worse, recommended", controller.Recommend, false, 1.5, rollout.Proposed},
		{"better, maximized", controller.Auto, true, 1.5, ""},
		{"the same", controller.Auto, false, 1, ""},
		{"better", controller.Auto, false, .5, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHouse(t, test.mode)
			r := rand.New(rand.NewPCG(5, 6))
			value := func(mean float64) func(int) float64 {
				return func(int) float64 { return mean * (1 + .1*r.NormFloat64()) }
			}
			at := h.report(1, noon, 40, value(100))
			worse := h.adopt(.2, test.maximize)
			if got := h.watching(); !strings.Contains(got, "24 intervals") {
				t.Errorf("watching %q", got)
			}
			at = h.report(worse, at, 20, value(100*test.ratio))
			if c := h.offered(); c.Revision != worse {
				t.Fatalf("revision %d is offered after 20 intervals", c.Revision)
			}
			h.close()
			h.open()
			at = h.report(worse, at, 5, value(100*test.ratio))
			all, err := h.schedulers.Configurations("s", 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			back := all[0]
			if test.state == "" {
				if got := h.watching(); back.Revision != worse || h.offered().Revision != worse ||
					!strings.Contains(got, "not worse") {
					t.Fatalf("revision %d, %q", back.Revision, h.watching())
				}
				h.report(worse, at, 280, value(100*test.ratio))
				got := h.watching()
				if h.offered().Revision != worse || !strings.Contains(got, "Not watched any more") {
					t.Errorf("%q", got)
				}
				return
			}
			if back.State != test.state || back.Origin != rollout.FromJudge || back.Incident == nil ||
				back.Incident.Revision != worse || back.Incident.Good != 1 || back.Incident.Verdict.Ratio < 1.3 ||
				back.Config.Get("x").Float() != .9 {
				t.Fatalf("%+v %+v", back, back.Incident)
			}
			offered := back.Revision
			if test.state == rollout.Proposed {
				offered = worse
			}
			if got := h.offered(); got.Revision != offered {
				t.Errorf("revision %d is offered, want %d", got.Revision, offered)
			}
			h.close()
			h.open()
			parked, err := h.schedulers.Parked("s")
			if err != nil || len(parked) != 1 || parked[0].Revision != worse || parked[0].Actor != rollout.Judge {
				t.Errorf("parked %+v %v", parked, err)
			}
			h.report(worse, at, 30, value(1000*test.ratio)) // nothing follows from more of it
			if again, err := h.schedulers.Configurations("s", 0, 10); err != nil || len(again) != len(all) {
				t.Errorf("%d revisions, want %d: %v", len(again), len(all), err)
			}
		})
	}
}

// A freeze keeps a worse revision in force, and the way back is proposed; while tuning is paused nothing is looked at.
func TestNotTakenBack(t *testing.T) {
	h := newHouse(t, controller.Auto)
	constant := func(v float64) func(int) float64 { return func(i int) float64 { return v + float64(i%3) } }
	at := h.report(1, noon, 30, constant(100))
	worse := h.adopt(.2, false)
	h.modify(func(c *controller.Scheduler) { c.Paused = true })
	at = h.report(worse, at, 30, constant(200))
	if h.offered().Revision != worse {
		t.Fatal("it was looked at while tuning is paused")
	}
	h.modify(func(c *controller.Scheduler) { c.Paused, c.Freeze = false, &rollout.Freeze{Reason: "audit"} })
	h.report(worse, at, 1, constant(200))
	all, err := h.schedulers.Configurations("s", 0, 1)
	if err != nil || h.offered().Revision != worse || all[0].State != rollout.Proposed || all[0].Incident == nil {
		t.Errorf("%+v %v", all[0], err)
	}
}

// TestFreezeExpires: the time of reports is that of a scheduler that sends no events, so that a freeze expires by it.
func TestFreezeExpires(t *testing.T) {
	h := newHouse(t, controller.Auto)
	h.modify(func(c *controller.Scheduler) {
		c.Freeze = &rollout.Freeze{Reason: "audit", Until: noon.Add(time.Hour)}
	})
	hold := func() string {
		_, st, err := h.schedulers.Scheduler("s")
		if err != nil {
			t.Fatal(err)
		}
		return st.Hold
	}
	h.report(1, noon, 2, func(int) float64 { return 1 })
	if text := hold(); !strings.Contains(text, "audit") {
		t.Errorf("it is held by %q before the freeze expires", text)
	}
	h.report(1, noon.Add(time.Hour), 1, func(int) float64 { return 1 })
	if text := hold(); text != "" {
		t.Errorf("it is held by %q after the freeze expired", text)
	}
}

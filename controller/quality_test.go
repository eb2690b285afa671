package controller_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// recordedDays are jobs that start at once, more at midnight than at noon.
func recordedDays(t *testing.T, days int) *workload.Workload {
	r := rand.New(rand.NewPCG(1, 2))
	var jobs []workload.Job
	for at := time.Duration(0); at < time.Duration(days)*24*time.Hour; {
		hour := float64(at%(24*time.Hour)) / float64(time.Hour)
		at += time.Duration((1.2 + math.Cos(hour/24*2*math.Pi)) * 10 * r.ExpFloat64() * float64(time.Minute))
		jobs = append(jobs, workload.Job{ID: fmt.Sprintf("j%05d", len(jobs)), Tenant: fmt.Sprint("t", r.IntN(3)),
			GPUs: workload.GPUs(1 + r.IntN(2)), Submit: at, HasWait: true,
			Duration: time.Duration(20+r.IntN(60)) * time.Minute, Status: workload.Completed})
	}
	w, err := workload.New("recorded", origin, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// replayed is a service that received the events of a workload until an instant.
func replayed(t *testing.T, w *workload.Workload, until time.Duration, tariff func() *energy.Tariff) *harness {
	h := &harness{t: t, dir: t.TempDir(), energy: tariff,
		decide: func(_ context.Context, in round.Input) (round.Decision, error) {
			return round.Decision{Config: in.Incumbent}, nil
		}}
	h.open()
	t.Cleanup(h.close)
	h.register("prod", controller.Recommend)
	var events []workload.Event
	for i := range w.Jobs() {
		j := w.Jobs()[i]
		add := func(kind workload.EventKind, at time.Duration, edit func(*workload.Event)) {
			e := workload.Event{ID: fmt.Sprint(j.ID, kind), Kind: kind, Time: time.Duration(origin.UnixNano()) + at,
				Job: workload.Job{ID: j.ID}}
			edit(&e)
			if at < until {
				events = append(events, e)
			}
		}
		add(workload.Submitted, j.Submit, func(e *workload.Event) {
			e.Job.Tenant, e.Job.GPUs = j.Tenant, j.GPUs
		})
		add(workload.Started, j.Submit, func(*workload.Event) {})
		add(workload.Finished, j.Submit+j.Duration, func(e *workload.Event) { e.Job.Status = j.Status })
	}
	slices.SortStableFunc(events, func(a, b workload.Event) int { return int(a.Time - b.Time) })
	for some := range slices.Chunk(events, 500) {
		if _, err := h.service.Ingest(t.Context(), controller.Call{}, "prod", some); err != nil {
			t.Fatal(err)
		}
	}
	h.idle("prod")
	return h
}

// idle waits until the ledger of a scheduler has its events.
func (h *harness) idle(id string) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !h.service.Idle(id); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("the rounds do not end")
		}
	}
}

// Grades are those of 'forecast eval' on the same jobs, and know nothing after an hour that it did not know then.
func TestForecastQuality(t *testing.T) {
	testshared.Full(t)
	w := recordedDays(t, 8)
	end := 8*24*time.Hour - 30*time.Minute
	from, to := 5*24*time.Hour, 7*24*time.Hour
	tariff := &energy.Tariff{Assumptions: energy.Default()}
	h := replayed(t, w, end, func() *energy.Tariff { return tariff })
	got, err := h.service.ForecastQuality(t.Context(), "prod", origin.Add(from), origin.Add(to))
	if err != nil || got.Grades == nil {
		t.Fatal(got.Reason, err)
	}
	past, err := arrivals.FromJobs(origin, w.Jobs(), to, arrivals.Grid{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := arrivals.New(arrivals.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := arrivals.Evaluate(t.Context(), past, f, arrivals.Rolling{From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	if g := got.Jobs; g.WAPE != want.WAPE || g.Coverage80 != want.Coverage80 || g.Forecasts != 48 ||
		g.Came != want.Came {
		t.Errorf("%+v, and forecast eval has %+v", g, want)
	}
	came := 0
	for _, hour := range got.Hours {
		came += hour.Came
		if hour.Open > 0 || hour.GPUHours.Low > hour.GPUHours.High || hour.Jobs.Low > hour.Jobs.High {
			t.Errorf("%+v", hour)
		}
	}
	if float64(came) != want.Came || got.GPUHours == nil || got.GPUHours.WAPE <= 0 || got.GPUHours.WAPE > 1 {
		t.Errorf("%d jobs came of %g; GPU-hours %+v", came, want.Came, got.GPUHours)
	}
	if d := got.Durations; d.Asked != came || d.Open != 0 || d.Drawn.N != came || d.Drawn.Coverage < .5 ||
		d.Drawn.MedianError <= 0 || d.Drawn.MedianError > 1 || d.Accuracy <= 0 {
		t.Errorf("%+v", d)
	}
	// A service that ends there says the same of hours whose jobs had all ended.
	shorter := replayed(t, w, to, nil)
	var downs []workload.Event // nodes of now say nothing of past hours
	for _, node := range []string{"0", "1", "2", "3"} {
		downs = append(downs, workload.Event{ID: "down" + node, Kind: workload.NodeDown, Node: node, NodeGPUs: 8,
			Time: time.Duration(origin.UnixNano()) + to})
	}
	if _, err := shorter.service.Ingest(t.Context(), controller.Call{}, "prod", downs); err != nil {
		t.Fatal(err)
	}
	shorter.idle("prod")
	early, err := shorter.service.ForecastQuality(t.Context(), "prod", origin.Add(from), origin.Add(to))
	if err != nil || early.Grades == nil {
		t.Fatal(early.Reason, err)
	}
	for i := range early.Hours {
		a, b := early.Hours[i], got.Hours[i]
		if a.Jobs != b.Jobs || a.GPUHours != b.GPUHours || a.Came != b.Came || a.Open == 0 && a != b {
			t.Errorf("hour %d: %+v, and later %+v", i, a, b)
		}
	}
	if last := early.Hours[len(early.Hours)-1]; last.Open == 0 || last.CameGPUHours >= got.Hours[47].CameGPUHours {
		t.Errorf("the jobs of the last hour have all ended: %+v", last)
	}
	kept := func() [2]any {
		q, err := h.service.ForecastQuality(t.Context(), "prod", time.Time{}, time.Time{})
		if err != nil || q.Grades == nil {
			t.Fatal(q.Reason, err)
		}
		e, err := h.service.Energy(t.Context(), "prod", controller.EnergyQuery{})
		if err != nil || e.Report == nil {
			t.Fatal(e.Reason, err)
		}
		return [2]any{q.Grades, e.Report}
	}
	before := kept()
	_, err = h.service.Ingest(t.Context(), controller.Call{}, "prod", []workload.Event{{ID: "later",
		Kind: workload.NodeDown, Time: time.Duration(origin.UnixNano()) + end + time.Minute, Node: "3", NodeGPUs: 8}})
	if err != nil {
		t.Fatal(err)
	}
	h.idle("prod")
	if kept() != before {
		t.Error("an event of the same hour grades the week, and accounts for it, again")
	}
	if got, err = h.service.ForecastQuality(t.Context(), "prod", origin.Add(from), origin.Add(to)); err != nil {
		t.Fatal(err)
	}
	again, err := h.service.ForecastQuality(t.Context(), "prod", origin.Add(from), origin.Add(to))
	if err != nil || again.Grades != got.Grades {
		t.Error("grades are not kept", err)
	}
	if _, err := h.service.ForecastQuality(t.Context(), "prod", origin.Add(-15*24*time.Hour), time.Time{}); err == nil {
		t.Error("23 days are graded")
	}
	none, err := h.service.ForecastQuality(t.Context(), "prod", origin, origin.Add(24*time.Hour))
	if err != nil || none.Reason != generation.ErrShortHistory.Error() {
		t.Errorf("the first day: %q, %v", none.Reason, err)
	}
}

// Hours whose forecasts know less than 28 days of arrivals are marked, with whether rounds knew more.
func TestLimitedGrades(t *testing.T) {
	const day = 24 * time.Hour
	services := map[int]*harness{}
	for _, days := range []int{30, 40} {
		services[days] = replayed(t, recordedDays(t, days), time.Duration(days)*day, nil)
	}
	for _, tt := range []struct {
		days int
		at   time.Duration
		want string
	}{
		{40, 35 * day, "rounds knew 28 days of them"},
		{40, 39 * day, ""},
		{30, 5 * day, "rounds knew no more"},
		{30, 29 * day, ""},
	} {
		h := services[tt.days]
		from := origin.Add(tt.at)
		got, err := h.service.ForecastQuality(t.Context(), "prod", from, from.Add(2*time.Hour))
		if err != nil || got.Grades == nil || (got.Limited == "") != (tt.want == "") ||
			!strings.HasSuffix(got.Limited, tt.want) {
			t.Errorf("%d days, %v: %q, %q, %v", tt.days, tt.at, got.Reason, got.Limited, err)
		}
	}
}

// An account is that of the energy report on the same jobs.
func TestEnergy(t *testing.T) {
	w := recordedDays(t, 3)
	tariff := &energy.Tariff{Assumptions: energy.Default()}
	h := replayed(t, w, 4*24*time.Hour, func() *energy.Tariff { return tariff })
	from, to := 24*time.Hour, 60*time.Hour
	query := controller.EnergyQuery{From: origin.Add(from), To: origin.Add(to)}
	query.Measure = func(context.Context, time.Time, time.Time, *energy.GPUMeter) error { return nil }
	got, err := h.service.Energy(t.Context(), "prod", query)
	if err != nil || got.Report == nil {
		t.Fatal(got.Reason, err)
	}
	in := energy.Input{Cluster: workload.Uniform(4, 8), Zero: origin, From: from, To: to}
	jobs, spells, err := energy.Recorded(w)
	if err != nil {
		t.Fatal(err)
	}
	in.Jobs = jobs
	for _, s := range spells {
		if s.From, s.To = max(s.From, from), min(s.To, to); s.To > s.From {
			in.Spells = append(in.Spells, s)
		}
	}
	want, err := tariff.Account(&in)
	if err != nil {
		t.Fatal(err)
	}
	close := func(name string, a, b float64) {
		if a <= 0 || math.Abs(a-b) > 1e-9*b {
			t.Errorf("%s is %g, and of the trace %g", name, a, b)
		}
	}
	close("energy", got.Cluster.Energy.Middle, want.Cluster.Energy.Middle)
	close("energy of jobs", got.Jobs.Energy.High, want.Jobs.Energy.High)
	close("energy of idle nodes", got.Idle.Energy.Low, want.Idle.Energy.Low)
	close("cost", got.Cluster.Cost.Middle, want.Cluster.Cost.Middle)
	close("CO2", got.Cluster.CO2.Middle, want.Cluster.CO2.Middle)
	close("GPU-hours", got.GPUHours, want.GPUHours)
	close("capacity", got.Capacity, want.Capacity)
	if len(got.Hourly) != 36 || len(got.Tenants) != 3 || got.MeasuredGPUHours != 0 || got.GPUModel == "" {
		t.Errorf("%d hours, tenants %v, %g measured GPU-hours of %q", len(got.Hourly), got.Tenants,
			got.MeasuredGPUHours, got.GPUModel)
	}

	// Nodes that are down draw nothing.
	down := func(at time.Duration, id string, kind workload.EventKind) {
		_, err := h.service.Ingest(t.Context(), controller.Call{}, "prod", []workload.Event{{ID: id, Kind: kind,
			Time: time.Duration(origin.UnixNano()) + at, Node: "3", NodeGPUs: 8}})
		if err != nil {
			t.Fatal(err)
		}
	}
	last := 3*24*time.Hour + 2*time.Hour
	down(last, "down", workload.NodeDown)
	down(last+3*time.Hour, "up", workload.NodeUp)
	down(last+6*time.Hour, "down again", workload.NodeDown)
	h.idle("prod")
	query.From, query.To = origin.Add(last-time.Hour), origin.Add(last+5*time.Hour)
	if got, err = h.service.Energy(t.Context(), "prod", query); err != nil || got.Report == nil {
		t.Fatal(got.Reason, err)
	}
	close("capacity", got.Capacity, 6*32-3*8)

	h.energy = nil
	h.close()
	h.open()
	if got, err = h.service.Energy(t.Context(), "prod", query); err != nil ||
		!strings.Contains(got.Reason, "no power model") {
		t.Error(got.Reason, err)
	}
}

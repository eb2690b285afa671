package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// The real Philly trace. The expected values were computed elsewhere, by other
// code: traces/profiles/philly.json and section 1 of the study of the traces.
func TestDescribePhilly(t *testing.T) {
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"),
		trace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	window := func(from, to string) *workload.Workload {
		a, err := trace.ParseInstant(w, from)
		if err != nil {
			t.Fatal(err)
		}
		b, err := trace.ParseInstant(w, to)
		if err != nil {
			t.Fatal(err)
		}
		return w.Window(a, b)
	}
	all, dense, paper := Describe(w, nil), Describe(window("2017-09-25", "2017-11-06T00:00:00Z"), nil),
		Describe(window("2017-09-22", "2017-10-06"), new(workload.Uniform(100, 8)))
	band := func(p Periods, from float64) float64 {
		for _, b := range p.Bands {
			if b.FromH == from {
				return b.Share
			}
		}
		t.Fatalf("no band from %g h in %+v", from, p)
		return 0
	}
	size := func(s Description, gpus float64) Size {
		for _, z := range s.Sizes {
			if z.GPUs == gpus {
				return z
			}
		}
		t.Fatalf("no job of %g GPUs", gpus)
		return Size{}
	}
	tenant := func(name string) Tenant {
		for _, x := range all.Tenants {
			if x.Tenant == name {
				return x
			}
		}
		t.Fatalf("no tenant %s", name)
		return Tenant{}
	}
	for _, c := range []struct {
		what            string
		got, want, most float64
	}{
		{"jobs", float64(dense.Jobs), 54784, 0},
		{"hours", float64(dense.Arrivals.Hours), 1008, 0},
		{"jobs per hour", dense.Arrivals.Mean, 54.349, .001},
		{"CV of jobs per hour", dense.Arrivals.CV, 1.771, .001},
		{"variance over mean per hour", dense.Arrivals.VarOverMean, 170.45, .01},
		{"most jobs per hour", float64(dense.Arrivals.Max), 1031, 0},
		{"empty hours", dense.Arrivals.Empty, .002, .0001},
		{"jobs per 5 min", dense.Arrivals5.Mean, 4.529, .001},
		{"CV per 5 min", dense.Arrivals5.CV, 3.072, .001},
		{"variance over mean per 5 min", dense.Arrivals5.VarOverMean, 42.74, .01},
		{"most jobs per 5 min", float64(dense.Arrivals5.Max), 332, 0},
		{"empty 5 min", dense.Arrivals5.Empty, .307, .0005},
		{"daily periods, hourly", band(dense.Periods[0], 22), .068, .0005},
		{"half-daily periods, hourly", band(dense.Periods[0], 11), .048, .0005},
		{"weekly periods, hourly", band(dense.Periods[0], 144), .02, .001},
		// One bin less than there: nothing is known after the last submission.
		{"daily periods, 5 min", band(dense.Periods[1], 22), .023, .001},
		{"periods below an hour, 5 min", band(dense.Periods[1], 0), .486, .002},
		{"strongest period of the paper's window", paper.Periods[0].Strongest[0].Hours, 22.4, .15},
		{"batches", float64(dense.Batches.Batches), 11720, 0},
		{"batches per hour", dense.Batches.PerHour.Mean, 11.627, .001},
		{"CV of batches per hour", dense.Batches.PerHour.CV, .38, .001},
		{"variance over mean of batches", dense.Batches.PerHour.VarOverMean, 1.68, .006},
		{"most batches per hour", float64(dense.Batches.PerHour.Max), 30, 0},
		{"largest batch", float64(dense.Batches.MaxSize), 1063, 0},
		{"mean batch", dense.Batches.MeanSize, 4.67, .005},
		{"jobs in batches of 2", dense.Batches.JobsIn2, .826, .0005},
		{"jobs in batches of 10", dense.Batches.JobsIn10, .732, .0005},
		{"jobs in batches of 100", dense.Batches.JobsIn100, .501, .0005},
		{"ln duration", all.Recurrence.LnSD, 2.06, .01},
		{"p10 duration", all.Durations.P10, 61, 0},
		{"p50 duration", all.Durations.P50, 1443, 0},
		{"p90 duration", all.Durations.P90, 10723.6, .1},
		{"p99 duration", all.Durations.P99, 284878, .1},
		{"mean duration", all.Durations.Mean, 13970.5, .1},
		{"GPU-hours", all.GPUHours, 691624, 1},
		{"jobs of one GPU", size(all, 1).JobShare, .946, .0006},
		{"their GPU-time", size(all, 1).GPUTimeShare, .18, .005},
		{"jobs of 8 GPUs", size(all, 8).JobShare, .014, .0005},
		{"their GPU-time", size(all, 8).GPUTimeShare, .5, .005},
		{"median of 8 GPUs", size(all, 8).P50S, 104793, 0},
		{"p90 of 4 GPUs", size(all, 4).P90S, 196043.6, .1},
		{"GPU-time of the top 1 %", all.Service.Top1, .71, .0005},
		{"GPU-time of the top 5 %", all.Service.Top5, .942, .0005},
		{"GPU-time of the top 10 %", all.Service.Top10, .965, .0005},
		{"jobs of the largest tenant", tenant("6214e9").JobShare, .5017, .0001},
		{"its GPU-time", tenant("6214e9").GPUTimeShare, .093, .0001},
		{"its median", tenant("6214e9").P50S, 2061, 0},
		// The study spreads the paper's window over all its 14 days, here it ends with
		// its last submission, 13 days after its first.
		{"load of the paper's window", paper.Load.Offered * paper.SpanS / (14 * 86400), .80, .0015},
		{"GPUs in use without queue", paper.Load.MeanInUse * paper.SpanS / (14 * 86400), 506, 11},
	} {
		if !(math.Abs(c.got-c.want) <= c.most) {
			t.Errorf("%s: %g, want %g +- %g", c.what, c.got, c.want, c.most)
		}
	}
	if all.Users != nil || all.Waits != nil || len(all.Statuses) != 1 || all.Statuses[0].Status != "unknown" ||
		all.Models != nil {
		t.Errorf("what the trace does not tell: %+v %+v %+v %+v", all.Users, all.Waits, all.Statuses, all.Models)
	}
}

// A trace that has users, states and delays.
func TestDescribeSacct(t *testing.T) {
	w, r, err := trace.Open(t.Context(), "../trace/testdata/sacct.psv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := workload.Uniform(32, 8)
	s := Describe(w, &c)
	if !(s.Load.Offered > 0 && s.Load.Offered < .02) { // 46 jobs of a minute, submitted within a second
		t.Errorf("load %g", s.Load.Offered)
	}
	if s.Users == nil || s.Users.Users != 1 || s.Users.Top5GPUTime != 1 {
		t.Errorf("users %+v", s.Users)
	}
	if len(s.Statuses) != 2 || s.Statuses[0] != (Status{"completed", 46, 46. / 59, 1}) ||
		s.Statuses[1] != (Status{"pending", 13, 13. / 59, 0}) {
		t.Errorf("statuses %+v", s.Statuses)
	}
	if s.Waits == nil || s.Waits.Known != 46./59 || s.Waits.Max <= 0 || s.Waits.P10 != 0 {
		t.Errorf("waits %+v", s.Waits)
	}
	if r.LeftOut != 0 || r.Pending != 13 {
		t.Errorf("%+v", r)
	}
}

func arrivals(t testing.TB, at []time.Duration) *workload.Workload {
	t.Helper()
	jobs := make([]workload.Job, len(at))
	for i, x := range at {
		jobs[i] = workload.Job{ID: fmt.Sprint(i), Submit: x, Duration: time.Hour, GPUs: workload.GPUs(1)}
	}
	w, err := workload.New("t", time.Date(2020, 6, 1, 0, 0, 0, 0, time.UTC), jobs) // a Monday
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Jobs at nine on working days only, for four weeks.
func TestDescribeProfile(t *testing.T) {
	var at []time.Duration
	for d := range 28 {
		if d%7 < 5 {
			for i := range 10 {
				at = append(at, time.Duration(24*d+9)*time.Hour+time.Duration(i)*time.Minute)
			}
		}
	}
	at = append(at, 28*24*time.Hour-time.Minute) // so that the last Sunday counts
	s := Describe(arrivals(t, at), nil)
	// 663 hours from the first to the last, 201 jobs.
	mean := 201.0 / 663
	testshared.Near(t, "nine o'clock", s.Profile.Hour[9], 200.0/28/mean, 1e-9)
	testshared.Near(t, "ten o'clock", s.Profile.Hour[10], 0, 0)
	testshared.Near(t, "Tuesday", s.Profile.Weekday[1], 40.0/96/mean, 1e-9)
	testshared.Near(t, "Saturday", s.Profile.Weekday[5], 0, 0)
	testshared.Near(t, "Sunday", s.Profile.Weekday[6], 1.0/96/mean, 1e-9)
}

// A daily wave has its variance at 24 h, in the band around it; Poisson arrivals
// have a variance as large as their mean, at all periods alike.
func TestDescribePeriods(t *testing.T) {
	wave := make([]float64, 24*30+5)
	for i := range wave {
		wave[i] = 100 + 50*math.Sin(2*math.Pi*float64(i)/24)
	}
	share := Periodogram(wave, time.Hour)
	if len(share) != 24*30/2+1 || math.Abs(share[30]-1) > 1e-9 {
		t.Errorf("%d shares, %g at a day", len(share), share[30])
	}
	if Periodogram(wave[:47], time.Hour) != nil || Periodogram(make([]float64, 100), time.Hour) != nil {
		t.Error("periods of less than two days, or of nothing")
	}
	r := rand.New(rand.NewPCG(7, 7))
	var at []time.Duration
	for x := 0.0; x < 60*24*3600; x += r.ExpFloat64() * 180 {
		at = append(at, time.Duration(x*float64(time.Second)))
	}
	s := Describe(arrivals(t, at), nil)
	testshared.Near(t, "variance over mean", s.Arrivals.VarOverMean, 1, .15)
	testshared.Near(t, "variance over mean per 5 min", s.Arrivals5.VarOverMean, 1, .15)
	for _, p := range s.Periods {
		sum := 0.0
		for _, b := range p.Bands {
			sum += b.Share
		}
		testshared.Near(t, "sum of bands", sum, 1, 1e-9)
	}
	// Of the frequencies of 5-minute bins, frequencies of periods below an hour are 5 of 6.
	testshared.Near(t, "periods below an hour", s.Periods[1].Bands[0].Share, 5.0/6, .02)
}

// A trace of many years must not take long, whatever its number of days.
func TestDescribeLongSpans(t *testing.T) {
	testshared.Full(t)
	const day = 24 * time.Hour
	for _, days := range []time.Duration{1999, 36_000} { // a prime; nearly a century
		s := Describe(arrivals(t, []time.Duration{0, 5 * day, days * day}), nil)
		if s.Arrivals.Hours != int(days)*24+1 || len(s.Periods) == 0 {
			t.Errorf("%d days: %d hours, %d periods", days, s.Arrivals.Hours, len(s.Periods))
		}
	}
}

// The GPU-time of all jobs is the area below the demand.
func TestDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "jobs")
		jobs := make([]workload.Job, n)
		want := int64(0)
		for i := range jobs {
			jobs[i] = workload.Job{ID: fmt.Sprint(i),
				Submit:   time.Duration(rapid.IntRange(-20, 20).Draw(t, "submit")) * time.Second,
				Duration: time.Duration(rapid.IntRange(1, 30).Draw(t, "duration")) * time.Second,
				GPUs:     workload.MilliGPU(rapid.IntRange(1, 9000).Draw(t, "GPUs"))}
			want += int64(jobs[i].Duration/time.Second) * int64(jobs[i].GPUs)
		}
		w, err := workload.New("t", time.Unix(0, 0), jobs)
		if err != nil {
			t.Fatal(err)
		}
		steps := slices.Collect(Demand(w))
		got := int64(0)
		for i, s := range steps {
			if s.GPUs < 0 || i+1 < len(steps) && steps[i+1].At <= s.At {
				t.Fatalf("%+v", steps)
			}
			if i+1 < len(steps) {
				got += int64((steps[i+1].At-s.At)/time.Second) * int64(s.GPUs)
			}
		}
		if got != want || steps[len(steps)-1].GPUs != 0 {
			t.Fatalf("%d milli-GPU-seconds, want %d: %+v", got, want, steps)
		}
		if l := Describe(w,
			&workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 4},
				{Nodes: 1, GPUsPerNode: 8}}}).Load; l.GPUs != 16 || l.Nodes != 3 || l.GPUsPerNode != 0 ||
			l.MaxInUse < l.MeanInUse || l.Over > 1 {
			t.Fatalf("%+v", l)
		}
	})
}

// A job that had not ended counts in everything but durations.
func TestDescribeRunning(t *testing.T) {
	jobs := []workload.Job{
		{ID: "a", Key: "k", Duration: time.Hour, GPUs: 1000, Status: workload.Completed},
		{ID: "b", Key: "k", Duration: 100 * time.Hour, GPUs: 1000, Status: workload.Running},
	}
	w, err := workload.New("w", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	d := Describe(w, nil)
	if d.Durations.Max != 3600 || d.GPUHours != 101 || d.Sizes[0].Jobs != 2 || d.Sizes[0].P90S != 3600 ||
		d.Recurrence.Seen != .5 || d.Recurrence.LnSD != 0 || len(d.Statuses) != 2 || d.Statuses[1].Status != "running" {
		t.Errorf("%+v", d)
	}
}

func TestDescribeNothing(t *testing.T) {
	w, err := workload.New("none", time.Unix(0, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := Describe(w, nil); s.Jobs != 0 || s.GPUHours != 0 {
		t.Errorf("%+v", s)
	}
}

package synth

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
)

// Published figures of the Philly trace, and figures computed from its public
// part (see phillyProfile). The tolerances cover the sampling error of about
// 2,500 sweeps, which hold most jobs, and the fit of the size classes.
func TestGeneratePhilly(t *testing.T) {
	const days = 400
	w, err := Generate(t.Context(), Options{Days: days, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if !w.Synthetic() || w.Len() != 329798 { // 112,956 jobs in 137 days
		t.Errorf("%d jobs, synthetic %v", w.Len(), w.Synthetic())
	}
	s := stats.Describe(w, nil)
	testshared.Near(t, "median duration", s.Durations.P50, 863, 863*.12) // published 874, figure 853
	testshared.Near(t, "mean duration", s.Durations.Mean, 18006, 18006*.12)
	testshared.Near(t, "mean GPUs", s.MeanGPUs, 1.928, .1)
	testshared.Near(t, "p10 duration", s.Durations.P10, 35.5, 5)
	testshared.Near(t, "p25 duration", s.Durations.P25, 108, 20)

	p := loadProfile("philly")
	for i, x := range p.Duration.XS {
		n := 0
		for _, j := range w.Jobs() {
			if j.Duration.Seconds() <= x {
				n++
			}
		}
		testshared.Near(t, "distribution of durations", float64(n)/float64(w.Len()), p.Duration.CDF[i], .045)
	}
	published := map[float64][2]float64{1: {.8242, .1643}, 2: {.0206, .0297}, 4: {.0757, .1877}, 8: {.0686, .4986},
		16: {.009, .0917}, 32: {.0017, .028}}
	if len(s.Sizes) != len(published) {
		t.Errorf("sizes %+v", s.Sizes)
	}
	for _, z := range s.Sizes {
		want := published[z.GPUs]
		testshared.Near(t, "share of jobs by size", z.JobShare, want[0], .015)
		testshared.Near(t, "share of GPU-time by size", z.GPUTimeShare, want[1], .04)
	}

	testshared.Near(t, "jobs in batches of 2", s.Batches.JobsIn2, .826, .03)
	testshared.Near(t, "jobs in batches of 10", s.Batches.JobsIn10, .732, .03)
	testshared.Near(t, "jobs in batches of 100", s.Batches.JobsIn100, .501, .05)
	testshared.Near(t, "mean batch", s.Batches.MeanSize, 4.67, .4)
	testshared.Near(t, "CV of batches per hour", s.Batches.PerHour.CV, .38, .05)
	testshared.Near(t, "CV of jobs per hour", s.Arrivals.CV, 1.77, .4)
	testshared.Near(t, "ln(duration) within a key", s.Recurrence.KeyLnSD, .30, .02)

	var status [4]float64
	var hours [24]float64
	weekend, batches := 0.0, 0.0
	seen := map[string]time.Duration{}
	for _, j := range w.Jobs() {
		status[j.Status] += 1 / float64(w.Len())
		last, ok := seen[j.Key]
		seen[j.Key] = j.Submit
		if ok && j.Submit-last <= workload.BatchGap {
			continue
		}
		batches++
		at := w.Clock(j.Submit)
		hours[at.Hour()]++
		if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
			weekend++
		}
	}
	testshared.Near(t, "completed", status[workload.Completed], .604, .02)
	testshared.Near(t, "cancelled", status[workload.Cancelled], .09, .02)
	testshared.Near(t, "failed", status[workload.Failed], .305, .02)
	for h := range hours {
		testshared.Near(t, "batches by hour of day", hours[h]*24/batches, p.Hours[h], .07)
	}
	testshared.Near(t, "batches on weekends", weekend/batches, (.87+.739)/7, .015)
}

func TestGenerateIsDeterministic(t *testing.T) {
	for _, name := range Profiles() {
		deterministic(t, name)
	}
}

func deterministic(t *testing.T, profile string) {
	t.Helper()
	o := Options{Profile: profile, Days: 2, Seed: 3}
	a, err := Generate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Generate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Seed = 4
	c, err := Generate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Digest() != b.Digest() || a.Digest() == c.Digest() {
		t.Errorf("digests %s %s %s", a.Digest(), b.Digest(), c.Digest())
	}
}

func TestGenerateKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Profile: rapid.SampledFrom(Profiles()).Draw(t, "profile"),
			Days:    rapid.IntRange(1, 5).Draw(t, "days"), Seed: rapid.Uint64().Draw(t, "seed"),
			Cluster:     workload.Uniform(rapid.IntRange(1, 10).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "gpus")),
			MaxDuration: rapid.SampledFrom([]time.Duration{0, time.Hour, 24 * time.Hour}).Draw(t, "longest"),
		}
		if rapid.Bool().Draw(t, "by load") {
			o.Load = rapid.Float64Range(.1, 2).Draw(t, "load")
		} else {
			o.Jobs = rapid.IntRange(1, 2000).Draw(t, "jobs")
		}
		w, err := Generate(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if o.Jobs > 0 && w.Len() != o.Jobs {
			t.Errorf("%d jobs, want %d", w.Len(), o.Jobs)
		}
		span := time.Duration(o.Days) * 24 * time.Hour
		gpuTime, last := 0.0, 0.0
		tenants := map[string]workload.Job{}
		for _, j := range w.Jobs() {
			if err := j.Validate(); err != nil {
				t.Fatal(err)
			}
			if j.Submit < 0 || j.Submit >= span || j.GPUs.Whole() > o.Cluster.TotalGPUs() ||
				o.MaxDuration > 0 && j.Duration > o.MaxDuration || j.Duration%time.Second != 0 {
				t.Fatalf("job %+v", j)
			}
			if first, ok := tenants[j.Key]; ok &&
				(first.Tenant != j.Tenant || first.User != j.User || first.GPUs != j.GPUs) {
				t.Fatalf("jobs of one key differ: %+v, %+v", first, j)
			}
			tenants[j.Key] = j
			service := j.Duration.Seconds() * float64(j.GPUs) / 1000
			gpuTime += service
			last = max(last, service)
		}
		if o.Load > 0 {
			if want := o.Load * span.Seconds() * float64(o.Cluster.TotalGPUs()); gpuTime < want || gpuTime > want+last {
				t.Errorf("%g GPU-seconds, want %g", gpuTime, want)
			}
		}
	})
}

func TestGenerateRefuses(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{}, "days"},
		{Options{Days: 4000}, "days"},
		{Options{Days: 1, Profile: "moon"}, "known are acme"},
		{Options{Days: 1, Jobs: -1}, "jobs"},
		{Options{Days: 1, Jobs: 1, Load: 1}, "jobs, load"},
		{Options{Days: 1, Load: 1}, "nodes"},
		{Options{Days: 1, Load: -1, Cluster: workload.Uniform(1, 1)}, "load"},
		{Options{Days: 1, MaxDuration: time.Second}, "duration"},
	} {
		if _, err := Generate(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

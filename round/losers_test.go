package round

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// jobOf is a job of some GPUs with its waits in hours before and after.
func jobOf(gpus int, user, tenant string, limit time.Duration, before, after float64) JobChange {
	job := &workload.Job{User: user, Tenant: tenant, GPUs: workload.GPUs(gpus),
		Requested: workload.Request{TimeLimit: limit}.Shared()}
	result := func(hours float64) JobResult { return JobResult{3600 * hours, 3600 * (hours + 1), true} }
	return JobChange{job, result(before), result(after)}
}

// many are n jobs alike.
func many(n int, c JobChange) []JobChange { return slices.Repeat([]JobChange{c}, n) }

func TestLosers(t *testing.T) {
	const day = 24 * time.Hour
	narrow := many(200, jobOf(1, "ann", "vision", day, 3, 1))
	for name, tt := range map[string]struct {
		jobs []JobChange
		want []string
		text string
	}{
		"none": {narrow, nil, ""},
		"the widest": {slices.Concat(narrow, many(4, jobOf(64, "bob", "nlp", day, 10, 102))),
			[]string{"64-GPU jobs wait 102 h, before 10 h (4 jobs)"},
			"The price is paid by wide jobs: 64-GPU jobs wait 102 h, before 10 h (4 jobs)"},
		"a class of two widths": {slices.Concat(narrow, many(1, jobOf(33, "bob", "", day, 1, 2)),
			many(1, jobOf(48, "cid", "", day, 1, 3))), []string{"33-48-GPU jobs wait 2.5 h, before 1.0 h (2 jobs)"},
			"The price is paid by wide jobs: 33-48-GPU jobs wait 2.5 h, before 1.0 h (2 jobs)"},
		"a tenth and less": {slices.Concat(narrow, many(2, jobOf(64, "", "", day, 10, 11))), nil, ""},
		// The mean of 4-GPU jobs falls: only the tenant of some of them loses.
		"a tenant": {slices.Concat(narrow, many(9, jobOf(4, "bob", "vision", day, 3, 1)),
			many(3, jobOf(4, "bob", "nlp", day, 1, 5))), []string{"jobs of tenant nlp wait 5.0 h, before 1.0 h (3 jobs)"},
			"Longer waits: jobs of tenant nlp wait 5.0 h, before 1.0 h (3 jobs)"},
		"a user": {slices.Concat(narrow, many(1, jobOf(1, "bob", "vision", day, 0, 1./6))),
			[]string{"jobs of user bob wait 10 min, before 0 min (1 job)"},
			"Longer waits: jobs of user bob wait 10 min, before 0 min (1 job)"},
		"a limit and a width, the worst first": {slices.Concat(narrow, many(2, jobOf(1, "ann", "vision", 7*day, 1, 9)),
			many(2, jobOf(2, "ann", "vision", day, 1, 2))),
			[]string{"jobs with a time limit of 4 d to 7 d wait 9.0 h, before 1.0 h (2 jobs)",
				"2-GPU jobs wait 2.0 h, before 1.0 h (2 jobs)"},
			"Longer waits: jobs with a time limit of 4 d to 7 d wait 9.0 h, before 1.0 h (2 jobs); and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Losers(tt.jobs)
			var text []string
			for i := range got {
				text = append(text, got[i].String())
			}
			if !slices.Equal(text, tt.want) || LosersText(got, 1) != tt.text {
				t.Errorf("%q, text %q", text, LosersText(got, 1))
			}
		})
	}
}

// TestLoses is the boundary: a tenth of the mean wait and a minute.
func TestLoses(t *testing.T) {
	for _, tt := range []struct {
		before, after float64
		want          bool
	}{{0, 60, false}, {0, 60.1, true}, {1000, 1160, false}, {1000, 1160.1, true}, {1000, 0, false}} {
		g := Group{Before: Waits{Mean: tt.before}, After: Waits{Mean: tt.after}}
		if g.Loses() != tt.want {
			t.Errorf("%v s to %v s loses: %v", tt.before, tt.after, g.Loses())
		}
	}
}

func TestWidthClasses(t *testing.T) {
	for gpus, want := range map[int]string{0: "1", 1: "1", 2: "2", 3: "3-4", 4: "3-4", 5: "5-8", 8: "5-8", 9: "9-16",
		64: "33-64", 65: "65-128", 1000: "513-1024"} {
		if got := WidthName(WidthClass(gpus)); got != want {
			t.Errorf("%d GPUs: class %s, want %s", gpus, got, want)
		}
	}
	for k, want := range []string{"at most 10 min", "10 min to 1 h", "1 h to 4 h", "4 h to 12 h", "12 h to 24 h", "24 h to 2 d",
		"2 d to 4 d", "4 d to 7 d", "more than 7 d", "none"} {
		if got := limitName(k); got != want {
			t.Errorf("class %d: %s, want %s", k, got, want)
		}
	}
	for limit, want := range map[time.Duration]int{0: 9, time.Minute: 0, 10 * time.Minute: 0, 10*time.Minute + 1: 1,
		7 * 24 * time.Hour: 7, 8 * 24 * time.Hour: 8} {
		if got := limitClass(limit); got != want {
			t.Errorf("limit %v: class %d, want %d", limit, got, want)
		}
	}
}

// TestGroupProperties: every job is once in each kind that it has a group of, a group of all jobs loses if and only if
// their mean wait does, and the order of the jobs changes nothing.
func TestGroupProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		jobs := make([]JobChange, 1+r.IntN(60))
		was, is := 0., 0.
		for i := range jobs {
			c := jobOf(1<<r.IntN(7), fmt.Sprint("u", r.IntN(5)), fmt.Sprint("t", r.IntN(3)),
				[]time.Duration{0, time.Hour, 48 * time.Hour}[r.IntN(3)], r.Float64(), r.Float64())
			c.After.Ended = r.IntN(5) > 0
			jobs[i], was, is = c, was+c.Before.Wait, is+c.After.Wait
		}
		n := float64(len(jobs))
		groups, losers := Groups(jobs), Losers(jobs)
		counts := map[string]int{}
		for _, g := range groups {
			counts[g.By] += g.Jobs
		}
		for _, by := range []string{ByAll, ByWidth, ByTenant, ByUser} {
			if counts[by] != len(jobs) {
				t.Fatalf("seed %d: %d of %d jobs are in groups by %s", seed, counts[by], len(jobs), by)
			}
		}
		all := slices.ContainsFunc(losers, func(g Group) bool { return g.By == ByAll })
		if want := is/n > 1.1*was/n+60; all != want || groups[0].Loses() != want {
			t.Fatalf("seed %d: all jobs lose: %v, want %v", seed, all, want)
		}
		for i := range losers {
			if !losers[i].Loses() || !slices.Contains(groups, losers[i]) {
				t.Fatalf("seed %d: %+v does not lose, or is no group", seed, losers[i])
			}
		}
		losing := slices.ContainsFunc(groups, func(g Group) bool { return g.Loses() })
		if losing != (len(losers) > 0) {
			t.Fatalf("seed %d: a group loses: %v, named: %d", seed, losing, len(losers))
		}
		r.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		if !slices.Equal(groups, Groups(jobs)) || !slices.Equal(losers, Losers(jobs)) {
			t.Fatalf("seed %d: another order of the jobs has other groups", seed)
		}
	}
}

// TestOneGroup: jobs that have all in common lose in every group, and are named once.
func TestOneGroup(t *testing.T) {
	jobs := many(5, jobOf(2, "ann", "vision", time.Hour, 1, 2))
	for _, g := range Groups(jobs) {
		if !g.Loses() || g.Jobs != 5 || g.Slower != 5 || g.Worst != 3600 {
			t.Errorf("%+v", g)
		}
	}
	if got := Losers(jobs); len(got) != 2 || got[0].By != ByAll || got[1].By != ByWidth {
		t.Errorf("losers %+v", got)
	}
}

func TestJobChanges(t *testing.T) {
	jobs := []workload.Job{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	got := jobChanges(jobs, []jobTimes{{0, 0, time.Minute}, {2, 5 * time.Second, 65 * time.Second}},
		[]jobTimes{{0, time.Second, 61 * time.Second}, {2, 0, time.Minute}})
	want := []JobChange{{&jobs[0], JobResult{0, 60, true}, JobResult{1, 61, true}},
		{&jobs[2], JobResult{5, 65, true}, JobResult{0, 60, true}}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

package arrivals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

func job(id int, tenant string, at time.Duration) workload.Job {
	return workload.Job{ID: fmt.Sprint("j", id), Tenant: tenant, Submit: at, Duration: time.Minute,
		GPUs: workload.GPUs(1 + id%8)}
}

func TestHistoryCounts(t *testing.T) {
	zero := time.Date(2020, 1, 1, 6, 0, 0, 0, time.UTC) // six in the morning
	at := func(d, h, m, s int) time.Duration {
		return time.Duration(d)*day + time.Duration(h-6)*time.Hour + time.Duration(m)*time.Minute +
			time.Duration(s)*time.Second
	}
	jobs := []workload.Job{
		job(0, "a", at(0, 3, 0, 0)),  // before the zero
		job(1, "a", at(0, 3, 1, 0)),  // 60 s after: the same batch
		job(2, "b", at(0, 3, 1, 30)), // another tenant
		job(3, "a", at(0, 3, 2, 1)),  // 61 s after: a new batch
		job(4, "b", at(0, 3, 2, 2)),  // goes on
		job(5, "a", at(0, 3, 6, 0)),
		job(6, "a", at(1, 0, 0, 0)),
	}
	h, err := FromJobs(zero, jobs, at(1, 0, 7, 0), Grid{})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Zero().Add(h.Start()).Format(time.DateTime); got != "2020-01-01 00:00:00" {
		t.Errorf("the grid begins at %s, not at midnight", got)
	}
	if h.bins() != 24*12+1 {
		t.Errorf("%d bins in a day and 7 minutes", h.bins())
	}
	three := 3 * 12
	for _, c := range []struct{ bin, jobs, batches int }{{three - 1, 0, 0}, {three, 5, 3}, {three + 1, 1, 1},
		{24 * 12, 1, 1}} {
		jobs, batches := h.arrived[c.bin+1]-h.arrived[c.bin], h.began[c.bin+1]-h.began[c.bin]
		if int(jobs) != c.jobs || int(batches) != c.batches {
			t.Errorf("bin %d: %d jobs in %d batches, want %d in %d", c.bin, jobs, batches, c.jobs, c.batches)
		}
	}
	if n, ok := h.after(2); !ok || n != 4 {
		t.Errorf("after job 2 its batch goes on with %d, %v", n, ok)
	}
	early := h.Until(at(0, 3, 2, 2))
	if _, ok := early.after(2); ok {
		t.Error("a job is known before it arrived")
	}
	if len(early.Jobs()) != 4 || early.bins() != three {
		t.Errorf("until 03:02:02 there are %d jobs and %d bins", len(early.Jobs()), early.bins())
	}
}

// TestHistoryIsBounded: one stray job of long ago costs nothing.
func TestHistoryIsBounded(t *testing.T) {
	jobs := []workload.Job{job(0, "", -50*365*day), job(1, "", 0)}
	h, err := FromJobs(time.Time{}, jobs, time.Hour, Grid{})
	if err != nil || len(h.Jobs()) != 1 || h.bins() > MaxDays*24*12 {
		t.Errorf("%v, %d jobs, %d bins", err, len(h.Jobs()), h.bins())
	}
}

// TestHistoryBeginsSeldomAnew: the begin of a long history stays where it is for
// weeks, before and after 1970.
func TestHistoryBeginsSeldomAnew(t *testing.T) {
	testshared.Full(t)
	for _, zero := range []time.Time{{}, time.Unix(0, 0), time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)} {
		begins := map[time.Duration]bool{}
		for d := range 10 * moveDays {
			end := time.Duration(2*MaxDays+d) * day
			h := mustHistory(t, zero, []workload.Job{job(0, "", 0)}, end)
			if n := h.bins() / (24 * 12); n > MaxDays || n < MaxDays-moveDays-1 {
				t.Fatalf("%v: day %d: %d days", zero, d, n)
			}
			begins[h.Start()] = true
		}
		if n := len(begins); n < 10 || n > 11 {
			t.Errorf("%v: %d begins in %d days", zero, n, 10*moveDays)
		}
	}
}

func TestHistoryRefuses(t *testing.T) {
	if _, err := FromJobs(time.Time{}, []workload.Job{job(0, "", 5), job(1, "", 4)}, 10, Grid{}); err == nil ||
		!strings.Contains(err.Error(), `"j1"`) {
		t.Errorf("jobs out of order: %v", err)
	}
	for _, bin := range []time.Duration{7 * time.Minute, time.Second, 2 * time.Hour, -time.Minute} {
		if _, err := FromJobs(time.Time{}, nil, 0, Grid{Bin: bin}); err == nil {
			t.Errorf("bin %v accepted", bin)
		}
	}
}

// TestUntilIsWhatWasKnown: cutting a history is the same as never having seen
// later arrivals.
func TestUntilIsWhatWasKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []workload.Job
		at := time.Duration(rapid.Int64Range(-int64(3*day), int64(3*day)).Draw(t, "first"))
		for i := range rapid.IntRange(1, 60).Draw(t, "jobs") {
			jobs = append(jobs, job(i, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), at))
			at += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "gap"))
		}
		zero := time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "zero"), 0)
		all, err := FromJobs(zero, jobs, at+time.Hour, Grid{})
		if err != nil {
			t.Fatal(err)
		}
		end := jobs[0].Submit + time.Duration(rapid.Int64Range(1, int64(at-jobs[0].Submit)+1).Draw(t, "end"))
		cut, short := all.Until(end), mustHistory(t, zero, jobs, end)
		if cut.start != short.start || cut.bins() != short.bins() || len(cut.jobs) != len(short.jobs) ||
			cut.print(cut.bins()) != short.print(short.bins()) {
			t.Fatalf("%d bins and %d jobs from %v; want %d and %d from %v",
				cut.bins(), len(cut.jobs), cut.start, short.bins(), len(short.jobs), short.start)
		}
		for i := range short.jobs {
			a, okA := cut.after(i)
			b, okB := short.after(i)
			if cut.batch[i] != short.batch[i] || okA != okB || okA && a != b {
				t.Fatalf("job %d: batch %d then %d, want %d then %d", i, cut.batch[i], a, short.batch[i], b)
			}
		}
	})
}

func mustHistory(t interface{ Fatal(...any) }, zero time.Time, jobs []workload.Job, end time.Duration) *History {
	h, err := FromJobs(zero, jobs, end, Grid{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

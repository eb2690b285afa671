package round

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// arrivals is a ledger of jobs of a number of GPUs submitted every so often.
func arrivals(from, every time.Duration, n, gpus int) *workload.Ledger {
	l := workload.NewLedger(workload.Uniform(10, 8))
	for i := range n {
		l.Apply(workload.Event{ID: fmt.Sprint(i), Kind: workload.Submitted, Time: from + time.Duration(i)*every,
			Job: workload.Job{ID: fmt.Sprint("j", i), GPUs: workload.GPUs(gpus)}})
	}
	return l
}

func TestBurst(t *testing.T) {
	const at = 10 * time.Hour
	future := func(every time.Duration) Scenario {
		var jobs []workload.Job
		for i := range int(2 * time.Hour / every) {
			jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), GPUs: workload.GPUs(2), Duration: time.Hour,
				Submit: at + time.Duration(i+1)*every})
		}
		w, err := workload.New("future", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		return Scenario{Arrivals: w}
	}
	expected := []Scenario{future(10 * time.Minute), future(time.Minute), {}}
	remember := func(h *history) json.RawMessage {
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	past := remember(&history{Version: historyVersion,
		Band: newBand(expected, workload.Uniform(10, 8), at, 2*time.Hour)})
	for _, tt := range []struct {
		name   string
		past   json.RawMessage
		ledger *workload.Ledger
		after  time.Duration
		want   bool
	}{
		{"as expected", past, arrivals(at+1, time.Minute, 60, 2), time.Hour, false},
		{"less", past, arrivals(at+1, 10*time.Minute, 6, 1), time.Hour, false},
		{"none", past, arrivals(at+1, time.Minute, 0, 1), time.Hour, false},
		{"many jobs", past, arrivals(at+1, 2*time.Second, 1000, 1), 15 * time.Minute, true},
		{"wide jobs", past, arrivals(at+1, time.Minute, 20, 8), 20 * time.Minute, true},
		{"a wide job", past, arrivals(at+1, time.Minute, 1, 40), 15 * time.Minute, false},
		{"jobs that do not fit", past, arrivals(at+1, time.Minute, 10, 81), 20 * time.Minute, false},
		{"later", past, arrivals(at+31*time.Minute, time.Second, 1000, 1), 30 * time.Minute, false},
		{"before the decision", past, arrivals(at-time.Hour, time.Second, 1000, 1), 30 * time.Minute, false},
		{"just decided", past, arrivals(at+1, time.Second, 1000, 1), 10 * time.Minute, false},
		{"a clock set back", past, arrivals(at-time.Hour, time.Second, 1000, 1), -30 * time.Minute, false},
		{"beyond the horizon", past, arrivals(at+1, time.Second, 10000, 1), 3 * time.Hour, false},
		{"no history", nil, arrivals(at+1, time.Second, 1000, 1), 30 * time.Minute, false},
		{"no band", remember(&history{Version: historyVersion}), arrivals(at+1, time.Second, 1000, 1),
			30 * time.Minute, false},
		{"damaged", json.RawMessage("{"), arrivals(at+1, time.Second, 1000, 1), 30 * time.Minute, false},
	} {
		if got := Burst(tt.past, tt.ledger, at+tt.after); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestUrgentDecision: it searches the portfolio, does not ask the history, and begins another
// band.
func TestUrgentDecision(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	l, at := shrunk(t, 0)
	decide := func(urgent bool) Result {
		r, err := Decide(context.Background(), Input{
			Snapshot:  Snapshot{State: l.State(at), Ledger: l, Zero: time.Unix(0, 0)},
			Scheduler: s.Name, Space: s.Space, Goal: Minimise("avg_jct"), Incumbent: s.Space.Default(), Urgent: urgent,
			Settings: Settings{Horizon: 2 * time.Hour, Futures: 2, Budget: 8, Search: SearchFull},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	round, urgent := decide(false), decide(true)
	if round.Search != SearchFull || urgent.Search != SearchPortfolio || urgent.Why == round.Why {
		t.Errorf("searches %s (%s) and %s (%s)", round.Search, round.Why, urgent.Search, urgent.Why)
	}
	if round.Answer == nil || urgent.Answer != nil || urgent.Adopt {
		t.Errorf("the history is asked %v and %v, an urgent decision adopts %v", round.Answer != nil,
			urgent.Answer != nil,
			urgent.Adopt)
	}
	for _, r := range []Result{round, urgent} {
		if h := loadHistory(r.History, s.Space); h.Band.At != at || len(h.Band.Jobs) != 24 || h.Band.Widest != 40 {
			t.Errorf("band %+v", h.Band)
		}
	}
}

// TestBurstsAreRare: on four weeks of Philly less than five hours in a hundred have a
// burst.
func TestBurstsAreRare(t *testing.T) {
	testshared.Long(t)
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := workload.Uniform(60, 8)
	first, _ := w.Span()
	from := first.Truncate(24*time.Hour) + 14*24*time.Hour
	to := from + 28*24*time.Hour
	var events []workload.Event
	for i, j := range w.Window(first, to+time.Hour).Jobs() {
		for k, e := range [...]workload.Event{
			{Kind: workload.Submitted, Time: j.Submit, Job: j},
			{Kind: workload.Started, Time: j.Submit, Job: workload.Job{ID: j.ID}},
			{Kind: workload.Finished, Time: j.Submit + j.Duration, Job: workload.Job{ID: j.ID, Status: j.Status}},
		} {
			e.ID = fmt.Sprint(i, "-", k)
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	l, engine := workload.NewLedger(c), generation.NewEngine(w.Zero(), generation.Method{})
	apply := func(until time.Duration) {
		for len(events) > 0 && events[0].Time <= until {
			l.Apply(events[0])
			events = events[1:]
		}
	}
	hours, bursts := 0, 0
	for at := from; at < to; at += 3 * time.Hour {
		apply(at)
		s := Snapshot{State: l.State(at), Ledger: l, Zero: w.Zero()}
		futures, err := s.Forecast(t.Context(), engine, 12*time.Hour, 4, uint64(hours))
		if err != nil {
			t.Fatal(err)
		}
		past, err := json.Marshal(&history{Version: historyVersion, Band: newBand(futures, c, at, 12*time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		hours++
		for mark := at + BurstInterval; mark < at+time.Hour; mark += BurstInterval {
			if apply(mark); Burst(past, l, mark) {
				bursts++
				break
			}
		}
	}
	t.Logf("%d of %d hours", bursts, hours)
	if bursts*100 >= hours*5 {
		t.Errorf("%d of %d hours have a burst", bursts, hours)
	}
}

package round

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// meter is a context that counts the bytes that are allocated between two looks at it, and ends at a
// number of them.
type meter struct {
	context.Context
	mu            sync.Mutex
	end           int // 0: never
	looks         int
	last, largest uint64
	where         string // of the largest
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func (m *meter) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks++; m.end > 0 && m.looks >= m.end {
		return context.Canceled
	}
	if m.end > 0 {
		return nil
	}
	now := allocated()
	if d := now - m.last; d > m.largest {
		m.largest = d
		var pcs [6]uintptr
		frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
		var where []string
		for f, more := frames.Next(); more; f, more = frames.Next() {
			where = append(where, fmt.Sprintf("%s:%d", f.Function, f.Line))
		}
		m.where = strings.Join(where, " < ")
	}
	m.last = now
	return nil
}

// longHistory is a first round on four weeks of jobs.
func longHistory(t *testing.T, n int) Input {
	t.Helper()
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	const at = ArrivalMemory
	l := workload.NewLedger(workload.Uniform(50, 8))
	for i := range n {
		submit, id := at/time.Duration(n)*time.Duration(i), fmt.Sprint(i)
		e := workload.Event{ID: "s" + id, Kind: workload.Submitted, Time: submit, Job: workload.Job{ID: id,
			GPUs: workload.GPUs(1 + i%4), Key: fmt.Sprint(i % 200), Tenant: fmt.Sprint(i % 7)}}
		l.Apply(e)
		e.ID, e.Kind, e.Time = "r"+id, workload.Started, submit+time.Minute
		l.Apply(e)
		if i < n-200 {
			e.ID, e.Kind, e.Time = "f"+id, workload.Finished, submit+time.Duration(2+i%50)*time.Minute
			l.Apply(e)
		}
	}
	method, err := generation.ParseMethod("repeat/" + generation.HistoryDurations)
	if err != nil {
		t.Fatal(err)
	}
	zero, settings := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), DefaultSettings()
	settings.Workers, settings.Budget, settings.Futures = 1, 2, 2
	return Input{Snapshot: Snapshot{State: l.State(at), Ledger: l, Zero: zero},
		Settings: settings, Scheduler: "fifo", Space: s.Space, Engine: generation.NewEngine(zero, method), Goal: Minimise("avg_jct"), Incumbent: s.Space.Default(),
		Round: int(at / time.Hour)}
}

// TestCancelledRoundEnds: between two looks at its context a round does a small part of its work,
// by its allocations, and it ends at whichever look finds the context ended.
func TestCancelledRoundEnds(t *testing.T) {
	testshared.Full(t)
	in := longHistory(t, 20_000)
	begun := allocated()
	whole := meter{Context: context.Background(), last: begun}
	if _, err := Decide(&whole, in); err != nil {
		t.Fatal(err)
	}
	if share := float64(whole.largest) / float64(allocated()-begun); share > .25 {
		t.Errorf("%.0f %% of what a round allocates is between two looks, the second at %s", 100*share, whole.where)
	}
	for end := 1; end < whole.looks; end *= 3 {
		one := meter{Context: context.Background(), end: end}
		if _, err := Decide(&one, in); !errors.Is(err, context.Canceled) || one.looks > end+16 {
			t.Errorf("cancelled at look %d: %v after %d", end, err, one.looks)
		}
	}
}

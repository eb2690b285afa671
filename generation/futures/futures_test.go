package futures

import (
	"errors"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload/trace"
)

func TestDrawFutures(t *testing.T) {
	testshared.Full(t)
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Span()
	o := Options{At: first + 36*time.Hour, Memory: 36 * time.Hour, Horizon: time.Hour, Count: 3, Seed: 1}
	f, err := Draw(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Drawn) != 3 || f.Active == 0 {
		t.Fatalf("%d futures of %d active jobs", len(f.Drawn), f.Active)
	}
	if arrived := w.Window(o.At, o.At+o.Horizon).Len(); f.Truth.Arrivals != arrived || f.Truth.LeftGPUHours <= 0 {
		t.Errorf("truth is %+v, and %d jobs arrive", f.Truth, arrived)
	}
	for k := range f.Drawn {
		w, err := f.Trace(k)
		if err != nil {
			t.Fatal(err)
		}
		left := 0.
		for _, j := range w.Window(o.At, o.At+1).Jobs()[:f.Active] {
			left += j.Duration.Hours() * float64(j.GPUs.Whole())
		}
		if want := f.Drawn[k].LeftGPUHours; !w.Synthetic() || w.Len() != f.Active+f.Drawn[k].Arrivals || left < want ||
			left > want*1.01 {
			t.Errorf("future %d: %d jobs, %g GPU-hours left; want %d and %g", k, w.Len(), left,
				f.Active+f.Drawn[k].Arrivals, want)
		}
	}
	o.At = first
	if _, err := Draw(t.Context(), w, o); !errors.Is(err, ErrNoPast) {
		t.Errorf("before the first submission: %v", err)
	}
}

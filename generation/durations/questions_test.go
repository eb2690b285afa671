package durations

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestClassOf(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want int
	}{{0, 0}, {5*time.Minute - 1, 0}, {5 * time.Minute, 1}, {time.Hour, 3}, {2 * time.Hour, 4}, {4*time.Hour - 1, 4},
		{4 * time.Hour, 5}, {1000 * time.Hour, 5}} {
		if got := ClassOf(tt.d); got != tt.want {
			t.Errorf("%v is of class %d, want %d", tt.d, got, tt.want)
		}
		if from, to := Range(tt.want); tt.d < from || tt.d >= to {
			t.Errorf("%v is not in [%v, %v)", tt.d, from, to)
		}
	}
}

// TestQuestions: each kind asks about instants of jobs' lives.
func TestQuestions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		for _, k := range Kinds {
			asked := k.Ask(h, 7)
			if k.Name != "hourly" && k.Name != "hourly-4h" && len(asked) != len(h) {
				t.Fatalf("%s asks %d times about %d jobs", k.Name, len(asked), len(h))
			}
			for _, q := range asked {
				r := &h[q.Job]
				if q.At < r.Submit || q.At >= r.Until {
					t.Fatalf("%s asks about %s at %v; it lives from %v to %v", k.Name, r.ID, q.At, r.Submit, r.Until)
				}
				if k.Name == "hourly-4h" && r.ranAt(q.At) >= 4*time.Hour {
					t.Fatalf("%s asks about a job that has run %v", k.Name, r.ranAt(q.At))
				}
			}
			if again := k.Ask(h[:len(h)/2], 7); len(again) > 0 && !slices.Equal(again, asked[:len(again)]) {
				t.Fatalf("%s asks other questions about a history that goes on", k.Name)
			}
		}
	})
}

func TestHourly(t *testing.T) {
	h := []Record{job("a", "", 1, 30*time.Minute, 6*time.Hour), job("b", "", 1, 2*time.Hour, time.Hour),
		job("c", "", 1, 2*time.Hour+1, 10*time.Minute)}
	got := kindNamed("hourly-4h").Ask(h, 1)
	want := []Question{{0, 1 * time.Hour}, {0, 2 * time.Hour}, {0, 3 * time.Hour}, {0, 4 * time.Hour},
		{1, 2 * time.Hour}}
	if !slices.Equal(got, want) {
		t.Errorf("asks %v, want %v", got, want)
	}
	if n := len(kindNamed("hourly").Ask(h, 1)); n != 7 {
		t.Errorf("asks %d times on the hour, want 7", n)
	}
}

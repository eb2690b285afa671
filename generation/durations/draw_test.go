package durations

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// TestDrawPrefersTheClosestGroup: of the class, by key, then tenant and GPUs, then
// tenant, then GPUs, then anything.
func TestDrawPrefersTheClosestGroup(t *testing.T) {
	var h []Record
	add := func(key, tenant string, gpus, count, first int) {
		for i := range count {
			r := job("", tenant, gpus, 0, time.Duration(first+i)*time.Second)
			r.Key = key
			h = append(h, r)
		}
	}
	add("sweep", "vision", 1, 20, 600)
	add("rare", "vision", 1, 2, 700)
	add("", "vision", 1, 10, 800)
	add("", "vision", 8, 10, 900)
	add("", "speech", 2, 10, 1000)
	add("", "speech", 1, 10, 4000) // of another class
	d := NewDraws(h)
	for _, tt := range []struct {
		name, key, tenant string
		gpus, class       int
		ran               time.Duration
		low, high         int
	}{
		{"its key", "sweep", "speech", 2, 1, 0, 600, 619},
		{"its key, the longer ones", "sweep", "speech", 2, 1, 604 * time.Second, 605, 619},
		{"too few of its key are longer", "sweep", "vision", 8, 1, 612 * time.Second, 900, 909},
		{"too few of its key", "rare", "vision", 8, 1, 0, 900, 909},
		{"tenant and GPUs", "", "speech", 2, 1, 0, 1000, 1009},
		{"tenant", "", "speech", 4, 1, 0, 1000, 1009},
		{"GPUs", "", "nobody", 8, 1, 0, 900, 909},
		{"anything", "", "nobody", 3, 3, 0, 4000, 4009},
		{"a class that nobody was of", "", "speech", 2, 0, 0, 1, 300},
		{"an outrun class", "sweep", "vision", 1, 0, 600 * time.Second, 601, 619},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		seen := map[time.Duration]bool{}
		for range 300 {
			j := workload.Job{Key: tt.key, Tenant: tt.tenant, GPUs: workload.GPUs(tt.gpus)}
			got := d.InClass(r, &j, tt.class, tt.ran)
			seen[got] = true
			if got < time.Duration(tt.low)*time.Second || got > time.Duration(tt.high)*time.Second {
				t.Errorf("%s: drew %v, want %d to %d s", tt.name, got, tt.low, tt.high)
				break
			}
		}
		if len(seen) < 3 {
			t.Errorf("%s: 300 draws gave only %v", tt.name, seen)
		}
	}
	if d.Len() != len(h) {
		t.Errorf("%d of %d durations", d.Len(), len(h))
	}
}

// TestDrawCountsTheRunning: eight jobs ended after 5 h and forty still run after
// 30 h, so that a job that has run for 4 h ends after 5 h in one case of six.
func TestDrawCountsTheRunning(t *testing.T) {
	var h []Record
	for i := range 8 {
		h = append(h, job(fmt.Sprint("e", i), "x", 1, 0, 5*time.Hour+time.Duration(i)*time.Minute))
	}
	for i := range 40 {
		r := job(fmt.Sprint("r", i), "x", 1, 0, 30*time.Hour)
		r.Ended = false
		h = append(h, r)
	}
	d := NewDraws(h)
	if d.Len() != 8 {
		t.Errorf("%d ended jobs", d.Len())
	}
	r := rand.New(rand.NewPCG(1, 2))
	short := 0
	const n = 2000
	for range n {
		if d.InClass(r, h[8].Job, Classes-1, 4*time.Hour) < 5*time.Hour+8*time.Minute {
			short++
		}
	}
	if want := 8. / 48; math.Abs(float64(short)/n-want) > .03 {
		t.Errorf("%.3f of the draws end like the few that ended, want %.3f", float64(short)/n, want)
	}
}

// TestDrawKeepsToItsClass, and is longer than the time so far, with any knowledge.
func TestDrawKeepsToItsClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		d := NewDraws(Known(h, h[len(h)-1].Submit))
		j := h[rapid.IntRange(0, len(h)-1).Draw(t, "job")].Job
		ran := time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(workload.MaxDuration)),
			rapid.Int64Range(0, int64(5*time.Hour)),
			rapid.Just(int64(Bounds[2]-1)), rapid.Just(int64(Bounds[2]))).Draw(t, "ran"))
		class := rapid.IntRange(0, Classes-1).Draw(t, "class")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		got := d.InClass(r, j, class, ran)
		if got <= ran || got-ran > workload.MaxDuration {
			t.Fatalf("has run %v, drew %v", ran, got)
		}
		if want := max(class, ClassOf(ran+1)); ClassOf(got) != want {
			t.Fatalf("drew %v for class %s", got, ClassNames[want])
		}
		p := make([]float64, Classes)
		d.Plain(p, j, ran)
		sum := 0.
		for c, v := range p {
			sum += v
			if v > 0 && c < ClassOf(ran+1) {
				t.Fatalf("class %s has probability %g after %v", ClassNames[c], v, ran)
			}
		}
		if sum < 1-1e-9 || sum > 1+1e-9 {
			t.Fatalf("probabilities %v", p)
		}
	})
}

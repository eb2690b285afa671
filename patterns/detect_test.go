package patterns

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// TestWaitsRise: waits that grow are a spiral while about as much arrives, however much single
// intervals vary, and not where they stay among the usual ones.
func TestWaitsRise(t *testing.T) {
	d := &spiral{r: &compiled{rule: Builtin().Rule("queue_spiral")}}
	of := func(longest time.Duration, before int, arrived ...float64) []interval {
		wait := 2 * time.Minute
		var list []interval
		for range before {
			list = append(list, interval{wait: wait, longest: longest, waited: true, arrived: arrived[0],
				arrivalsKnown: true, free: .5, freeKnown: true})
		}
		for _, a := range arrived {
			list = append(list, interval{wait: wait, longest: wait, waited: true, arrived: a, arrivalsKnown: true,
				free: .5, freeKnown: true})
			wait = wait * 3 / 2
		}
		return list
	}
	for _, c := range []struct {
		name string
		list []interval
		want bool
	}{
		{"as much arrives", of(3*time.Minute, 6, 10, 10, 10, 10), true},
		{"arrivals vary", of(3*time.Minute, 6, 10, 11.3, 9.5, 10.5), true},
		{"more arrives each time", of(3*time.Minute, 6, 10, 11.2, 12.5, 14), false},
		{"more arrives at once", of(3*time.Minute, 6, 10, 12.5, 12.5, 12), false},
		{"waits as long are usual", of(8*time.Minute, 6, 10, 10, 10, 10), false},
		{"what is usual is not known", of(8*time.Minute, 3, 10, 10, 10, 10), true},
		{"too few intervals", of(3*time.Minute, 0, 10, 10, 10), false},
	} {
		if _, _, _, got := d.waitsRise(&Scanner{}, c.list); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// Rules without the optional numbers are as strict about arrivals in each interval.
	old := *Builtin().Rule("queue_spiral")
	old.Params = map[string]float64{}
	for name, v := range Builtin().Rule("queue_spiral").Params {
		if name != "arrival_step" && name != "usual" {
			old.Params[name] = v
		}
	}
	if err := old.Check(); err != nil {
		t.Fatal(err)
	}
	d = &spiral{r: &compiled{rule: &old}}
	for arrived, want := range map[float64]bool{10.5: true, 11.3: false} {
		if _, _, _, got := d.waitsRise(&Scanner{}, of(8*time.Minute, 6, 10, arrived, 10, 10)); got != want {
			t.Errorf("without the optional numbers, %g after 10: %v", arrived, got)
		}
	}
}

// TestOutOfMemory: an end for lack of memory is a failure of a crash loop, and confirms that memory is nearly full.
func TestOutOfMemory(t *testing.T) {
	for _, x := range []struct {
		status    workload.Status
		loops     bool
		confirmed bool
	}{{workload.OutOfMemory, true, true}, {workload.Failed, true, false}, {workload.Cancelled, false, false}} {
		zero := time.Unix(1_700_000_000, 0).UTC()
		found := map[string]*Finding{}
		s, err := New(Options{Zero: zero, Cluster: workload.Uniform(1, 1), Nodes: []string{"n"},
			OnFinding: func(f *Finding) { found[f.Rule] = f.Clone() }})
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[time.Duration]workload.EventKind{0: workload.Submitted, time.Minute: workload.Started,
			5 * time.Minute: workload.Finished}
		const every = 10 * time.Minute
		for at := time.Duration(0); at < 3*every; at += 15 * time.Second {
			if kind := kinds[at%every]; kind != workload.EventUnknown {
				j := workload.Job{ID: strconv.Itoa(int(at / every)), User: "u", Key: "k", GPUs: workload.GPUs(1),
					Submit: at / every * every, Status: x.status}
				e := workload.Event{ID: j.ID + kind.String(), Kind: kind, Job: j, Time: at}
				if kind == workload.Started {
					e.Placement = []workload.NodeShare{{Node: "n", GPUs: 1}}
				}
				if err := s.Apply(at, Record{Event: &e}); err != nil {
					t.Fatal(err)
				}
			}
			g := telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Instance: -1}, MemoryTotal: 100,
				Time: time.Duration(zero.UnixNano()) + at, Known: telemetry.MemoryUsed | telemetry.MemoryTotal}
			if m := at % every; m > time.Minute && m < 5*time.Minute {
				g.MemoryUsed = 92
			}
			if err := s.Apply(at, Record{GPU: &g}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if (found["crash_loop"] != nil) != x.loops {
			t.Errorf("%v: crash loop %+v, want %v", x.status, found["crash_loop"], x.loops)
		}
		f := found["memory_pressure"]
		if f == nil {
			t.Fatalf("%v: memory is not found to be full", x.status)
		}
		confirmed := slices.ContainsFunc(f.Evidence, func(e Evidence) bool {
			return e.What == "job.ended out_of_memory"
		})
		if confirmed != x.confirmed || x.confirmed && f.Confidence < .95 {
			t.Errorf("%v: confidence %g, evidence %+v", x.status, f.Confidence, f.Evidence)
		}
	}
}

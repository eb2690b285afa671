package patterns

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// TestSignals: each is computed, or a series of its own that is recorded only where a rule asks for it.
func TestSignals(t *testing.T) {
	s := newScan(t, Options{})
	of := map[string]string{}
	for name, sig := range signals {
		if sig.compute != nil {
			continue
		}
		kind, _, _ := strings.Cut(name, ".")
		key := kind + strconv.Itoa(sig.series)
		if of[key] != "" {
			t.Errorf("%s and %s share a series", name, of[key])
		}
		of[key] = name
		want := name != "queue.pending_gpus" && name != "queue.free" && name != "partition.free"
		if slots := s.cluster.Series[kind].Slots[sig.series]; (slots > 0) != want {
			t.Errorf("%s: %d steps are kept, want some %t", name, slots, want)
		}
	}
	n := 0
	for _, x := range s.cluster.Series {
		n += len(x.Slots)
	}
	if len(of) != n {
		t.Errorf("%d series of %d have a signal", len(of), n)
	}
}

// only is a rule set of one built-in rule.
func only(id string) *RuleSet {
	return &RuleSet{Version: 1, Rules: []Rule{*Builtin().Rule(id)}}
}

// opened lists the findings with their times of opening.
func (s *scan) opened() string {
	s.t.Helper()
	s.must(s.Close())
	var out []string
	for _, f := range s.found {
		out = append(out, fmt.Sprintf("%s %v", f.Entity.Name, s.since(f.Opened)))
	}
	return strings.Join(out, ", ")
}

// full sends samples of the memory of a GPU every 15 s.
func (s *scan) full(from, to time.Duration, share float64) {
	for at := from; at < to; at += 15 * time.Second {
		s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Time: at,
			Known: telemetry.MemoryUsed | telemetry.MemoryTotal, MemoryUsed: 80_000 * share, MemoryTotal: 80_000}))
	}
}

// TestMemoryPressure: the threshold is exceeded, for the whole window, on most of its samples.
func TestMemoryPressure(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(s *scan)
		want string
	}{
		{"at the threshold", func(s *scan) { s.full(0, 10*minute, .9) }, ""},
		{"just above", func(s *scan) { s.full(0, 10*minute, .90001) }, "0:0 1m0s"},
		{"shorter than the window", func(s *scan) {
			s.full(0, 5*minute, .5)
			s.full(5*minute, 5*minute+45*time.Second, .95)
			s.full(5*minute+45*time.Second, 10*minute, .5)
		}, ""},
		{"once, and again after it left", func(s *scan) {
			s.full(0, 5*minute, .95)
			s.full(5*minute, 10*minute, .84)
			s.full(10*minute, 15*minute, .95)
		}, "0:0 1m0s, 0:0 11m0s"},
		{"between leave and enter it stays one", func(s *scan) {
			s.full(0, 5*minute, .95)
			s.full(5*minute, 10*minute, .86)
			s.full(10*minute, 15*minute, .95)
		}, "0:0 1m0s"},
		{"a sample a minute is too few", func(s *scan) {
			for at := time.Duration(0); at < 10*minute; at += minute {
				s.full(at, at+1, .95)
			}
		}, ""},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1), Rules: only("memory_pressure")})
		s.submit(0, "j", "t", 1)
		s.start(0, "j", "0", 1)
		c.send(s)
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestThrottleBoundary: both the share of time throttled and the clock count, and an idle GPU's do not.
func TestThrottleBoundary(t *testing.T) {
	for _, c := range []struct {
		name  string
		bits  uint64
		every int // the n-th sample is throttled
		clock float64
		want  string
	}{
		{"a quarter, at .89", telemetry.ThrottleSoftwarePower, 4, .89, "check_power_cap"},
		{"a sixth", telemetry.ThrottleSoftwarePower, 6, .89, ""},
		{"the clock just above .9", telemetry.ThrottleSoftwarePower, 4, .901, ""},
		{"heat", telemetry.ThrottleHardwareThermal, 4, .8, "check_cooling"},
		{"hardware before all", telemetry.ThrottleHardware | telemetry.ThrottleSoftwareThermal, 4, .8, "suspect_node"},
		{"idle", telemetry.ThrottleIdle | telemetry.ThrottleSoftwarePower, 1, .5, ""},
		{"clocks that someone set", telemetry.ThrottleApplicationClocks, 1, .5, ""},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1), Rules: only("throttle")})
		s.submit(0, "j", "t", 1)
		s.start(0, "j", "0", 1)
		for k := range 120 {
			x := telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1},
				Time:    time.Duration(k) * 15 * time.Second,
				Known:   telemetry.Throttle | telemetry.SMClock | telemetry.ApplicationClock,
				SMClock: 1000 * c.clock, ApplicationClock: 1000}
			if k%c.every == 0 {
				x.Throttle = c.bits
			}
			s.must(s.GPU(&x))
		}
		s.must(s.Close())
		got := ""
		if len(s.found) > 0 {
			got = s.found[0].Action
		}
		if got != c.want || len(s.found) > 1 {
			t.Errorf("%s: %d found, action %q, want %q", c.name, len(s.found), got, c.want)
		}
	}
}

// TestCrashLoopBoundary: three failures within five minutes of their start and an hour of the first.
func TestCrashLoopBoundary(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  time.Duration // between starts
		ran  time.Duration
		n    int
		user []string // of the jobs, in turn
		want string
	}{
		{"an hour between first and third", 30 * minute, minute, 3, []string{"a"}, "a/k 1h1m0s"},
		{"a nanosecond more", 30*minute + 1, minute, 3, []string{"a"}, ""},
		{"two", 10 * minute, minute, 2, []string{"a"}, ""},
		{"just short of five minutes", 10 * minute, 5*minute - 1, 3, []string{"a"}, "a/k 24m59.999999999s"},
		{"five minutes", 10 * minute, 5 * minute, 3, []string{"a"}, ""},
		{"three users", 10 * minute, minute, 3, []string{"a", "b", "c"}, ""},
		{"one goes on for another", 10 * minute, minute, 6, []string{"a", "b"}, "a/k 41m0s, b/k 51m0s"},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 8), Rules: only("crash_loop")})
		for i := range c.n {
			at, id := time.Duration(i)*c.gap, strconv.Itoa(i)
			s.must(s.Event(&workload.Event{ID: id, Kind: workload.Submitted, Time: at, Job: workload.Job{ID: id,
				User: c.user[i%len(c.user)], Key: "k", GPUs: workload.GPUs(1)}}))
			s.start(at, id, "0", 1)
			s.end(at+c.ran, id, workload.Failed)
		}
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// steps sends rows of iterations of four workers, a minute each, with the times of a worker.
func (s *scan) steps(job string, from, n int, took func(step, worker int) float64) {
	for k := from; k < from+n; k++ {
		for w := range 4 {
			s.must(s.Iteration(&telemetry.Iteration{Job: job, Worker: w, Step: k,
				Took: time.Duration(took(k, w) * float64(time.Second)), Time: time.Duration(k+1) * minute}))
		}
	}
}

// TestStragglerBoundary: a row is judged as the next begins; it takes five of twenty rows, each slower than 1.2 times
// the median; two are too few to stay one.
func TestStragglerBoundary(t *testing.T) {
	for _, c := range []struct {
		name   string
		slow   int // rows, from the 30th on
		factor float64
		want   string
	}{
		{"five rows", 5, 1.21, "j/2 36m0s"},
		{"four rows", 4, 1.21, ""},
		{"at the factor", 20, 1.2, ""},
	} {
		s := newScan(t, Options{Rules: only("straggler")})
		s.submit(0, "j", "t", 4)
		s.start(0, "j", "0", 4)
		s.steps("j", 0, 100, func(k, w int) float64 {
			if w == 2 && k >= 30 && k < 30+c.slow {
				return 10 * c.factor
			}
			return 10
		})
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
		for _, f := range s.found {
			if f.Open || s.since(f.Closed) != 54*minute || f.Node != "0" {
				t.Errorf("%s: %s on %s, open %t until %v", c.name, f.Entity.Name, f.Node, f.Open, s.since(f.Closed))
			}
		}
	}
}

// TestStragglerTwice: the same node in another job within a day is a node to drain.
func TestStragglerTwice(t *testing.T) {
	for gap, want := range map[time.Duration]string{20 * hour: "drain_node", 26 * hour: "exclude_node"} {
		s := newScan(t, Options{Rules: only("straggler")})
		for i, id := range []string{"a", "b"} {
			at := time.Duration(i) * gap
			s.submit(at, id, "t", 4)
			s.start(at, id, "n", 4)
			s.steps(id, int(at/minute), 30, func(_, w int) float64 { return 10 + 10*float64(w/3) })
			s.end(at+40*minute, id, workload.Completed)
		}
		s.must(s.Close())
		if len(s.found) != 2 || s.found[1].Action != want {
			t.Errorf("after %v: %d found, the last with %q, want %q", gap, len(s.found),
				s.found[len(s.found)-1].Action, want)
		}
	}
}

// TestSpreadBoundary: a spread above .2 is unstable, one below .05 stable; it takes 200 iterations after the first 50.
func TestSpreadBoundary(t *testing.T) {
	for _, c := range []struct {
		name      string
		rows      int
		spread    float64
		stability string
		want      string
	}{
		{"unstable", 250, .21, "unstable", "j 4h11m0s"},
		{"at the limit", 250, .2, "normal", ""},
		{"normal", 250, .051, "normal", ""},
		{"stable", 250, .049, "stable", ""},
		{"one iteration short", 249, .5, "", ""},
	} {
		s := newScan(t, Options{Rules: only("cv_class")})
		s.submit(0, "j", "t", 4)
		s.start(0, "j", "0", 4)
		s.steps("j", 0, c.rows, func(k, _ int) float64 { return 10 * (1 + c.spread*float64(1-k%2*2)) })
		s.end(time.Duration(c.rows+1)*minute, "j", workload.Completed)
		if got := s.opened(); got != c.want || s.jobs[0].Stability != c.stability {
			t.Errorf("%s: found %q, want %q; stability %q, want %q", c.name, got, c.want,
				s.jobs[0].Stability, c.stability)
		}
	}
}

// TestOutlierBoundary: three of fifty iterations far beyond the hundred before; at regular intervals they are
// checkpoints.
func TestOutlierBoundary(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []int
		took float64
		want string
	}{
		{"three", []int{110, 115, 130}, 13, "check_data"},
		{"two", []int{110, 115}, 13, ""},
		{"too far apart", []int{110, 135, 160}, 13, ""},
		{"in fifty rows", []int{110, 112, 159}, 13, "check_data"},
		{"in fifty-one", []int{110, 112, 160}, 13, ""},
		{"regular ones", []int{110, 120, 130}, 13, "note_checkpoint"},
		{"below the ratio", []int{110, 115, 130}, 10.9, ""},
		{"before there is a history", []int{10, 15, 30}, 13, ""},
	} {
		s := newScan(t, Options{Rules: only("iteration_outlier")})
		s.submit(0, "j", "t", 4)
		s.start(0, "j", "0", 4)
		s.steps("j", 0, 200, func(k, w int) float64 {
			for _, at := range c.at {
				if k == at && w == 1 {
					return c.took
				}
			}
			return 10 + .01*float64(k%3)
		})
		s.must(s.Close())
		got := ""
		if len(s.found) > 0 {
			got = s.found[0].Action
		}
		if got != c.want {
			t.Errorf("%s: action %q, want %q", c.name, got, c.want)
		}
	}
}

// TestThrashBoundary: three stops of a job within an hour, or two tenants that stop each other within half an hour.
func TestThrashBoundary(t *testing.T) {
	type at struct {
		minute float64
		kind   workload.EventKind
		job    string
	}
	const stop, start = workload.Preempted, workload.Resumed
	for _, c := range []struct {
		name   string
		events []at
		want   string
	}{
		{"three within an hour", []at{{1, stop, "a"}, {2, start, "a"}, {30, stop, "a"}, {31, start, "a"}, {61, stop, "a"}},
			"all 1h1m0s"},
		{"three in more", []at{{1, stop, "a"}, {2, start, "a"}, {30, stop, "a"}, {31, start, "a"}, {62,
			stop, "a"}}, ""},
		{"two", []at{{1, stop, "a"}, {2, start, "a"}, {30, stop, "a"}}, ""},
		{"one for the other and back", []at{{1, stop, "a"}, {1, start, "b"}, {31, stop, "b"}, {31, start, "a"}},
			"all 31m0s"},
		{"later than half an hour", []at{{1, stop, "a"}, {1, start, "b"}, {31.1, stop, "b"}, {31.1, start, "a"}}, ""},
		{"a start long after a stop", []at{{1, stop, "a"}, {3, start, "b"}, {5, stop, "b"}, {7, start, "a"}}, ""},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1), Rules: only("preemption_thrash")})
		for _, tenant := range []string{"a", "b"} {
			s.submit(0, tenant, tenant, 1)
		}
		s.start(0, "a", "0", 1)
		for i, x := range c.events {
			s.must(s.Event(&workload.Event{ID: strconv.Itoa(i), Kind: x.kind, Job: workload.Job{ID: x.job},
				Time: time.Duration(x.minute * float64(minute))}))
		}
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRegressionBoundary: three of five hours outside, within six hours of the configuration.
func TestRegressionBoundary(t *testing.T) {
	const in, out, excused = 0, 1, 2
	for _, c := range []struct {
		name  string
		hours []int // from the first hour after it was applied
		want  string
	}{
		{"three of five", []int{out, in, out, in, out}, "r 5h0m0s"},
		{"two of five", []int{out, in, in, in, out}, ""},
		{"demand left its own interval", []int{out, excused, out, excused, in}, ""},
		{"too late", []int{in, in, in, out, out, in, out}, ""},
		{"in the sixth hour", []int{in, in, in, out, out, out}, "r 6h0m0s"},
	} {
		s := newScan(t, Options{Rules: only("config_regression")})
		for i, x := range c.hours {
			g := Guardrail{Time: time.Duration(i+2) * hour, Revision: "r", Name: "p99", Value: 1, Low: .5, High: 1,
				Applied: hour, DemandOutside: x == excused}
			if x != in {
				g.Value = 1.01
			}
			s.must(s.Guardrail(&g))
			s.must(s.Guardrail(&g)) // which came twice counts once
		}
		got := s.opened()
		if got != "" {
			got = fmt.Sprintf("r %v", s.since(s.found[0].Opened)-hour)
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestGapIsUnknown: a job without samples is not idle, and a scan that begins anew finds it once there are enough.
func TestGapIsUnknown(t *testing.T) {
	idle := func(time.Duration, int) float64 { return 0 }
	for _, c := range []struct {
		name string
		send func(s *scan)
		want string
	}{
		{"whole", func(s *scan) { s.sampled(0, 3*hour, "0", 1, idle) }, "1 1h9m0s"},
		{"a gap of a tenth of an hour", func(s *scan) {
			s.sampled(0, 30*minute, "0", 1, idle)
			s.sampled(35*minute, 3*hour, "0", 1, idle)
		}, "1 1h14m0s"},
		{"half of the samples", func(s *scan) {
			for at := time.Duration(0); at < 3*hour; at += 30 * time.Second {
				s.sampled(at, at+15*time.Second, "0", 1, idle)
			}
		}, ""},
		{"from the second hour on", func(s *scan) { s.sampled(2*hour, 4*hour, "0", 1, idle) }, "1 2h54m0s"},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1), Rules: only("idle_allocation")})
		s.submit(0, "1", "a", 1)
		s.start(0, "1", "0", 1)
		c.send(s)
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

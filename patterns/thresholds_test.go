package patterns

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// on returns a scan of one built-in rule on a cluster.
func on(t *testing.T, rule string, c workload.Cluster) *scan {
	return newScan(t, Options{Cluster: c, Rules: only(rule)})
}

// labelled submits a job with labels and starts it on a node.
func (s *scan) labelled(at time.Duration, id, labels, node string, gpus int) {
	s.must(s.Event(&workload.Event{ID: id + "s", Kind: workload.Submitted, Time: at, Labels: labels,
		Job: workload.Job{ID: id, Tenant: "a", User: "a", Key: "ka", GPUs: workload.GPUs(gpus)}}))
	s.start(at, id, node, gpus)
}

func always(busy float64) func(time.Duration, int) float64 {
	return func(time.Duration, int) float64 { return busy }
}

// TestHoardingThresholds: 24 of the 30 minutes after a warm-up of 15, and then 10 minutes in which a job waits.
func TestHoardingThresholds(t *testing.T) {
	spikes := func(every int, high float64) func(time.Duration, int) float64 {
		return func(at time.Duration, _ int) float64 {
			if int(at/(15*time.Second))%every == 0 {
				return high
			}
			return .05
		}
	}
	for _, c := range []struct {
		name       string
		busy       func(time.Duration, int) float64
		labels     string
		wants      int           // GPUs of the job that waits
		from, till time.Duration // while it waits
		want       string
	}{
		{"a mean just below", always(.149), "", 4, 0, 3 * hour, "1 49m0s"},
		{"at the mean", always(.1501), "", 4, 0, 3 * hour, ""},
		{"a high 95th percentile", spikes(12, .41), "", 4, 0, 3 * hour, ""},
		{"rare spikes", spikes(30, .41), "", 4, 0, 3 * hour, "1 49m0s"},
		{"low spikes", spikes(12, .39), "", 4, 0, 3 * hour, "1 49m0s"},
		{"as many as would be free", always(.1), "", 6, 0, 3 * hour, "1 49m0s"},
		{"one more", always(.1), "", 7, 0, 3 * hour, ""},
		{"a job comes later", always(.1), "", 4, 90 * minute, 3 * hour, "1 1h41m0s"},
		{"it waits ten minutes", always(.1), "", 4, hour, 70 * minute, ""},
		{"it waits eleven minutes", always(.1), "", 4, hour, 71 * minute, "1 1h11m0s"},
		{"allowed", always(.1), "hoard-ok", 4, 0, 3 * hour, ""},
		{"interactive for two hours", always(.1), "interactive", 4, 0, 3 * hour, "1 2h10m0s"},
	} {
		s := on(t, "hoarding", workload.Uniform(1, 8))
		s.labelled(0, "1", c.labels, "0", 8)
		s.submit(c.from, "2", "b", c.wants)
		s.sampled(0, 3*hour, "0", 8, c.busy)
		s.end(c.till, "2", workload.Cancelled)
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestHoardingLeaves: it ends at a mean of 30 % over half an hour, and where too few GPUs are idle.
func TestHoardingLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		busy float64 // from the second hour on
		want string
	}{{"at the mean", .301, "closed"}, {"below it", .299, "open"}} {
		s := on(t, "hoarding", workload.Uniform(1, 8))
		s.labelled(0, "1", "", "0", 8)
		s.submit(0, "2", "b", 1)
		s.sampled(0, hour, "0", 8, always(.1))
		s.sampled(hour, 3*hour, "0", 8, always(c.busy))
		if got := s.close(); !strings.Contains(got, " "+c.want+" ") {
			t.Errorf("%s: found %q, want it %s", c.name, got, c.want)
		}
	}
}

// TestIdleThresholds: an hour of a use below 1 %, by power and processes where they are known.
func TestIdleThresholds(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name          string
		busy          float64
		excess        float64 // W above idle, none for unknown
		processes     int     // none for unknown
		memory        float64
		labels        string
		used          time.Duration // at first, all of it
		ends, samples time.Duration
		want          string
	}{
		{"just below", .0099, none, none, none, "", 0, 0, 0, "1 1h9m0s"},
		{"at it", .0101, none, none, none, "", 0, 0, 0, ""},
		{"allowed", 0, none, none, none, "idle-ok", 0, 0, 0, ""},
		{"it ends before", 0, none, none, none, "", 0, 69*minute - 1, 0, ""},
		{"power just below", 0, 14.9, none, none, "", 0, 0, 0, "1 1h9m0s"},
		{"power above", 0, 15.1, none, none, "", 0, 0, 0, ""},
		{"power of a context", 0, 69, 1, none, "", 0, 0, 0, "1 1h9m0s"},
		{"of a context by memory", 0, 69, none, .011, "", 0, 0, 0, "1 1h9m0s"},
		{"memory of none", 0, 69, none, .009, "", 0, 0, 0, ""},
		{"more than a context's", 0, 71, 1, none, "", 0, 0, 0, ""},
		{"no process", 0, 69, 0, none, "", 0, 0, 0, ""},
		{"used for ten minutes before", 0, none, none, none, "", 10 * minute, 0, 0, "1 1h9m0s"},
		{"used in a short spell", 0, none, none, none, "", 9 * minute, 0, 0, ""},
	} {
		s := on(t, "idle_allocation", workload.Uniform(1, 1))
		s.labelled(0, "1", c.labels, "0", 1)
		for at := time.Duration(0); at < 3*hour; at += 15 * time.Second {
			x := telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Time: at,
				Known:       telemetry.Utilization,
				Utilization: 100 * c.busy}
			if at < c.used {
				x.Utilization = 90
			}
			if c.excess != none {
				x.Known, x.Power = x.Known|telemetry.Power, idleWatts()+c.excess
			}
			if c.processes != none {
				x.Known, x.Processes = x.Known|telemetry.Processes, c.processes
			}
			if c.memory != none {
				x.Known |= telemetry.MemoryUsed | telemetry.MemoryTotal
				x.MemoryUsed, x.MemoryTotal = 1000*c.memory, 1000
			}
			s.must(s.GPU(&x))
		}
		if c.ends > 0 {
			s.end(c.ends, "1", workload.Completed)
		}
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// idleWatts returns the idle power of an unknown GPU model.
func idleWatts() float64 {
	a := energy.Default()
	return a.GPUs[a.GPU].Idle
}

// TestFragmentationThresholds: free GPUs of which no waiting gang fits, in 8 of the last 10 minutes.
func TestFragmentationThresholds(t *testing.T) {
	for _, c := range []struct {
		name     string
		gang     int
		from, to time.Duration // while the gang waits
		want     string
	}{
		{"an hour", 4, 0, hour, "all 10m0s"},
		{"nine minutes", 4, minute, 10 * minute, "all 10m0s"},
		{"seven minutes", 4, minute, 8 * minute, ""},
		{"it fits", 2, 0, hour, ""},
		{"too wide for all that is free", 5, 0, hour, ""},
	} {
		s := on(t, "fragmentation", workload.Uniform(2, 4))
		for i, node := range []string{"0", "1"} {
			s.submit(0, node, "a", 2)
			s.start(0, node, strconv.Itoa(i), 2)
		}
		s.submit(c.from, "gang", "b", c.gang)
		s.end(c.to, "gang", workload.Cancelled)
		s.must(s.Advance(2 * hour))
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
		for _, f := range s.found {
			if closed := s.since(f.Closed); f.Open || closed < c.to || closed > c.to+10*minute {
				t.Errorf("%s: open %t until %v", c.name, f.Open, closed)
			}
			for _, e := range f.Evidence {
				if e.Unit != "share" || e.Value < 0 || e.Value > 1 {
					t.Errorf("%s: %+v", c.name, e)
				}
			}
		}
	}
}

// TestStarvationThresholds: more than a day, thrice the usual wait, and overtaken by twice its work.
func TestStarvationThresholds(t *testing.T) {
	for _, c := range []struct {
		name      string
		usual     time.Duration // wait of a job of its width before, 0 for none
		overtaker time.Duration // limit of a later job that starts
		until     time.Duration
		want      string
	}{
		{"for lack of overtakers", 0, 0, 48 * hour, ""},
		{"overtaken by twice its work", 0, 16 * hour, 48 * hour, "starved 24h10m0s"},
		{"overtaken by less", 0, 16*hour - minute, 48 * hour, ""},
		{"for a day", 0, 16 * hour, 24 * hour, ""},
		{"three usual waits", 9 * hour, 16 * hour, 48 * hour, "starved 27h10m0s"},
		{"as usual", 17 * hour, 16 * hour, 48 * hour, ""},
	} {
		s := on(t, "starvation", workload.Uniform(1, 8))
		limited := func(at time.Duration, id string, gpus int, limit time.Duration) {
			s.must(s.Event(&workload.Event{ID: id, Kind: workload.Submitted, Time: at, Job: workload.Job{ID: id, Tenant: "a",
				GPUs: workload.GPUs(gpus), Requested: workload.Request{TimeLimit: limit}.Shared()}}))
		}
		begin := 24 * hour
		if c.usual > 0 {
			limited(begin-c.usual, "before", 8, hour)
			s.start(begin, "before", "0", 8)
			s.end(begin+minute, "before", workload.Completed)
		}
		limited(begin, "starved", 8, 2*hour)
		if c.overtaker > 0 {
			limited(begin+minute, "later", 2, c.overtaker)
			s.start(begin+2*minute, "later", "0", 2)
		}
		s.start(begin+c.until, "starved", "0", 8)
		s.must(s.Advance(begin + 3*24*hour))
		s.must(s.Close())
		got := ""
		for _, f := range s.found {
			got += f.Entity.Name + " " + (s.since(f.Opened) - begin).String()
			if f.Open || s.since(f.Closed) != begin+c.until {
				t.Errorf("%s: open %t until %v", c.name, f.Open, s.since(f.Closed))
			}
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestNeverEndingThresholds: beyond a week and thrice its kind, or its limit, and unused, silent or without a process.
func TestNeverEndingThresholds(t *testing.T) {
	for _, c := range []struct {
		name      string
		limit     time.Duration
		kind      time.Duration // of another job of its key, 0 for none
		from      time.Duration // of samples, until four hours later
		busy      float64
		processes int
		said      time.Duration // the last line of its log, 0 for none
		want      string
	}{
		{"five minutes beyond its limit", 3 * hour, 0, hour, .019, 1, 0, "j 3h10m0s"},
		{"within its limit", 24 * hour, 0, hour, 0, 1, 0, ""},
		{"used a little", 3 * hour, 0, hour, .021, 1, 0, ""},
		{"a week", 0, 0, 166 * hour, 0, 1, 0, "j 168h5m0s"},
		{"less than a week", 0, 0, 163 * hour, 0, 1, 0, ""},
		{"thrice its kind", 0, 56 * hour, 166 * hour, 0, 1, 0, "j 168h5m0s"},
		{"as long as its kind", 0, 60 * hour, 166 * hour, 0, 1, 0, ""},
		{"no process", 3 * hour, 0, 2 * hour, .25, 0, 0, "j 3h10m0s"},
		{"silent for two hours", 3 * hour, 0, hour, .1, 1, 3 * hour, "j 5h0m0s"},
		{"silent for less", 3 * hour, 0, hour, .1, 1, 5*hour - minute, ""},
	} {
		s := on(t, "never_ending", workload.Uniform(2, 1))
		submit := func(id string, limit time.Duration) {
			s.must(s.Event(&workload.Event{ID: id, Kind: workload.Submitted, Job: workload.Job{ID: id, Tenant: "a", Key: "k",
				GPUs: workload.GPUs(1), Requested: workload.Request{TimeLimit: limit}.Shared()}}))
		}
		if c.kind > 0 {
			submit("kind", 0)
			s.start(0, "kind", "1", 1)
			s.end(c.kind, "kind", workload.Completed)
		}
		submit("j", c.limit)
		s.start(0, "j", "0", 1)
		for at := c.from; at < c.from+4*hour; at += 15 * time.Second {
			s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Time: at,
				Processes: c.processes,
				Known:     telemetry.Utilization | telemetry.Processes, Utilization: 100 * c.busy}))
		}
		if c.said > 0 {
			s.must(s.Message(&Message{Time: c.said, Job: "j", Text: "step"}))
			s.must(s.Advance(6 * hour))
		}
		if got := s.opened(); got != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// TestQuotaThresholds: less than half of a quota for a week, in at least 4.17 % of which others waited.
func TestQuotaThresholds(t *testing.T) {
	for _, c := range []struct {
		name   string
		held   int           // of a quota of 8
		from   time.Duration // until then all of it is held
		waits  time.Duration // for how long a job of another tenant waits
		wanted string        // entity, and when
	}{
		{"three of eight", 3, 0, 8 * 24 * hour, "a 151h15m0s"},
		{"four of eight", 4, 0, 8 * 24 * hour, ""},
		{"the whole quota for a tenth of the week", 3, 17 * hour, 8 * 24 * hour, "a 176h45m0s"},
		{"others wait for 6.5 hours", 3, 0, 390 * minute, "a 151h15m0s"},
		{"others wait for six hours", 3, 0, 6 * hour, ""},
		{"none waits", 3, 0, 0, ""},
	} {
		s := on(t, "quota_hoarding", workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 8}},
			VCs: []workload.VC{{Tenant: "a", GPUs: 8}, {Tenant: "b", GPUs: 8}}})
		s.submit(0, "held", "a", c.held)
		s.start(0, "held", "0", c.held)
		if c.from > 0 {
			s.submit(0, "more", "a", 8-c.held)
			s.start(0, "more", "0", 8-c.held)
			s.end(c.from, "more", workload.Completed)
		}
		s.submit(0, "other", "b", 8)
		s.start(0, "other", "1", 8)
		if c.waits > 0 {
			s.submit(0, "waits", "b", 8)
			s.end(c.waits, "waits", workload.Cancelled)
		}
		for day := range 9 { // without records for a week, time passes in hours
			s.must(s.Event(&workload.Event{Kind: workload.Heartbeat, Time: time.Duration(day) * 24 * hour}))
		}
		s.must(s.Close())
		got := ""
		for _, f := range s.found {
			got += f.Entity.Name + " " + s.since(f.Opened).String()
		}
		if got != c.wanted {
			t.Errorf("%s: found %q, want %q", c.name, got, c.wanted)
		}
	}
}

// TestSpiralThresholds: each number of waits that rise decides at its threshold.
func TestSpiralThresholds(t *testing.T) {
	d := &spiral{r: &compiled{rule: Builtin().Rule("queue_spiral")}}
	list := func(change func(i int, x *interval)) []interval {
		out := make([]interval, 4)
		wait := 10 * minute
		for i := range out {
			out[i] = interval{wait: wait, longest: wait, waited: true, arrived: 10, arrivalsKnown: true, free: .06,
				freeKnown: true}
			wait = wait * 5 / 4
			change(i, &out[i])
		}
		return out
	}
	for _, c := range []struct {
		name   string
		change func(i int, x *interval)
		want   bool
	}{
		{"as they are", func(int, *interval) {}, true},
		{"growth of 1.2", func(i int, x *interval) {
			x.wait = []time.Duration{1000, 1200, 1440,
				1728}[i] * time.Second
		}, false},
		{"growth just above", func(i int, x *interval) {
			x.wait = []time.Duration{1000, 1201, 1442,
				1731}[i] * time.Second
		},
			true},
		{"one interval less", func(i int, x *interval) { x.wait = []time.Duration{8, 8, 10, 13}[i] * minute }, false},
		{"waits below a minute", func(i int, x *interval) {
			x.wait = []time.Duration{5, 20, 40,
				60}[i] * time.Second
		}, false},
		{"free GPUs at the share", func(i int, x *interval) { x.free = .05 }, false},
		{"once at the share", func(i int, x *interval) {
			if i == 2 {
				x.free = .05
			}
		}, false},
		{"free GPUs before", func(i int, x *interval) {
			if i == 0 {
				x.free = 0
			}
		}, true},
		{"arrivals grow by 1.1 on average", func(i int, x *interval) {
			x.arrived = []float64{10, 11, 12.1,
				13.31}[i]
		}, false},
		{"by less", func(i int, x *interval) { x.arrived = []float64{10, 11, 12, 13.2}[i] }, true},
		{"by 1.15 at once", func(i int, x *interval) { x.arrived = []float64{10, 10, 11.5, 10}[i] }, false},
		{"by less at once", func(i int, x *interval) { x.arrived = []float64{10, 10, 11.4, 10}[i] }, true},
		{"nothing arrives", func(i int, x *interval) { x.arrived = 0 }, true},
		{"unknown work", func(i int, x *interval) { x.arrivalsKnown = i != 0 }, false},
		{"unknown free GPUs", func(i int, x *interval) { x.freeKnown = i != 3 }, false},
		{"no wait in one", func(i int, x *interval) { x.waited = i != 0 }, false},
	} {
		if _, _, _, got := d.waitsRise(&Scanner{}, list(c.change)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestPendingThresholds: pending GPUs that rise while less arrives than is served.
func TestPendingThresholds(t *testing.T) {
	d := &spiral{r: &compiled{rule: Builtin().Rule("queue_spiral")}}
	for _, c := range []struct {
		name     string
		n        int
		arrived  float64 // per interval; 10 are served
		guessed  float64
		least    float64 // pending GPUs in the last interval, of a capacity of 100
		rises    int     // of the intervals
		capacity int
		free     float64
		want     bool
	}{
		{"as it is", 16, 9, 0, 50, 16, 100, 0, true},
		{"too few intervals", 15, 9, 0, 50, 15, 100, 0, false},
		{"as much arrives", 16, 10, 0, 50, 16, 100, 0, false},
		{"a twentieth of the capacity", 16, 9, 0, 5, 16, 100, 0, true},
		{"less", 16, 9, 0, 4.9, 16, 100, 0, false},
		{"no trend", 16, 9, 0, 50, 2, 100, 0, false},
		{"a tenth is guessed", 16, 10. / 1.1, .1 * 10 / 1.1, 50, 16, 100, 0, true},
		{"more is guessed", 16, 9, 1, 50, 16, 100, .05, false},
		{"and GPUs are free", 16, 9, 1, 50, 16, 100, .06, true},
		{"no capacity", 16, 9, 0, 50, 16, 0, 0, false},
	} {
		s := newScan(t, Options{})
		p := s.cluster.PoolOf("q")
		p.Total = c.capacity
		list := make([]interval, c.n)
		for i := range list {
			pending := c.least
			if back := c.n - 1 - i; back < c.rises {
				pending = c.least * (1 - float64(back)/float64(4*c.n))
			} else if back%2 == 1 {
				pending = c.least * 2
			}
			list[i] = interval{arrived: c.arrived, guessed: c.guessed, served: 10, arrivalsKnown: true,
				pending: pending,
				free:    c.free, freeKnown: true}
		}
		if _, _, _, got := d.pendingRises(s.Scanner, p, list); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

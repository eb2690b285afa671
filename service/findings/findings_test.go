package findings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var zero = time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)

// stored is a service's store of one scheduler, "prod".
type stored struct {
	lock    sync.Mutex
	of      Scheduler
	events  []workload.Event
	samples []telemetry.GPUSample
	steps   []telemetry.Iteration
	bad     error
	read    func() // once, after the events were read
}

func (s *stored) Schedulers() []string { return []string{"prod"} }

func (s *stored) Scheduler(id string) (Scheduler, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if id != "prod" {
		return Scheduler{}, errors.New("no such scheduler")
	}
	return s.of, nil
}

func (s *stored) Events(_ context.Context, _ string, f func(workload.Event) error) error {
	s.lock.Lock()
	events, bad, read := s.events, s.bad, s.read
	s.read = nil
	s.lock.Unlock()
	for _, e := range events {
		if err := f(e); err != nil {
			return err
		}
	}
	if read != nil {
		read()
	}
	return bad
}

func (s *stored) Sampled(string) (end time.Duration, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for i := range s.samples {
		end = max(end, (s.samples[i].Time/time.Hour+1)*time.Hour)
	}
	for i := range s.steps {
		end = max(end, (s.steps[i].Time/time.Hour+1)*time.Hour)
	}
	return end, nil
}

func (s *stored) Iterations(_ context.Context, _ string, from, to time.Duration,
	f func(*telemetry.Iteration) error) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for i := range s.steps {
		if x := s.steps[i]; x.Time >= from && x.Time < to {
			if err := f(&x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stored) Samples(_ context.Context, _ string, from, to time.Duration,
	f func(*telemetry.GPUSample) error) error {
	s.lock.Lock()
	all := slices.Clone(s.samples)
	s.lock.Unlock()
	slices.SortStableFunc(all, func(a, b telemetry.GPUSample) int { // as the store: within an hour by GPU
		return int(a.Time/time.Hour-b.Time/time.Hour)*2 + strings.Compare(a.Node, b.Node)
	})
	for i := range all {
		if x := all[i]; x.Time >= from && x.Time < to {
			if err := f(&x); err != nil {
				return err
			}
		}
	}
	return nil
}

// site is a keeper with the notices that it gave.
type site struct {
	t *testing.T
	*stored
	*Keeper
	dir     string
	stop    func() // may be called again
	notices []string
	clock   atomic.Int64 // since zero
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), stored: &stored{of: Scheduler{Zero: zero, Version: "1",
		Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 2}}}}}}
	s.clock.Store(int64(30 * 24 * time.Hour))
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// background runs a part until stop is called, which waits for its end and may be called again.
func background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

func (s *site) start() {
	s.Keeper = Open(Options{Dir: s.dir, Now: func() time.Time { return zero.Add(time.Duration(s.clock.Load())) },
		Notify: func(n *Notice) { s.notices = append(s.notices, n.Event+" "+n.Entity.String()) }})
	keeper := s.Keeper
	s.stop = background(func(ctx context.Context) error { return keeper.Run(ctx, s.stored) })
	for runs := false; !runs; runtime.Gosched() { // records that come in before are left out
		keeper.mu.Lock()
		runs = keeper.source != nil
		keeper.mu.Unlock()
	}
}

func (s *site) restart() {
	s.stop()
	s.start()
}

// send stores events and passes them on.
func (s *site) send(events ...workload.Event) {
	s.lock.Lock()
	s.events = append(s.events, events...)
	s.lock.Unlock()
	s.Keeper.Events("prod", events)
}

// sample stores and passes on samples of a node's two GPUs of a span, one every period.
func (s *site) sample(node string, from, to, period time.Duration, busy float64) {
	var all []telemetry.GPUSample
	for at := from; at < to; at += period {
		for g := range 2 {
			all = append(all, telemetry.GPUSample{GPU: telemetry.GPU{Node: node, Index: g, Instance: -1},
				Time: time.Duration(zero.UnixNano()) + at, Known: telemetry.Utilization, Utilization: busy})
		}
	}
	s.lock.Lock()
	s.stored.samples = append(s.stored.samples, all...)
	s.lock.Unlock()
	s.Keeper.Samples("prod", all)
}

func job(kind workload.EventKind, at time.Duration, id, node string) workload.Event {
	e := workload.Event{ID: fmt.Sprint(id, kind), Kind: kind, Time: at,
		Job: workload.Job{ID: id, Tenant: "t", GPUs: workload.GPUs(2)}}
	if kind == workload.Started {
		e.Placement = []workload.NodeShare{{Node: node, GPUs: 2}}
	}
	return e
}

// idle runs job 7 on node a from 0, and never uses its GPUs until an instant.
func (s *site) idle(until, period time.Duration) {
	s.send(workload.Event{ID: "up", Kind: workload.NodeUp, Node: "a", NodeGPUs: 2},
		job(workload.Submitted, 0, "7", ""), job(workload.Started, time.Minute, "7", "a"))
	s.sample("a", time.Minute, until, period, 0)
}

// all waits until the findings are as wanted, and returns them.
func (s *site) all(want ...string) []*Finding {
	s.t.Helper()
	var got []string
	var list []*Finding
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		got = nil
		list, _, _ = s.List("prod", Query{Limit: 100})
		for _, f := range list {
			text := f.Rule + " " + f.Entity.String() + " open"
			if !f.Open {
				text = strings.Replace(text, "open", "closed "+f.Closed.Sub(zero).Round(time.Minute).String(), 1)
			}
			got = append(got, text)
		}
		if slices.Equal(got, want) {
			return list
		}
	}
	s.t.Fatalf("got %q, want %q", got, want)
	return nil
}

// settled waits until as many records were taken in, and returns their counts.
func (s *site) settled(n int64) map[string]int64 {
	s.t.Helper()
	w := s.watch("prod")
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		w.in.Lock()
		counts, sum := maps.Clone(w.counts), int64(0)
		w.in.Unlock()
		for _, c := range counts {
			sum += c
		}
		if sum == n {
			return counts
		}
		if time.Now().After(until) {
			s.t.Fatalf("%v, want %d", counts, n)
		}
	}
}

// joined waits until as many samples at least were joined, and all by placement.
func (s *site) joined(n int) {
	s.t.Helper()
	w := s.watch("prod")
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		w.in.Lock()
		joins := w.joins
		w.in.Unlock()
		if got := joins[telemetry.ByPlacement]; got >= n && joins == (telemetry.JoinCounts{
			telemetry.ByPlacement: got}) {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("joined %v, want %d", joins, n)
		}
	}
}

const hour, minute = time.Hour, time.Minute

// TestLife: an idle allocation is found, goes on after a restart as the same finding with its marks, and
// closes when its job ends.
func TestLife(t *testing.T) {
	for _, period := range []time.Duration{15 * time.Second, minute} {
		s := newSite(t)
		s.idle(0, period)
		s.settled(3) // the samples are not read from the store
		s.sample("a", time.Minute, 3*hour, period, 0)
		f := s.all("idle_allocation job/7 open")[0]
		s.joined(2 * 60)
		if f.Job != "7" || f.WastedGPUHours < 1 || len(f.Evidence) == 0 || f.Opened.Before(zero.Add(hour)) {
			t.Fatalf("%+v", f)
		}
		if got, err := s.Acknowledge("prod", f.ID, "ann", "asked its owner"); err != nil || got.Acknowledged.By != "ann" {
			t.Fatalf("%+v %v", got, err)
		}
		for range 2 {
			s.restart()
			s.sample("a", 3*hour, 3*hour+10*minute, period, 0)
			if got := s.all("idle_allocation job/7 open")[0]; got.ID != f.ID || got.Acknowledged == nil ||
				got.Opened != f.Opened || got.WastedGPUHours < f.WastedGPUHours {
				t.Fatalf("%+v is not %+v", got, f)
			}
		}
		s.send(job(workload.Finished, 4*hour, "7", ""))
		s.sample("b", 4*hour, 4*hour+20*minute, period, 50)
		got := s.all("idle_allocation job/7 closed 4h0m0s")[0]
		if got.ID != f.ID || got.Lost || got.WastedGPUHours < 6 || got.WastedGPUHours > 8 {
			t.Errorf("%+v", got)
		}
		s.restart()
		s.sample("b", 4*hour+20*minute, 5*hour, period, 50)
		s.all("idle_allocation job/7 closed 4h0m0s")
		s.stop()
		if want := []string{"opened job/7", "closed job/7"}; !slices.Equal(s.notices, want) {
			t.Errorf("notices %q", s.notices)
		}
		_, rules, _ := s.List("prod", Query{})
		if rules != nil {
			t.Errorf("a closed keeper has %v", rules)
		}
	}
}

// TestIterations: a worker that is slow is found from the times of its steps, of which some were read again after a
// restart.
func TestIterations(t *testing.T) {
	s := newSite(t)
	s.send(job(workload.Submitted, 0, "7", "t"), job(workload.Started, 0, "7", "t"))
	steps := func(from, to int) {
		var all []telemetry.Iteration
		for k := from; k < to; k++ {
			for w := range 4 {
				took := time.Second
				if w == 2 && k < 6 { // no part alone shows it
					took = 1500 * time.Millisecond
				}
				all = append(all, telemetry.Iteration{Job: "7", Worker: w, Step: k, Took: took,
					Time: time.Duration(zero.UnixNano()) + time.Duration(k)*20*time.Second})
			}
		}
		s.lock.Lock()
		s.stored.steps = append(s.stored.steps, all...)
		s.lock.Unlock()
		s.Keeper.Iterations("prod", all)
	}
	steps(0, 4)
	s.settled(2 + 16)
	s.all()
	s.restart()
	steps(4, 20)
	s.all("straggler worker/7/2 open")
	s.restart()
	s.all("straggler worker/7/2 open")
	if len(s.notices) != 1 {
		t.Errorf("notices %q", s.notices)
	}
}

// TestGuardrails: a configuration that delays jobs beyond its forecast in three hours of five is found; looks within an
// hour, and hours of a demand that nothing foresaw, do not count.
func TestGuardrails(t *testing.T) {
	s := newSite(t)
	s.send(job(workload.Submitted, 0, "7", ""))
	look := func(revision string, applied, age time.Duration, demand bool) {
		base := time.Duration(zero.UnixNano()) + applied
		s.Keeper.Guardrail("prod", patterns.Guardrail{Time: base + age, Revision: revision, Applied: base, Name: "delay",
			Value: 2, Low: math.Inf(-1), High: 1, DemandOutside: demand})
	}
	for age := 15 * minute; age < 3*hour; age += 15 * minute {
		look("1", 0, age, true)
	}
	for age := 15 * minute; age < 3*hour; age += 15 * minute {
		look("2", 3*hour, age, false)
	}
	s.settled(1 + 2 + 2)
	s.send(job(workload.Submitted, 7*hour, "8", ""))
	s.settled(1 + 2 + 2 + 1)
	s.all()
	look("2", 3*hour, 5*hour, false)
	s.settled(1 + 2 + 2 + 1 + 1)
	s.send(job(workload.Submitted, 9*hour, "9", ""))
	s.all("config_regression config_version/2 open")
}

// TestEndedWhileRead: a job ends between the reading of events and that of samples.
func TestEndedWhileRead(t *testing.T) {
	s := newSite(t)
	s.idle(3*hour, minute)
	s.all("idle_allocation job/7 open")
	s.stop()
	s.stored.read = func() {
		s.send(job(workload.Finished, 4*hour, "7", ""))
		s.sample("b", 4*hour, 4*hour+20*minute, minute, 50)
	}
	s.start()
	s.all("idle_allocation job/7 closed 4h0m0s")
}

// TestEndedWhileDown: a job ended while the service was down, or its events are gone.
func TestEndedWhileDown(t *testing.T) {
	s := newSite(t)
	s.idle(3*hour, minute)
	s.all("idle_allocation job/7 open")
	s.stop()
	s.stored.events = append(s.stored.events, job(workload.Finished, 200*minute, "7", ""),
		job(workload.Submitted, 5*hour, "8", ""))
	s.start()
	s.all("idle_allocation job/7 closed 3h20m0s")

	s = newSite(t)
	s.idle(3*hour, minute)
	f := s.all("idle_allocation job/7 open")[0]
	s.stop()
	events := s.stored.events
	s.stored.events = nil
	s.start()
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if got, err := s.Get("prod", f.ID); err == nil && got.Lost {
			break
		} else if time.Now().After(until) {
			t.Fatalf("%+v %v", got, err)
		}
	}
	s.stop()
	s.stored.events = events
	s.start()
	if got := s.all("idle_allocation job/7 open")[0]; got.ID != f.ID || got.Lost {
		t.Errorf("found again as %+v", got)
	}
}

// TestMarks: judgements exclude each other and are counted, a snooze is silent, and an unstored mark does not count.
func TestMarks(t *testing.T) {
	s := newSite(t)
	s.idle(3*hour, minute)
	f := s.all("idle_allocation job/7 open")[0]
	rule := func() Rule {
		_, rules, _ := s.List("prod", Query{})
		if len(rules) != 1 {
			t.Fatalf("%+v", rules)
		}
		return rules[0]
	}
	if r := rule(); r.Total != 1 || r.Open != 1 || r.Loud != 1 {
		t.Errorf("%+v", r)
	}
	if _, known := new(rule()).Precision(); known {
		t.Error("nothing was judged")
	}
	for range 2 {
		if _, err := s.Acknowledge("prod", f.ID, "ann", ""); err != nil {
			t.Fatal(err)
		}
	}
	if p, known := new(rule()).Precision(); p != 1 || !known {
		t.Errorf("%v", p)
	}
	got, err := s.MarkFalsePositive("prod", f.ID, "bob", "a notebook")
	if r := rule(); err != nil || got.Acknowledged != nil || r.Acknowledged != 0 || r.FalsePositives != 1 ||
		r.Open != 0 {
		t.Errorf("%+v %+v %v", got, r, err)
	}
	if _, err := s.Acknowledge("prod", f.ID, "ann", "no, it is idle"); err != nil || rule().Open != 1 {
		t.Errorf("%+v %v", rule(), err)
	}
	if _, err := s.Snooze("prod", f.ID, "ann", "", s.now().Add(hour)); err != nil || rule().Loud != 0 {
		t.Errorf("%+v %v", rule(), err)
	}
	s.o.write = func(string, *content) error { return errors.New("the disk is full") }
	if _, err := s.MarkFalsePositive("prod", f.ID, "bob", "x"); err == nil || rule().FalsePositives != 0 {
		t.Errorf("%+v %v", rule(), err)
	}
	s.o.write = write
	s.send(job(workload.Finished, 4*hour, "7", ""))
	s.sample("b", 4*hour, 5*hour, minute, 50)
	s.all("idle_allocation job/7 closed 4h0m0s")
	if _, err := s.Snooze("prod", f.ID, "ann", "", s.now().Add(hour)); !errors.Is(err, ErrState) {
		t.Errorf("a closed one: %v", err)
	}
	if _, err := s.Get("prod", "0000000000000000"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	s.stop()
	if len(s.notices) != 1 {
		t.Errorf("notices %q", s.notices)
	}
}

// TestOverload: records for which there is no room are counted, and examined later: they are stored.
func TestOverload(t *testing.T) {
	s := newSite(t)
	s.sample("b", 0, minute, minute, 50)
	s.settled(2)
	s.Keeper.Events("prod", make([]workload.Event, maxQueue+1))
	s.Keeper.Samples("prod", make([]telemetry.GPUSample, maxQueue+1))
	counts := s.settled(2 + 2*(maxQueue+1))
	if counts[dropped] != 2*(maxQueue+1) {
		t.Errorf("%v", counts)
	}
	passed := s.Keeper
	s.Keeper = Open(Options{}) // not started
	s.idle(3*hour, minute)
	s.Keeper = passed
	s.all()
	s.clock.Add(int64(2 * again))
	s.sample("b", 3*hour, 3*hour+minute, minute, 50)
	s.all("idle_allocation job/7 open")
}

// TestClocks: samples of the far future do not end the scan, a new zero begins it anew, and late ones are counted.
func TestClocks(t *testing.T) {
	s := newSite(t)
	s.idle(3*hour, minute)
	s.all("idle_allocation job/7 open")
	before := s.settled(3 + 2*179)
	s.sample("a", 60*24*hour, 60*24*hour+hour, minute, 50)
	s.sample("a", 10*minute, 20*minute, minute, 50)
	counts := s.settled(3 + 2*179 + 120 + 20)
	if counts[tooEarly] != 120 || counts[late]-before[late] != 20 {
		t.Errorf("%v, before %v", counts, before)
	}
	s.lock.Lock()
	s.of.Version = "2"
	s.lock.Unlock()
	s.sample("a", 3*hour, 3*hour+10*minute, minute, 0)
	s.all("idle_allocation job/7 open")
}

// TestFiles: a damaged file is set aside, and a purged scheduler leaves none.
func TestFiles(t *testing.T) {
	s := newSite(t)
	s.idle(3*hour, minute)
	s.all("idle_allocation job/7 open")
	s.stop()
	path := filepath.Join(s.dir, "prod.json")
	for _, text := range []string{"{", `{"version":2}`, "00000000 {}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.all("idle_allocation job/7 open") // the events and samples have it
		if _, err := os.Stat(path + ".damaged"); err != nil {
			t.Error(err)
		}
		s.stop()
	}
	s.start()
	s.all("idle_allocation job/7 open")
	if err := s.Forget("prod"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestDamagedByte: a flipped bit of a file costs the record that has it, which is named (N4).
func TestDamagedByte(t *testing.T) {
	c := content{Rules: []Rule{{Rule: "idle", Total: 3}}}
	for i := range 3 {
		f := notice(fmt.Sprint("f", i)).Finding
		f.Acknowledged = &Mark{By: "ann", Reason: "seen"}
		c.Findings = append(c.Findings, &f)
	}
	path := filepath.Join(t.TempDir(), "prod.json")
	if err := write(path, &c); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		text := slices.Clone(whole)
		text[at] ^= 1 << (at % 8)
		var got content
		err := got.decode(text)
		left := len(got.Rules) + len(got.Findings)
		if left < 3 || left < 4 && err == nil {
			t.Fatalf("byte %d: %d of 4 records are left: %v", at, left, err)
		}
		for _, f := range got.Findings {
			if !slices.ContainsFunc(c.Findings, func(o *Finding) bool {
				return o.ID == f.ID && *o.Acknowledged == *f.Acknowledged
			}) {
				t.Fatalf("byte %d: %+v", at, f)
			}
		}
	}
}

// TestBounds: the newest closed ones are kept, and a summary counts all.
func TestBounds(t *testing.T) {
	l := list{open: map[key]*Finding{}, rules: map[string]*Rule{}}
	for i := range maxClosed + 5 {
		f := &Finding{Finding: patterns.Finding{Rule: "r", Entity: patterns.Entity{Kind: "job", Name: fmt.Sprint(i)},
			Open: true, Opened: zero.Add(time.Duration(i))}}
		f.ID = idOf(f)
		if !l.add(f, zero) {
			t.Fatal("no room")
		}
		l.close(f, zero)
	}
	if r := l.summaries(zero)[0]; len(l.closed) != maxClosed || l.closed[0].Entity.Name != "5" ||
		r.Total != maxClosed+5 {
		t.Errorf("%d, first %v, %+v", len(l.closed), l.closed[0].Entity, r)
	}
	for i := range maxOpen + 1 {
		f := &Finding{Finding: patterns.Finding{Rule: "r", Entity: patterns.Entity{Kind: "job", Name: fmt.Sprint(i)},
			Open: true}}
		if got := l.add(f, zero); got != (i < maxOpen) {
			t.Fatalf("%d: %v", i, got)
		}
	}
}

// TestPast: jobs that ended long ago are not read, active ones are, and the number of events read is bounded.
func TestPast(t *testing.T) {
	p := past{jobs: map[string][]workload.Event{}, nodes: map[string]workload.Event{}, span: pastEvents}
	p.add(job(workload.Submitted, 0, "old", ""))
	p.add(job(workload.Started, 0, "active", "a"))
	p.add(job(workload.Finished, 1, "old", ""))
	p.add(workload.Event{ID: "down", Kind: workload.NodeDown, Node: "a", Time: 1})
	p.add(workload.Event{ID: "up", Node: "a", Kind: workload.NodeUp, Time: 2})
	p.add(job(workload.Finished, pastEvents+hour, "new", ""))
	if got := p.events(); len(got) != 3 || got[0].Job.ID != "active" || got[1].ID != "up" || got[2].Job.ID != "new" {
		t.Errorf("%v", got)
	}
	for i := range 3 * maxEvents {
		p.add(workload.Event{Kind: workload.Heartbeat, Time: pastEvents + hour + time.Duration(i)*time.Second})
	}
	if got := len(p.events()); got > maxEvents || p.span >= pastEvents {
		t.Errorf("%d events of %v", got, p.span)
	}
}

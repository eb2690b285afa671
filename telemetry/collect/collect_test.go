package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/autosched/autosched/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const at = 1_700_000_000 * time.Second

// fake is a driver of some GPUs, whose calls follow a test's script. It fails the test if a
// call is made that would end the process of a real driver.
type fake struct {
	t       testing.TB
	gpus    int
	inits   int
	begun   bool
	flying  atomic.Int32 // calls that have not returned
	onInit  func() error
	onList  func() error
	mu      sync.Mutex
	onRead  map[int]func(s *telemetry.GPUSample) error
	onXids  func() ([]XidEvent, error)
	instant int // id of an instance of GPU 0
}

// enter checks a call, and is given its end.
func (f *fake) enter(name string, exclusive bool) func() {
	if name != "Init" && !f.begun {
		f.t.Errorf("%s without a session", name)
	}
	if n := f.flying.Add(1); exclusive && n != 1 {
		f.t.Errorf("%s while another call has not returned", name)
	}
	return func() { f.flying.Add(-1) }
}

func (f *fake) Init() error {
	defer f.enter("Init", true)()
	f.inits++
	if f.onInit != nil {
		if err := f.onInit(); err != nil {
			return err
		}
	}
	f.begun = true
	return nil
}

func (f *fake) Shutdown() {
	defer f.enter("Shutdown", true)()
	f.begun = false
}

func (f *fake) Devices() ([]Device, error) {
	defer f.enter("Devices", true)()
	if f.onList != nil {
		if err := f.onList(); err != nil {
			return nil, err
		}
	}
	var all []Device
	for i := range f.gpus {
		all = append(all, f.device(i, -1))
		if i == 0 && f.instant > 0 {
			all = append(all, f.device(i, f.instant))
		}
	}
	return all, nil
}

func (f *fake) device(i, instance int) Device {
	d := Device{Index: i, Instance: instance, UUID: fmt.Sprintf("GPU-%d", i)}
	d.Read = func(s *telemetry.GPUSample, pids []int) ([]int, error) {
		defer f.enter("Read", false)()
		s.Known, s.Power, s.Utilization = telemetry.Power|telemetry.Utilization|telemetry.Xid, 100+float64(i), 50
		f.mu.Lock()
		read := f.onRead[i]
		f.mu.Unlock()
		if read != nil {
			if err := read(s); err != nil {
				return pids, err
			}
		}
		return append(pids, 1000+i), nil
	}
	return d
}

func (f *fake) Xids(dst []XidEvent) ([]XidEvent, error) {
	defer f.enter("Xids", false)()
	if f.onXids == nil {
		return dst, nil
	}
	all, err := f.onXids()
	return append(dst, all...), err
}

// read sets the behaviour of reading a GPU; nil is as usual.
func (f *fake) read(i int, do func(*telemetry.GPUSample) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onRead == nil {
		f.onRead = map[int]func(*telemetry.GPUSample) error{}
	}
	f.onRead[i] = do
}

// notes keeps the reports.
type notes struct{ all []string }

func (n *notes) add(text string) { n.all = append(n.all, text) }

// brief is a round in a line: a GPU is its power, lost, and its Xid error.
func brief(all []telemetry.GPUSample) string {
	var b strings.Builder
	for i := range all {
		s := &all[i]
		fmt.Fprintf(&b, " %v", s.GPU)
		switch {
		case s.Lost && s.Known&^telemetry.Xid == 0:
			b.WriteString(" lost")
		case s.Has(telemetry.Power):
			fmt.Fprintf(&b, " %gW", s.Power)
		}
		if s.Has(telemetry.Xid) && s.Xid > 0 {
			fmt.Fprintf(&b, " xid%d", s.Xid)
		}
	}
	return strings.TrimSpace(b.String())
}

func rounds(ctx context.Context, c *Collector, n int) (last string) {
	for range n {
		last = brief(c.Round(ctx, at))
	}
	return last
}

func TestRound(t *testing.T) {
	f := &fake{t: t, gpus: 2, instant: 7}
	var n notes
	c := New(f, Options{Node: "n1", Job: func(pids []int) string { return fmt.Sprint("job", pids) }, Notify: n.add})
	got := slices.Clone(c.Round(t.Context(), at))
	want := []telemetry.GPUSample{
		{GPU: telemetry.GPU{Node: "n1", Index: 0, Instance: -1}, UUID: "GPU-0", Time: at, Power: 100, Job: "job[1000]"},
		{GPU: telemetry.GPU{Node: "n1", Index: 0, Instance: 7}, UUID: "GPU-0", Time: at, Power: 100, Job: "job[1000]"},
		{GPU: telemetry.GPU{Node: "n1", Index: 1, Instance: -1}, UUID: "GPU-1", Time: at, Power: 101, Job: "job[1001]"},
	}
	for i := range want {
		want[i].Utilization, want[i].Known = 50, telemetry.Power|telemetry.Utilization|telemetry.Xid
	}
	if !slices.Equal(got, want) || len(n.all) > 0 {
		t.Errorf("%+v, want %+v; %q", got, want, n.all)
	}
	// Values that no GPU reports are unknown.
	f.read(1, func(s *telemetry.GPUSample) error { s.Power = 1e9; return nil })
	if s := c.Round(t.Context(), at)[2]; s.Has(telemetry.Power) || s.Power != 0 || !s.Has(telemetry.Utilization) {
		t.Errorf("%+v", s)
	}
	c.Close(t.Context())
	if f.begun || f.inits != 1 {
		t.Error("the session is not over", f.inits)
	}
}

// A lost GPU is marked; the others are sampled. In the end another session looks for it.
func TestLostGPU(t *testing.T) {
	f := &fake{t: t, gpus: 2}
	var n notes
	c := New(f, Options{Node: "n", Notify: n.add})
	rounds(t.Context(), c, 3)
	f.read(1, func(*telemetry.GPUSample) error { return ErrLost })
	if got := rounds(t.Context(), c, 3); got != "n:0 100W n:1 lost" || f.inits != 1 {
		t.Error(got, f.inits)
	}
	rounds(t.Context(), c, listEvery-6)
	f.read(1, nil)
	if got := rounds(t.Context(), c, 1); got != "n:0 100W n:1 101W" || f.inits != 2 {
		t.Error(got, f.inits)
	}
	if want := []string{"n:1: the GPU is lost", "all 2 GPUs and instances answer"}; !slices.Equal(n.all, want) {
		t.Errorf("%q, want %q", n.all, want)
	}
}

// A GPU that falls off the bus is lost with the error that says so; an instance is not
// given the errors of its GPU.
func TestXids(t *testing.T) {
	f := &fake{t: t, gpus: 2, instant: 3}
	var events []XidEvent
	f.onXids = func() ([]XidEvent, error) { defer func() { events = nil }(); return events, nil }
	c := New(f, Options{Node: "n"})
	for _, x := range []struct {
		events []XidEvent
		want   string
	}{
		{nil, "n:0 100W n:0/3 100W n:1 101W"},
		{[]XidEvent{{0, 31}, {0, 43}, {-1, 13}}, "n:0 100W xid43 n:0/3 100W n:1 101W"},
		{[]XidEvent{{1, 79}}, "n:0 100W n:0/3 100W n:1 lost xid79"},
		{nil, "n:0 100W n:0/3 100W n:1 101W"},
	} {
		events = x.events
		if got := brief(c.Round(t.Context(), at)); got != x.want {
			t.Errorf("%v: %s, want %s", x.events, got, x.want)
		}
	}
	f.onXids = func() ([]XidEvent, error) { return nil, ErrSession }
	if s := c.Round(t.Context(), at); s[0].Has(telemetry.Xid) || !s[0].Has(telemetry.Power) {
		t.Errorf("%+v", s[0])
	}
	if rounds(t.Context(), c, 1); f.inits != 2 {
		t.Error("the session went on")
	}
}

// While the driver is away every GPU is marked; when it is back there is a new session.
func TestReload(t *testing.T) {
	f := &fake{t: t, gpus: 2}
	var n notes
	c := New(f, Options{Node: "n", Notify: n.add})
	rounds(t.Context(), c, 1)
	f.read(0, func(*telemetry.GPUSample) error { return ErrSession })
	absent := errors.New("the driver is not loaded")
	f.onInit = func() error { return absent }
	for range 3 {
		if got := rounds(t.Context(), c, 1); got != "n:0 lost n:1 lost" {
			t.Error(got)
		}
	}
	if f.begun || f.inits != 3 {
		t.Error("sessions", f.inits)
	}
	f.onInit = nil
	f.read(0, nil)
	f.onList = func() error { return errors.New("cannot be counted") }
	if got := rounds(t.Context(), c, 1); got != "n:0 lost n:1 lost" {
		t.Error(got)
	}
	f.onList = nil
	if got := rounds(t.Context(), c, 1); got != "n:0 100W n:1 101W" {
		t.Error(got)
	}
	want := []string{"n:0: the session with the driver is over", "the driver is not loaded", "cannot be counted",
		"all 2 GPUs and instances answer"}
	if !slices.Equal(n.all, want) {
		t.Errorf("%q, want %q", n.all, want)
	}
}

// A driver that never was there gives no samples, and is looked for.
func TestNoDriver(t *testing.T) {
	f := &fake{t: t, gpus: 1, onInit: func() error { return errors.New("no library") }}
	c := New(f, Options{})
	if got := c.Round(t.Context(), at); len(got) != 0 {
		t.Error(got)
	}
	c.Close(t.Context())
	f.onInit = nil
	if got := c.Round(t.Context(), at); len(got) != 1 || got[0].Lost {
		t.Error(got)
	}
}

// A call that hangs costs its deadline once. Until it returns its GPU is marked, the others
// are sampled, and the session stays as it is.
func TestHungRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, gpus: 2}
		release := make(chan struct{})
		c := New(f, Options{Node: "n", Deadline: 2 * time.Second})
		rounds(t.Context(), c, 1)
		f.read(0, func(s *telemetry.GPUSample) error {
			<-release
			s.Power = 7 // belongs to no round
			return nil
		})
		for i, want := range []time.Duration{2 * time.Second, 0, 0} {
			from := time.Now()
			if got := rounds(t.Context(), c, 1); got != "n:0 lost n:1 101W" || time.Since(from) != want {
				t.Errorf("round %d: %s after %v", i, got, time.Since(from))
			}
		}
		rounds(t.Context(), c, 2*listEvery)
		f.read(1, func(*telemetry.GPUSample) error { return ErrSession })
		if got := rounds(t.Context(), c, 2); got != "n:0 lost n:1 lost" || f.inits != 1 {
			t.Error(got, f.inits)
		}
		f.read(1, nil)
		close(release)
		synctest.Wait()
		f.read(0, nil)
		if got := rounds(t.Context(), c, 1); got != "n:0 100W n:1 101W" || f.inits != 2 {
			t.Error(got, f.inits)
		}
	})
}

// Any other call may hang too.
func TestHungCalls(t *testing.T) {
	for _, name := range []string{"Init", "Devices", "Xids"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{t: t, gpus: 1}
			release := make(chan struct{})
			wait := func() error { <-release; return nil }
			switch name {
			case "Init":
				f.onInit = wait
			case "Devices":
				f.onList = wait
			case "Xids":
				f.onXids = func() ([]XidEvent, error) { return nil, wait() }
			}
			c := New(f, Options{Node: "n"})
			for range 3 {
				got := c.Round(t.Context(), at)
				if name == "Xids" && (len(got) != 1 || got[0].Lost || got[0].Has(telemetry.Xid)) ||
					name != "Xids" && len(got) > 0 {
					t.Errorf("%s: %+v", name, got)
				}
			}
			c.Close(t.Context())
			close(release)
			synctest.Wait()
			if got := rounds(t.Context(), c, listEvery); got != "n:0 100W" {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

// sink keeps the samples that it gets, unless it is away.
type sink struct {
	mu    sync.Mutex
	away  error
	times []time.Duration
	calls int
	block bool
}

func (s *sink) Send(ctx context.Context, samples []telemetry.GPUSample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.block {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.away != nil {
		return s.away
	}
	for i := range samples {
		s.times = append(s.times, samples[i].Time)
	}
	return nil
}

func (s *sink) set(away error, block bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.block = away, block
}

// Samples for an absent sink come later, in order; the oldest samples that do not
// fit are dropped and counted.
func TestSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		out := &sink{}
		var n notes
		s := NewSender(out, 5, n.add)
		var done sync.WaitGroup
		done.Go(func() { s.Run(ctx) })
		next := time.Duration(0)
		add := func(k int) {
			for range k {
				next++
				s.Add([]telemetry.GPUSample{{Time: next}})
			}
			synctest.Wait()
		}
		add(2)
		out.set(errors.New("refused"), false)
		add(3)
		time.Sleep(time.Minute)
		add(4)
		if sent, dropped, waiting := s.Counts(); sent != 2 || dropped != 2 || waiting != 5 {
			t.Error(sent, dropped, waiting)
		}
		out.set(nil, false)
		time.Sleep(2 * time.Minute)
		if sent, dropped, waiting := s.Counts(); sent != 7 || dropped != 2 || waiting != 0 {
			t.Error(sent, dropped, waiting)
		}
		if out.calls > 20 {
			t.Errorf("%d calls", out.calls)
		}
		out.set(nil, true) // until its deadline
		s.Add([]telemetry.GPUSample{{Time: 10}})
		time.Sleep(sendTime + time.Millisecond)
		out.set(errors.New("refused"), false)
		time.Sleep(time.Minute)
		out.set(nil, false)
		end()
		done.Wait()
		if want := []time.Duration{1, 2, 5, 6, 7, 8, 9, 10}; !slices.Equal(out.times, want) {
			t.Errorf("%v, want %v", out.times, want)
		}
		want := []string{"samples cannot be sent, trying again: refused", "samples are sent again; 2 were dropped so far",
			"samples cannot be sent, trying again: context deadline exceeded"}
		if !slices.Equal(n.all, want) {
			t.Errorf("%q", n.all)
		}
	})
}

// The whole, over an hour with a hung GPU and an absent sink.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		f := &fake{t: t, gpus: 8}
		out := &sink{}
		release := make(chan struct{})
		s := NewSender(out, DefaultBuffer, nil)
		ticks := time.NewTicker(DefaultPeriod)
		defer ticks.Stop()
		var done sync.WaitGroup
		done.Go(func() { Run(ctx, New(f, Options{Node: "n"}), s, ticks.C) })
		time.Sleep(10*time.Minute + time.Second)
		f.read(3, func(*telemetry.GPUSample) error { <-release; return nil })
		out.set(errors.New("away"), false)
		time.Sleep(20 * time.Minute)
		close(release)
		synctest.Wait()
		f.read(3, nil)
		out.set(nil, false)
		time.Sleep(30 * time.Minute)
		end()
		done.Wait()
		if len(out.times) != 8*240 || !slices.IsSorted(out.times) || f.begun {
			t.Errorf("%d samples, session %v", len(out.times), f.begun)
		}
	})
}

// A round of eight GPUs without the driver's part.
func BenchmarkRound(b *testing.B) {
	c := New(&fake{t: b, gpus: 8}, Options{Node: "n"})
	b.ReportAllocs()
	for b.Loop() {
		c.Round(b.Context(), at)
	}
}

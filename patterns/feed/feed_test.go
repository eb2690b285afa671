package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

const minute, hour = time.Minute, time.Hour

// tape is a scanner whose findings and lines of logs are written down in the order in which it was given them.
type tape struct {
	*Feed
	t     *testing.T
	lines []string
}

// newTape returns a feed to a scanner with a rule that finds every line of a log.
func newTape(t *testing.T, lateness time.Duration) *tape {
	t.Helper()
	rules, err := patterns.ReadRules(strings.NewReader("version: 1\nrules:\n  - {id: r, group_by: [job], action: a, "+
		"words: w, quiet: 1s, set: {match: [{event: message, regex: '.'}]}}\n  - {id: s, group_by: [job], action: a, "+
		"words: w, quiet: 1s, set: {match: [{event: job.submitted}]}}\n"), "test")
	if err != nil {
		t.Fatal(err)
	}
	x := &tape{t: t}
	s, err := patterns.New(patterns.Options{Rules: rules, OnFinding: func(f *patterns.Finding) {
		l := fmt.Sprintf("%s %s %v", f.Rule, f.Entity.Name, f.Opened.Sub(time.Time{}))
		if !slices.Contains(x.lines, l) {
			x.lines = append(x.lines, l)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	x.Feed = New(s, lateness)
	return x
}

func (x *tape) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func submitted(at time.Duration, id string) patterns.Record {
	return patterns.Record{Event: &workload.Event{ID: id, Kind: workload.Submitted, Time: at,
		Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}}}
}

func line(at time.Duration, job string) patterns.Record {
	return patterns.Record{Message: &patterns.Message{Time: at, Job: job, Text: "x"}}
}

// wait puts records, and returns what of them was found so far.
func (x *tape) put(records ...patterns.Record) string {
	x.t.Helper()
	for _, r := range records {
		x.must(x.Put(r))
	}
	return strings.Join(x.lines, ", ")
}

// TestLateness: a record may be exactly as late as the feed allows; a nanosecond more and it has missed its turn.
func TestLateness(t *testing.T) {
	for _, c := range []struct {
		name string
		at   time.Duration
		late int
		want string
	}{
		{"in time", 59 * minute, 0, "r j 59m0s"},
		{"just in time", 58 * minute, 0, "r j 58m0s"},
		{"just late", 58*minute - 1, 1, ""},
	} {
		x := newTape(t, 2*minute)
		x.put(submitted(0, "j"), submitted(hour, "k"))
		if x.must(x.Flush()); x.Bound() != 58*minute {
			t.Fatalf("given until %v", x.Bound())
		}
		x.put(line(c.at, "j"))
		x.must(x.Close())
		x.lines = slices.DeleteFunc(x.lines, func(l string) bool { return l[0] == 's' })
		if got := strings.Join(x.lines, ", "); got != c.want || x.Late() != c.late {
			t.Errorf("%s: found %q, %d late; want %q, %d", c.name, got, x.Late(), c.want, c.late)
		}
		if notes := strings.Join(x.Notes(), "\n"); strings.Contains(notes, "1 records were later than 2m0s") !=
			(c.late > 0) {
			t.Errorf("%s: notes %q", c.name, notes)
		}
	}
}

// TestLateEvents: an event that missed its turn counts from the instant until which records were given, as without it
// its job would stay unknown.
func TestLateEvents(t *testing.T) {
	x := newTape(t, 2*minute)
	x.put(submitted(hour, "j"))
	x.put(submitted(2*hour, "k"), submitted(hour+minute, "late"))
	x.must(x.Close())
	if got := strings.Join(x.lines, ", "); got != "s j 1h0m0s, s late 1h58m0s, s k 2h0m0s" || x.Late() != 0 {
		t.Errorf("found %s, %d late", got, x.Late())
	}
}

// TestHeld: nothing is given before a later record, or Advance, says that none can precede it, and nothing twice.
func TestHeld(t *testing.T) {
	x := newTape(t, 30*time.Second)
	if got := x.put(submitted(hour, "a"), submitted(hour+30*time.Second, "b")); got != "" {
		t.Errorf("found %s before what may precede it", got)
	}
	x.must(x.Flush())
	if len(x.lines) > 0 {
		t.Errorf("found %s: a record of the same instant may come", x.lines)
	}
	x.put(submitted(hour+31*time.Second, "c"))
	if x.must(x.Flush()); strings.Join(x.lines, ", ") != "s a 1h0m0s" {
		t.Errorf("found %s", x.lines)
	}
	x.must(x.Advance(2 * hour))
	if strings.Join(x.lines, ", ") != "s a 1h0m0s, s b 1h0m30s, s c 1h0m31s" || x.Bound() != 2*hour-30*time.Second {
		t.Errorf("found %s until %v", x.lines, x.Bound())
	}
	x.must(x.Advance(hour))
	if x.must(x.Close()); len(x.lines) != 3 || x.Newest() != 2*hour {
		t.Errorf("found %s, the newest of %v", x.lines, x.Newest())
	}
}

// TestRanks: of records of one instant, lines of logs come before events, as they are of jobs that end with them, and
// samples last.
func TestRanks(t *testing.T) {
	x := newTape(t, minute)
	x.put(submitted(hour, "j"))
	end := patterns.Record{Event: &workload.Event{ID: "e", Kind: workload.Finished, Time: 2 * hour,
		Job: workload.Job{ID: "j", Status: workload.Failed}}}
	x.put(end, line(2*hour, "j"))
	x.must(x.Close())
	if !slices.Contains(x.lines, "r j 2h0m0s") {
		t.Errorf("found %s: the line came after its job had ended", x.lines)
	}
}

// TestRefused: a record with a fault is refused at once, and changes nothing.
func TestRefused(t *testing.T) {
	x := newTape(t, minute)
	for _, r := range []patterns.Record{
		{Event: &workload.Event{Kind: workload.Started}},
		{Event: &workload.Event{Kind: workload.Heartbeat, Time: workload.MaxSubmit + 1}},
		{Iteration: &telemetry.Iteration{Step: 1}},
		{Guardrail: &patterns.Guardrail{Name: "p99"}},
	} {
		if err := x.Put(r); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
	if x.put(submitted(0, "j")); x.Newest() != 0 || len(x.held) != 1 {
		t.Errorf("newest %v, %d held", x.Newest(), len(x.held))
	}
}

// TestIterationWithoutATime: it counts from the newest record.
func TestIterationWithoutATime(t *testing.T) {
	x := newTape(t, minute)
	x.put(submitted(hour, "j"), patterns.Record{Iteration: &telemetry.Iteration{Job: "j"}})
	if x.held[1].at != hour {
		t.Errorf("it counts from %v", x.held[1].at)
	}
}

// TestOrderWithinLateness: records may come in any order within the lateness, and what is found is the same.
func TestOrderWithinLateness(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		busy := rapid.SliceOfN(rapid.Float64Range(0, .2), 8, 8).Draw(rt, "busy")
		late := rapid.SliceOfN(rapid.IntRange(0, 29), 64, 64).Draw(rt, "late")
		start := submitted(time.Second, "1")
		start.Event.Kind, start.Event.ID = workload.Started, "start"
		start.Event.Placement = []workload.NodeShare{{Node: "0", GPUs: 2}}
		own, other := submitted(0, "1"), submitted(minute, "2")
		own.Event.Job.GPUs, own.Event.Job.Tenant, other.Event.Job.Tenant = workload.GPUs(2), "a", "b"
		start.Event.Job = own.Event.Job
		records := []patterns.Record{own, start, other}
		for at := time.Duration(0); at < 2*hour; at += 30 * time.Second {
			for g := range 2 {
				records = append(records, patterns.Record{GPU: &telemetry.GPUSample{
					GPU:         telemetry.GPU{Node: "0", Index: g, Instance: -1},
					Time:        at,
					Known:       telemetry.Utilization,
					Utilization: 100 * busy[int(at/(15*minute))%len(busy)] * float64(g)}})
			}
		}
		run := func(records []patterns.Record) (out string) {
			s, err := patterns.New(patterns.Options{Cluster: workload.Uniform(1, 2), Period: 30 * time.Second,
				OnFinding: func(f *patterns.Finding) { out += fmt.Sprintf("%+v\n", *f) }})
			if err != nil {
				rt.Fatal(err)
			}
			f := New(s, 30*time.Second)
			for _, r := range records {
				if err := f.Put(r); err != nil {
					rt.Fatal(err)
				}
			}
			if err := f.Advance(3 * hour); err != nil {
				rt.Fatal(err)
			}
			if err := f.Close(); err != nil || f.Late() > 0 {
				rt.Fatalf("%d late, %v", f.Late(), err)
			}
			return out
		}
		at := func(r patterns.Record) time.Duration {
			if r.Event != nil {
				return r.Event.Time
			}
			return r.GPU.Time
		}
		slices.SortStableFunc(records, func(a, b patterns.Record) int { return int(at(a) - at(b)) })
		want := run(records)
		arrival := func(i int) time.Duration {
			return at(records[i]) + time.Duration(late[i%len(late)])*time.Second
		}
		order := make([]int, len(records))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(arrival(a) - arrival(b)) })
		shuffled := make([]patterns.Record, len(records))
		for i, k := range order {
			shuffled[i] = records[k]
		}
		if got := run(shuffled); got != want {
			rt.Fatalf("in order:\n%sout of order:\n%s", want, got)
		}
	})
}

// TestGaps: the period is the median gap of a GPU, up to the next quarter of a minute; gaps of zero do not count.
func TestGaps(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []time.Duration
		want time.Duration
	}{
		{"none", []time.Duration{5 * time.Second}, 0},
		{"twice the same", []time.Duration{time.Second, time.Second}, 0},
		{"jitter", []time.Duration{0, 15 * time.Second, 29 * time.Second, 45 * time.Second}, 15 * time.Second},
		{"less than a second more", []time.Duration{0, 16*time.Second - 1}, 15 * time.Second},
		{"a second more", []time.Duration{0, 16 * time.Second}, 30 * time.Second},
		{"a minute, with a gap", []time.Duration{0, minute, 2 * minute, hour}, minute},
		{"days", []time.Duration{0, 48 * hour}, hour},
		{"less", []time.Duration{0, time.Second}, 15 * time.Second},
	} {
		var g Gaps
		for _, at := range c.at {
			for _, node := range []string{"a", "b"} {
				g.Add(&telemetry.GPUSample{GPU: telemetry.GPU{Node: node}, Time: at})
			}
		}
		if got := g.Period(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestLeap: one record more than a day ahead does not make later ones late; records of another time confirm it.
func TestLeap(t *testing.T) {
	const far = 1000 * hour
	for _, c := range []struct {
		name string
		at   []time.Duration
		late int
		left int // at the end
	}{
		{"in order", []time.Duration{hour, 2 * hour, 3 * hour}, 0, 0},
		{"a day ahead", []time.Duration{hour, 25 * hour, 2 * hour}, 1, 0},
		{"more than a day ahead", []time.Duration{hour, 25*hour + 1, 2 * hour, 3 * hour}, 0, 0},
		{"several of one time", []time.Duration{hour, far, far, far, 2 * hour}, 0, 3},
		{"confirmed", []time.Duration{hour, far, far + 1, 2 * hour}, 1, 0},
		{"one beyond the next", []time.Duration{hour, far, 100 * hour, 2 * hour}, 1, 1},
		{"the first of all", []time.Duration{far, hour, 2 * hour}, 0, 1},
		{"the first two", []time.Duration{far, far, hour, 2 * hour}, 0, 2},
		{"before the zero", []time.Duration{-90 * hour, -30 * hour, -89 * hour, 10 * hour, -88 * hour}, 1, 1},
		{"it is reached", []time.Duration{hour, 30 * hour, 20 * hour, 29 * hour, 31 * hour, 31*hour + 1}, 0, 0},
	} {
		x := newTape(t, minute)
		x.must(x.Put(submitted(c.at[0], "j")))
		for i, at := range c.at {
			x.must(x.Put(line(at, fmt.Sprint(i))))
		}
		x.must(x.Close())
		notes := strings.Join(x.Notes(), "\n")
		if c.name == "the first of all" || c.name == "the first two" {
			c.left = 0 // the event of that time counts
		}
		if x.Late() != c.late || strings.Contains(notes, "after all others") != (c.left > 0) ||
			c.left > 0 && !strings.Contains(notes, fmt.Sprintf("%d records are more than 24h0m0s", c.left)) {
			t.Errorf("%s: %d late, want %d; %d left; notes %s", c.name, x.Late(), c.late, c.left, notes)
		}
	}
	// An event counts however long nothing happened before.
	x := newTape(t, minute)
	x.must(x.Put(submitted(hour, "a")))
	x.must(x.Put(submitted(far, "b")))
	x.must(x.Close())
	if got := strings.Join(x.lines, ", "); got != "s a 1h0m0s, s b 1000h0m0s" {
		t.Errorf("found %s", got)
	}
}

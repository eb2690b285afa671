package round

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// ended draws jobs whose GPU-times are log-normal around a mean, with a
// deviation of the logarithm, in equal shares of 1, 4 and 16 GPUs or of 1.
func ended(n int, mean time.Duration, deviation float64, wide bool, seed uint64) []workload.Finish {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]workload.Finish, n)
	for i := range out {
		gpus := 1
		if wide {
			gpus = []int{1, 4, 16}[i%3]
		}
		service := mean.Seconds() * math.Exp(deviation*r.NormFloat64())
		out[i] = workload.Finish{Job: workload.Job{GPUs: workload.GPUs(gpus)},
			RunTime: time.Duration(service / float64(gpus) * 1e9)}
	}
	return out
}

// TestShapeChange: which workloads count as another shape.
func TestShapeChange(t *testing.T) {
	_, usual := shapeOf(ended(300, time.Hour, 2, true, 1))
	tests := []struct {
		name   string
		now    []workload.Finish
		change bool
	}{
		{"another draw", ended(300, time.Hour, 2, true, 2), false},
		{"few jobs", ended(leastJobs, time.Hour, 2, true, 3), false},
		{"ten times as many", ended(3000, time.Hour, 2, true, 4), false},
		{"a twentieth of the length", ended(300, 3*time.Minute, 2, true, 5), false},
		{"nearly equal jobs", ended(300, time.Hour, .3, true, 6), true},
		{"far more diverse", ended(300, time.Hour, 4, true, 7), true},
		{"only narrow ones, otherwise the same", ended(300, time.Hour, 2, false, 8), false},
	}
	for _, tt := range tests {
		if _, s := shapeOf(tt.now); (s.distance(&usual) > shapeChange) != tt.change {
			t.Errorf("%s: distance %.2f, a change from %.2f", tt.name, s.distance(&usual), shapeChange)
		}
	}
	if d := usual.distance(&usual); d != 0 {
		t.Errorf("a shape is %v from itself", d)
	}
}

func TestShapeOfNothing(t *testing.T) {
	for _, jobs := range [][]workload.Finish{nil, {{Job: workload.Job{GPUs: workload.GPUs(2)}}}} {
		if scale, s := shapeOf(jobs); scale != 0 || s != (shape{}) {
			t.Errorf("%d jobs that never ran have shape %+v, scale %v", len(jobs), s, scale)
		}
	}
}

// TestSearchModes is the table of modes.
func TestSearchModes(t *testing.T) {
	_, usual := shapeOf(ended(300, time.Hour, 2, true, 1))
	_, equal := shapeOf(ended(300, time.Hour, .3, true, 1))
	_, few := shapeOf(ended(20, time.Hour, .3, true, 1))
	met := func(full int, shapes ...shape) *history { return &history{Full: full, Shapes: shapes} }
	lately := met(2, usual)
	lately.Searched = 98 * time.Hour
	tests := []struct {
		name      string
		setting   Search
		before    *history
		now       shape
		atDefault bool
		want      Search
		why       string
	}{
		{"nothing known", "", met(0), usual, false, SearchFull, "cold start: no search"},
		{"default in force", SearchAuto, met(1, usual), usual, true, SearchFull, "cold start: the default"},
		{"default in force for long", SearchAuto, met(99, usual), usual, true, SearchFull, "cold start: the default"},
		{"default in force, searched lately", SearchAuto, lately, usual, true, SearchPortfolio, "0.00 from one"},
		{"as ever", SearchAuto, met(1, usual), usual, false, SearchPortfolio, "0.00 from one"},
		{"as once", "", met(2, equal, usual), equal, false, SearchPortfolio, "0.00 from one"},
		{"another shape", "", met(1, usual), equal, false, SearchFull, "from the nearest"},
		{"another shape, of few jobs", "", met(1, usual), few, false, SearchPortfolio, "too few"},
		{"first shape", "", met(1), usual, false, SearchFull, "first time"},
		{"set to full", SearchFull, met(9, usual), usual, false, SearchFull, "as set"},
		{"set to portfolio", SearchPortfolio, met(0), usual, true, SearchPortfolio, "as set"},
	}
	for _, tt := range tests {
		what, why := tt.before.search(tt.setting, &situation{Shape: tt.now}, 99*time.Hour, tt.atDefault)
		if what != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", tt.name, what, why, tt.want, tt.why)
		}
	}
}

// trialOf a configuration with the same value in two futures.
func trialOf(x *observed, value float64, set ...string) search.Trial {
	c, err := x.scheduler.Space.Parse(x.scheduler.Space.Default(), set)
	if err != nil {
		panic(err)
	}
	return search.Trial{Config: c, Measurement: search.Measurement{Values: []float64{value, value},
		Floors: []float64{1, 1}}}
}

// TestHistory: winners are kept with their situation, survive storage, are candidates
// again in similar situations, and are bounded in number.
func TestHistory(t *testing.T) {
	tiresias, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	x := &observed{scheduler: tiresias}
	sp := tiresias.Space
	base := trialOf(x, 10)
	busy := situation{Arrivals: 2, Backlog: 3, Hour: 12, Scale: 8}
	idle := situation{Arrivals: .1, Hour: 3, Scale: 8}
	win := func(m *history, round int, at situation, searched Search, best search.Trial,
		others ...search.Trial) *history {
		out := Result{Trials: append([]search.Trial{base, best}, others...), top: best, Incumbent: base}
		out.Search = searched
		return m.after(round, time.Duration(round)*time.Hour, &at, tiresias, &out)
	}
	first := trialOf(x, 5, "queues=2", "queue_thresholds=500")
	second := trialOf(x, 6, "queues=4", "queue_thresholds=500,90000,400000")
	m := win(loadHistory(nil, sp), 1, busy, SearchFull, first, second,
		trialOf(x, 7, "queues=2", "queue_thresholds=501"), trialOf(x, 11, "queues=6"))
	m = win(m, 2, idle, SearchPortfolio, base)
	if m.Full != 1 || len(m.Shapes) != 0 || len(m.Winners) != 2 || m.Winners[0].Wins != 1 || m.Winners[1].Wins != 0 {
		t.Fatalf("after two rounds: %+v", m)
	}
	third := trialOf(x, 4, "queues=1", "order=submit")
	m = win(m, 3, idle, SearchPortfolio, third)
	m = win(m, 4, idle, SearchPortfolio, third)

	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := loadHistory(text, sp)
	if diff := cmp.Diff(m, again, cmp.AllowUnexported(winner{}, history{}, situation{}, shape{})); diff != "" {
		t.Errorf("stored and read back:\n%s", diff)
	}
	names := func(at situation, most int) (out []string) {
		for _, c := range again.candidates(&at, sp, nil, sp.Default(), most) {
			out = append(out, c.Origin+":"+c.Name+" "+c.Config.Get("queues").String())
		}
		return out
	}
	if got, want := names(busy, 9), []string{"like:round-1 2", "past:round-3 1",
		"like:round-1 4"}; !slices.Equal(got, slices.Replace(want, 1, 2, "past:round-4 1")) {
		t.Errorf("busy: %q", got)
	}
	if got := names(idle, 1); len(got) != 1 || got[0] != "like:round-4 1" {
		t.Errorf("idle: %q", got)
	}
	for _, broken := range []string{"", "{", `{"version":99,"full":3}`,
		`{"version":1,"winners":[{"config":{"queues":99}}]}`} {
		if m := loadHistory(json.RawMessage(broken), sp); len(m.Winners) != 0 || m.Full == 3 {
			t.Errorf("%q is read as %+v", broken, m)
		}
	}

	r := rand.New(rand.NewPCG(1, 2))
	for round := range 100 {
		c := randomConfig(r, sp)
		best := search.Trial{Config: c, Measurement: base.Measurement}
		m = win(m, 10+round, busy, SearchPortfolio, best)
	}
	if len(m.Winners) != winnersKept || !slices.ContainsFunc(m.Winners, func(w winner) bool { return w.Wins == 2 }) {
		t.Errorf("%d winners kept of 103, that which won twice among them: %v", len(m.Winners), m.Winners)
	}
	if got := m.candidates(&busy, sp, presetsIn(sp, tiresias), sp.Default(), 6); len(got) != 6 {
		t.Errorf("%d candidates", len(got))
	}
}

// TestRoundsLearnFromRounds: rounds that hand on their history search the
// whole space at first and the portfolio later, within their budget, and decide
// the same for any number of workers.
func TestRoundsLearnFromRounds(t *testing.T) {
	testshared.Full(t)
	run := func(workers int, left Ablation) (out []string, past int) {
		incumbent, handed := schedulers.All[0].Space.Default(), json.RawMessage(nil)
		for hour := 7; hour <= 15; hour += 2 {
			x := observe(t, time.Duration(hour)*time.Hour, simulator.Options{})
			if hour == 7 {
				var err error // a configuration that proposals are far ahead of
				if incumbent, err = x.scheduler.Space.Parse(x.scheduler.Space.Default(),
					[]string{"queues=1", "queue_thresholds="}); err != nil {
					t.Fatal(err)
				}
			} else if incumbent.Equal(x.scheduler.Space.Default()) {
				incumbent = x.scheduler.Presets[0].Config // set by an operator
			}
			got, err := Decide(context.Background(), Input{
				Snapshot:  x.snapshot(),
				Scheduler: "tiresias", Space: x.scheduler.Space, Goal: Minimise("avg_jct"), Incumbent: incumbent,
				Round: hour, History: handed,
				Settings: Settings{Horizon: time.Hour, Futures: 2, Budget: 24, Seed: 4, Workers: workers,
					Ablation: left},
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := got.Stats.Evaluations; n > 24 {
				t.Errorf("%v evaluations of 24", n)
			}
			if got.Search == SearchPortfolio && len(got.Trials) > portfolioSize {
				t.Errorf("a portfolio of %d", len(got.Trials))
			}
			if err := explained(got); err != nil && !left.NoPast {
				t.Errorf("at %d h: %v", hour, err)
			}
			incumbent, handed = got.Config, got.History
			out = append(out, string(got.Search)+" "+record(t, got))
			for _, c := range got.Candidates {
				if strings.HasPrefix(c.Origin, "like:") || strings.HasPrefix(c.Origin, "past:") {
					past++
				}
			}
		}
		return out, past
	}
	one, past := run(1, Ablation{})
	if _, none := run(1, Ablation{NoPast: true}); past == 0 || none != 0 {
		t.Errorf("%d candidates are past winners, %d where these are left out", past, none)
	}
	if !strings.HasPrefix(one[0], string(SearchFull)) || !strings.HasPrefix(one[len(one)-1], string(SearchPortfolio)) {
		t.Errorf("the first searched %s, the last %s", one[0], one[len(one)-1])
	}
	three, _ := run(3, Ablation{})
	if diff := cmp.Diff(one, three); diff != "" {
		t.Errorf("three workers decide otherwise than one:\n%s", diff)
	}
}

// TestExcluded: a winner that is livelocked on the futures of a later round is excluded
// for good, also after a restart; if all are livelocked, none is excluded.
func TestExcluded(t *testing.T) {
	tiresias, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	x := &observed{scheduler: tiresias}
	base, good, bad := trialOf(x, 10), trialOf(x, 6, "queues=2", "queue_thresholds=500"),
		trialOf(x, 5, "queues=2", "queue_thresholds=90000", "starve_limit=600")
	stuck := func(t search.Trial) search.Trial { t.Measurement.Exhausted = true; return t }
	m := loadHistory(nil, tiresias.Space)
	round := func(best search.Trial, others ...search.Trial) {
		out := Result{Trials: append([]search.Trial{best}, others...), top: best, Incumbent: base}
		next := m.after(1, time.Hour, &situation{}, tiresias, &out)
		text, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		m = loadHistory(text, tiresias.Space)
	}
	won := func() (out []bool) {
		for _, w := range []search.Trial{good, bad} {
			out = append(out, slices.ContainsFunc(m.candidates(&situation{}, tiresias.Space, nil, base.Config, 9),
				func(c search.Preset) bool {
					return c.Config.Equal(w.Config)
				}))
		}
		return out
	}
	round(good, base)
	round(bad, base, good)
	if got := won(); !got[0] || !got[1] {
		t.Fatalf("after two wins: %v", got)
	}
	round(search.Trial{Err: "none"}, stuck(base), stuck(good), stuck(bad))
	round(stuck(base), stuck(good), stuck(bad))
	if got := won(); !got[0] || !got[1] {
		t.Errorf("no job ended, and yet: %v", got)
	}
	round(base, good, stuck(bad))
	round(bad, base)
	if got := won(); !got[0] || got[1] {
		t.Errorf("a winner that livelocked is a candidate: %v", got)
	}
	r := rand.New(rand.NewPCG(3, 1))
	for range 3 * excludedKept {
		c := search.Trial{Config: randomConfig(r, tiresias.Space), Measurement: base.Measurement}
		round(c, base)
		round(base, stuck(c))
	}
	if len(m.Excluded) != excludedKept {
		t.Errorf("%d are excluded, room is for %d", len(m.Excluded), excludedKept)
	}
}

// explained checks that a round's record has the origin and the ratio of every
// configuration measured.
func explained(r Result) error {
	if len(r.Candidates) != len(r.Trials) || len(r.Candidates) == 0 {
		return fmt.Errorf("%d candidates of %d trials", len(r.Candidates), len(r.Trials))
	}
	kinds := map[string]int{}
	for i, c := range r.Candidates {
		kind, _, _ := strings.Cut(c.Origin, ":")
		kinds[kind]++
		if g := search.Gain(r.Trials[i], r.Incumbent); math.Abs(c.Ratio-g.Ratio) > 1e-3 {
			return fmt.Errorf("%s is said to gain %v, it is %v", c.Origin, c.Ratio, g.Ratio)
		}
		if c.Origin == "incumbent" && c.Agrees {
			return errors.New("the incumbent is better than itself")
		}
	}
	switch {
	case r.Candidates[0].Origin != "default" || kinds["preset"] == 0:
		return fmt.Errorf("no default or no preset among %v", kinds)
	case r.Search == SearchPortfolio && (kinds["like"]+kinds["past"] == 0 || len(kinds) > 5):
		return fmt.Errorf("a portfolio of %v", kinds)
	case r.Search == SearchFull && kinds["like"]+kinds["past"] > pastInFull:
		return fmt.Errorf("a search of the whole space began with %v", kinds)
	}
	return nil
}

// TestInterval: Student's t by hand, and how often it covers the truth.
func TestInterval(t *testing.T) {
	m := func(v ...float64) search.Measurement {
		f := make([]float64, len(v))
		for i := range f {
			f[i] = 100
		}
		return search.Measurement{Values: v, Floors: f}
	}
	// Parts 20, 20, 20 and 10, 10, 10: no doubt that it is 2.
	if x := interval(m(120, 120, 120), m(110, 110, 110)); math.Abs(x.Low-2) > 1e-12 || math.Abs(x.High-2) > 1e-12 {
		t.Errorf("no spread: %+v", x)
	}
	// Parts 10, 20, 30 and 10, 10, 10: d = -.5, 0, .5, t(2, .975) = 4.3027.
	half := 4.302652729911275 * .5 / math.Sqrt(3)
	if x := interval(m(110, 120, 130), m(110, 110, 110)); math.Abs(x.Low-2*math.Exp(-half)) > 1e-9 ||
		math.Abs(x.High-2*math.Exp(half)) > 1e-9 {
		t.Errorf("%+v", x)
	}
	for name, x := range map[string]Interval{
		"two futures":             interval(m(120, 120), m(110, 110)),
		"nothing above the floor": interval(m(120, 120, 120), m(100, 100, 100)),
		"other futures":           interval(m(120, 120, 120), m(110, 110, 110, 110)),
		"no floors":               interval(search.Measurement{Values: []float64{1, 2, 3}}, m(1, 2, 3)),
	} {
		if !x.IsZero() {
			t.Errorf("%s: %+v", name, x)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	covered, runs := 0, 2000
	for range runs {
		var a, b []float64
		for range 8 {
			load := math.Exp(.5 * r.NormFloat64())
			b = append(b, 100+10*load*math.Exp(.1*r.NormFloat64()))
			a = append(a, 100+12*load*math.Exp(.1*r.NormFloat64()))
		}
		if x := interval(m(a...), m(b...)); x.Low <= 1.2 && 1.2 <= x.High {
			covered++
		}
	}
	// Four standard errors of a proportion, and 2 % for so few futures.
	if share := float64(covered) / float64(runs); math.Abs(share-.95) > .02+4*math.Sqrt(.95*.05/float64(runs)) {
		t.Errorf("the interval covers the truth in %.3f of all cases", share)
	}
}

package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autosched/autosched/space"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// record runs a study with its record.
func record(t *rapid.T, o Options) (Result, string, error) {
	var b bytes.Buffer
	o.Record.To = &b
	r, err := Tune(context.Background(), o)
	return r, b.String(), err
}

// TestResume: a study interrupted anywhere and resumed equals one without an
// interruption, byte for byte, and measures nothing twice.
func TestResume(t *testing.T) {
	s := ladder(t)
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Space: s, Evaluate: ladderCost, Context: "here", Seed: rapid.Uint64().Draw(t, "seed"),
			Method:  rapid.SampledFrom(samplerNames()).Draw(t, "method"),
			Budget:  rapid.IntRange(2, 24).Draw(t, "budget"),
			Workers: rapid.IntRange(1, 4).Draw(t, "workers"),
			Reject: func(history []Trial, c space.Config) string {
				if len(history) > 5 && c.Get("queues").Int() == 2 {
					return "not promising"
				}
				return ""
			},
		}
		want, text, err := record(t, o)
		if err != nil {
			t.Fatal(err)
		}
		// Cut off by the end of the context, in the middle of a batch.
		stop := int64(rapid.IntRange(1, o.Budget+5).Draw(t, "evaluations"))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var calls atomic.Int64
		o.Evaluate = func(ctx context.Context, c space.Config) (Measurement, error) {
			if calls.Add(1) > stop {
				cancel()
				return Measurement{}, ctx.Err()
			}
			return ladderCost(ctx, c)
		}
		var part bytes.Buffer
		o.Record.To = &part
		cut, err := Tune(ctx, o)
		if err != nil && len(cut.Trials) > 0 && !strings.Contains(err.Error(), "failed") &&
			!strings.Contains(err.Error(), "exhausted") {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, part.String()) {
			t.Fatalf("what was recorded before the end of the context:\n%s\nis not how the whole begins:\n%s",
				part.String(), text)
		}
		// A crash may leave half a line.
		torn := part.String() + text[part.Len():][:rapid.IntRange(0, len(text)-part.Len()).Draw(t, "torn")]
		if at := strings.LastIndexByte(torn, '\n'); at < 0 {
			return
		}
		if o.Record.Resume, err = ReadRecording(strings.NewReader(torn), "trials.jsonl", s); err != nil {
			t.Fatal(err)
		}
		if want := strings.LastIndexByte(torn, '\n') + 1; o.Record.Resume.Whole != want {
			t.Fatalf("%d bytes are whole lines, want %d", o.Record.Resume.Whole, want)
		}
		calls.Store(0)
		o.Evaluate = func(ctx context.Context, c space.Config) (Measurement, error) {
			calls.Add(1)
			return ladderCost(ctx, c)
		}
		got, again, err := record(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if again != text {
			t.Fatalf("resumed:\n%s\nwant:\n%s", again, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the resumed study differs:\n%s", diff)
		}
		if n := int(calls.Load()); n != len(want.Trials)-o.Record.Resume.Trials() {
			t.Fatalf("%d evaluations with %d of %d trials recorded", n, o.Record.Resume.Trials(), len(want.Trials))
		}
	})
}

// TestResumeWithAnotherBudget: a study with a larger budget continues after its record,
// measures nothing twice, and can be interrupted and resumed like any other; one with a
// smaller budget is a prefix of the longer one.
func TestResumeWithAnotherBudget(t *testing.T) {
	s := ladder(t)
	presets := []Preset{}
	for i := range 4 {
		c, _ := s.Project(space.Values{"queues": space.Int(2 + i)})
		presets = append(presets, Preset{Name: fmt.Sprint(i), Config: c})
	}
	rapid.Check(t, func(t *rapid.T) {
		var calls atomic.Int64
		o := Options{
			Space: s, Context: "here", Seed: rapid.Uint64().Draw(t, "seed"), Presets: presets,
			Method:  rapid.SampledFrom(samplerNames()).Draw(t, "method"),
			Workers: rapid.IntRange(1, 4).Draw(t, "workers"),
			Evaluate: func(ctx context.Context, c space.Config) (Measurement, error) {
				calls.Add(1)
				return ladderCost(ctx, c)
			},
		}
		resumed := func(text string, budget int) (Result, string) {
			o.Budget, o.Record.Resume = budget, nil
			if text != "" {
				var err error
				if o.Record.Resume, err = ReadRecording(strings.NewReader(text), "trials.jsonl", s); err != nil {
					t.Fatal(err)
				}
			}
			calls.Store(0)
			r, again, err := record(t, o)
			if err != nil {
				t.Fatal(err)
			}
			return r, again
		}
		var steps []Result
		var texts []string
		text, budget := "", 0
		for range rapid.IntRange(2, 3).Draw(t, "budgets") {
			budget += rapid.IntRange(2, 14).Draw(t, "more")
			r, longer := resumed(text, budget)
			if !strings.HasPrefix(longer, text) {
				t.Fatalf("with %d:\n%s\ndoes not begin with\n%s", budget, longer, text)
			}
			before := 0
			if len(steps) > 0 {
				before = len(steps[len(steps)-1].Trials)
			}
			if len(r.Trials) > max(budget, 2) || int(calls.Load()) != len(r.Trials)-before {
				t.Fatalf("budget %d: %d trials, %d before, %d measured", budget, len(r.Trials), before, calls.Load())
			}
			steps, texts, text = append(steps, r), append(texts, longer), longer
		}
		first := strings.IndexByte(text, '\n') + 1
		cut := text[:rapid.IntRange(first, len(text)).Draw(t, "cut")]
		if strings.Count(cut, `{"budget"`) == len(texts)-1 || len(texts) == 2 { // the budgets between are known
			if r, again := resumed(cut, budget); again != text ||
				cmp.Diff(steps[len(steps)-1], r, cmp.FilterPath(func(p cmp.Path) bool {
					return p.Last().String() == ".Evaluations"
				}, cmp.Ignore())) != "" {
				t.Fatalf("resumed behind\n%s\n%s\nwant:\n%s", cut, again, text)
			}
		}
		for i, r := range steps {
			got, again := resumed(text, len(r.Trials))
			if again != texts[i] || len(got.Trials) != len(r.Trials) || calls.Load() != 0 {
				t.Fatalf("with %d of %d:\n%s\nwant:\n%s", len(r.Trials), budget, again, texts[i])
			}
		}
	})
}

func TestRecordingsAreRefused(t *testing.T) {
	s := ladder(t)
	var b bytes.Buffer
	o := Options{Space: s, Evaluate: ladderCost, Context: "here",
		Seed: 3, Budget: 6, Record: Record{To: &b, About: map[string]string{"scheduler": "tiresias", "trace": "a"}}}
	if _, err := Tune(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(b.String(), "\n")
	for _, c := range []struct{ text, want string }{
		{strings.Replace(b.String(), `"incumbent":{`, `"incumbent":{"no":1,`, 1), "f:1: incumbent: no"},
		{"", "f:"},
		{lines[0][:20], "f:"},
		{"job_id,submit\n1,2\n", "f:1: this is not the header"},
		{"{}\n", `f:1: this is not the header of a record of trials: "autosched_trials" is missing`},
		{`{"autosched_trials":9}` + "\n", "f:1: the record has version 9"},
		{strings.Replace(lines[0], s.Digest(), "other", 1),
			"f:1: the record is of another space: parameters, ranges or rules differ (it is of scheduler " +
				"tiresias, trace a)"},
		{lines[0] + lines[1] + lines[1], "f:3: trial.config: it was measured on line 2 already"},
		{lines[0] + lines[2], "f:2: trial.step: is 1, want 0"},
		{lines[0] + "{}\n", `f:2: a line has either "trial" or "rejected"`},
		{lines[0] + `{"trial":{"step":0` + "\n", "f:2: the line ends within a JSON object"},
		{lines[0] + strings.Replace(lines[1], `"queues":3`, `"queues":77`, 1), "f:2: trial.config: queues"},
		{lines[0] + strings.Replace(lines[1], `"values":[`, `"values":[-1,`, 1), "f:2: trial.measurement: "},
		{lines[0] + strings.Replace(lines[1], `"step"`, `"stpe"`, 1), `f:2: json: unknown field "stpe"`},
	} {
		if _, err := ReadRecording(strings.NewReader(c.text), "f", s); err == nil ||
			!strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.60q: error %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := ReadRecording(strings.NewReader(b.String()), "f", tiny(t)); err == nil ||
		!strings.Contains(err.Error(), "another space") {
		t.Errorf("in another space: %v", err)
	}
	var err error
	if o.Record.Resume, err = ReadRecording(&b, "f", s); err != nil {
		t.Fatal(err)
	}
	o.Record.To = nil
	for want, change := range map[string]func(*Options){
		"f:1: the record is of seed 3, not 4":              func(o *Options) { o.Seed = 4 },
		"f:1: the record was measured on another workload": func(o *Options) { o.Context = "there" },
		"f:1: the record is of scheduler tiresias, not themis": func(o *Options) {
			o.Record.About = map[string]string{"scheduler": "themis"}
		},
		`f:1: the record is of the incumbent {"priority":"service",`: func(o *Options) {
			// which the incumbent decides, too
			o.Incumbent, o.Context = s.Default().With("pack", space.Bool(true)), "there"
		},
		"f:1: the record is of another space": func(o *Options) { o.Space = tiny(t); o.Incumbent = space.Config{} },
	} {
		x := o
		change(&x)
		if _, err := Tune(context.Background(), x); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestTrialsTellWhereTheyComeFrom: suggested values, projection and measured
// configuration are consistent.
func TestTrialsTellWhereTheyComeFrom(t *testing.T) {
	s := ladder(t)
	for _, method := range samplerNames() {
		proposals := 0
		r, err := Tune(context.Background(),
			Options{Space: s, Evaluate: ladderCost, Method: method, Budget: 30, Seed: 5,
				Reject: func(h []Trial, c space.Config) string {
					if proposals++; len(h) > 3 && proposals%5 == 0 {
						return "for the test"
					}
					return ""
				},
				Scope: func(_ []Trial, c space.Config) (space.Config, []string) {
					if c.Get("queues").Int() != 5 {
						return c, nil
					}
					values := valuesOf(c)
					values["queues"] = space.Int(4)
					out, _ := s.Project(values)
					return out, []string{"five is too many"}
				}})
		if err != nil && method != "bluefin" {
			t.Fatal(err)
		}
		projected := 0
		check := func(config space.Config, p Provenance) {
			if len(p.Narrowed) > 0 {
				if p.Projected == nil || p.Projected.Equal(config) {
					t.Errorf("%s: narrowed from %v to %v", method, p.Projected, config)
				}
				config = *p.Projected
			}
			if p.Suggested != nil {
				projected++
				if c, changes := s.Project(p.Suggested); !c.Equal(config) || len(changes) == 0 {
					t.Errorf("%s: %v was projected to %s, not %s", method, p.Suggested, c, config)
				}
			}
		}
		for _, x := range r.Trials {
			check(x.Config, x.Provenance)
		}
		for _, x := range r.Rejected {
			check(x.Config, x.Provenance)
			if x.Origin == "" || x.Reason == "" || x.Round < 1 {
				t.Errorf("%s: rejection %+v", method, x)
			}
		}
		if projected == 0 && method != "bluefin" && method != "local" || projected > 25 || len(r.Rejected) == 0 {
			t.Errorf("%s: %d of %d suggestions were changed by rules, %d rejected",
				method, projected, len(r.Trials), len(r.Rejected))
		}
	}
}

// TestTimeIsUp: the study ends in time, with the trials so far; the default and
// the incumbent are measured in any case.
func TestTimeIsUp(t *testing.T) { synctest.Test(t, timeIsUp) } // on a simulated clock

func timeIsUp(t *testing.T) {
	s := ladder(t)
	incumbent, _ := s.Parse(s.Default(), []string{"queues=4"})
	slow := func(ctx context.Context, c space.Config) (Measurement, error) {
		select {
		case <-ctx.Done():
			return Measurement{}, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		return Measurement{Values: []float64{c.Get("queues").Float()}}, nil
	}
	for _, c := range []struct {
		time  time.Duration
		least int
	}{{time.Nanosecond, 2}, {60 * time.Millisecond, 40}} {
		r, err := Tune(context.Background(), Options{Space: s, Evaluate: slow, Incumbent: incumbent, Budget: 1e6,
			Workers: 2, Time: c.time, Method: "random"})
		if err != nil || r.Stopped != StoppedTime || len(r.Trials) < c.least || r.Best < 0 || r.Incumbent != 1 ||
			r.Default != 0 {
			t.Errorf("%v: %v, %s after %d trials, best %d", c.time, err, r.Stopped, len(r.Trials), r.Best)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Tune(ctx, Options{Space: s, Evaluate: slow, Time: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled from the start: %v", err)
	}
}

type fullDisk struct{ room int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room -= len(b); d.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

func TestRecordingFails(t *testing.T) {
	for _, room := range []int{0, 2000} {
		r, err := Tune(context.Background(),
			Options{Space: ladder(t), Evaluate: ladderCost, Budget: 20, Record: Record{To: &fullDisk{room}}})
		if err == nil || !strings.Contains(err.Error(), "recording the trials: no space left") || len(r.Trials) >= 20 {
			t.Errorf("room %d: %v after %d trials", room, err, len(r.Trials))
		}
	}
}

func FuzzReadRecording(f *testing.F) {
	s := ladder(f)
	var b bytes.Buffer
	if _, err := Tune(context.Background(),
		Options{Space: s, Evaluate: ladderCost, Budget: 12, Seed: 1, Record: Record{To: &b},
			Reject: func(h []Trial, c space.Config) string {
				if c.Get("pack").Bool() {
					return "no"
				}
				return ""
			}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.String())
	f.Add(fmt.Sprintf("{\"autosched_trials\":1,\"space\":%q}\n{}\n", s.Digest()))
	f.Add(fmt.Sprintf("{\"autosched_trials\":1,\"space\":%q,\"budget\":4}\n{\"budget\":8}\n", s.Digest()))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadRecording(strings.NewReader(text), "f", s)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		if r.Whole > len(text) || text[r.Whole-1] != '\n' {
			t.Fatalf("%d whole bytes of %d", r.Whole, len(text))
		}
		r.Header.Seed, r.Header.Context = 0, ""
		r.Header.About = nil
		got, err := Tune(context.Background(),
			Options{Space: s, Evaluate: ladderCost, Method: "sobol", Budget: 4, Record: Record{Resume: r}})
		if len(got.Trials) == 0 {
			t.Fatal(err)
		}
	})
}

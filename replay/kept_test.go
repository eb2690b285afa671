package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/autosched/autosched/internal/testshared"
)

// keeping are options of a short evaluation that is kept in a file, with its notes.
func keeping(t *testing.T, path string) (Options, *[]string) {
	o := sample(t, "preset", "random-preset", "fixed-history", "autosched")
	o.To, o.Seeds, o.FixedBudget, o.Budget = o.From+(o.To-o.From)/4, 2, 6, 4
	notes := new([]string)
	o.Keep = Keep{Path: path, Build: "a", Note: func(text string) { *notes = append(*notes, text) }}
	return o, notes
}

// timeless is a report without wall time.
func timeless(t *testing.T, o Options) *Report {
	t.Helper()
	r := evaluate(t, o)
	for i := range r.Methods {
		m := &r.Methods[i]
		m.TuningPerRound = 0
		for k := range m.Seeds {
			m.Seeds[k].TuningPerRound = 0
		}
	}
	return r
}

// same compares reports, with the fields that JSON omits, and as JSON.
func same(t *testing.T, what string, a, b *Report) {
	t.Helper()
	if d := cmp.Diff(a, b, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: the report differs:\n%s", what, d)
	}
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	if err != nil || err2 != nil || !bytes.Equal(x, y) {
		t.Errorf("%s: report.json differs: %v, %v", what, err, err2)
	}
}

// TestResume: an evaluation that was interrupted after its first cell continues to the
// report of one that was not, for any number of jobs.
func TestResume(t *testing.T) {
	testshared.Full(t)
	plain, _ := keeping(t, "")
	plain.Jobs = 1
	want := timeless(t, plain)
	for _, jobs := range []int{4, 1} {
		path := filepath.Join(t.TempDir(), "cells.jsonl")
		o, _ := keeping(t, path)
		ctx, cancel := context.WithCancel(context.Background())
		o.Jobs = jobs
		o.Progress = func(s Step) {
			if s.Grid.Done > 0 {
				cancel()
			}
		}
		if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || bytes.Count(text, []byte(`"key"`)) == 0 {
			t.Fatalf("nothing is kept: %v", err)
		}
		o, notes := keeping(t, path)
		o.Jobs = jobs
		same(t, fmt.Sprintf("%d jobs", jobs), want, timeless(t, o))
		if len(*notes) != 1 || !strings.Contains((*notes)[0], "of 8 results") {
			t.Errorf("notes %q", *notes)
		}
		o.Progress = func(s Step) { t.Errorf("%s, seed %d is computed again", s.Method, s.Seed) }
		same(t, "all kept", want, timeless(t, o))
	}
}

// TestKeptDamaged: results of another build or other inputs, and damaged lines, are not used.
func TestKeptDamaged(t *testing.T) {
	testshared.Full(t)
	path := filepath.Join(t.TempDir(), "cells.jsonl")
	o, notes := keeping(t, path)
	o.Methods = []string{"default", "preset", "random-preset"}
	want := timeless(t, o)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string]struct {
		change func(string) string
		want   string
	}{
		"cut short": {func(s string) string { return s[:len(s)-100] }, "3 of 4 results"},
		"other digits": {func(s string) string { return strings.Replace(s, `"avg_jct_s":`, `"avg_jct_s":1`, 1) },
			"1 damaged"},
		"not JSON":  {func(s string) string { return "hello\n" + s }, "1 damaged"},
		"JSON":      {func(s string) string { return s + "\n{}\n" }, "not used: 1 of other inputs"},
		"other sum": {func(s string) string { return strings.Replace(s, `"sum":"`, `"sum":"0`, 1) }, "1 damaged"},
	}
	for name, d := range damage {
		if err := os.WriteFile(path, []byte(d.change(string(text))), 0o666); err != nil {
			t.Fatal(err)
		}
		*notes = nil
		same(t, name, want, timeless(t, o))
		if got := strings.Join(*notes, "; "); !strings.Contains(got, d.want) {
			t.Errorf("%s: notes %q, want %q", name, got, d.want)
		}
	}
	for name, change := range map[string]func(*Options){
		"build":     func(o *Options) { o.Keep.Build = "b" },
		"cluster":   func(o *Options) { o.Cluster.Groups[0].Nodes = 19 },
		"window":    func(o *Options) { o.To++ },
		"current":   func(o *Options) { o.Current = o.Scheduler.Presets[0].Config },
		"futures":   func(o *Options) { o.Futures = 3 },
		"seed":      func(o *Options) { o.Seed = 9 },
		"always":    func(o *Options) { o.Always = true },
		"placement": func(o *Options) { o.Simulate.Placement = 1 },
	} {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		o, notes := keeping(t, path)
		o.Methods = []string{"random-preset"}
		change(&o)
		timeless(t, o)
		got := strings.Join(*notes, "; ")
		if strings.Contains(got, "not computed again") {
			t.Errorf("another %s: notes %q", name, got)
		}
	}
}

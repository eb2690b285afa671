package decisions

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/lab/internal/window"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

func decisionMatrix(t *testing.T) (*Matrix, *[]string) {
	t.Helper()
	o := window.Sample(t)
	load := func(context.Context) (replay.Options, error) { return o, nil }
	var measured []string
	return &Matrix{
		Windows: []Window{{Name: "late", Rank: 2, Seeds: 1, Load: load},
			{Name: "soon", Rank: 1, Schedulers: []string{"tiresias"}, Load: load}},
		Schedulers: []string{"fifo", "tiresias"}, Methods: []string{"default", "fixed-oracle", "random-preset"},
		Seeds: 2, FixedBudget: 6, Settings: round.Settings{Budget: 2, Futures: 2}.WithDefaults(), Build: "a",
		Progress: func(c *Cell, _, _ int) { measured = append(measured, c.CellKey.String()) },
	}, &measured
}

// TestMatrixResumes checks that a run measures in the order of the matrix the cells that the
// file lacks, and nothing else.
func TestMatrixResumes(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "cells.jsonl")
	m, measured := decisionMatrix(t)
	first, err := m.Run(ctx, path, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"soon/tiresias/default/1", "soon/tiresias/random-preset/1", "soon/tiresias/random-preset/2",
		"soon/tiresias/fixed-oracle/1", "soon/tiresias/fixed-oracle/2",
		"late/fifo/default/1", "late/fifo/random-preset/1",
		"late/tiresias/default/1", "late/tiresias/random-preset/1",
		"late/fifo/fixed-oracle/1", "late/tiresias/fixed-oracle/1",
	}
	if !slices.Equal(*measured, want) {
		t.Errorf("measured %v, want %v", *measured, want)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-40], 0o666); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	*measured = nil
	again, err := m.Run(ctx, path, true)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*measured, want[len(want)-1:]) {
		t.Errorf("measured %v again, want the last only", *measured)
	}
	for i := range first {
		if first[i].CellKey != again[i].CellKey || first[i].Outcome.AvgJCT != again[i].Outcome.AvgJCT {
			t.Errorf("%s: %g, then %g", &first[i].CellKey, first[i].Outcome.AvgJCT, again[i].Outcome.AvgJCT)
		}
	}

	// Another build or budget measures the cells that depend on it.
	*measured = nil
	m.Build, m.FixedBudget, m.Only = "b", 5, regexp.MustCompile("late/tiresias")
	if _, err := m.Run(ctx, path, true); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*measured, []string{"late/tiresias/fixed-oracle/1"}) {
		t.Errorf("another budget measured %v", *measured)
	}
	if v, w := m.plan1(t, "autosched"), m.plan1(t, "preset"); v == w {
		t.Errorf("the versions of autosched and preset are both %s", v)
	}
	m.Build = "c"
	before := m.plan1(t, "autosched")
	m.Build = "d"
	if after := m.plan1(t, "autosched"); before == after {
		t.Errorf("another build has the version %s, too", after)
	}
}

// TestMatrixWithoutCells checks that a selection that matches nothing is an error, not an
// empty table.
func TestMatrixWithoutCells(t *testing.T) {
	m, _ := decisionMatrix(t)
	m.Only = regexp.MustCompile("soon/fifo")
	_, err := m.Run(context.Background(), filepath.Join(t.TempDir(), "cells.jsonl"), false)
	if err == nil || !strings.Contains(err.Error(), "window/scheduler/method/seed") {
		t.Errorf("error %v", err)
	}
}

// TestMatrixAblations: an ablation has its settings and only its windows and schedulers.
func TestMatrixAblations(t *testing.T) {
	testshared.Full(t)
	m, _ := decisionMatrix(t)
	m.Methods = []string{"autosched"}
	other := m.Settings
	other.Futures = 9
	m.Ablations = []Ablation{{Name: "all", Settings: other}, {Name: "late", Windows: []string{"late"},
		Schedulers: []string{"fifo"}}}
	plan, err := m.plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range plan {
		p := &plan[i]
		got = append(got, p.key.String())
		if (p.key.Method == "autosched/all") != (p.options.Futures == 9) {
			t.Errorf("%s has %d futures", &p.key, p.options.Futures)
		}
	}
	want := []string{"soon/tiresias/autosched/1", "soon/tiresias/autosched/2", "late/fifo/autosched/1",
		"late/tiresias/autosched/1", "soon/tiresias/autosched/all/1", "soon/tiresias/autosched/all/2",
		"late/fifo/autosched/all/1", "late/fifo/autosched/late/1", "late/tiresias/autosched/all/1"}
	if !slices.Equal(got, want) {
		t.Errorf("planned %v, want %v", got, want)
	}
}

// plan1 returns the version of a method's cell.
func (m *Matrix) plan1(t *testing.T, method string) string {
	t.Helper()
	n := *m
	n.Methods, n.Only = []string{method}, nil
	p, err := n.plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p[0].key.Version
}

func TestMatrixRows(t *testing.T) {
	cell := func(window, method string, seed uint64, jct float64) Cell {
		return Cell{CellKey: CellKey{Window: window, Scheduler: "s", Method: method, Seed: seed},
			Outcome: replay.Outcome{AvgJCT: jct, Rounds: 4, Guards: &replay.Guards{WidthRatio: jct / 400},
				Hindsight: &replay.Hindsight{RobustJCT: jct, GuardedJCT: jct + 20, GuardedRobustJCT: jct + 40}},
			CPUSeconds: 10}
	}
	cells := []Cell{
		cell("w", "default", 1, 1000),
		cell("w", "random-preset", 1, 900), cell("w", "random-preset", 2, 800),
		cell("w", "autosched", 2, 800), cell("w", "autosched", 1, 840),
		cell("w", "fixed-oracle", 1, 700), cell("w", "fixed-oracle", 2, 900),
		cell("v", "default", 1, 1000), cell("v", "autosched", 1, 1010), cell("v", "fixed-oracle", 1, 999),
		cell("without a default", "autosched", 1, 1),
	}
	rows := MatrixRows(cells, []string{"w", "v", "without a default"}, []string{"s", "other"})
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	w, v := rows[0], rows[1]
	near("share", w.Share, .18/.16)
	near("share of the best", w.ShareFree, .9)
	near("guarded", w.Ratio["fixed-guarded"], 1000./820)
	near("kept", w.Kept, 1)
	near("width", w.Width, 2.1)
	near("worst to default", w.WorstToDefault, 1000./840)
	near("to random", w.ToRandom, (900./840+1)/2)
	near("worst to random", w.WorstToRandom, 1)
	near("spread", w.Spread, .05)
	near("ratio", w.Ratio["autosched"], 1000./820)
	near("share of a gain of 0.1 %", v.Share, math.NaN())
	near("to random of none", v.ToRandom, math.NaN())
	all := Condense("s", rows)
	near("share over windows", all.ShareFree, .9)
	near("worst over windows", all.WorstToDefault, 1000./1010)
	near("spread over windows", all.Spread, .05)
	near("random over windows", all.Ratio["random-preset"], 1000./850)
}

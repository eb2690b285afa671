package cells

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type square struct {
	N, Square int
}

// squares computes the squares below n, kept in a file.
func squares(file *File[int, square], n, jobs int) (*Grid[int, square], *atomic.Int32) {
	computed := new(atomic.Int32)
	g := &Grid[int, square]{Jobs: jobs}
	g.Known, _, _ = file.Read()
	for i := range n {
		g.Keys = append(g.Keys, i)
	}
	g.Compute = func(_ context.Context, i int, at func(float64)) (*square, error) {
		computed.Add(1)
		at(.5)
		return &square{i, i * i}, nil
	}
	g.Keep = func(_ int, v *square) error { return file.Append(v) }
	return g, computed
}

func newFile(t *testing.T) *File[int, square] {
	return &File[int, square]{Path: filepath.Join(t.TempDir(), "cells.jsonl"), Key: func(v *square) int { return v.N }}
}

// TestResume: a grid computes what its file lacks, and a line that was cut short again.
func TestResume(t *testing.T) {
	file := newFile(t)
	for _, c := range []struct{ n, jobs, computed int }{{3, 1, 3}, {3, 4, 0}, {9, 4, 6}} {
		g, computed := squares(file, c.n, c.jobs)
		got, err := g.Run(context.Background())
		if err != nil || int(computed.Load()) != c.computed {
			t.Errorf("%d cells: computed %d, want %d: %v", c.n, computed.Load(), c.computed, err)
		}
		for i, v := range got {
			if *v != (square{i, i * i}) {
				t.Errorf("cell %d is %v", i, *v)
			}
		}
	}
	text, err := os.ReadFile(file.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file.Path, text[:len(text)-4], 0o666); err != nil {
		t.Fatal(err)
	}
	if known, bad, err := file.Read(); len(known) != 8 || bad != 1 || err != nil {
		t.Errorf("%d cells and %d bad lines after a cut: %v", len(known), bad, err)
	}
	g, computed := squares(file, 9, 1)
	if _, err := g.Run(context.Background()); err != nil || computed.Load() != 1 {
		t.Errorf("computed %d after a cut: %v", computed.Load(), err)
	}
	if known, bad, err := file.Read(); len(known) != 9 || bad != 1 || err != nil {
		t.Errorf("%d cells and %d bad lines in the end: %v", len(known), bad, err)
	}
}

// TestOrder: the first cell comes before all others, then the cheapest.
func TestOrder(t *testing.T) {
	g, _ := squares(newFile(t), 5, 1)
	g.Cost = func(i int) Cost { return Cost{Units: float64(i % 4)} }
	var order []int
	g.Keep = func(i int, _ *square) error { order = append(order, i); return nil }
	if _, err := g.Run(context.Background()); err != nil || !slices.Equal(order, []int{0, 4, 1, 2, 3}) {
		t.Errorf("order %v: %v", order, err)
	}
}

// TestError: an error ends the grid, and finished cells remain.
func TestError(t *testing.T) {
	file := newFile(t)
	g, _ := squares(file, 9, 2)
	full := errors.New("disk full")
	g.Keep = func(i int, v *square) error {
		if i == 3 {
			return full
		}
		return file.Append(v)
	}
	if got, err := g.Run(context.Background()); !errors.Is(err, full) || got[0] == nil {
		t.Errorf("error %v, first cell %v", err, got[0])
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, computed := squares(newFile(t), 9, 1)
	g.Keep = func(int, *square) error { cancel(); return nil }
	if got, err := g.Run(ctx); !errors.Is(err, context.Canceled) || computed.Load() != 1 || got[0] == nil {
		t.Errorf("error %v after %d cells", err, computed.Load())
	}
}

// TestLeft: cells take the time of their kind, or of a more general one.
func TestLeft(t *testing.T) {
	g := &Grid[int, square]{Keys: make([]int, 4), Jobs: 2, Cost: func(i int) Cost {
		return [...]Cost{{1, []string{"a", "simulation"}}, {2, []string{"b", "simulation"}},
			{10, []string{"c", "round"}}, {1, []string{"a", "simulation"}}}[i]
	}}
	m := g.meter()
	if left, known := m.left(); left != 0 || known {
		t.Errorf("%v, %v before anything is computed", left, known)
	}
	m.known(0, 3)
	if left, known := m.left(); left != 30*time.Second || known {
		t.Errorf("%v, %v before a round: want 30s by the time of all, not known", left, known)
	}
	m.cells[2].share, m.cells[2].seconds = .1, 7
	if left, known := m.left(); left != 63*time.Second || !known {
		t.Errorf("%v, %v: want 63s, the longest of two jobs", left, known)
	}
	m.known(2, 70)
	if left, known := m.left(); left != 6*time.Second || !known {
		t.Errorf("%v, %v: want 6s", left, known)
	}
}

// TestLeftByUnit: before anything is computed, cells take the time of the grid's units.
func TestLeftByUnit(t *testing.T) {
	g := &Grid[int, square]{Keys: []int{1, 2}, Jobs: 1, Unit: map[string]float64{"simulation": 2, "round": 5},
		Cost: func(i int) Cost {
			return [...]Cost{{1, []string{"a", "simulation"}}, {3, []string{"b", "round"}}}[i]
		}}
	if left := g.Left(); left != 17*time.Second {
		t.Errorf("%v, want 17s", left)
	}
	if g.Known = map[int]*square{1: {}}; g.Left() != 15*time.Second {
		t.Errorf("%v with a known cell, want 15s", g.Left())
	}
}

// TestOnlyFiles: cells are not read through a link or from a folder.
func TestOnlyFiles(t *testing.T) {
	file := newFile(t)
	if err := os.Symlink(os.DevNull, file.Path); err != nil {
		t.Skip(err)
	}
	if _, _, err := file.Read(); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a link: %v", err)
	}
}

package chart

import (
	"math"
	"slices"
	"testing"
)

// TestFront: the line goes through what no other point beats, in each direction; a point far beyond it is not drawn.
func TestFront(t *testing.T) {
	for _, f := range []Front{{}, {MaxX: true}, {MaxY: true}, {MaxX: true, MaxY: true}} {
		sx, sy := sign(f.MaxX), sign(f.MaxY)
		best := []Point{{sx * 3, sy * 1}, {sx * 1, sy * 2}}
		f.Points = append(slices.Clone(best), Point{sx * 3.5, sy * 1.5}, Point{sx * 90, sy * 2})
		drawn := 0
		c := f.Chart(best, func(at func(int) Point) []Layer {
			for i := range f.Points {
				if p := at(i); !math.IsNaN(p.X) {
					drawn++
				}
			}
			return nil
		})
		want := []Point{{sx * 1, sy * 2}, {sx * 3, sy * 2}, {sx * 3, sy * 1}, {sx * 3, sy * 1}}
		if got := c.Layers[0].points(); !slices.Equal(got, want) || drawn != 3 {
			t.Errorf("%v, want %v; %d drawn", got, want, drawn)
		}
	}
	up := BestSoFar([]Point{{1, 3}, {2, 2}, {4, 5}}, true)
	down := BestSoFar([]Point{{1, 3}, {2, 2}, {4, 5}}, false)
	if up[2].Y != 3 || up[4].Y != 5 || down[2].Y != 2 || down[4].Y != 2 {
		t.Errorf("best so far: %v, %v", up, down)
	}
}

package rounds

import (
	"testing"
	"time"
)

func TestGrid(t *testing.T) {
	for _, c := range []struct {
		t, after int64
		on       bool
	}{{0, 10, true}, {1, 10, false}, {10, 20, true}, {-1, 0, false}, {-10, 0, true}, {-11, -10, false}} {
		g := Grid(10)
		if on, after := g.On(time.Duration(c.t)), g.After(time.Duration(c.t)); on != c.on ||
			after != time.Duration(c.after) {
			t.Errorf("%d: on %v, then %d; want %v, %d", c.t, on, after, c.on, c.after)
		}
	}
}

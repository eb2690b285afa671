package workload_test

import (
	"math"
	"strings"
	"testing"

	"github.com/autosched/autosched/workload"
)

// TestLimit: a scope holds its own and what it borrows, and lends of its own what it does not use.
func TestLimit(t *testing.T) {
	l := workload.Limit{Scope: workload.Scope{Account: "a"}, Resource: workload.LimitedGPUs, Own: 8, Lend: 6, Borrow: 4}
	for held, want := range map[int64]struct {
		allows        bool // three more
		beyond, lends int64
	}{0: {true, 0, 6}, 4: {true, 0, 4}, 7: {true, 2, 1}, 9: {true, 3, 0}, 10: {false, 3, 0}} {
		if got := l.Allows(held, 3); got != want.allows {
			t.Errorf("of %d it allows 3 more: %v", held, got)
		}
		if got := l.Beyond(held, 3); got != want.beyond {
			t.Errorf("of %d it borrows %d of 3, want %d", held, got, want.beyond)
		}
		if got := l.Lends(held); got != want.lends {
			t.Errorf("of %d it lends %d, want %d", held, got, want.lends)
		}
	}
	for _, l := range []workload.Limit{{Own: math.MaxInt64, Borrow: 1}, {Own: 1, Borrow: math.MaxInt64}} {
		if !l.Allows(math.MaxInt64-1, 1) || !l.Allows(0, 0) {
			t.Errorf("own %d and borrow %d do not allow all", l.Own, l.Borrow)
		}
	}
	for field, change := range map[string]func(*workload.Limit){"": func(*workload.Limit) {},
		"lend: 1": func(l *workload.Limit) { l.Lend = 1 }, "borrow: 1": func(l *workload.Limit) { l.Borrow = 1 },
		"own": func(l *workload.Limit) { l.Own = -1 }} {
		x := l
		x.Lend, x.Borrow = 0, 0
		change(&x)
		site := workload.Site{Limits: []workload.Limit{x}}
		err := site.Validate()
		if (err == nil) != (field == "") || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

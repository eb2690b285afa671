package cputime_test

import (
	"testing"

	"github.com/autosched/autosched/internal/cputime"
)

func TestProcessGrows(t *testing.T) {
	before := cputime.Process()
	for n := 0; cputime.Process() <= before; n++ {
		if n > 1e9 {
			t.Fatalf("the process still has %v after %d calls", before, n)
		}
	}
}

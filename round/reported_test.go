package round_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
)

// correlated draws values whose neighbours have the correlation r, of a mean and a standard deviation.
func correlated(r *rand.Rand, n int, mean, sd, correlation float64) []float64 {
	out := make([]float64, n)
	x := r.NormFloat64()
	for i := range out {
		out[i] = mean + sd*x
		x = correlation*x + math.Sqrt(1-correlation*correlation)*r.NormFloat64()
	}
	return out
}

// taken looks at a revision as often as the service does and reports whether a look finds it worse.
func taken(maximize bool, before, after []float64) bool {
	for n := round.NextReportLook(0); n > 0 && n <= len(after); n = round.NextReportLook(n) {
		if round.JudgeReported("wait", maximize, before, after[:n]).Judgement == round.Worse {
			return true
		}
	}
	return false
}

// Revisions that differ in nothing are hardly ever taken back, those that are worse by 30 % nearly always.
func TestJudgeReportedErrors(t *testing.T) {
	testshared.Full(t)
	const runs = 1000
	for _, test := range []struct {
		name            string
		ratio           float64
		correlation, sd float64
		least, most     float64
	}{
		{"the same, independent", 1, 0, .2, 0, .002},
		{"the same, correlated", 1, .6, .2, 0, .005},
		{"the same, much noise", 1, .8, .5, 0, .02},
		{"better", .7, .6, .2, 0, .001},
		{"a little worse", 1.02, .3, .05, 0, .002},
		{"worse", 1.3, .6, .2, .95, 1},
		{"much worse", 2, .8, .5, .8, 1},
	} {
		for _, maximize := range []bool{false, true} {
			r := rand.New(rand.NewPCG(1, 2))
			n := 0
			for range runs {
				before := correlated(r, 288, 100, 100*test.sd, test.correlation)
				mean := 100 * test.ratio
				if maximize {
					mean = 200 - mean
				}
				if taken(maximize, before, correlated(r, 288, mean, 100*test.sd, test.correlation)) {
					n++
				}
			}
			if share := float64(n) / runs; share < test.least || share > test.most {
				t.Errorf("%s, maximize %v: %.3f taken back, want %v to %v", test.name, maximize, share, test.least,
					test.most)
			}
		}
	}
}

func TestJudgeReported(t *testing.T) {
	constant := func(v float64, n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	for _, test := range []struct {
		name          string
		before, after []float64
		want          round.Judgement
		says          string
	}{
		{"too few", constant(1, 24), constant(9, 23), round.Early, "24 are needed"},
		{"too few before", constant(1, 3), constant(9, 50), round.Early, "in 50 intervals, and in 3"},
		{"none before", nil, constant(9, 50), round.Early, "and in 0"},
		{"the same", constant(5, 24), constant(5, 24), round.Keep, "not worse"},
		{"worse without noise", constant(5, 24), constant(6, 24), round.Worse, "wait is 6 on average, 5 under"},
		{"within 5 %", constant(100, 24), constant(104, 24), round.Keep, "not worse by more than 5 %"},
		{"from nothing", constant(0, 24), constant(1, 24), round.Worse, "wait is 1 on average, 0 under"},
		{"a step says little", constant(1, 24), append(constant(1, 12), constant(9, 12)...), round.Early,
			"change too slowly"},
	} {
		got := round.JudgeReported("wait", false, test.before, test.after)
		if got.Judgement != test.want || !strings.Contains(got.Reason, test.says) || math.IsInf(got.Excess, 0) ||
			math.IsNaN(got.Excess+got.Ratio) {
			t.Errorf("%s: %+v, want %s and %q", test.name, got, test.want, test.says)
		}
	}
}

func TestEstimateMean(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, correlation := range []float64{0, .5, .8} {
		covered, known := 0, 0
		for range 2000 {
			e := round.EstimateMean(correlated(r, 200, 7, 2, correlation))
			if e.Intervals != 200 {
				t.Fatal(e)
			}
			if !math.IsNaN(e.Low) {
				known++
				if e.Low <= 7 && 7 <= e.High {
					covered++
				}
			}
		}
		if share := float64(covered) / float64(known); share < .92 || share > .98 || known < 1990 {
			t.Errorf("correlation %v: %d intervals, %.3f of them have the mean", correlation, known, share)
		}
	}
	if e := round.EstimateMean([]float64{3, 4, 5}); !math.IsNaN(e.Low) || e.Mean != 4 {
		t.Errorf("%+v of three values", e)
	}
}

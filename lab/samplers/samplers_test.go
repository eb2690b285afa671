package samplers

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/lab/objectives"
	"github.com/autosched/autosched/search"
)

func run(t *testing.T, objective, sampler string, budget, seeds int) Figures {
	t.Helper()
	o, err := objectives.Find(objective)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Run(context.Background(), o, sampler, budget, seeds, 2)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The default sampler must reach these at 40 evaluations over 20 seeds: tenths
// of the regrets of existing samplers where they are good.
func TestDefaultReachesItsNumbers(t *testing.T) {
	testshared.Full(t)
	for objective, most := range map[string]float64{"quad2": 0.001, "quad5": 0.0278, "cat4": 0.02, "jctnoisy": 300} {
		if testing.Short() && objective != "quad2" {
			continue
		}
		f := run(t, objective, search.DefaultSampler, 40, 20)
		t.Logf("%-9s %.4g, standard error %.2g, median %.4g", objective, f.Mean, f.StandardError(), f.Median)
		if f.Mean > most {
			t.Errorf("%s: mean regret %.4g, want at most %.4g", objective, f.Mean, most)
		}
	}
}

// It must never be worse than random sampling, for any function.
func TestDefaultIsNeverWorseThanChance(t *testing.T) {
	for _, budget := range []int{20, 40} {
		for _, objective := range objectives.Names() {
			t.Run(fmt.Sprintf("%s at %d", objective, budget), func(t *testing.T) {
				t.Parallel()
				if budget > 20 {
					testshared.Long(t)
				}
				if testing.Short() && objective != "quad2" {
					t.Skip("quad2 is what -short measures")
				}
				const seeds = 10
				f, random := run(t, objective, search.DefaultSampler, budget, seeds),
					run(t, objective, "random", budget, seeds)
				t.Logf("%.4g, random %.4g", f.Mean, random.Mean)
				if f.Mean > random.Mean+math.Hypot(f.StandardError(), random.StandardError()) {
					t.Errorf("mean regret %.4g, of random %.4g", f.Mean, random.Mean)
				}
			})
		}
	}
}

// The published figures equal the reference data.
func TestPublishedFigures(t *testing.T) {
	f, err := os.Open(testshared.Path(t, "golden", "bluefin", "regret_summary.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	have := Published()
	n := 0
	for _, r := range records[1:] {
		if r[0] == "tiresiastoy" { // a simulator that is not described
			continue
		}
		n++
		i := slices.IndexFunc(have, func(f Figures) bool {
			return f.Objective == r[0] && f.Sampler == r[1] && strconv.Itoa(f.Budget) == r[2] &&
				strconv.Itoa(f.Seeds) == r[3]
		})
		if i < 0 {
			t.Errorf("%v is missing", r)
			continue
		}
		for k, got := range []float64{have[i].Mean, have[i].Std, have[i].Median} {
			if want, err := strconv.ParseFloat(r[4+k], 64); err != nil || math.Abs(got-want) > 1e-5*want {
				t.Errorf("%v: have %v", r, got)
			}
		}
	}
	if n != len(have) {
		t.Errorf("%d figures shipped, %d measured", len(have), n)
	}
}

func TestSummary(t *testing.T) {
	f := Figures{Seeds: 4, Regrets: []float64{4, 1, 2, 1}}
	f.summarise()
	if f.Mean != 2 || f.Median != 1.5 || math.Abs(f.Std-math.Sqrt(1.5)) > 1e-12 ||
		math.Abs(f.StandardError()-math.Sqrt(0.5)) > 1e-12 {
		t.Errorf("%+v, standard error %v", f, f.StandardError())
	}
}

func TestCancelledBenchmark(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o, _ := objectives.Find("quad2")
	if _, err := Run(ctx, o, "random", 10, 3, 1); err == nil {
		t.Error("a cancelled run ended well")
	}
}

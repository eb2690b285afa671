package search_test

import (
	"context"
	"fmt"
	"math"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// A lease that is too short pays restarts, one that is too long makes others
// wait. Two futures stand for possible arrivals.
func ExampleTune() {
	s, err := space.New([]space.Param{
		{ID: "lease", Kind: space.KindDuration, Min: 60, Max: 7200, Log: true, Default: space.Num(3600)},
	}, nil)
	if err != nil {
		panic(err)
	}
	wait := func(_ context.Context, c space.Config) (search.Measurement, error) {
		off := math.Log(c.Get("lease").Float() / 600)
		return search.Measurement{
			Values: []float64{1000 + 500*off*off, 2000 + 700*off*off},
			Floors: []float64{900, 1800}, // the jobs' own run time
		}, nil
	}
	r, err := search.Tune(context.Background(), search.Options{Space: s, Evaluate: wait, Budget: 20, Seed: 1})
	if err != nil {
		panic(err)
	}
	best := r.Trials[r.Best]
	gain := search.Gain(best, r.Trials[r.Incumbent])
	minutes := best.Config.Get("lease").Float() / 60
	fmt.Printf("lease near 10 minutes: %v\n", minutes > 8 && minutes < 12)
	fmt.Printf("at least ten times better where it can be: %v, in every future: %v\n",
		gain.Ratio > 10, gain.BetterInEvery)
	// Output:
	// lease near 10 minutes: true
	// at least ten times better where it can be: true, in every future: true
}

package search

import (
	"context"
	"fmt"
	"testing"

	"github.com/autosched/autosched/space"
)

// BenchmarkSuggest measures what one suggestion costs after 200 trials.
func BenchmarkSuggest(b *testing.B) {
	s := ladder(b)
	r, err := Tune(context.Background(), Options{Space: s, Evaluate: ladderCost, Budget: 200})
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range Samplers {
		b.Run(e.Name, func(b *testing.B) {
			sampler, err := e.New(Setup{Space: s, Start: s.Default(), Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += len(sampler.Suggest(Request{History: r.Trials, Step: n, N: 4}))
				if learner, ok := sampler.(Learner); ok {
					learner.Observe(r.Trials[:2])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/suggestion")
		})
	}
}

// BenchmarkTune measures a study with an objective that costs nothing.
func BenchmarkTune(b *testing.B) {
	s := ladder(b)
	free := func(context.Context, space.Config) (Measurement, error) {
		return Measurement{Values: []float64{1, 2, 3, 4}}, nil
	}
	for _, e := range Samplers {
		for _, budget := range []int{10, 40, 200} {
			b.Run(fmt.Sprintf("%s/%d", e.Name, budget), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Tune(context.Background(), Options{Space: s, Evaluate: free, Method: e.Name, Budget: budget, Seed: 1}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

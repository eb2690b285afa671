package search

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/space"
)

// benchHistory returns trials of a study of an objective by Sobol points and
// local changes, as a model sees them late in a study.
func benchHistory(b *testing.B, s *space.Space, evaluate Evaluator, n int) []Trial {
	r, err := Tune(context.Background(), Options{Space: s, Evaluate: evaluate, Method: "sobol", Budget: n, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	return r.Trials
}

// BenchmarkSuggest measures the processor time of a suggestion by the number of trials,
// refits included: each iteration is 16 batches.
func BenchmarkSuggest(b *testing.B) {
	const batches = 16
	s := ladder(b)
	trials := benchHistory(b, s, ladderCost, 600)
	for _, e := range Samplers {
		for _, size := range []int{20, 50, 100, 200, 500} {
			b.Run(fmt.Sprintf("%s/%d", e.Name, size), func(b *testing.B) {
				b.ReportAllocs()
				n := 0
				var used time.Duration
				for b.Loop() {
					b.StopTimer()
					sampler, err := e.New(Setup{Space: s, Start: s.Default(), Seed: 1, Budget: 600})
					if err != nil {
						b.Fatal(err)
					}
					// an even step: auto leaves odd ones to local
					sampler.Suggest(Request{History: trials[:size], Step: 2, N: 600 - size})
					b.StartTimer()
					used -= cpuTime()
					for k := range batches {
						have := size + 4*k
						out := sampler.Suggest(Request{History: trials[:have], Step: 3 + k, N: 600 - have})
						n += len(out)
						if learner, ok := sampler.(Learner); ok {
							learner.Observe(trials[have : have+len(out)])
						}
					}
					used += cpuTime()
				}
				b.ReportMetric(float64(used.Nanoseconds())/float64(n), "cpu-ns/suggestion")
			})
		}
	}
}

// BenchmarkTune measures a study with an objective of negligible cost.
func BenchmarkTune(b *testing.B) {
	s := ladder(b)
	for _, e := range Samplers {
		for _, budget := range []int{10, 40, 200} {
			b.Run(fmt.Sprintf("%s/%d", e.Name, budget), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Tune(context.Background(),
						Options{Space: s, Evaluate: ladderCost, Method: e.Name, Budget: budget, Seed: 1}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

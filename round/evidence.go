package round

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

const (
	// evidenceDecay is the time constant with which a round's evidence loses weight.
	evidenceDecay = 24 * time.Hour
	// evidenceKept bounds the age of evidence.
	evidenceKept = 48 * time.Hour
	// evidenceOf bounds the configurations with evidence.
	evidenceOf = 64
	// samplesOf bounds the evidence of a configuration: more than rounds and urgent
	// decisions of evidenceKept at the default interval.
	samplesOf = 256
	// failed is the logarithm of the ratio of a configuration that exhausted its
	// events, and bounds those of the others.
	failed = 3.0
)

// sample is a round's measurement of a configuration: the logarithm of its objective
// over the default's, both means over the same futures.
type sample struct {
	At  time.Duration `json:"at"`
	Log float64       `json:"log"`
}

// evidence is the samples of configurations by hash, each in order of time. Hashes
// ignore parameters that have no effect.
type evidence map[string][]sample

// add records the samples of a round at an instant and drops old ones.
func (e evidence) add(at time.Duration, logs map[string]float64) evidence {
	next := evidence{}
	for hash, samples := range e {
		if kept := slices.DeleteFunc(slices.Clone(samples), func(s sample) bool {
			return at-s.At > evidenceKept || s.At >= at
		}); len(kept) > 0 {
			next[hash] = kept[max(0, len(kept)-samplesOf+1):]
		}
	}
	for hash, x := range logs {
		next[hash] = append(next[hash], sample{At: at, Log: math.Round(1e6*x) / 1e6})
	}
	if over := len(next) - evidenceOf; over > 0 {
		oldest := make([]string, 0, len(next))
		for hash := range next {
			oldest = append(oldest, hash)
		}
		slices.SortFunc(oldest, func(a, b string) int {
			return cmp.Or(cmp.Compare(next[a][len(next[a])-1].At, next[b][len(next[b])-1].At), cmp.Compare(a, b))
		})
		for _, hash := range oldest[:over] {
			delete(next, hash)
		}
	}
	return next
}

// gain is the mean difference of two configurations' logarithms over the rounds that
// measured both, above 0 if c is better than the incumbent, and the sum of the rounds'
// weights: the latest has weight 1, and weights decay with evidenceDecay.
func (e evidence) gain(incumbent, c string, at time.Duration) (mean, weight float64) {
	a, b := e[incumbent], e[c]
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i].At < b[k].At:
			i++
		case a[i].At > b[k].At:
			k++
		default:
			w := math.Exp(-float64(at-a[i].At) / float64(evidenceDecay))
			mean += w * (a[i].Log - b[k].Log)
			weight += w
			i++
			k++
		}
	}
	if weight == 0 {
		return 0, 0
	}
	return mean / weight, weight
}

// keyer returns the hash of a configuration without the parameters that have no effect.
func keyer(inert []string) func(space.Config) string {
	return func(c space.Config) string {
		for _, id := range inert {
			c = c.With(id, c.Space().Default().Get(id))
		}
		return c.Hash()
	}
}

// logRatios compares trials with the default, by key. Proposals of a sampler are left
// out: those that look best were selected on the futures they were measured on, which
// biases them (winner's curse). It is nil if the default could not be measured.
func logRatios(trials []search.Trial, key func(space.Config) string) map[string]float64 {
	i := slices.IndexFunc(trials, func(t search.Trial) bool {
		return key(t.Config) == key(t.Config.Space().Default())
	})
	if i < 0 || !trials[i].OK() {
		return nil
	}
	base, out := trials[i].Measurement.Mean(), map[string]float64{}
	for _, t := range trials {
		switch {
		case t.Err != "" || !inPortfolio(&t):
		case !t.OK():
			out[key(t.Config)] = failed
		default:
			out[key(t.Config)] = logRatio(t.Measurement.Mean(), base)
		}
	}
	return out
}

// inPortfolio reports whether a trial was measured whatever the futures.
func inPortfolio(t *search.Trial) bool { return t.Round == 0 }

// logRatio is the logarithm of a/b, bounded by failed.
func logRatio(a, b float64) float64 {
	switch {
	case a <= 0 && b <= 0:
		return 0
	case a <= 0:
		return -failed
	case b <= 0:
		return failed
	}
	return max(-failed, min(math.Log(a/b), failed))
}

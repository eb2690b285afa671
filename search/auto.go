package search

import (
	"fmt"

	"github.com/autosched/autosched/space"
)

// autoSampler chooses one of the other samplers by the space and the budget, with a
// reason.
type autoSampler struct {
	main  Sampler
	name  string
	local *localSampler // of every other step of the tail; nil for none
	why   string
}

// Bounds of the use of a model: with fewer evaluations than fewModel it has too little
// data, with more dimensions than mostDims it is slow, and after tailFrom trials it
// improves little on a local search around the best.
const (
	fewModel = 10
	mostDims = 64
	tailFrom = 120
)

func newAuto(s Setup) (Sampler, error) {
	a := &autoSampler{}
	switch dims, _ := searched(s.Space); {
	case dims == 0:
		a.main, a.name, a.why = newRandom(s), "random", "there is nothing to tune"
	case s.Budget > 0 && s.Budget < fewModel:
		a.main, a.name, a.why = newSobolSampler(s), "sobol",
			fmt.Sprintf("%d evaluations are too few for a model", s.Budget)
	case dims > mostDims:
		a.main, a.name, a.why = newLocalSampler(s), "local",
			fmt.Sprintf("%d dimensions are too many for a Gaussian process", dims)
	default:
		a.main, a.name, a.why = newGPSampler(s), "gp", whyGP(s)
	}
	if s.Budget > tailFrom && a.name != "random" {
		a.local = newLocalSampler(s)
		a.why += fmt.Sprintf("; after %d trials every other step looks around the best", tailFrom)
	}
	return a, nil
}

// searched counts the dimensions that have more than one value, and how many of
// them are categories.
func searched(s *space.Space) (dims, categories int) {
	for i := range s.Dims() {
		switch d := s.Dim(i); {
		case d.Levels == 1:
		case d.Categorical:
			categories++
			fallthrough
		default:
			dims++
		}
	}
	return dims, categories
}

// whyGP explains the choice of a Gaussian process.
func whyGP(s Setup) string {
	dims, categories := searched(s.Space)
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	what := count(dims, "dimension", "dimensions")
	if categories > 0 {
		what += ", " + count(categories, "category", "categories")
	}
	if rules := len(s.Space.Rules()); rules > 0 {
		what += ", " + count(rules, "rule", "rules")
	}
	if s.Budget > 0 {
		what += fmt.Sprintf(", planned for %d evaluations", s.Budget)
	}
	return what + ": few enough for a Gaussian process"
}

// Explain implements Explainer.
func (a *autoSampler) Explain() string { return a.name + ": " + a.why }

func (a *autoSampler) Suggest(q Request) []Suggestion {
	if a.local != nil && len(q.History) >= tailFrom && q.Step%2 == 1 && q.N > batch {
		return a.local.Suggest(q)
	}
	out := a.main.Suggest(q)
	for i := range out {
		if out[i].Origin == "" {
			out[i].Origin = a.name
		}
	}
	return out
}

func (a *autoSampler) winner(trials []Trial) int {
	if j, ok := a.main.(judge); ok {
		return j.winner(trials)
	}
	return -1
}

package search

import "fmt"

// autoSampler chooses one of the others for the study and says why.
type autoSampler struct {
	Sampler
	name string
	why  string
}

// newAuto looks at the budget and the space.
func newAuto(s Setup) (Sampler, error) {
	a := &autoSampler{}
	switch dims := s.Space.Dims(); {
	case dims == 0:
		a.Sampler, a.name, a.why = &random{s}, "random", "there is nothing to tune"
	case s.Budget > 0 && s.Budget < 10:
		a.Sampler, a.name, a.why = newSobolSampler(s), "sobol", fmt.Sprintf("%d evaluations are too few for a model", s.Budget)
	default:
		a.Sampler, a.name, a.why = newGPSampler(s), "gp", fmt.Sprintf("%d dimensions and at most a few hundred evaluations: a model pays", dims)
	}
	return a, nil
}

// Explain implements Explainer.
func (a *autoSampler) Explain() string { return a.name + ": " + a.why }

func (a *autoSampler) Suggest(q Request) []Suggestion {
	out := a.Sampler.Suggest(q)
	for i := range out {
		if out[i].Origin == "" {
			out[i].Origin = a.name
		}
	}
	return out
}

func (a *autoSampler) winner(trials []Trial) int {
	if j, ok := a.Sampler.(judge); ok {
		return j.winner(trials)
	}
	return -1
}

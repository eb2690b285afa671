package simulator

import (
	_ "embed"
)

// Load describes a job's effect on another on the same GPUs.
type Load struct {
	Name string
	// Util is the share of a GPU's time that it keeps busy, alone.
	Util float64
	// Mem is the GPU memory it takes, in MB; 0 if that is not known.
	Mem float64
	// Score says how hard it is on others: 0 (light), 1 or 2 (heavy).
	Score int
	// Weight of the load when one is drawn, relative to the others.
	Weight int
}

// PairSpeeds are the shares of their speeds alone that jobs of two loads have on
// the same GPUs: by Pair, otherwise by their utilisation.
func (m *Models) PairSpeeds(a, b int) (float64, float64) {
	if m.Pair != nil {
		return m.Pair(a, b)
	}
	return hinge(m.Loads[a].Util, m.Loads[b].Util)
}

// hinge is the speed of two jobs by their utilisation alone: .985 - .368 x (sum
// - 1) above full use, fitted to Lucid's measurements of 1,388 pairs.
func hinge(a, b float64) (float64, float64) {
	v := .985 - .368*max(0, a+b-1)
	return v, v
}

// scoreLoads scores loads by the mean of the speeds of all their pairs that fit, both sides: from .70 a load is light,
// from .65 medium. (Lucid's own bounds, .95 and .85, are for pairs measured on a later GPU; by them nearly all loads of
// a V100 are heavy.)
func scoreLoads(loads []ModelLoad, speeds [][]float64) {
	for i := range loads {
		sum, n := 0.0, 0.0
		for k := range loads {
			if speeds[i][k] > 0 {
				sum += speeds[i][k] + speeds[k][i]
				n += 2
			}
		}
		switch mean := sum / n; {
		case mean < .65:
			loads[i].Score = 2
		case mean < .70:
			loads[i].Score = 1
		}
	}
}

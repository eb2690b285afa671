package simulator

import (
	_ "embed"
	"strconv"
	"strings"
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

// gavelTable is the speeds of pairs on a V100. Its head names the source; its
// licence is in gavel_LICENSE.
//
//go:embed gavel_v100_pairs.csv
var gavelTable string

// gavelLoads are the loads of the table and the speeds of a row's beside a
// column's. Utilisation and memory are not in it. A score is by the mean of the
// speeds of all its pairs that fit, both sides: from .70 it is light, from .65
// medium. (Lucid's own bounds, .95 and .85, are for pairs measured on a later
// GPU; by them nearly all of these are heavy.) All weigh the same when drawn: no
// public trace names the models of its jobs.
func gavelLoads() ([]ModelLoad, [][]float64) {
	var loads []ModelLoad
	var speeds [][]float64
	for line := range strings.Lines(gavelTable) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ",")
		var row []float64
		for field := range strings.SplitSeq(rest, ",") {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				panic("simulator: gavel_v100_pairs.csv: " + err.Error())
			}
			row = append(row, v)
		}
		loads, speeds = append(loads, ModelLoad{Name: name, Weight: 1}), append(speeds, row)
	}
	scoreLoads(loads, speeds)
	return loads, speeds
}

// scoreLoads scores loads by the speeds of their pairs.
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

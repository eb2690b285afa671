package samplers

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

// publishedCSV holds the mean simple regrets of existing samplers, measured with
// their own implementations on the first four objectives: BlueFin as released in
// SelfTune 2.0 and with other settings, hybrids in the manner of OPPerTune, TPE,
// CMA-ES with margin, random-forest and Gaussian-process expected improvement.
// Their figure is the regret of the configuration with the lowest measurement.
//
//go:embed published.csv
var publishedCSV string

// Published returns the published figures.
func Published() []Figures {
	records, err := csv.NewReader(strings.NewReader(publishedCSV)).ReadAll()
	if err != nil {
		panic("samplers: published.csv: " + err.Error())
	}
	var out []Figures
	for line, r := range records[1:] {
		number := func(s string) float64 {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				panic(fmt.Sprintf("samplers: published.csv, record %d: %v", line+2, err))
			}
			return v
		}
		out = append(out, Figures{Objective: r[0], Sampler: r[1], Budget: int(number(r[2])), Seeds: int(number(r[3])),
			Mean: number(r[4]), Std: number(r[5]), Median: number(r[6])})
	}
	return out
}

package forecast

import (
	"fmt"
	"io"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/internal/cli"
)

// forecastReport is the result of forecast eval.
type forecastReport struct {
	Trace     string  `json:"trace"`
	Synthetic bool    `json:"synthetic"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Horizon   float64 `json:"horizon_s"`
	Bin       float64 `json:"bin_s"`
	Count     string  `json:"count"`
	Samples   int     `json:"samples"`
	Seed      uint64  `json:"seed"`

	Results []*arrivals.Score `json:"results,omitempty"`

	single bool // --methods names a single method
}

// document is the JSON form; a single method's figures stand beside the window.
func (r *forecastReport) document() any {
	if !r.single {
		return r
	}
	flat := *r
	flat.Results = nil
	return struct {
		forecastReport
		*arrivals.Score
		Count string `json:"count"` // both have it
	}{flat, r.Results[0], r.Count}
}

func (r *forecastReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s%s: %s from %s to %s, %d forecasts of %s, %d futures each\n\n", r.Trace,
		cli.SyntheticLabel(r.Synthetic),
		r.Count, r.From, r.To, r.Results[0].Forecasts, spanText(r.Horizon), r.Samples)
	t := cli.NewTable(w, "method\twape\twape mean\tmae/bin\tbias\tcover 80\tburst\trel/day min\tmedian\tmax")
	for _, s := range r.Results {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.2f\t%.3f\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\n", s.Method, s.WAPE, s.WAPEMean,
			s.MAEPerBin, s.Bias, s.Coverage80, s.Burstiness, s.RelMin, s.RelMed, s.RelMax)
	}
	return t.Flush()
}

// spanText writes a horizon in hours or minutes.
func spanText(seconds float64) string {
	switch {
	case seconds == 3600:
		return "an hour"
	case seconds > 3600 && int(seconds)%3600 == 0:
		return fmt.Sprintf("%d hours", int(seconds)/3600)
	}
	return fmt.Sprintf("%g minutes", seconds/60)
}

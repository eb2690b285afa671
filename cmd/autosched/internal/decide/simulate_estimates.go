package decide

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// estimatesFlag is --estimates: the run times that the scheduler knows.
type estimatesFlag struct {
	text  string
	sigma float64
}

// mostWrong bounds the error of run times: beyond it they say nothing.
const mostWrong = 10

func (f *estimatesFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "estimates", "none",
		"run-time estimates that the scheduler gets: none, exact, or exact times a lognormal error of this sigma "+
			"(0.7: two "+
			"of three within a factor of 2)")
}

// check reads the flag.
func (f *estimatesFlag) check() error {
	switch f.text {
	case "none", "exact":
		return nil
	}
	var err error
	if f.sigma, err = strconv.ParseFloat(f.text, 64); err != nil || !(f.sigma > 0 && f.sigma <= mostWrong) {
		return cli.Usage(fmt.Errorf("--estimates: %q is not none, exact or a number above 0, at most %d", f.text,
			mostWrong))
	}
	return nil
}

// estimate is Options.Estimate for some jobs, nil if no run time is known.
func (f *estimatesFlag) estimate(jobs []workload.Job, seed uint64) func(*workload.Job) time.Duration {
	switch {
	case f.text == "none":
		return nil
	case f.sigma == 0:
		return func(j *workload.Job) time.Duration { return j.Duration }
	}
	estimates := make(map[string]time.Duration, len(jobs))
	r := rng.Stream("told", seed)
	for i := range jobs {
		d := float64(jobs[i].Duration) * math.Exp(f.sigma*r.NormFloat64())
		estimates[jobs[i].ID] = time.Duration(max(1, min(d, float64(workload.MaxDuration))))
	}
	return func(j *workload.Job) time.Duration { return estimates[j.ID] }
}

// noteAsking reports, after the run, whether the scheduler asked for a run time:
// some do so under some configurations only.
func noteAsking(o *simulator.Options) *bool {
	asked := new(bool)
	if estimate := o.Estimate; estimate != nil {
		o.Estimate = func(j *workload.Job) time.Duration {
			*asked = true
			return estimate(j)
		}
	}
	return asked
}

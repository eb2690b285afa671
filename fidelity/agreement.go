package fidelity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Agreement is how closely a simulated quantity of jobs follows the recorded one. Times
// are in seconds; an error is the simulated value minus the recorded one.
type Agreement struct {
	Jobs      int     `json:"jobs"`
	Recorded  float64 `json:"recorded_mean_s"`
	Simulated float64 `json:"simulated_mean_s"`
	// Quantiles of the error.
	P5     float64 `json:"error_p5_s"`
	P25    float64 `json:"error_p25_s"`
	Median float64 `json:"error_median_s"`
	P75    float64 `json:"error_p75_s"`
	P95    float64 `json:"error_p95_s"`
	// KS is the Kolmogorov-Smirnov distance of the two distributions, Rank the rank
	// correlation (Spearman) over the jobs. Values below a minute count as 0 in both.
	KS   float64 `json:"ks"`
	Rank float64 `json:"rank_correlation"`
	// Factor is by how much a job's value is off, typically: the exponential of the
	// mean of |log((simulated + 1 min) / (recorded + 1 min))|. 1 is exact.
	Factor float64 `json:"error_factor"`
	// Delayed is the number of jobs with a minute or more in either.
	Delayed int `json:"delayed"`
}

// grain is the delay below which a difference has no meaning: schedulers look at their
// queue every half minute or minute and a node needs seconds to start a job, and the
// simulator does neither.
const grain = time.Minute

func (r *run) delay() Agreement {
	return agree(r.pairs, func(p *pair) (recorded, simulated time.Duration) { return p.recorded, p.simulated })
}

func (r *run) jct() Agreement {
	return agree(r.pairs, func(p *pair) (recorded, simulated time.Duration) { return p.recordedJCT, p.simulatedJCT })
}

// queue is the mean simulated delay in seconds, also after preemptions.
func (r *run) queue() float64 {
	sum := 0.0
	for i := range r.pairs {
		sum += r.pairs[i].queue.Seconds()
	}
	return sum / float64(len(r.pairs))
}

// agree compares a quantity over at least one pair.
func agree(pairs []pair, of func(*pair) (recorded, simulated time.Duration)) Agreement {
	a := Agreement{Jobs: len(pairs)}
	errs := make([]float64, len(pairs))
	recorded, simulated := make([]float64, len(pairs)), make([]float64, len(pairs))
	coarse := func(d time.Duration) float64 {
		if d < grain {
			return 0
		}
		return d.Seconds()
	}
	logs := 0.0
	for i := range pairs {
		x, y := of(&pairs[i])
		a.Recorded += x.Seconds()
		a.Simulated += y.Seconds()
		errs[i], recorded[i], simulated[i] = (y - x).Seconds(), coarse(x), coarse(y)
		logs += math.Abs(math.Log((y + grain).Seconds() / (x + grain).Seconds()))
		if max(x, y) >= grain {
			a.Delayed++
		}
	}
	n := float64(len(pairs))
	a.Recorded /= n
	a.Simulated /= n
	a.Factor = math.Exp(logs / n)
	a.KS = stats.KS(recorded, simulated)
	if a.Rank = 1; !slices.Equal(recorded, simulated) {
		a.Rank = stats.Spearman(recorded, simulated)
	}
	slices.Sort(errs)
	a.P5, a.P25, a.Median = stats.Quantile(errs, .05), stats.Quantile(errs, .25), stats.Quantile(errs, .5)
	a.P75, a.P95 = stats.Quantile(errs, .75), stats.Quantile(errs, .95)
	return a
}

// Group is the agreement of the queueing delays of some jobs.
type Group struct {
	By   string `json:"by"` // GPUs, tenant or hour
	Name string `json:"name"`
	Agreement
}

// Tenants with fewer jobs than minTenant are not listed, and of the others the maxTenants
// with the most jobs.
const (
	minTenant  = 20
	maxTenants = 20
)

// groups are groups by width, tenant, and hour of the day in which jobs are submitted.
func (r *run) groups(w *workload.Workload) []Group {
	out := []Group{}
	for _, by := range []struct {
		name string
		of   func(*workload.Job) string
	}{
		{"GPUs", func(j *workload.Job) string { return simulator.SizeNames[simulator.SizeClass(j.GPUs.Whole())] }},
		{"tenant", func(j *workload.Job) string { return j.Tenant }},
		{"hour", func(j *workload.Job) string { return fmt.Sprintf("%02d", w.Clock(j.Submit).Hour()) }},
	} {
		pairs := map[string][]pair{}
		for _, p := range r.pairs {
			name := by.of(p.job)
			pairs[name] = append(pairs[name], p)
		}
		var names []string
		for name := range pairs {
			if by.name != "tenant" || name != "" && len(pairs[name]) >= minTenant {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if by.name == "tenant" {
			slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(pairs[b]), len(pairs[a])) })
			names = names[:min(len(names), maxTenants)]
		}
		for _, name := range names {
			one := run{pairs: pairs[name]}
			out = append(out, Group{by.name, name, one.delay()})
		}
	}
	return out
}

package arrivals

import (
	"context"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

func init() {
	Methods = append(Methods, Method{"paper-original", "the place most like the last hour, of all periods",
		func(perHour, horizon int) source { return original{perHour, horizon} }})
}

// original is the paper's method on the counts themselves.
type original struct{ perHour, horizon int }

func (original) learn(context.Context, *History) error { return nil }

func (o original) draws(h *History) ([]draw, error) {
	return placeOf(h.counts(0), 0, o.perHour, o.horizon, nil), nil
}

// FromCounts is the history of arrivals that are only counted: counts[i] jobs at the begin of bin i, each of a tenant
// of its own.
func FromCounts(zero time.Time, counts []int, bin time.Duration) (*History, error) {
	var jobs []workload.Job
	for i, n := range counts {
		for range n {
			id := strconv.Itoa(len(jobs))
			jobs = append(jobs, workload.Job{ID: id, Tenant: id, Submit: time.Duration(i) * bin, Duration: time.Minute,
				GPUs: workload.GPUs(1)})
		}
	}
	return FromJobs(zero, jobs, time.Duration(len(counts))*bin, Grid{Bin: bin})
}

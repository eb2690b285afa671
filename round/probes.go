package round

import (
	"math/rand/v2"
	"time"

	"github.com/autosched/autosched/workload"
)

// Probes are jobs that are added to a replay to see how long they wait: one as wide as the widest of the stretch, and
// one of the tenant with the fewest jobs, if there are several tenants. Few jobs are like these, so that the waits of
// those that are tell little.
const (
	wideProbe   = "probe as wide as the widest job"
	tenantProbe = "probe of the smallest tenant"
	// probeRun is the longest run time of a probe.
	probeRun = time.Hour
)

// probes returns the probes of a stretch, each like one of the jobs, submitted at a random instant.
func probes(jobs []workload.Job, s stretch, draw *rand.Rand) (out []workload.Job) {
	var widest, smallest *workload.Job
	count := map[string]int{}
	for i := range jobs {
		j := &jobs[i]
		count[j.Tenant]++
		if widest == nil || j.GPUs > widest.GPUs {
			widest = j
		}
	}
	for i := range jobs {
		j := &jobs[i]
		if smallest == nil || count[j.Tenant] < count[smallest.Tenant] ||
			count[j.Tenant] == count[smallest.Tenant] && j.Tenant < smallest.Tenant {
			smallest = j
		}
	}
	add := func(id string, like *workload.Job) {
		j := *like
		j.ID, j.Deadline = id, 0
		j.Submit = s.from + time.Duration(draw.Int64N(int64(s.to-s.from)))
		j.Duration = min(j.Duration, probeRun)
		out = append(out, j)
	}
	if widest != nil {
		add(wideProbe, widest)
	}
	if len(count) > 1 {
		add(tenantProbe, smallest)
	}
	return out
}

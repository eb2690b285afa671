package trace

import (
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// addPending adds jobs that had not started. How long each would run is taken from the jobs that have ended, at most
// its time limit.
func (in *input) addPending(pending []workload.Job) {
	if len(pending) == 0 {
		return
	}
	typical := in.typicalRuns()
	for i := range pending {
		j := &pending[i]
		j.Status, j.Wait, j.HasWait = workload.Pending, 0, false
		j.Duration = typical(j)
		if limit := j.Request().TimeLimit; limit > 0 && (j.Duration == 0 || limit < j.Duration) {
			j.Duration = limit
		}
		ended := in.taken - in.report.Running - in.report.Pending
		if j.Duration == 0 && (!in.check || ended == 0) { // a check keeps no run times
			in.report.leaveOut("it has not started, and no job has ended that says how long it would run")
			continue
		}
		in.last = min(in.last, j.Submit) // in order of the file they came earlier
		in.addOnce(j)
	}
}

// typicalRuns returns the median run time of the jobs that have ended of a job's key, else of its user, else of all; 0
// where there are none.
func (in *input) typicalRuns() func(*workload.Job) time.Duration {
	type of struct{ key, user string }
	runs := map[of][]time.Duration{}
	for i := range in.jobs.len() {
		j := in.jobs.at(i)
		if !j.Status.Ended() {
			continue
		}
		runs[of{}] = append(runs[of{}], j.Duration)
		if j.Key != "" {
			runs[of{key: j.Key}] = append(runs[of{key: j.Key}], j.Duration)
		}
		if j.User != "" {
			runs[of{user: j.User}] = append(runs[of{user: j.User}], j.Duration)
		}
	}
	for _, r := range runs {
		slices.Sort(r)
	}
	return func(j *workload.Job) time.Duration {
		for _, k := range []of{{key: j.Key}, {user: j.User}, {}} {
			if r := runs[k]; len(r) > 0 {
				return r[len(r)/2]
			}
		}
		return 0
	}
}

package recommend

import (
	"math"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/workload"
)

// grace is for how long a job goes on as it is after it was found.
const grace = time.Hour

// History is for how long a job had run by an instant, 0 if it had not started. It is not known of every job.
type History func(j *Job, at time.Duration) (d time.Duration, known bool)

// Act lets findings act on jobs, right or wrong: of findings that hold for an hour, idle jobs are cancelled and
// hoarding ones get the GPUs that they are found to use; of keys that crash, jobs are held that have not started;
// and jobs with a slow worker or GPU run at the pace of the others. One that gets fewer GPUs than it uses takes
// longer, one that is cancelled loses its work. zero is the instant 0 of the times of jobs. Act returns the number
// of findings that it acted on.
func Act(jobs []Job, zero time.Time, found []*patterns.Finding, ran History) (n int) {
	at := make(map[string]*Job, len(jobs))
	for i := range jobs {
		at[jobs[i].ID] = &jobs[i]
	}
	act := func(f *patterns.Finding) bool {
		if f.Rule == "crash_loop" {
			return hold(jobs, zero, f, ran)
		}
		j := at[f.Job]
		if j == nil {
			return false
		}
		if lost := Lost(j, f); lost > 0 && j.Acted == nil {
			j.hasten(lost)
			return true
		}
		had, known := ran(j, f.Opened.Sub(zero))
		if had += grace; !known || f.Closed.Before(f.Opened.Add(grace)) && had < j.Duration {
			return false // it works again
		}
		if Idles(f.Rule) {
			j.Cancel(had)
			return true
		}
		keep := Keep(j, f)
		if keep == 0 || j.Acted != nil {
			return false
		}
		j.Resize(keep, had)
		return true
	}
	for _, cancels := range []bool{false, true} { // which comes last, as it outranks
		for _, f := range found {
			if Idles(f.Rule) == cancels && act(f) {
				n++
			}
		}
	}
	return n
}

// Idles reports whether a rule finds jobs that do nothing.
func Idles(rule string) bool { return rule == "idle_allocation" || rule == "never_ending" }

// Keep is how many GPUs a job needs that was found to hoard, 0 where the finding does not say.
func Keep(j *Job, f *patterns.Finding) int {
	if f.Rule != "hoarding" || !f.Closed.After(f.Began) {
		return 0
	}
	gpus := j.GPUs.Whole()
	keep := gpus - int(math.Floor(f.WastedGPUHours/f.Closed.Sub(f.Began).Hours()+.01))
	if keep < 1 || keep >= gpus {
		return 0
	}
	return keep
}

// Lost is for how long a job waited for the slow worker that a finding is of, or at most for the throttled GPU, as if
// its pace were that of the clock; 0 of other findings.
func Lost(j *Job, f *patterns.Finding) time.Duration {
	share := 0.
	switch held := f.Closed.Sub(f.Began).Hours() * j.GPUs.Count(); {
	case held <= 0:
	case f.Rule == "straggler":
		share = f.WastedGPUHours / held
	case f.Rule == "throttle":
		for _, e := range f.Evidence {
			if e.What == "mean clock" {
				share = 1 - e.Value
			}
		}
	}
	return min(time.Duration(max(0, share)*float64(f.Closed.Sub(f.Opened))), j.Useful*9/10)
}

// hold keeps the jobs of a key from starting that had not when it was found; it lasts until the finding closes.
func hold(jobs []Job, zero time.Time, f *patterns.Finding, ran History) (any bool) {
	opened, closed := f.Opened.Sub(zero), f.Closed.Sub(zero)
	for i := range jobs {
		j := &jobs[i]
		if j.User+"/"+j.Key != f.Entity.Name || j.Submit > closed {
			continue
		}
		if had, known := ran(j, opened); known && had == 0 || !known && j.Submit > opened {
			j.Acted, any = &Change{Drop: true}, true
		}
	}
	return any
}

// Cancel ends a job once it has run for some time.
func (j *Job) Cancel(after time.Duration) {
	d := min(j.Duration, after)
	j.Acted = &Change{Duration: d, GPUs: j.GPUs, Used: j.Used, Useful: min(j.Useful, d)}
}

// hasten lets a job do its work in less time.
func (j *Job) hasten(lost time.Duration) {
	left := j.Useful - lost
	j.Acted = &Change{Duration: j.Duration - lost, GPUs: j.GPUs, Useful: left,
		Used: j.Used * float64(j.Useful) / float64(left)}
}

// Resize leaves a job some of its GPUs once it has run for some time. It has as many from its start, for longer by
// the GPU-hours that it held more until then.
func (j *Job) Resize(keep int, after time.Duration) {
	after = min(after, j.Duration)
	more := j.GPUs.Count() / float64(keep)
	slower := max(1, j.Used/float64(keep))
	stretch := func(until time.Duration) time.Duration {
		return time.Duration(float64(min(until, after))*more) + time.Duration(float64(max(0, until-after))*slower)
	}
	useful, end := stretch(j.Useful), max(j.Useful, after)
	j.Acted = &Change{Duration: stretch(end) + j.Duration - end, GPUs: workload.GPUs(keep), Useful: useful,
		Used: j.Used * float64(j.Useful) / float64(max(1, useful))}
}

package patterns

import (
	"math"
	"strings"
	"time"
)

// signal is a number of a kind of subject that conditions can name: the mean of a series over steps of time, or a
// number computed for an instant.
type signal struct {
	unit    string
	series  int
	step    time.Duration // of the series, 0 for the period of samples
	compute func(*Scanner, *compiled, *subject) (float64, bool)
	age     bool // grows with time alone
}

// signals are all signals, by kind of subject and name.
var signals = map[string]*signal{}

func init() {
	kinds := newSeries(0)
	for _, x := range []struct {
		name, unit string
		series     int
	}{
		// Of a job: means over its GPUs.
		{"job.busy", "share", jobBusy},
		{"job.power_excess", "W above idle", jobPower},
		{"job.processes", "per GPU", jobProcesses},
		{"job.memory", "share", jobMemory},
		{"gpu.busy", "share", gpuBusy},
		{"gpu.memory", "share", gpuMemory},
		{"gpu.clock", "of the application clock", gpuClock},
		{"gpu.throttled", "share", gpuThrottled},
		{"gpu.throttled_power", "share", gpuThrottledPower},
		{"gpu.throttled_thermal", "share", gpuThrottledThermal},
		{"gpu.throttled_hardware", "share", gpuThrottledHardware},
		{"tenant.quota_use", "share", tenantUse},
		{"tenant.others_waiting", "share", tenantOthersWaiting},
		// F1 while no pending gang can be placed though the GPUs would do, else 0.
		{"partition.blocked", "F1", partitionBlocked},
		{"partition.free", "GPUs", partitionFree},
		{"queue.pending_gpus", "GPUs", queuePending},
		{"queue.free", "share", queueFree},
	} {
		kind, _, _ := strings.Cut(x.name, ".")
		signals[x.name] = &signal{unit: x.unit, series: x.series, step: kinds[kind].step}
	}
	for _, x := range []struct {
		name, unit string
		age        bool
		of         func(*Scanner, *compiled, *job) (float64, bool)
	}{
		{"run_hours", "h", true, func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now() - j.start).Hours(), j.running
		}},
		{"wait_hours", "h", true, func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now() - max(j.submit, j.hold)).Hours(), s.cluster.pending.has(j)
		}},
		// The share of the job's samples so far in which its GPUs were used at all, and how long each spell of use
		// took. Inference is used in bursts, training throughout.
		{"used_share", "share", false, func(_ *Scanner, _ *compiled, j *job) (float64, bool) {
			return float64(j.use.used) / float64(max(1, j.use.samples)), j.use.samples > 0
		}},
		{"used_run_minutes", "min", false, func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return float64(j.use.used) / float64(max(1, j.use.spells)) * s.o.Period.Minutes(), j.use.used > 0
		}},
		// The run time relative to the 99th percentile of the job's key.
		{"run_over_usual", "x p99 of its key", false, runOverUsual},
		{"beyond_limit_minutes", "min", false, func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now() - j.start - j.limit).Minutes(), j.running && j.limit > 0
		}},
		// The time since the last iteration or line of a log of a job that had some.
		{"silent_hours", "h", false, func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now() - j.progress).Hours(), j.running && j.progress > 0
		}},
		// The wait relative to the 95th percentile of the waits of its width in seven days.
		{"wait_over_usual", "x p95 of its width", false, waitOverUsual},
		// The work of jobs that overtook it, relative to its own.
		{"overtaken", "x its GPU-hours", false, overtakenOver},
		// The GPUs of the smallest pending job of another tenant that fit into the GPUs that right-sizing would free, 0
		// if there is none.
		{"wanted", "GPUs", false, wanted},
	} {
		signals["job."+x.name] = &signal{unit: x.unit, age: x.age,
			compute: func(s *Scanner, r *compiled, e *subject) (float64, bool) { return x.of(s, r, e.job) }}
	}
}

func waitOverUsual(s *Scanner, _ *compiled, j *job) (float64, bool) {
	usual, known := s.cluster.waits.usual(j.gpus, s.now())
	if !known {
		return 0, false
	}
	return (s.now() - max(j.submit, j.hold)).Hours() / max(usual, 1./60), true
}

func overtakenOver(s *Scanner, _ *compiled, j *job) (float64, bool) {
	own, _, known := s.cluster.work(j)
	if !known || own <= 0 {
		return 0, false
	}
	return s.cluster.overtaken(j) / own, true
}

func runOverUsual(s *Scanner, _ *compiled, j *job) (float64, bool) {
	usual, known := s.cluster.runs.quantile(j.key, .99)
	if !j.running || !known {
		return 0, false
	}
	return (s.now() - j.start).Hours() / max(usual, 1./3600), true
}

// freed returns the GPUs that a job would not need if the others were as busy as the rule asks.
func (s *Scanner) freed(r *compiled, j *job) (int, bool) {
	v := s.viewOf(r, &j.subject, nil)
	busy, _, known := v.number(&Condition{Signal: "busy", Fn: "mean", Over: r.rule.RightSize.Over,
		sig: signals["job.busy"]})
	if !known || r.rule.RightSize.Busy <= 0 {
		return 0, false
	}
	keep := int(math.Ceil(busy * float64(j.gpus) / r.rule.RightSize.Busy))
	return max(0, j.gpus-keep), true
}

func wanted(s *Scanner, r *compiled, j *job) (float64, bool) {
	freed, known := s.freed(r, j)
	if !known {
		return 0, false
	}
	least := 0
	for n := range s.cluster.attributed(j).pending {
		other := n.tenant != j.tenant
		if other && n.gpus <= freed && (least == 0 || n.gpus < least) {
			least = n.gpus
		}
	}
	return float64(least), true
}

package patterns

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/patterns/cluster"
	"github.com/autosched/autosched/workload"
)

// signal is a number of a kind of subject that conditions can name: the mean of a series over steps of time, or a
// number computed for an instant.
type signal struct {
	unit    string
	series  int
	step    time.Duration // of the series, 0 for the period of samples
	compute func(*Scanner, *compiled, *cluster.Subject) (float64, bool)
	age     bool // grows with time alone
}

// signals are all signals, by kind of subject and name.
var signals = map[string]*signal{}

func init() {
	kinds := cluster.NewSeries(0)
	for _, x := range []struct {
		name, unit string
		series     int
	}{
		// Of a job: means over its GPUs.
		{"job.busy", "share", cluster.JobBusy},
		{"job.power_excess", "W above idle", cluster.JobPower},
		{"job.processes", "per GPU", cluster.JobProcesses},
		{"job.memory", "share", cluster.JobMemory},
		{"job.kernels", "share of the time", cluster.JobKernels},
		{"gpu.busy", "share", cluster.GPUBusy},
		{"gpu.memory", "share", cluster.GPUMemory},
		{"gpu.clock", "of the application clock", cluster.GPUClock},
		{"gpu.throttled", "share", cluster.GPUThrottled},
		{"gpu.throttled_power", "share", cluster.GPUThrottledPower},
		{"gpu.throttled_thermal", "share", cluster.GPUThrottledThermal},
		{"gpu.throttled_hardware", "share", cluster.GPUThrottledHardware},
		{"tenant.quota_use", "share", cluster.TenantUse},
		{"tenant.others_waiting", "share", cluster.TenantOthersWaiting},
		// 1 while no pending gang can be placed though the GPUs would do, else 0.
		{"partition.blocked", "share", cluster.PartitionBlocked},
		{"partition.free", "GPUs", cluster.PartitionFree},
		{"queue.pending_gpus", "GPUs", cluster.QueuePending},
		{"queue.free", "share", cluster.QueueFree},
	} {
		kind, _, _ := strings.Cut(x.name, ".")
		signals[x.name] = &signal{unit: x.unit, series: x.series, step: kinds[kind].Step}
	}
	for _, x := range []struct {
		name, unit string
		age        bool
		of         func(*Scanner, *compiled, *cluster.Job) (float64, bool)
	}{
		{"run_hours", "h", true, func(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
			return (s.now() - j.Start).Hours(), j.Running
		}},
		{"wait_hours", "h", true, func(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
			return (s.now() - max(j.Submit, j.Hold)).Hours(), s.cluster.Pending.Has(j)
		}},
		// The share of the job's samples so far in which its GPUs were used at all, and how long each spell of use
		// took. Inference is used in bursts, training throughout.
		{"used_share", "share", false, func(_ *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
			return float64(j.Use.Used) / float64(max(1, j.Use.Samples)), j.Use.Samples > 0
		}},
		{"used_run_minutes", "min", false, func(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
			return float64(j.Use.Used) / float64(max(1, j.Use.Spells)) * s.o.Period.Minutes(), j.Use.Used > 0
		}},
		// The run time relative to the 99th percentile of the job's key.
		{"run_over_usual", "x p99 of its key", false, runOverUsual},
		{"beyond_limit_minutes", "min", false, func(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
			return (s.now() - j.Start - j.Limit).Minutes(), j.Running && j.Limit > 0
		}},
		// The time since the last iteration or line of a log of a job that had some.
		{"silent_hours", "h", false, func(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
			return (s.now() - j.Progress).Hours(), j.Running && j.Progress > 0
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
			compute: func(s *Scanner, r *compiled, e *cluster.Subject) (float64, bool) { return x.of(s, r, e.Job) }}
	}
}

func waitOverUsual(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
	usual, known := s.cluster.Waits.Usual(j.GPUs, s.now())
	if !known {
		return 0, false
	}
	return (s.now() - max(j.Submit, j.Hold)).Hours() / max(usual, 1./60), true
}

func overtakenOver(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
	own, _, known := s.cluster.Work(j)
	if !known || own <= 0 {
		return 0, false
	}
	return s.cluster.Overtaken(j) / own, true
}

func runOverUsual(s *Scanner, _ *compiled, j *cluster.Job) (float64, bool) {
	usual, known := s.cluster.Runs.Quantile(j.Key, .99)
	if !j.Running || !known {
		return 0, false
	}
	return (s.now() - j.Start).Hours() / max(usual, 1./3600), true
}

// freed returns the GPUs that a job would not need if the others were as busy as the rule asks.
func (s *Scanner) freed(r *compiled, j *cluster.Job) (int, bool) {
	v := s.viewOf(r, &j.Subject, nil)
	busy, _, known := v.number(&Condition{Signal: "busy", Fn: "mean", Over: r.rule.RightSize.Over,
		sig: signals["job.busy"]})
	if !known || r.rule.RightSize.Busy <= 0 {
		return 0, false
	}
	keep := int(math.Ceil(busy * float64(j.GPUs) / r.rule.RightSize.Busy))
	return max(0, j.GPUs-keep), true
}

func wanted(s *Scanner, r *compiled, j *cluster.Job) (float64, bool) {
	freed, known := s.freed(r, j)
	if !known {
		return 0, false
	}
	least := 0
	for n := range s.cluster.Attributed(j).Pending {
		other := n.Tenant != j.Tenant
		if other && n.GPUs <= freed && (least == 0 || n.GPUs < least) {
			least = n.GPUs
		}
	}
	return float64(least), true
}

// Events are the events of the jobs of a trace, in order of time: as they were submitted, started
// and ended in the cluster the trace comes from. Jobs without a known wait are left out: when they
// ran is not known. A host list becomes a placement where the nodes can have equal shares.
func Events(w *workload.Workload) []workload.Event {
	jobs := w.Jobs()
	out := make([]workload.Event, 0, 3*len(jobs))
	for i := range jobs {
		j := &jobs[i]
		if !j.HasWait && j.Status != workload.Pending {
			continue
		}
		out = append(out, workload.Event{ID: j.ID + "/submitted", Kind: workload.Submitted, Time: j.Submit, Job: *j})
		if j.Status == workload.Pending {
			continue
		}
		start := j.Submit + j.Wait
		out = append(out, workload.Event{ID: j.ID + "/started", Kind: workload.Started, Time: start, Job: *j,
			Placement: placement(j)})
		if j.Status != workload.Running {
			out = append(out, workload.Event{ID: j.ID + "/finished", Kind: workload.Finished, Time: start + j.Duration,
				Job: *j})
		}
	}
	slices.SortStableFunc(out, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	return out
}

// placement is where a job ran by its host list, nil if that is not known.
func placement(j *workload.Job) []workload.NodeShare {
	if j.Nodes == "" {
		return nil
	}
	nodes, err := slurmtext.HostList(j.Nodes)
	gpus := j.GPUs.Whole()
	if err != nil || len(nodes) == 0 || gpus%len(nodes) != 0 {
		return nil
	}
	out := make([]workload.NodeShare, len(nodes))
	for i, name := range nodes {
		out[i] = workload.NodeShare{Node: name, GPUs: gpus / len(nodes)}
	}
	return out
}

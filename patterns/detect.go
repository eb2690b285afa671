package patterns

import (
	"math"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// detector is a rule that is code. Its methods are called in order of time.
type detector interface {
	fact(*Scanner, *cluster.Fact)
	row(*Scanner, *cluster.Job, *cluster.Row)
	guardrail(*Scanner, *Guardrail, time.Duration)
	tick(*Scanner)
	jobEnded(*Scanner, *cluster.Job, time.Duration)
}

// passive is a detector that nothing concerns.
type passive struct{}

func (passive) fact(*Scanner, *cluster.Fact)                   {}
func (passive) row(*Scanner, *cluster.Job, *cluster.Row)       {}
func (passive) guardrail(*Scanner, *Guardrail, time.Duration)  {}
func (passive) tick(*Scanner)                                  {}
func (passive) jobEnded(*Scanner, *cluster.Job, time.Duration) {}

// detectorKind describes the rules of a detector.
type detectorKind struct {
	groupBy, params []string
	actions         []string // that it proposes in place of the rule's
	make            func(*compiled) detector
}

var detectors map[string]detectorKind

func init() {
	detectors = map[string]detectorKind{
		"straggler": {[]string{"job", "worker"}, []string{"rows", "slow", "factor", "leave", "same_node_hours"},
			[]string{"drain_node"}, newStraggler},
		"iteration_outlier": {[]string{"job"}, []string{"history", "recent", "count", "sigmas", "mads", "ratio", "regular"},
			[]string{"note_checkpoint"}, newOutlier},
		"cv_class": {[]string{"job"}, []string{"skip", "iterations", "stable", "unstable"}, nil, newSpread},
		"queue_spiral": {[]string{"queue"}, []string{"interval_minutes", "times", "wait_growth", "least_wait_minutes",
			"arrival_growth", "arrival_step", "usual", "free_share", "least_starts", "trend_intervals", "p", "least_pending_share",
			"clear_intervals"}, nil, newSpiral},
		"preemption_thrash": {[]string{"cluster"}, []string{"window_minutes", "stops", "mutual_minutes", "ratio",
			"least_gpu_hours", "rollback_hours"}, []string{"roll_back"}, newThrash},
		"config_regression": {[]string{"config_version"}, []string{"within_hours", "windows", "outside"},
			nil, newRegression},
	}
}

// optionalParams may be left out of a rule, which then lacks their condition.
var optionalParams = []string{"arrival_step", "usual"}

// found opens a finding of a detector about waste that began at an instant, or updates the open one's confidence and
// rate.
func (s *Scanner) found(r *compiled, began time.Duration, f Finding, gpus float64) *open {
	if o := r.open[f.Entity]; o != nil {
		o.matched, o.rate = s.now(), gpus
		o.Confidence = max(o.Confidence, f.Confidence)
		return o
	}
	f.Rule = r.rule.ID
	if f.Action == "" {
		f.Action = r.rule.Action
	}
	if f.Words == "" {
		f.Words = r.rule.Words
	}
	f.Confidence = math.Round(1000*f.Confidence) / 1000
	o := &open{Finding: f, began: began, opened: s.now(), counted: s.now(), matched: s.now(), rate: gpus}
	o.WastedGPUHours = gpus * (o.opened - o.began).Hours()
	s.affected(r, o, nil)
	o.Words = s.say(o.Words, o)
	s.begin(r, o)
	return o
}

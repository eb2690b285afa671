package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// Errors of Step, which come wrapped.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrState     = errors.New("wrong state")
	ErrBudget    = errors.New("the budget of the study is exhausted")
	ErrExhausted = errors.New("there is nothing new to propose")
	ErrLimit     = errors.New("beyond the limits of a study")
)

// The limits of a study.
const (
	MaxBudget       = 10_000 // trials
	MaxTrials       = 20_000 // trials that are kept, skipped and stale ones included
	MaxActive       = 1000   // trials that clients hold at a time
	MaxCount        = 100    // trials of one request
	MaxMeasurements = 500    // of a trial, before its last
	MaxMetrics      = 32     // of a measurement
	MinLease        = 100 * time.Millisecond
	MaxLease        = 7 * 24 * time.Hour
	DefaultLease    = 10 * time.Minute
	DefaultBudget   = 100
	maxAttempts     = 3 // to measure a configuration whose clients let their leases expire
)

// Causal says whether proposals are rejected and narrowed by a causal model of the trials so far
// (package prune).
type Causal string

// The uses of the causal model.
const (
	CausalAuto Causal = ""    // where half of the trials take a second or more
	CausalOn   Causal = "on"  // always
	CausalOff  Causal = "off" // never
)

// Spec is the specification of a study. It does not change.
type Spec struct {
	Algorithm string `json:"algorithm"` // one of search.Samplers
	Budget    int    `json:"budget"`    // trials
	Seed      uint64 `json:"seed,omitempty"`
	// Metric is minimised, or maximised with Maximize. It is finite and not negative.
	Metric       string        `json:"metric"`
	Maximize     bool          `json:"maximize,omitempty"`
	Lease        time.Duration `json:"lease"`
	AllowRepeats bool          `json:"allow_repeats,omitempty"`
	Causal       Causal        `json:"causal,omitempty"`
	// Revision is that of the scheduler's space, of which the study has its own copy.
	Revision int64 `json:"revision,omitempty"`
	// Params and Rules are the space that is searched, Start the configuration in force when the study was created.
	Params []space.Param   `json:"params"`
	Rules  []space.Rule    `json:"rules"`
	Start  json.RawMessage `json:"start"`
}

// Phase is where a study stands.
type Phase string

// The phases of a study.
const (
	Active    Phase = "active"
	Paused    Phase = "paused"    // nothing is suggested
	Completed Phase = "completed" // the budget is used, or there is nothing new to propose
	Cancelled Phase = "cancelled" // for good
)

// Record is a study as it is stored, without its trials.
type Record struct {
	ID      string    `json:"id"`
	UID     string    `json:"uid"`
	Display string    `json:"display_name,omitempty"`
	Spec    Spec      `json:"spec"`
	Phase   Phase     `json:"phase"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Over is when it was completed or cancelled, zero while it is neither.
	Over time.Time `json:"over,omitzero"`
	// LastTrial is the newest trial's id, Ended counts the trials that ended.
	LastTrial int64 `json:"last_trial"`
	Ended     int64 `json:"ended"`
	// Step and Sampler are where the engine stands, Stopped is why it proposes nothing more.
	Step    int             `json:"step"`
	Sampler json.RawMessage `json:"sampler,omitempty"`
	Stopped string          `json:"stopped,omitempty"`
	Choice  string          `json:"choice,omitempty"` // the sampler that was chosen, and why
	// Run measures the trials beside clients, nil for nothing.
	Run *Run `json:"run,omitempty"`
	// Version counts the changes, from 1, and Resets how often changes before this one were lost: together they
	// identify a state. They are set by the caller of Step.
	Version int64 `json:"version"`
	Resets  int64 `json:"resets,omitempty"`
}

// Run is the measuring of trials by an evaluator.
type Run struct {
	Evaluator string `json:"evaluator"`
	// Workload is one that the service keeps, by its name with slashes, or one that the evaluator knows. SHA256 is the
	// hash of the former.
	Workload string    `json:"workload,omitempty"`
	SHA256   string    `json:"workload_sha256,omitempty"`
	Parallel int       `json:"parallel"` // trials at a time
	Since    time.Time `json:"since"`
	Actor    string    `json:"actor,omitempty"` // who asked for it
}

// EvaluatorClient begins the names of the clients that evaluators are: no other client has such a name.
const EvaluatorClient = "evaluator/"

// Client is the client that the evaluator is.
func (r *Run) Client() string { return EvaluatorClient + r.Evaluator }

// Same reports whether two records differ at most in Updated, Version and Resets.
func (r Record) Same(o *Record) bool {
	r.Updated, r.Version, r.Resets = o.Updated, o.Version, o.Resets
	return reflect.DeepEqual(&r, o)
}

// TrialState is where a trial stands.
type TrialState string

// The states of a trial.
const (
	Requested  TrialState = "requested"  // waits for a client
	Running    TrialState = "active"     // a client holds it
	Stopping   TrialState = "stopping"   // its client should end it
	Succeeded  TrialState = "succeeded"  // measured
	Failed     TrialState = "failed"     // could not be measured
	Infeasible TrialState = "infeasible" // its configuration cannot be measured
	Stale      TrialState = "stale"      // its lease expired
	Skipped    TrialState = "skipped"    // never measured
)

// Open reports whether a trial may still change without a late result.
func (s TrialState) Open() bool { return s == Requested || s == Running || s == Stopping }

// Measurement is a client's measurement.
type Measurement struct {
	Step    int64              `json:"step,omitempty"` // of the measured system, such as jobs done
	Elapsed time.Duration      `json:"elapsed,omitempty"`
	Metrics map[string]float64 `json:"metrics"`
}

// Trial is one configuration to measure. It is never changed, only replaced.
type Trial struct {
	ID     int64           `json:"id"`
	State  TrialState      `json:"state"`
	Values json.RawMessage `json:"values"` // of Config
	Config space.Config    `json:"-"`
	// Origin is default, incumbent, user or the name of a sampler.
	Origin string `json:"origin"`
	// Prediction is the sampler's, of the value that it minimises.
	Prediction *search.Prediction `json:"prediction,omitempty"`
	Suggested  space.Values       `json:"suggested,omitempty"` // before projection, if that changed them
	Narrowed   []string           `json:"narrowed,omitempty"`  // why the causal model changed it
	Client     string             `json:"client,omitempty"`
	Created    time.Time          `json:"created"`
	Started    time.Time          `json:"started,omitzero"`
	Ended      time.Time          `json:"ended,omitzero"`
	Expires    time.Time          `json:"expires,omitzero"` // the lease
	// Measurements come before Final.
	Measurements []Measurement `json:"measurements,omitempty"`
	Final        *Measurement  `json:"final,omitempty"`
	Reason       string        `json:"reason,omitempty"` // of a state without Final
	Attempt      int           `json:"attempt,omitempty"`
	Retry        int64         `json:"retry,omitempty"`     // the trial that measures a stale one again
	RetryOf      int64         `json:"retry_of,omitempty"`  // a stale one
	SameAs       int64         `json:"same_as,omitempty"`   // the trial whose measurement this one has
	WasStale     bool          `json:"was_stale,omitempty"` // it ended after its lease had expired
	Order        int64         `json:"order,omitempty"`     // in which trials ended, from 1
}

// Own reports whether a user made the trial.
func (t *Trial) Own() bool { return t.Origin == User }

// Origins of trials that the search did not propose.
const (
	User = "user" // users made them
	Lost = "lost" // their records are damaged
)

// State is a study with its trials.
type State struct {
	Record
	Space  *space.Space
	Trials []*Trial // by id, from 1
}

// Trial returns a trial, or nil.
func (s *State) Trial(id int64) *Trial {
	if id < 1 || id > int64(len(s.Trials)) {
		return nil
	}
	return s.Trials[id-1]
}

// Used is how much of the budget the trials have used: each configuration that was handed out, or waits to
// be, once. Trials of users are free.
func (s *State) Used() int {
	n := 0
	for _, t := range s.Trials {
		if !t.Own() && t.State != Skipped && t.Retry == 0 {
			n++
		}
	}
	return n
}

// Done is how many trials counted by Used ended.
func (s *State) Done() int {
	n := 0
	for _, t := range s.Trials {
		if !t.Own() && t.State != Skipped && t.Retry == 0 && !t.State.Open() {
			n++
		}
	}
	return n
}

// Count is the number of trials by state.
func (s *State) Count() map[TrialState]int {
	out := map[TrialState]int{}
	for _, t := range s.Trials {
		out[t.State]++
	}
	return out
}

// Held returns the trials that a client holds, oldest first, at most limit.
func (s *State) Held(client string, limit int) (out []*Trial) {
	for _, t := range s.Trials {
		if t.State == Running && t.Client == client && len(out) < limit {
			out = append(out, t)
		}
	}
	return out
}

// Lacks is the number of proposals that are needed for a client to hold count trials, within the budget.
func (s *State) Lacks(client string, count int) int {
	need := count - len(s.Held(client, count))
	for _, t := range s.Trials {
		if t.State == Requested {
			need--
		}
	}
	if s.Phase != Active || s.Stopped != "" || len(s.Trials) >= MaxTrials {
		return 0
	}
	return max(0, min(need, s.Spec.Budget-s.Used()))
}

// Expired reports whether the lease of a trial is over.
func (s *State) Expired(at time.Time) bool {
	return slices.ContainsFunc(s.Trials, func(t *Trial) bool { return t.expired(at) })
}

func (t *Trial) expired(at time.Time) bool {
	return (t.State == Running || t.State == Stopping) && !at.Before(t.Expires)
}

// Merit is the gain of a trial that succeeded over the configuration in force at the study's creation, and how often
// the cost of the trial is the cost of that configuration; 0 if that was not measured.
func (s *State) Merit(one *Trial) (text string, ratio float64) {
	v := s.Spec.Value(one.Final)
	text = fmt.Sprintf("%s %.6g in trial %d of study %s", s.Spec.Metric, v, one.ID, s.ID)
	for _, t := range s.Trials {
		if t.State == Succeeded && string(t.Values) == string(s.Spec.Start) {
			before := s.Spec.Value(t.Final)
			if c := s.Spec.Cost(v); c > 0 {
				ratio = s.Spec.Cost(before) / c
			}
			return fmt.Sprintf("%s, %.6g with what ran (trial %d)", text, before, t.ID), ratio
		}
	}
	return text + "; what ran was not measured", 0
}

// Nothing says why a client was suggested no trial, nil if it gets one once others have ended.
func (s *State) Nothing() error {
	switch n := s.Count()[Running]; {
	case s.Used() >= s.Spec.Budget || s.Stopped == search.StoppedBudget: // a pair may not fit any more
		return fmt.Errorf("%w: study %q: %d of %d trials", ErrBudget, s.ID, s.Used(), s.Spec.Budget)
	case s.Stopped != "":
		return fmt.Errorf("%w: study %q", ErrExhausted, s.ID)
	case len(s.Trials) >= MaxTrials:
		return fmt.Errorf("%w: study %q has %d trials", ErrLimit, s.ID, len(s.Trials))
	case n >= MaxActive:
		return fmt.Errorf("%w: %d trials of study %q are active", ErrLimit, n, s.ID)
	}
	return nil
}

// Value is the metric of a measurement that the study improves.
func (s *Spec) Value(m *Measurement) float64 { return m.Metrics[s.Metric] }

// least bounds the divisor of a maximised metric.
const least = 1e-12

// Cost is the search's objective, to minimise.
func (s *Spec) Cost(v float64) float64 {
	if s.Maximize {
		return 1 / max(v, least)
	}
	return v
}

// Predicted is a prediction in units of the metric, with its standard deviation.
func (s *Spec) Predicted(p *search.Prediction) (mean, sd float64) {
	if !s.Maximize {
		return p.Mean, p.SD
	}
	mean = 1 / max(p.Mean, least)
	return mean, p.SD * mean * mean
}

// Better reports whether one value of the metric is better than another.
func (s *Spec) Better(a, b float64) bool { return s.Cost(a) < s.Cost(b) }

// Check returns the fault of a measurement, or "". The last one must have the metric.
func (s *Spec) Check(m *Measurement, last bool) string {
	if len(m.Metrics) > MaxMetrics {
		return fmt.Sprintf("it has %d metrics, more than %d", len(m.Metrics), MaxMetrics)
	}
	v, ok := m.Metrics[s.Metric]
	switch {
	case !ok && last:
		return fmt.Sprintf("the metric of the study, %q, is missing", s.Metric)
	case v < 0:
		return fmt.Sprintf("%s: %v is negative", s.Metric, v)
	}
	for name, v := range m.Metrics {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprintf("%s: %v is not a finite number", name, v)
		}
	}
	if m.Elapsed < 0 || m.Step < 0 {
		return "step_count and elapsed_duration are not negative"
	}
	return ""
}

// same reports whether two measurements say the same.
func (m *Measurement) same(o *Measurement) bool {
	a, _ := json.Marshal(m)
	b, _ := json.Marshal(o)
	return slices.Equal(a, b)
}

package patterns

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// is reports whether a fact matches a term.
func (t *Term) is(f *cluster.Fact, source string) bool {
	if t.Derived != "" {
		return f.Name == "derived:"+t.Derived
	}
	switch {
	case t.Event != f.Name,
		len(t.Status) > 0 && !slices.Contains(t.Status, f.Status) &&
			!(f.Status == "out_of_memory" && slices.Contains(t.Status, "failed")),
		t.RanBelow > 0 && (!f.HasRun || f.Ran >= time.Duration(t.RanBelow)),
		source != "" && f.Source != "" && source != f.Source:
		return false
	case t.re != nil:
		return t.re.MatchString(f.Text)
	}
	return t.Value == "" || strings.Contains(f.Text, t.Value)
}

// matcher is the state of a sequence or set for one entity.
type matcher struct {
	// partial has, per number of terms matched, the instants of the latest beginning of a
	// sequence; of a set, per term its last instants.
	partial  [][]mark
	negative [][]time.Duration // per negative term
	pending  []matched
	last     time.Duration // of a fact
}

// mark is a matched term.
type mark struct {
	at       time.Duration
	gpuHours float64
}

// matched is a match whose negative terms may yet come.
type matched struct {
	marks []mark
	due   time.Duration
}

const maxNegatives = 256 // instants kept of a negative term

// steps are the terms of a match, each as often as its count.
func (m *Match) steps() (out []int) {
	for i, t := range m.terms() {
		for range max(1, t.Count) {
			out = append(out, i)
		}
	}
	return out
}

// feed takes in a fact of the entity, and returns a match that it completes, its marks in
// order of the terms.
func (x *matcher) feed(r *compiled, f *cluster.Fact) []mark {
	m, window := r.rule.match(), time.Duration(r.rule.match().Window)
	x.last = max(x.last, f.At)
	for i := range m.Negate {
		if m.Negate[i].is(f, m.Source) {
			if x.negative == nil {
				x.negative = make([][]time.Duration, len(m.Negate))
			}
			if len(x.negative[i]) == maxNegatives {
				x.negative[i] = slices.Delete(x.negative[i], 0, 1)
			}
			x.negative[i] = append(x.negative[i], f.At)
		}
	}
	one := mark{at: f.At}
	if f.Job != nil {
		one.gpuHours = f.Ran.Hours() * f.Job.Share
	}
	terms := m.terms()
	if x.partial == nil {
		x.partial = make([][]mark, max(len(r.steps), len(terms)))
	}
	if r.rule.Sequence != nil {
		return x.sequence(r, f, one, terms, window)
	}
	hit := false
	for i := range terms {
		if !terms[i].is(f, m.Source) {
			continue
		}
		hit = true
		if n := max(1, terms[i].Count); len(x.partial[i]) == n {
			copy(x.partial[i], x.partial[i][1:])
			x.partial[i][n-1] = one
		} else {
			x.partial[i] = append(x.partial[i], one)
		}
	}
	if !hit {
		return nil
	}
	var out []mark
	for i := range terms {
		if len(x.partial[i]) < max(1, terms[i].Count) || x.partial[i][0].at < f.At-window {
			return nil
		}
		out = append(out, x.partial[i]...)
	}
	return out
}

// sequence keeps, for every number of terms, the match that began last: if that one does not
// end within the window, none does.
func (x *matcher) sequence(r *compiled, f *cluster.Fact, one mark, terms []Term, window time.Duration) []mark {
	for k := len(r.steps) - 1; k >= 0; k-- {
		if !terms[r.steps[k]].is(f, r.rule.Sequence.Source) {
			continue
		}
		if k == 0 {
			x.partial[0] = append(x.partial[0][:0], one)
		} else {
			before := x.partial[k-1]
			if len(before) != k || before[0].at < f.At-window {
				continue
			}
			if got := x.partial[k]; len(got) == k+1 && got[0].at > before[0].at {
				continue
			}
			x.partial[k] = append(append(x.partial[k][:0], before...), one)
		}
		if k == len(r.steps)-1 {
			return slices.Clone(x.partial[k])
		}
	}
	return nil
}

// span is where a negative term must not occur, given a match.
func (t *Term) span(r *compiled, marks []mark) (from, to time.Duration) {
	first, last := marks[0].at, marks[0].at
	for _, m := range marks {
		first, last = min(first, m.at), max(last, m.at)
	}
	anchor := marks[min(max(0, slices.Index(r.steps, t.Anchor)), len(marks)-1)].at
	from = anchor + time.Duration(t.Slide)
	to = from + time.Duration(t.Window)
	if !t.Absolute {
		to += last - first
	}
	return from, to
}

// due is when the negative terms of a match are known.
func (x *matcher) due(r *compiled, marks []mark) time.Duration {
	var due time.Duration
	for i := range r.rule.match().Negate {
		_, to := r.rule.match().Negate[i].span(r, marks)
		due = max(due, to)
	}
	return due
}

// denied reports whether a negative term occurred.
func (x *matcher) denied(r *compiled, marks []mark) bool {
	for i := range r.rule.match().Negate {
		if x.negative == nil {
			return false
		}
		from, to := r.rule.match().Negate[i].span(r, marks)
		for _, at := range x.negative[i] {
			if at >= from && at <= to {
				return true
			}
		}
	}
	return false
}

// key is the entity of a fact by a rule's groups, with its name; false if the fact lacks one.
func (r *compiled) key(f *cluster.Fact) (Entity, bool) {
	e := Entity{Kind: r.kind}
	if f.Subject != nil {
		return Entity{f.Subject.Kind, f.Subject.Name}, true
	}
	for i, g := range r.rule.GroupBy {
		v := f.Group(g)
		if v == "" {
			return e, false
		}
		if i > 0 {
			e.Name += "/"
		}
		e.Name += v
	}
	return e, true
}

// fact sends a fact to the rules that have a term of its name.
func (s *Scanner) fact(f *cluster.Fact) {
	for _, r := range s.byFact[f.Name] {
		s.offer(r, f)
	}
	if f.Name == "job.preempted" || f.Name == "job.started" || f.Name == "job.resumed" || f.Name == "config.applied" {
		for _, r := range s.rules {
			if r.detector != nil {
				r.detector.fact(s, f)
			}
		}
	}
}

// offer lets a rule take in a fact.
func (s *Scanner) offer(r *compiled, f *cluster.Fact) {
	if f.Job != nil && s.exempt(r, f.Job) {
		return
	}
	for _, t := range r.rule.Confirm {
		if t.is(f, "") && f.Job != nil {
			s.confirm(r, f)
		}
	}
	m := r.rule.match()
	if m == nil {
		return
	}
	e, ok := r.key(f)
	if !ok {
		return
	}
	for _, t := range r.rule.Until {
		if t.is(f, m.Source) {
			s.closeFinding(r, e, f.At)
			if x := r.matchers[e]; x != nil {
				x.partial = nil
			}
		}
	}
	if !r.relevant(f) {
		return
	}
	x := r.matchers[e]
	if x == nil {
		if len(r.matchers) >= s.o.Cap {
			s.cluster.Drop(r.rule.ID)
			return
		}
		x = &matcher{}
		r.matchers[e] = x
	}
	marks := x.feed(r, f)
	if marks == nil {
		return
	}
	if due := x.due(r, marks); due > s.now() {
		if len(x.pending) < maxTerms {
			x.pending = append(x.pending, matched{marks, due})
			r.waiting = append(r.waiting, e)
		}
		return
	}
	if !x.denied(r, marks) {
		s.matched(r, e, f, marks)
	}
}

// relevant reports whether a fact is one of a match's terms.
func (r *compiled) relevant(f *cluster.Fact) bool {
	m := r.rule.match()
	for _, list := range [][]Term{m.terms(), m.Negate} {
		for i := range list {
			if list[i].is(f, m.Source) {
				return true
			}
		}
	}
	return false
}

// settle decides the matches whose negative terms are known by now.
func (s *Scanner) settle() {
	for _, r := range s.rules {
		if len(r.waiting) == 0 {
			continue
		}
		var rest []Entity
		for _, e := range r.waiting {
			x := r.matchers[e]
			if x == nil {
				continue
			}
			for i := 0; i < len(x.pending); i++ {
				p := x.pending[i]
				if p.due > s.now() {
					continue
				}
				x.pending = slices.Delete(x.pending, i, i+1)
				i--
				if !x.denied(r, p.marks) {
					s.matched(r, e, &cluster.Fact{At: p.marks[len(p.marks)-1].at, Job: s.cluster.Jobs[e.Name]}, p.marks)
				}
			}
			if len(x.pending) > 0 && !slices.Contains(rest, e) {
				rest = append(rest, e)
			}
		}
		r.waiting = rest
	}
}

// forget drops the state of entities that nothing happened to within the window.
func (r *compiled) forget(now time.Duration) {
	m := r.rule.match()
	if m == nil {
		return
	}
	keep := time.Duration(m.Window) + r.negativeReach
	for e, x := range r.matchers {
		if x.last < now-keep && len(x.pending) == 0 {
			delete(r.matchers, e)
		}
	}
}

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
	make            func(*compiled) detector
}

var detectors map[string]detectorKind

func init() {
	detectors = map[string]detectorKind{
		"straggler": {[]string{"job", "worker"}, []string{"rows", "slow", "factor", "leave", "same_node_hours"},
			newStraggler},
		"iteration_outlier": {[]string{"job"}, []string{"history", "recent", "count", "sigmas", "mads", "ratio", "regular"},
			newOutlier},
		"cv_class": {[]string{"job"}, []string{"skip", "iterations", "stable", "unstable"}, newSpread},
		"queue_spiral": {[]string{"queue"}, []string{"interval_minutes", "times", "wait_growth", "least_wait_minutes",
			"arrival_growth", "arrival_step", "usual", "free_share", "least_starts", "trend_intervals", "p", "least_pending_share",
			"clear_intervals"}, newSpiral},
		"preemption_thrash": {[]string{"cluster"}, []string{"window_minutes", "stops", "mutual_minutes", "ratio",
			"least_gpu_hours", "rollback_hours"}, newThrash},
		"config_regression": {[]string{"config_version"}, []string{"within_hours", "windows", "outside"},
			newRegression},
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

package patterns

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/patterns/cluster"
)

// of is the signal of a condition on a kind of entity.
func (c *Condition) of(kind string) *signal {
	if c.sig != nil {
		return c.sig
	}
	return signals[kind+"."+c.Signal]
}

// verdict is the truth of a condition.
type verdict int8

const (
	unknown verdict = iota - 1
	no
	yes
)

func truth(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// view judges the conditions of an entity.
type view struct {
	s        *Scanner
	r        *compiled
	e        *cluster.Subject
	from     time.Duration // values before it are left out
	expected int           // samples of a period
	coverage float64
	// trust is the confidence in the verdict so far: the least coverage, and less for
	// unknown optional conditions.
	trust float64
}

// window returns the steps of a condition's window: the first, and the one after the last.
func (v *view) window(c *Condition) (first, last int64) {
	step := v.e.Series.Step
	last = cluster.StepOf(v.s.now(), step)
	return last - max(1, int64(time.Duration(c.Over)/step)), last
}

// values calls f with the means of a window's steps that have samples, and returns the share of the expected samples.
func (v *view) values(c *Condition, f func(step int64, mean float32, n int) bool) (coverage float64) {
	first, last := v.window(c)
	step, sampled := v.e.Series.Step, v.e.Series.Step == v.s.o.Period
	wanted := float64(last - first)
	if sampled {
		wanted *= float64(v.expected)
	}
	if since := cluster.StepOf(v.from+step-1, step); v.from > 0 && since > first {
		first = since
	}
	whole := true
	steps, n := v.e.Means(c.of(v.e.Kind).series, first, last, func(step int64, mean float32, n int) bool {
		whole = f(step, mean, n)
		return whole
	})
	switch {
	case !whole:
		return 1
	case !sampled:
		n = steps
	}
	return min(1, float64(n)/max(1, wanted))
}

// number is the value of a leaf condition.
func (v *view) number(c *Condition) (x, coverage float64, known bool) {
	if sig := c.of(v.e.Kind); sig.compute != nil {
		x, known = sig.compute(v.s, v.r, v.e)
		return x, 1, known
	}
	var list []float32
	sum, n, most, least := 0.0, 0, math.Inf(-1), math.Inf(1)
	above := 0
	var steps []int64
	coverage = v.values(c, func(step int64, mean float32, k int) bool {
		sum += float64(mean) * float64(k)
		n += k
		m := float64(mean)
		most, least = max(most, m), min(least, m)
		switch c.Fn {
		case "quantile":
			list = append(list, mean)
		case "slope":
			list, steps = append(list, mean), append(steps, step)
		case "share":
			if m > c.Value {
				above += k
			}
		}
		return true
	})
	if n == 0 || coverage < v.coverage {
		return 0, coverage, false
	}
	switch c.Fn {
	case "mean":
		x = sum / float64(n)
	case "max":
		x = most
	case "min":
		x = least
	case "share":
		x = float64(above) / float64(n)
	case "quantile":
		slices.Sort(list)
		x = float64(list[stats.NearestRank(c.Q, len(list))])
	case "slope":
		x = slope(steps, list) * float64(time.Hour) / float64(v.e.Series.Step)
	}
	return x, coverage, true
}

// slope is that of the line of least squares, per step.
func slope(steps []int64, values []float32) float64 {
	if len(steps) < 2 {
		return 0
	}
	var mx, my float64
	for i := range steps {
		mx += float64(steps[i] - steps[0])
		my += float64(values[i])
	}
	n := float64(len(steps))
	mx, my = mx/n, my/n
	var num, den float64
	for i := range steps {
		dx := float64(steps[i]-steps[0]) - mx
		num += dx * (float64(values[i]) - my)
		den += dx * dx
	}
	return num / den
}

// judge says whether a condition holds.
func (v *view) judge(c *Condition) verdict {
	switch {
	case len(c.All) > 0:
		out := yes
		for i := range c.All {
			switch v.judge(&c.All[i]) {
			case no:
				return no
			case unknown:
				out = unknown
			}
		}
		return out
	case len(c.Any) > 0:
		out := no
		for i := range c.Any {
			switch v.judge(&c.Any[i]) {
			case yes:
				return yes
			case unknown:
				out = unknown
			}
		}
		return out
	case c.Each != "":
		return v.each(c)
	}
	got, coverage := v.leaf(c)
	if got == unknown && c.Optional {
		v.trust = min(v.trust, .8)
		return yes
	}
	if got == yes {
		v.trust = min(v.trust, coverage)
	}
	return got
}

// leaf is judge for a number. A maximum or quantile that is too high is found without reading
// the whole window.
func (v *view) leaf(c *Condition) (verdict, float64) {
	if sig := c.of(v.e.Kind); sig.compute != nil || c.Fn != "max" && c.Fn != "quantile" || c.Below == nil {
		x, coverage, known := v.number(c)
		if !known {
			return unknown, coverage
		}
		return truth(c.holds(x)), coverage
	}
	limit := float32(*c.Below)
	allowed := 0 // steps that may be at or above the limit
	if c.Fn == "quantile" {
		first, last := v.window(c)
		allowed = int(last - first)
		allowed -= stats.NearestRank(c.Q, allowed) + 1
	}
	high, n := 0, 0
	coverage := v.values(c, func(_ int64, mean float32, _ int) bool {
		n++
		if mean >= limit {
			high++
		}
		return high <= allowed
	})
	switch {
	case high > allowed:
		return no, 1
	case n == 0 || coverage < v.coverage:
		return unknown, coverage
	}
	if c.Fn == "quantile" && high > n-1-stats.NearestRank(c.Q, n) {
		return no, coverage
	}
	return yes, coverage
}

// each judges the condition of every GPU of a job.
func (v *view) each(c *Condition) verdict {
	j := v.e.Job
	if len(j.Units) == 0 {
		return unknown
	}
	inner := *c
	inner.Each = ""
	hold, known := 0, 0
	trust := v.trust
	for _, g := range j.Units {
		x := *v
		x.e, x.expected = &g.Subject, 1
		switch x.judge(&inner) {
		case yes:
			hold++
			known++
			trust = min(trust, x.trust)
		case no:
			known++
		}
	}
	need := c.Share * float64(j.GPUs)
	switch {
	case float64(hold) >= need:
		v.trust = trust
		return yes
	case float64(hold+j.GPUs-known) >= need:
		return unknown
	}
	return no
}

// evidence appends the numbers of a condition's leaves that hold, and how far beyond their
// thresholds they are: the least margin, relative to the threshold.
func (v *view) evidence(c *Condition, out []Evidence, margin float64) ([]Evidence, float64) {
	for _, list := range [][]Condition{c.All, c.Any} {
		for i := range list {
			if len(c.Any) == 0 || v.judge(&list[i]) == yes {
				out, margin = v.evidence(&list[i], out, margin)
			}
		}
	}
	if c.Signal == "" {
		return out, margin
	}
	limit, upper := c.threshold()
	what := c.Signal
	if c.Fn != "" {
		what = c.Fn + " " + c.Signal
	}
	if c.Each != "" {
		j := v.e.Job
		inner := *c
		inner.Each = ""
		n := 0
		for _, g := range j.Units {
			x := *v
			x.e, x.expected = &g.Subject, 1
			if x.judge(&inner) == yes {
				n++
			}
		}
		return append(out, Evidence{What: "GPUs with " + what, Value: float64(n),
			Threshold: math.Ceil(c.Share * float64(j.GPUs)), Unit: "GPUs",
			From: v.s.at(v.s.now() - time.Duration(c.Over)), To: v.s.at(v.s.now())}), margin
	}
	x, _, known := v.number(c)
	if !known {
		return out, margin
	}
	d := (x - limit) / max(math.Abs(limit), 1e-9)
	if !upper {
		d = -d
	}
	unit := c.of(v.e.Kind).unit
	if j := v.e.Job; j != nil && c.Signal == "busy" && j.Use.Active > 0 {
		unit = "share of SMs"
	}
	out = append(out, Evidence{What: what, Value: x, Threshold: limit, Unit: unit,
		From: v.s.at(v.s.now() - time.Duration(c.Over)), To: v.s.at(v.s.now())})
	if c.of(v.e.Kind).age {
		return out, margin // it passes its threshold as time passes
	}
	return out, min(margin, max(0, d))
}

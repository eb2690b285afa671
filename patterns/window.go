package patterns

import (
	"math"
	"slices"
	"time"
)

// entity is what signals are of and rules hold for.
type entity struct {
	kind, name string
	recorded   []recorded  // signals of the kind, once there are values
	rings      []ring      // by the place of the signal among those of its kind
	states     []ruleState // by rule
}

// clear forgets what was seen of an entity, and so what held.
func (e *entity) clear() {
	e.states = nil
	for i := range e.rings {
		clear(e.rings[i].steps)
	}
}

// ring has the last values of a signal: the mean of each step of time.
type ring struct {
	head  int64 // number of the last step
	pos   int   // its place: its number modulo the size
	steps []stepSum
}

// stepSum is the values of a step; sum and number lie together, as both are read and written at once.
type stepSum struct {
	sum float32
	n   uint32
}

func floorDiv(a, b time.Duration) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return int64(q)
}

// firstSlots is the size of a new ring: most jobs are short.
const firstSlots = 16

// grow makes room for a step, up to a number of slots.
func (r *ring) grow(slots int, k int64) {
	size := len(r.steps)
	for int64(size) <= k-r.head+int64(len(r.steps)) && size < slots {
		size = min(slots, 2*size)
	}
	more := ring{r.head, int(mod(r.head, int64(size))), make([]stepSum, size)}
	for i := r.head - int64(len(r.steps)) + 1; i <= r.head; i++ {
		more.steps[mod(i, int64(size))] = r.steps[mod(i, int64(len(r.steps)))]
	}
	*r = more
}

// add adds a value to a step.
func (r *ring) add(slots int, k int64, v float64) {
	if k == r.head && r.steps != nil { // most values are of the last step
		r.steps[r.pos].sum += float32(v)
		r.steps[r.pos].n++
		return
	}
	if r.steps == nil {
		n := min(slots, firstSlots)
		*r = ring{k, int(mod(k, int64(n))), make([]stepSum, n)}
	}
	if k > r.head && len(r.steps) < slots {
		r.grow(slots, k)
	}
	size := int64(len(r.steps))
	p := r.pos
	switch {
	case k == r.head+1: // or of the next
		if p++; p == len(r.steps) {
			p = 0
		}
		r.steps[p] = stepSum{}
		r.head, r.pos = k, p
	case k > r.head:
		for i := max(r.head+1, k-size+1); i <= k; i++ {
			r.steps[mod(i, size)] = stepSum{}
		}
		p = int(mod(k, size))
		r.head, r.pos = k, p
	case k <= r.head-size:
		return
	default:
		p = int(mod(k, size))
	}
	r.steps[p].sum += float32(v)
	r.steps[p].n++
}

func mod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
}

// signal is a number of a kind of entity: one that a scanner records in steps of time (the
// period of samples where step is 0), or one that it computes for an instant.
type signal struct {
	step time.Duration
	unit string
	// A signal is computed, or recorded in the ring that slot numbers.
	compute func(*Scanner, *compiled, *entity) (float64, bool)
	slot    func(*slotNumbers) *int
	age     bool // grows with time alone
}

// of is the signal of a condition on a kind of entity.
func (c *Condition) of(kind string) *signal {
	if c.sig != nil {
		return c.sig
	}
	return signals[kind+"."+c.Signal]
}

// recorded is a signal that rules ask for, with the ring it needs.
type recorded struct {
	name  string
	step  time.Duration
	slots int
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

// view is what conditions of an entity are judged by.
type view struct {
	s        *Scanner
	r        *compiled
	e        *entity
	from     time.Duration // values before it are left out
	expected int           // samples of a period
	coverage float64
	// trust is the confidence in the verdict so far: the least coverage, and less for what is
	// unknown but optional.
	trust float64
}

// window finds the steps of a condition's window: their ring, the first, and their number.
func (v *view) window(c *Condition) (r *ring, rec *recorded, first, last int64) {
	list := v.e.recorded
	i := slices.IndexFunc(list, func(x recorded) bool { return x.name == c.Signal })
	if i < 0 || v.e.rings[i].steps == nil {
		return nil, nil, 0, 0
	}
	rec, r = &list[i], &v.e.rings[i]
	last = floorDiv(v.s.now, rec.step)
	return r, rec, last - int64(time.Duration(c.Over)/rec.step), last
}

// values calls f with the means of a window's steps that have samples, and returns the share of
// the samples that there should be.
func (v *view) values(c *Condition, f func(step int64, mean float32, n int) bool) (coverage float64) {
	r, rec, first, last := v.window(c)
	if r == nil {
		return 0
	}
	wanted := float64(last-first) * float64(v.expected)
	if rec.step != v.s.o.Period {
		wanted = float64(last - first)
	}
	if since := floorDiv(v.from+rec.step-1, rec.step); v.from > 0 && since > first {
		first = since
	}
	size := int64(len(r.steps))
	n, filled := 0, 0
	stop := max(first, r.head-size+1)
	p := mod(last-1, size)
	for k := last - 1; k >= stop; k-- {
		if x := r.steps[p]; k <= r.head && x.n > 0 {
			n += int(x.n)
			filled++
			if !f(k, x.sum/float32(x.n), int(x.n)) {
				return 1
			}
		}
		if p--; p < 0 {
			p = size - 1
		}
	}
	if rec.step != v.s.o.Period {
		n = filled
	}
	return min(1, float64(n)/max(1, wanted))
}

// number is the value of a leaf condition.
func (v *view) number(c *Condition) (x, coverage float64, known bool) {
	if sig := c.of(v.e.kind); sig.compute != nil {
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
		x = float64(list[rank(c.Q, len(list))])
	case "slope":
		x = slope(steps, list) * float64(time.Hour) / float64(v.stepOf(c))
	}
	return x, coverage, true
}

func (v *view) stepOf(c *Condition) time.Duration {
	_, rec, _, _ := v.window(c)
	return rec.step
}

// rank is the place of a quantile in a sorted list, by the nearest rank.
func rank(q float64, n int) int { return min(n-1, max(0, int(math.Ceil(q*float64(n)))-1)) }

// quantile is one of values in any order.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[rank(q, len(sorted))]
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
	if sig := c.of(v.e.kind); sig.compute != nil || c.Fn != "max" && c.Fn != "quantile" || c.Below == nil {
		x, coverage, known := v.number(c)
		if !known {
			return unknown, coverage
		}
		return truth(c.holds(x)), coverage
	}
	limit := float32(*c.Below)
	allowed := 0 // steps that may be at or above the limit
	if c.Fn == "quantile" {
		_, rec, first, last := v.window(c)
		if rec == nil {
			return unknown, 0
		}
		allowed = int(last - first)
		allowed -= rank(c.Q, allowed) + 1
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
	if c.Fn == "quantile" && high > n-1-rank(c.Q, n) {
		return no, coverage
	}
	return yes, coverage
}

// each judges the condition of every GPU of a job.
func (v *view) each(c *Condition) verdict {
	j := v.s.jobs[v.e.name]
	if j == nil || len(j.units) == 0 {
		return unknown
	}
	inner := *c
	inner.Each = ""
	hold, known := 0, 0
	trust := v.trust
	for _, g := range j.units {
		x := *v
		x.e, x.expected = &g.entity, 1
		switch x.judge(&inner) {
		case yes:
			hold++
			known++
			trust = min(trust, x.trust)
		case no:
			known++
		}
	}
	need := c.Share * float64(j.gpus)
	switch {
	case float64(hold) >= need:
		v.trust = trust
		return yes
	case float64(hold+j.gpus-known) >= need:
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
		j := v.s.jobs[v.e.name]
		inner := *c
		inner.Each = ""
		n := 0
		for _, g := range j.units {
			x := *v
			x.e, x.expected = &g.entity, 1
			if x.judge(&inner) == yes {
				n++
			}
		}
		return append(out, Evidence{What: "GPUs with " + what, Value: float64(n),
			Threshold: math.Ceil(c.Share * float64(j.gpus)), Unit: "GPUs",
			From: v.s.at(v.s.now - time.Duration(c.Over)), To: v.s.at(v.s.now)}), margin
	}
	x, _, known := v.number(c)
	if !known {
		return out, margin
	}
	d := (x - limit) / max(math.Abs(limit), 1e-9)
	if !upper {
		d = -d
	}
	out = append(out, Evidence{What: what, Value: x, Threshold: limit,
		Unit: c.of(v.e.kind).unit, From: v.s.at(v.s.now - time.Duration(c.Over)), To: v.s.at(v.s.now)})
	if c.of(v.e.kind).age {
		return out, margin // it passes its threshold as time passes
	}
	return out, min(margin, max(0, d))
}

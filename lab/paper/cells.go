package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
)

// results are the ones of the files, with the first error in reading them.
type results struct {
	all map[string]*Result
	err error
	// traces are the digests of the windows' traces.
	traces map[string]string
}

func read[T any](r *results, id string) *T {
	v, ok, err := values[T](r.all, id)
	if err != nil && r.err == nil {
		r.err = err
	}
	if !ok {
		return nil
	}
	return &v
}

// cell is the outcomes of a method with each seed that is measured.
type cell []*Outcome

// cell refuses a window whose results are of several traces: they are not to be compared.
func (r *results) cell(window, scheduler, method string) (out cell) {
	for seed := 1; ; seed++ {
		o := read[Outcome](r, methodID(window, scheduler, method, seed))
		if o == nil {
			return out
		}
		if r.traces == nil {
			r.traces = map[string]string{}
		}
		if first := cmp.Or(r.traces[window], o.Digest); first != o.Digest && r.err == nil {
			r.err = fmt.Errorf("%s: of the trace %s, others of this window of %s: measure each trace into a folder of its own",
				methodID(window, scheduler, method, seed), o.Digest, first)
		}
		r.traces[window] = o.Digest
		out = append(out, o)
	}
}

func (c cell) mean(value func(*Outcome) float64) float64 {
	if len(c) == 0 {
		return math.NaN()
	}
	sum := 0.
	for _, o := range c {
		sum += value(o) / float64(len(c))
	}
	return sum
}

func (c cell) jct() float64 { return c.mean(func(o *Outcome) float64 { return o.AvgJCT }) }

// over is the average JCT of a cell over that of another: above 1 the other is better.
func (c cell) over(other cell) float64 { return c.jct() / other.jct() }

// span is the 95 % interval of over, by a bootstrap over seeds and, within them, stretches of the same jobs.
func (c cell) span(other cell) (lo, hi float64) {
	if len(c) == 0 || len(other) == 0 {
		return math.NaN(), math.NaN()
	}
	seeds := max(len(c), len(other))
	draw := rng.Stream("paper interval", 1)
	ratios := make([]float64, 1000)
	for i := range ratios {
		a, b := 0., 0.
		for range seeds {
			s := draw.IntN(seeds)
			x, y := c[s%len(c)], other[s%len(other)]
			for range stretches {
				k := draw.IntN(stretches)
				a, b = a+x.Stretches[k], b+y.Stretches[k]
			}
		}
		ratios[i] = a / b
	}
	return stats.Interval(ratios, 1)
}

// geometric is the geometric mean.
func geometric(v []float64) float64 {
	logs := make([]float64, len(v))
	for i := range v {
		logs[i] = math.Log(v[i])
	}
	return math.Exp(stats.Mean(logs))
}

// compared is a method against another over windows and schedulers.
type compared struct {
	name         string
	n            int
	ratio        float64 // geometric mean of the other's average JCT over the method's
	least, most  float64
	wins, losses int // by more than 1 %
	p, holm      float64
}

// compare compares a method with others over cells of windows and schedulers that both have, with Wilcoxon's
// signed-rank test, adjusted by Holm for the number of others.
func (r *results) compare(method string, others []string, of func(*window) bool) (out []compared) {
	var ps []float64
	for _, name := range others {
		c := compared{name: name}
		var ratios, logs []float64
		for i := range windows {
			if !of(&windows[i]) || windows[i].fortnight { // those are a sample
				continue
			}
			for _, s := range schedulerNames {
				a, b := r.cell(windows[i].name, s, name), r.cell(windows[i].name, s, method)
				if len(a) == 0 || len(b) == 0 {
					continue
				}
				v := a.over(b)
				ratios, logs = append(ratios, v), append(logs, math.Log(v))
				if v > 1.01 {
					c.wins++
				} else if v < 1/1.01 {
					c.losses++
				}
			}
		}
		if c.n = len(ratios); c.n == 0 {
			continue
		}
		c.ratio, c.least, c.most = geometric(ratios), slices.Min(ratios), slices.Max(ratios)
		c.p = stats.Wilcoxon(logs)
		out, ps = append(out, c), append(ps, c.p)
	}
	for i, p := range stats.Holm(ps) {
		out[i].holm = p
	}
	return out
}

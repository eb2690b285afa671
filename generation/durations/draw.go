package durations

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// enough is how many longer jobs of a class a group must have to be drawn from;
// below, the next wider group is asked.
const enough = 4

// Draws are the durations of ended jobs by class, grouped by key, by tenant and
// GPUs, by tenant, by GPUs, and all together.
type Draws struct {
	groups map[drawGroup]*[Classes][]time.Duration
	n      int
}

type drawGroup struct {
	by   byte
	text string
	gpus int
}

const (
	byKey byte = iota
	byWidth
	byTenant
	byGPUs
	byNothing
)

// groupsOf a job, the closest first.
func groupsOf(j *workload.Job) [5]drawGroup {
	g := j.GPUs.Whole()
	return [...]drawGroup{{byKey, j.Key, 0}, {byWidth, j.Tenant, g}, {byTenant, j.Tenant, 0}, {byGPUs, "", g}, {byNothing, "", 0}}
}

// NewDraws takes the ended jobs of a history.
func NewDraws(history []Record) *Draws {
	d := &Draws{groups: map[drawGroup]*[Classes][]time.Duration{}}
	for i := range history {
		r := &history[i]
		if !r.Ended {
			continue
		}
		ran := max(r.Ran, time.Second)
		c := ClassOf(ran)
		d.n++
		for _, name := range groupsOf(r.Job) {
			if name.by == byKey && name.text == "" {
				continue
			}
			g := d.groups[name]
			if g == nil {
				g = new([Classes][]time.Duration)
				d.groups[name] = g
			}
			g[c] = append(g[c], ran)
		}
	}
	for _, g := range d.groups {
		for c := range g {
			slices.Sort(g[c])
		}
	}
	return d
}

// Len is the number of ended jobs.
func (d *Draws) Len() int { return d.n }

// InClass draws a whole duration of a class for a job that has run for ran: one
// of the longer durations of the closest group that has enough of them. Where
// history has none, any length of the class is as likely on a scale of ratios; the
// last class has no end, so that a job in it goes on for as long again as it has
// run, times an exponential draw: with heavy tails, what has lasted lasts. A class
// that the job has outrun is taken for the one it is in.
func (d *Draws) InClass(r *rand.Rand, j *workload.Job, class int, ran time.Duration) time.Duration {
	class = max(class, ClassOf(ran+1))
	names := groupsOf(j)
	for n, name := range names {
		g := d.groups[name]
		if g == nil {
			continue
		}
		first, _ := slices.BinarySearch(g[class], ran+1)
		if k := len(g[class]) - first; k >= enough || k > 0 && n == len(names)-1 {
			return g[class][first+r.IntN(k)]
		}
	}
	from, to := Range(class)
	from = max(from, ran+1, time.Second)
	if class == Classes-1 {
		more := float64(from) * r.ExpFloat64()
		return from + max(time.Second, min(time.Duration(more), workload.MaxDuration/4))
	}
	return min(to-1, time.Duration(float64(from)*math.Pow(float64(to)/float64(from), r.Float64())))
}

// Draw draws a class and then a duration of it.
func (d *Draws) Draw(r *rand.Rand, j *workload.Job, p []float64, ran time.Duration) time.Duration {
	return d.InClass(r, j, drawClass(r, p), ran)
}

func drawClass(r *rand.Rand, p []float64) int {
	u := r.Float64()
	for c, v := range p {
		if u -= v; u < 0 {
			return c
		}
	}
	return argmax(p) // rounding
}

// Plain gives the probabilities of the classes for a job of which nothing but
// history is known: how often the longer jobs of the closest group that has enough
// of them were of each.
func (d *Draws) Plain(dst []float64, j *workload.Job, ran time.Duration) {
	for _, name := range groupsOf(j) {
		g := d.groups[name]
		if g == nil {
			continue
		}
		sum := 0.
		for c := range g {
			first, _ := slices.BinarySearch(g[c], ran+1)
			dst[c] = float64(len(g[c]) - first)
			sum += dst[c]
		}
		if sum >= 2*enough || name.by == byNothing && sum > 0 {
			for c := range dst {
				dst[c] /= sum
			}
			return
		}
	}
	clear(dst)
	dst[max(ClassOf(ran+1), 1)] = 1
}

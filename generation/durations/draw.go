package durations

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/workload"
)

// enough is how many longer jobs of a class a group must have to be drawn from;
// below, the next wider group is asked.
const enough = 8

// Draws are the durations of a history's jobs, grouped by key, by tenant and GPUs,
// by tenant, by GPUs, and all together. In each group Kaplan and Meier's estimate
// says how many jobs outlive a duration: jobs that still run are counted for as
// long as they have run, or long jobs, most of which still run, would look rare.
type Draws struct {
	groups map[drawGroup]*lifetimes
	ended  int
}

// lifetimes are the durations of the ended jobs of a group.
type lifetimes struct {
	ended   []time.Duration // sorted
	left    []float64       // share of the jobs that outlive ended[i]
	running []time.Duration // times of running jobs; sorted
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
	return [...]drawGroup{{byKey, j.Key, 0}, {byWidth, j.Tenant, g}, {byTenant, j.Tenant, 0}, {byGPUs, "", g},
		{byNothing, "", 0}}
}

// NewDraws takes the jobs of a history.
func NewDraws(history []Record) *Draws {
	d := &Draws{groups: map[drawGroup]*lifetimes{}}
	for i := range history {
		r := &history[i]
		ran := max(r.Ran, time.Second)
		if r.Ended {
			d.ended++
		} else if r.Ran <= 0 {
			continue
		}
		for _, name := range groupsOf(r.Job) {
			if name.by == byKey && name.text == "" {
				continue
			}
			g := d.groups[name]
			if g == nil {
				g = &lifetimes{}
				d.groups[name] = g
			}
			if r.Ended {
				g.ended = append(g.ended, ran)
			} else {
				g.running = append(g.running, ran)
			}
		}
	}
	for _, g := range d.groups {
		g.estimate()
	}
	return d
}

// estimate computes left (Kaplan and Meier 1958).
func (g *lifetimes) estimate() {
	slices.Sort(g.ended)
	slices.Sort(g.running)
	g.left = make([]float64, len(g.ended))
	s, censored := 1., 0
	for i, d := range g.ended {
		for censored < len(g.running) && g.running[censored] < d {
			censored++
		}
		s *= 1 - 1/float64(len(g.ended)-i+len(g.running)-censored)
		g.left[i] = s
	}
}

// outlive is the share of the jobs that outlive the first n ended ones.
func (g *lifetimes) outlive(n int) float64 {
	if n == 0 {
		return 1
	}
	return g.left[n-1]
}

// between are the places of the ended jobs with durations from one, included, to
// another.
func (g *lifetimes) between(from, to time.Duration) (first, end int) {
	first, _ = slices.BinarySearch(g.ended, from)
	end, _ = slices.BinarySearch(g.ended, to)
	return first, max(first, end)
}

// Len is the number of ended jobs.
func (d *Draws) Len() int { return d.ended }

// InClass draws a whole duration of a class for a job that has run for ran: that
// of one of the longer jobs of the closest group that has enough of them. Jobs
// that outlive a group's are drawn from the next wider group. Where history has
// none, any length of the class is as likely on a scale of ratios; the last class
// has no end, so that a job that outlives all others goes on for a quarter
// as long again, times an exponential draw: with heavy tails, long jobs last. A
// class that the job has outrun is taken for the one it is in.
func (d *Draws) InClass(r *rand.Rand, j *workload.Job, class int, ran time.Duration) time.Duration {
	class = max(class, ClassOf(ran+1))
	from, to := Range(class)
	from = max(from, ran+1, time.Second)
	names := groupsOf(j)
	for n, name := range names {
		g := d.groups[name]
		if g == nil {
			continue
		}
		first, end := g.between(from, to)
		if k := end - first; k < enough && (k == 0 || n < len(names)-1) {
			continue
		}
		high, low := g.outlive(first), g.outlive(end)
		if class == Classes-1 {
			low = 0
		}
		level := high - r.Float64()*(high-low)
		i := first + sort.Search(end-first, func(i int) bool { return g.left[first+i] <= level })
		if i < end {
			return g.ended[i]
		}
		if class < Classes-1 {
			return g.ended[end-1] // rounding
		}
		from = g.ended[end-1] + 1
	}
	if class == Classes-1 {
		return longer(r, from)
	}
	return min(to-1, time.Duration(float64(from)*math.Pow(float64(to)/float64(from), r.Float64())))
}

func longer(r *rand.Rand, than time.Duration) time.Duration {
	more := float64(than) / 4 * r.ExpFloat64()
	return than + max(time.Second, min(time.Duration(more), workload.MaxDuration/4))
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
// history is known: how many of the jobs of the closest group that has enough
// longer ones outlive each bound.
func (d *Draws) Plain(dst []float64, j *workload.Job, ran time.Duration) {
	clear(dst)
	for _, name := range groupsOf(j) {
		g := d.groups[name]
		if g == nil {
			continue
		}
		first, _ := slices.BinarySearch(g.ended, ran+1)
		if k := len(g.ended) - first; k < enough && (name.by != byNothing || k == 0) {
			continue
		}
		whole := g.outlive(first)
		above := whole
		for c := range dst {
			_, to := Range(c)
			below := 0.
			if c < Classes-1 {
				_, end := g.between(0, max(to, ran+1))
				below = g.outlive(max(first, end))
			}
			dst[c] = (above - below) / whole
			above = below
		}
		return
	}
	dst[max(ClassOf(ran+1), 1)] = 1
}

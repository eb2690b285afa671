package synth

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// groupFit has the parameters of the groups model beyond the published ones.
type groupFit struct {
	base  []float64   // distribution function of the groups' typical durations, at the profile's points
	cdf   [][]float64 // by size, likewise
	cells []groupCell
	cum   []float64 // of groups by cell
	split float64   // seconds from which a job is long
	short [][2]float64
	long  [][2]float64
}

// groupCell is the groups of one size with durations between two points.
type groupCell struct {
	size  int
	point int       // the upper one
	jobs  []float64 // cumulative frequency of groups of 1, 2, ... jobs
}

// widest and farthest bound a group's jobs: few run on hundreds of GPUs, or for
// days, jobs that they run a thousand times on one GPU for minutes. The first is the
// GPUs of all its jobs together, the second their duration in seconds; any group
// may have leastLargest.
const (
	widest       = 2000
	farthest     = 3e6
	leastLargest = 4
)

// fitGroups derives the distribution of durations of every size, so that they
// have their published shares of GPU-time and add up to the distribution of all,
// and the status of short and long jobs, so that both shares by jobs and by
// GPU-time come out.
func (p *profile) fitGroups() error {
	jobs, gpuTime := 0.0, 0.0
	for _, s := range p.Sizes {
		if s.GPUs <= 0 || s.Jobs <= 0 {
			return fmt.Errorf("sizes: %v GPUs of %v of the jobs", s.GPUs, s.Jobs)
		}
		jobs += s.Jobs
		gpuTime += s.GPUTime
	}
	for i := range p.Sizes {
		p.Sizes[i].Jobs /= jobs
		p.Sizes[i].GPUTime /= gpuTime
	}
	p.sharpen()
	p.stretch()
	p.fitDurations()
	p.fitRecurrence()
	return p.fitStatus()
}

// sharpen makes the distribution of durations that of the groups' medians, so
// that with the spread within a group it is the published one again.
func (p *profile) sharpen() {
	d, sd := &p.Duration, p.Groups.LnSD
	x := make([]float64, len(d.XS))
	for k := range x {
		x[k] = math.Log(d.XS[k])
	}
	// The mean of a normal's distribution function over points up to z.
	upTo := func(z float64) float64 {
		return z*(1+math.Erf(z/math.Sqrt2))/2 + math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
	}
	base := slices.Clone(d.CDF)
	for range 30 {
		blurred := make([]float64, len(base))
		for k := range base {
			above := func(i int) float64 { return (x[k]-x[i])/sd + sd/2 } // the spread leaves the mean
			blurred[k] = base[0] * (1 + math.Erf(above(0)/math.Sqrt2)) / 2
			for i := 1; i < len(base); i++ {
				from, to := above(i-1), above(i)
				blurred[k] += (base[i] - base[i-1]) * (upTo(from) - upTo(to)) / (from - to)
			}
		}
		for k := range base {
			base[k] = min(max(base[k]+d.CDF[k]-blurred[k], 0), 1)
			if k > 0 {
				base[k] = max(base[k], base[k-1])
			}
		}
	}
	p.fit.base = base
}

// stretch moves the points past the last one with a tail, so that the mean is
// the published one: the mass of the last steps is known to a part in ten
// thousand only, and the mean depends on it.
func (p *profile) stretch() {
	d := &p.Duration
	low, high := -.002, .002
	shifted := func(by float64) []float64 {
		out := make([]float64, len(p.fit.base))
		for i, f := range p.fit.base {
			// The upper half of the points moves, within the accuracy of a figure.
			out[i] = min(max(f-by*min(1, f*f), 0), 1)
		}
		out[len(out)-1] = 1
		return out
	}
	for range 60 {
		mid := (low + high) / 2
		if meanOf(d.XS, shifted(mid)) < d.MeanS {
			low = mid
		} else {
			high = mid
		}
	}
	p.fit.base = shifted((low + high) / 2)
}

// meanOf is the mean of a distribution function that is linear in ln(x) between
// its points, the mass below the first being at it.
func meanOf(x, cdf []float64) float64 {
	sum := cdf[0] * x[0]
	for i := 1; i < len(x); i++ {
		sum += (cdf[i] - cdf[i-1]) * (x[i] - x[i-1]) / math.Log(x[i]/x[i-1])
	}
	return sum
}

// fitDurations bends a common distribution for each size: the odds of outlasting
// any time are larger by a factor, which is found by going round in turns.
func (p *profile) fitDurations() {
	d, n := &p.Duration, len(p.Sizes)
	mean, of := meanOf(d.XS, p.fit.base), 0.0
	want := make([]float64, n) // mean durations
	for i, s := range p.Sizes {
		want[i] = s.GPUTime / (s.Jobs * s.GPUs)
		of += s.Jobs * want[i]
	}
	odds := make([]float64, n)
	for i := range want {
		want[i] *= mean / of
		odds[i] = 1
	}
	p.fit.cdf = make([][]float64, n)
	for i := range p.fit.cdf {
		p.fit.cdf[i] = make([]float64, len(d.XS))
	}
	for range 300 {
		for k, f := range p.fit.base {
			p.spread(k, 1-f, odds)
		}
		for i := range odds {
			odds[i] = min(max(odds[i]*math.Pow(want[i]/meanOf(d.XS, p.fit.cdf[i]), .5), 1e-3), 1e3)
		}
	}
}

// spread finds the survival of every size at a point, so that together they are
// the given one.
func (p *profile) spread(k int, survival float64, odds []float64) {
	of := func(base float64, i int) float64 { return odds[i] * base / (1 - base + odds[i]*base) }
	low, high := 0.0, 1.0
	for range 60 {
		mid, sum := (low+high)/2, 0.0
		for i, s := range p.Sizes {
			sum += s.Jobs * of(mid, i)
		}
		if sum < survival {
			low = mid
		} else {
			high = mid
		}
	}
	for i := range p.Sizes {
		p.fit.cdf[i][k] = 1 - of((low+high)/2, i)
		if survival == 0 {
			p.fit.cdf[i][k] = 1
		}
	}
}

// fitRecurrence finds how many groups there are of each size, duration and
// number of jobs: a group of s jobs is s^-e as frequent as one job, with e such
// that groups of more than ten have their published share of the jobs.
func (p *profile) fitRecurrence() {
	low, high := 1.0, 4.0
	for range 50 {
		e := (low + high) / 2
		if p.recur(e) > p.Groups.Over10 {
			low = e
		} else {
			high = e
		}
	}
}

// recur makes the cells for an exponent and returns the share of jobs in groups
// of more than ten.
func (p *profile) recur(exponent float64) (over10 float64) {
	p.fit.cells, p.fit.cum = p.fit.cells[:0], p.fit.cum[:0]
	sum := 0.0
	for i, s := range p.Sizes {
		for k := range p.Duration.XS {
			share := p.fit.cdf[i][k]
			if k > 0 {
				share -= p.fit.cdf[i][k-1]
			}
			if share *= s.Jobs; share <= 0 {
				continue
			}
			largest := min(p.Groups.Largest, max(leastLargest, int(widest/s.GPUs)),
				max(leastLargest, int(farthest/p.Duration.XS[k])))
			cum := make([]float64, largest)
			total, mean, many := 0.0, 0.0, 0.0
			for n := range cum {
				f := math.Pow(float64(n+1), -exponent)
				total += f
				mean += f * float64(n+1)
				if n+1 > 10 {
					many += f * float64(n+1)
				}
				cum[n] = total
			}
			over10 += share * many / mean
			sum += share / (mean / total)
			p.fit.cells, p.fit.cum = append(p.fit.cells, groupCell{i, k, cum}), append(p.fit.cum, sum)
		}
	}
	return over10
}

// fitStatus tilts the status of each size between short and long jobs, so that
// the shares of jobs (of each size, if that is published) stay and the shares of
// GPU-time are the published ones. Of the shares of jobs that could be called
// long, the largest is taken with which that is possible.
func (p *profile) fitStatus() error {
	for _, share := range []float64{.1, .08, .06, .05, .04, .03, .02, .01} {
		if p.tiltStatus(share) {
			return nil
		}
	}
	return fmt.Errorf("status: jobs and GPU-time cannot both have their shares")
}

func (p *profile) tiltStatus(longShare float64) bool {
	d, n := &p.Duration, len(p.Sizes)
	p.fit.split = logInterp(p.fit.base, d.XS, 1-longShare)
	part, all := make([]float64, n), 0.0 // of each size's jobs, and of all, that are long
	for i, s := range p.Sizes {
		part[i] = 1 - at(d.XS, p.fit.cdf[i], p.fit.split)
		all += s.Jobs * part[i]
	}
	base := func(i int) (status *[2]float64, long float64) {
		if own := p.Sizes[i].Status; own != nil {
			return own, part[i]
		}
		return p.Status.Jobs, all
	}
	var now, tilt [2]float64 // shares of GPU-time without a tilt, and how much a tilt of 1 adds
	for i, s := range p.Sizes {
		status, long := base(i)
		for k := range 2 {
			now[k] += s.GPUTime * status[k]
			tilt[k] += s.GPUTime * (p.timeAbove(i) - long)
		}
	}
	p.fit.short, p.fit.long = make([][2]float64, n), make([][2]float64, n)
	for i := range p.Sizes {
		status, long := base(i)
		for k := range 2 {
			by := (p.Status.GPUTime[k] - now[k]) / tilt[k]
			p.fit.long[i][k] = status[k] + (1-long)*by
			p.fit.short[i][k] = status[k] - long*by
		}
		for _, m := range [][2]float64{p.fit.long[i], p.fit.short[i]} {
			if m[0] < 0 || m[1] < 0 || m[0]+m[1] > 1 {
				return false
			}
		}
	}
	return true
}

// timeAbove is the share of a size's GPU-time that long jobs have.
func (p *profile) timeAbove(i int) float64 {
	x, cdf, split := p.Duration.XS, p.fit.cdf[i], p.fit.split
	above, all := 0.0, cdf[0]*x[0]
	for k := 1; k < len(x); k++ {
		density := (cdf[k] - cdf[k-1]) / math.Log(x[k]/x[k-1])
		all += density * (x[k] - x[k-1])
		above += density * max(0, x[k]-max(x[k-1], split))
	}
	return above / all
}

// at is a distribution function at a point between its own.
func at(x, cdf []float64, v float64) float64 {
	for k := 1; k < len(x); k++ {
		if v <= x[k] {
			w := math.Log(max(v, x[k-1])/x[k-1]) / math.Log(x[k]/x[k-1])
			return cdf[k-1] + w*(cdf[k]-cdf[k-1])
		}
	}
	return 1
}

// groupGenerator draws groups of recurring jobs.
type groupGenerator struct {
	*generator
	users shares
	turn  float64 // where the draws of cells stand
	// busiest is the highest rate of a day.
	busiest float64
}

func newGroups(g *generator) *groupGenerator {
	x := &groupGenerator{generator: g, users: g.p.Users.shares(), turn: g.rng.Float64()}
	for d := range g.o.Days {
		x.busiest = max(x.busiest, x.day(d))
	}
	return x
}

// shares spreads activity over users, evenly between two points.
func (u *profileUsers) shares() shares {
	var names []string
	var each []float64
	from, had := 0, 0.0
	for k, top := range u.Top {
		to := max(from+1, int(math.Round(top*float64(u.Count))))
		if k == len(u.Top)-1 {
			to = u.Count
		}
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf("u%04d", i+1))
			share := (u.Share[k] - had) / float64(to-from)
			each = append(each, (1-u.Even)*share+u.Even/float64(u.Count))
		}
		from, had = to, u.Share[k]
	}
	return sharesOf(names, each)
}

// golden is the golden ratio's fractional part: steps of it around a circle
// spread most evenly.
const golden = 0.6180339887498949

// group draws one group and adds its jobs.
func (x *groupGenerator) group() {
	g, p := x.generator, x.p
	// The draws of size and duration are spread evenly rather than at random, so
	// that short traces resemble the published one as well.
	x.turn += golden
	x.turn -= math.Floor(x.turn)
	c := &p.fit.cells[pick(p.fit.cum, x.turn)]
	s := &p.Sizes[c.size]
	jobs := 1 + pick(c.jobs, g.rng.Float64())
	ln := math.Log(p.Duration.XS[c.point])
	if c.point > 0 {
		below := math.Log(p.Duration.XS[c.point-1])
		ln = below + g.rng.Float64()*(ln-below)
	}
	user := pick(x.users.cum, g.rng.Float64())
	hour := pick(g.slots, g.rng.Float64())
	g.serial++
	g.idle++
	milli := workload.MilliGPU(math.Round(s.GPUs * 1000))
	if total := g.o.Cluster.TotalGPUs(); total > 0 && milli.Whole() > total {
		return
	}
	if g.o.MaxDuration > 0 && ln > math.Log(g.o.MaxDuration.Seconds()) {
		return
	}
	job := workload.Job{User: x.users.names[user], Tenant: "vc-" + strconv.Itoa(1+user%p.Tenants), GPUs: milli}
	job.Key = workload.KeyOf(job.User, int64(milli), g.serial)
	for jobs > 0 && !g.done() {
		burst := min(jobs, 1+int(g.rng.ExpFloat64()*(p.Groups.Burst-.5)))
		jobs -= burst
		x.burst(job, hour, burst, ln, c.size)
		hour = x.again(hour)
	}
}

// burst adds jobs that come in one go.
func (x *groupGenerator) burst(job workload.Job, hour, jobs int, ln float64, size int) {
	g := x.generator
	end := time.Duration(g.o.Days) * 24 * time.Hour
	at := time.Duration(hour)*time.Hour + time.Duration(g.rng.IntN(3600))*time.Second
	for range jobs {
		if at >= end || g.done() {
			return
		}
		if d, ok := g.duration(ln, g.p.Groups.LnSD); ok {
			job.Submit, job.Duration = at, time.Duration(d)*time.Second
			mix := &g.p.fit.short[size]
			if float64(d) >= g.p.fit.split {
				mix = &g.p.fit.long[size]
			}
			job.Status = drawStatus(g.rng, mix)
			g.jobs = append(g.jobs, job)
			g.gpuTime += float64(d) * float64(job.GPUs) / 1000
			g.idle = 0
		}
		gap := math.Min(g.rng.ExpFloat64()*g.p.Groups.GapS, workload.BatchGap.Seconds())
		at += time.Duration(math.Floor(gap)) * time.Second
	}
}

// again is the hour of a group's next burst: some days on from an earlier one
// (from the end it goes on at the begin), at a day and an hour of it as the
// profile has them.
func (x *groupGenerator) again(hour int) int {
	g := x.generator
	day := 0
	for range 100 {
		day = (hour/24 + int(g.rng.ExpFloat64()*g.p.Groups.SpreadDays)) % g.o.Days
		if g.rng.Float64()*x.busiest < x.day(day) {
			break
		}
	}
	low := 0.0
	if day > 0 {
		low = g.slots[day*24-1]
	}
	return pick(g.slots, (low+g.rng.Float64()*x.day(day))/g.slots[len(g.slots)-1])
}

// day is the rate of a day.
func (x *groupGenerator) day(d int) float64 {
	rate := x.slots[d*24+23]
	if d > 0 {
		rate -= x.slots[d*24-1]
	}
	return rate
}

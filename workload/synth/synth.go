// Package synth draws workloads at random that resemble published cluster
// traces. Profiles hold the published statistics, each with its source.
package synth

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// Options configure a workload. The size is given by Jobs, or by Load on a
// Cluster, or by neither: then it is the profile's own rate of jobs.
type Options struct {
	// Profile is the kind of cluster, as in Profiles. Default: philly.
	Profile string
	// Zero is the wall-clock time of instant 0 and the begin of the arrivals; it
	// sets the phase of day and week. Default: Monday 2017-10-09, 00:00 UTC.
	Zero time.Time
	// Days of arrivals, 1 to 3650.
	Days int
	// Jobs is the number of jobs.
	Jobs int
	// Load is the GPU-time asked for over the GPU-time that Cluster has in Days;
	// above 1 jobs must queue. The last job drawn overshoots it.
	Load float64
	// Cluster bounds the width of jobs, also without Load. Default: no bound.
	Cluster workload.Cluster
	// MaxDuration bounds the duration of jobs: longer ones are drawn again.
	// Default: the profile's 60 days.
	MaxDuration time.Duration
	// Seed decides everything else: the same options give the same workload.
	Seed uint64
	// Progress gets the number of jobs drawn, now and then. It may be nil.
	Progress func(jobs int)
}

// synthStep is how many jobs are drawn between looks at the context.
const step = 10_000

// maxSynthJobs bounds a request: about 4 GiB of jobs.
const maxJobs = 20_000_000

// defaultSynthZero is a Monday within the dense part of the Philly trace.
var defaultZero = time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC)

// Profiles are the names of the known profiles, in order.
func Profiles() []string {
	return slices.Clone(profileNames)
}

// Title describes the cluster of a profile in a line, "" if there is none
// of that name.
func Title(name string) string {
	if !slices.Contains(profileNames, name) {
		return ""
	}
	var p struct{ Title string }
	if err := json.Unmarshal(profileText(name), &p); err != nil {
		panic("synth: profile " + name + ": " + err.Error())
	}
	return p.Title
}

// Generate draws a workload that resembles a published cluster trace. It is
// labelled synthetic. Batches or bursts of recurring jobs arrive at random with
// the profile's daily and weekly shape; the jobs of a key share user, tenant,
// GPUs and, but for noise, their duration. An error names the option that makes
// no sense.
func Generate(ctx context.Context, o Options) (*workload.Workload, error) {
	p, err := o.check()
	if err != nil {
		return nil, fmt.Errorf("synthesize: %w", err)
	}
	g := newGenerator(p, o)
	draw := g.batch
	if p.Model == "groups" {
		draw = newGroups(g).group
	}
	for reported := 0; !g.done(); {
		draw()
		if len(g.jobs)-reported >= step {
			reported = len(g.jobs)
			if err := context.Cause(ctx); err != nil {
				return nil, fmt.Errorf("synthesize: %w", err)
			}
			if o.Progress != nil {
				o.Progress(reported)
			}
		}
		if g.idle > 10_000 {
			return nil, fmt.Errorf("synthesize: cluster, max duration: no job of profile %s fits %s and %v",
				p.Name, o.Cluster, o.MaxDuration)
		}
		if len(g.jobs) > maxJobs {
			return nil, fmt.Errorf("synthesize: load: takes more than %d jobs", maxJobs)
		}
	}
	workload.SortBySubmit(g.jobs)
	for i := range g.jobs {
		g.jobs[i].ID = p.Name + "-" + padded(i+1)
	}
	return workload.NewSorted(fmt.Sprintf("%s-synthetic-%d", p.Name, o.Seed), g.zero, g.jobs, true), nil
}

// padded is n in at least six digits.
func padded(n int) string {
	s := strconv.Itoa(n)
	return "000000"[:max(0, 6-len(s))] + s
}

func (o *Options) check() (*profile, error) {
	if o.Profile == "" {
		o.Profile = "philly"
	}
	if o.Zero.IsZero() {
		o.Zero = defaultZero
	}
	p := loadProfile(o.Profile)
	switch {
	case p == nil:
		return nil, fmt.Errorf("profile: %q is not known; known are %s", o.Profile, strings.Join(Profiles(), ", "))
	case o.Days < 1 || o.Days > 3650:
		return nil, fmt.Errorf("days: %d is not between 1 and 3650", o.Days)
	case o.Jobs < 0 || o.Jobs > maxJobs:
		return nil, fmt.Errorf("jobs: %d is not between 0 and %d", o.Jobs, maxJobs)
	case o.Jobs > 0 && o.Load != 0:
		return nil, fmt.Errorf("jobs, load: give one of them")
	case math.IsNaN(o.Load) || o.Load < 0 || o.Load > 1000:
		return nil, fmt.Errorf("load: %g is not between 0 and 1000", o.Load)
	case o.MaxDuration < 0 || o.MaxDuration > 0 && o.MaxDuration < time.Minute:
		return nil, fmt.Errorf("max duration: %v is shorter than a minute", o.MaxDuration)
	}
	if o.Load > 0 || o.Cluster.TotalGPUs() != 0 {
		if err := o.Cluster.Validate(); err != nil {
			return nil, err
		}
	}
	if o.Jobs == 0 && o.Load == 0 {
		o.Jobs = int(p.JobsPerDay * float64(o.Days))
	}
	return p, nil
}

// generator draws batches until the workload is large enough. Given their
// number, the arrivals of a Poisson process are independent draws from its
// rate, so batches need not be drawn in order of time.
type generator struct {
	p     *profile
	o     Options
	rng   *rand.Rand
	zero  time.Time
	slots []float64 // cumulative rate of batches by hour since the zero
	// recent are the batches drawn for each day and class, to be run again.
	recent  [][2][]template
	jobs    []workload.Job
	gpuTime float64 // GPU-seconds
	target  float64 // GPU-seconds, 0 if the number of jobs decides
	idle    int     // batches in a row that gave no job
	serial  int64
}

// template has the common properties of a batch's jobs.
type template struct {
	user, tenant, key string
	gpus              int
	lnDuration        float64
}

func newGenerator(p *profile, o Options) *generator {
	// "autosche"
	g := &generator{p: p, o: o, zero: o.Zero.UTC(), rng: rand.New(rand.NewPCG(o.Seed, 0x6175746f73636865))}
	g.slots = make([]float64, o.Days*24)
	g.recent = make([][2][]template, o.Days)
	sum := 0.0
	for i := range g.slots {
		t := g.zero.Add(time.Duration(i) * time.Hour)
		sum += p.Hours[t.Hour()] * p.Days[(int(t.Weekday())+6)%7]
		g.slots[i] = sum
	}
	if o.Load > 0 {
		g.target = o.Load * float64(o.Days*24*3600) * float64(o.Cluster.TotalGPUs())
	} else {
		g.jobs = make([]workload.Job, 0, o.Jobs)
	}
	return g
}

func (g *generator) done() bool {
	if g.target > 0 {
		return g.gpuTime >= g.target
	}
	return len(g.jobs) >= g.o.Jobs
}

// batch draws one batch and adds its jobs.
func (g *generator) batch() {
	hour := pick(g.slots, g.rng.Float64())
	at := time.Duration(hour)*time.Hour + time.Duration(g.rng.IntN(3600))*time.Second
	class := small
	if g.rng.Float64() < g.p.Batches.SweepShare {
		class = sweep
	}
	c := g.p.Batches.classes[class]
	size := int(math.Floor(logInterp(c.Rank, c.Size, g.rng.Float64())))
	t, ok := g.template(class, hour/24)
	if !ok {
		g.idle++
		return
	}
	end := time.Duration(g.o.Days) * 24 * time.Hour
	for i := 0; i < size && at < end && !g.done(); i++ {
		if d, ok := g.duration(t.lnDuration, g.p.Batches.LnSD); ok {
			g.jobs = append(g.jobs, workload.Job{User: t.user, Tenant: t.tenant, Key: t.key, Submit: at,
				Duration: time.Duration(d) * time.Second,
				GPUs:     workload.GPUs(t.gpus), Status: g.status(d)})
			g.gpuTime += float64(d) * float64(t.gpus)
			g.idle = 0
		}
		gap := math.Min(g.rng.ExpFloat64()*c.GapS, workload.BatchGap.Seconds())
		at += time.Duration(math.Floor(gap)) * time.Second
	}
	g.idle++
}

// template is a batch run before on the same day, or a new one. ok is false
// if the batch drawn does not fit the bounds.
func (g *generator) template(class, day int) (t template, ok bool) {
	c := g.p.Batches.classes[class]
	old := &g.recent[day][class]
	if len(*old) > 0 && g.rng.Float64() < g.p.Batches.Rerun {
		return (*old)[g.rng.IntN(len(*old))], true
	}
	s := &c.Sizes[pick(c.gpuCum, g.rng.Float64())]
	quantile := g.rng.Float64()
	t.gpus = s.GPUs
	tenants := c.tenants
	if class == small && s.GPUs > 1 {
		tenants = g.p.Batches.wide
	}
	n := pick(tenants.cum, g.rng.Float64())
	u := g.rng.Float64()
	t.tenant = tenants.names[n]
	t.user = fmt.Sprintf("%s-u%02d", t.tenant, 1+int(u*u*usersPerTenant)) // few users submit most
	t.lnDuration = g.p.Duration.ln(s.Odds, quantile)
	g.serial++
	t.key = workload.KeyOf(t.user, int64(t.gpus), g.serial)
	if total := g.o.Cluster.TotalGPUs(); total > 0 && t.gpus > total {
		return t, false
	}
	if t.lnDuration > c.lnMax || g.o.MaxDuration > 0 && t.lnDuration > math.Log(g.o.MaxDuration.Seconds()) {
		return t, false
	}
	*old = append(*old, t)
	return t, true
}

// duration draws whole seconds around a batch's. Rounding hides differences of
// the last bit between machines.
func (g *generator) duration(ln, sd float64) (int64, bool) {
	longest := g.p.Duration.LongestS
	if g.o.MaxDuration > 0 {
		longest = math.Min(longest, math.Floor(g.o.MaxDuration.Seconds()))
	}
	for range 8 {
		noise := g.rng.NormFloat64() * sd
		// The mean of exp(noise) is exp(sd^2/2): take it out.
		d := math.Round(math.Exp(ln + noise - sd*sd/2))
		if d <= longest {
			return int64(math.Max(1, d)), true
		}
	}
	return 0, false
}

func (g *generator) status(seconds int64) workload.Status {
	mix := g.p.Status.Short
	if float64(seconds) >= g.p.Status.SplitS {
		mix = g.p.Status.Long
	}
	return drawStatus(g.rng, mix)
}

func drawStatus(rng *rand.Rand, mix *[2]float64) workload.Status {
	switch u := rng.Float64(); {
	case u < mix[0]:
		return workload.Completed
	case u < mix[0]+mix[1]:
		return workload.Cancelled
	}
	return workload.Failed
}

// pick returns the first index whose cumulative weight exceeds u of the whole.
func pick(cum []float64, u float64) int {
	x := u * cum[len(cum)-1]
	i := sort.Search(len(cum), func(i int) bool { return cum[i] > x })
	return min(i, len(cum)-1)
}

// logInterp reads a curve at rank u, linear in ln(value) between its points.
func logInterp(rank, value []float64, u float64) float64 {
	i := sort.SearchFloat64s(rank, u)
	if i == 0 {
		return value[0]
	}
	if i == len(rank) {
		return value[len(value)-1]
	}
	w := (u - rank[i-1]) / (rank[i] - rank[i-1])
	return math.Exp(math.Log(value[i-1]) + w*math.Log(value[i]/value[i-1]))
}

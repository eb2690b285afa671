package inject

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// distributions are every fifth percentile of measurements on GPUs of four clusters. The distributions of
// Philly and PAI and of Acme's Seren and Kalos are the points behind the figures of Hu et al.,
// NSDI 2024, from the repository InternLM/AcmeTrace, CC-BY-4.0.
//
//go:embed distributions.csv
var distributions []byte

const (
	points     = 21
	totalMiB   = 81_920 // of an A100
	idleWatts  = 61     // the lowest twentieth of Seren's and Kalos's GPUs
	clockMHz   = 1410   // of an A100's applications
	highMemory = .85    // at most this much is in use where no pattern is injected
)

// curve is a distribution by its percentiles.
type curve [points]float64

func (c *curve) at(q float64) float64 {
	x := min(max(q, 0), 1) * (points - 1)
	i := min(int(x), points-2)
	return c[i] + (x-float64(i))*(c[i+1]-c[i])
}

// curves are the distributions of a cluster's GPUs.
type curves struct {
	busy   curve // of the GPUs that work: 0 to 1
	memory curve // of the GPUs that are held: 0 to 1
	power  curve // W
	sm     bool  // busy is the SMs' activity, otherwise the utilisation
}

// least is the share from which a GPU counts as one that works: published distributions include
// GPUs that no job holds.
const least = .2

func readCurves(cluster string) (*curves, error) {
	tables := map[string]*curve{}
	lines := bufio.NewScanner(bytes.NewReader(distributions))
	for lines.Scan() {
		f := strings.Split(lines.Text(), ",")
		p, err := strconv.Atoi(f[3])
		if err != nil {
			continue // the heading
		}
		v, _ := strconv.ParseFloat(f[4], 64)
		key := f[0] + " " + f[1]
		if tables[key] == nil {
			tables[key] = &curve{}
		}
		tables[key][p/5] = v
	}
	util := tables[cluster+" gpu_util"]
	if util == nil {
		return nil, fmt.Errorf("curves: %q is not one of kalos, pai, philly, seren", cluster)
	}
	c := &curves{}
	if sm := tables[cluster+" sm_active"]; sm != nil {
		util, c.sm = sm, true
	}
	other := cluster
	if tables[other+" gpu_memory"] == nil {
		other = "seren" // Philly's and PAI's are not published
	}
	c.busy = util.above(100*least, 100)
	c.memory = tables[other+" gpu_memory"].above(2, 100)
	c.power = tables[other+" gpu_power"].above(1.5*idleWatts, 1)
	return c, nil
}

// above is the part of a distribution above a value, over a unit.
func (c *curve) above(least, unit float64) (out curve) {
	from := 0.
	for from < 1 && c.at(from) < least {
		from += .005
	}
	for i := range out {
		out[i] = c.at(from+(1-from)*float64(i)/(points-1)) / unit
	}
	return out
}

// profile is how a job uses its GPUs.
type profile struct {
	kind   kind
	level  float64 // percentile of its mean use, or the use itself
	memory float64 // share in use
	// Every so often use falls for a time, to write a checkpoint or to read data.
	every, dip, phase time.Duration
	gap               [2]time.Duration // without samples
}

type kind uint8

const (
	training  kind = iota
	small          // little use by design, above the rules' thresholds
	notebook       // minutes of work between pauses
	inference      // little use with bursts
)

// use is the utilisation of a job's GPU, given the state x of its noise.
func (p *profile) use(c *curves, t time.Duration, x float64, r *rand.Rand) float64 {
	switch p.kind {
	case small:
		return max(p.level+.02*x, 0)
	case notebook:
		if int((t+p.phase)/(6*time.Minute))%3 == 0 {
			return max(p.level+.1*x, .1)
		}
		return 0
	case inference:
		if r.Float64() < .04 {
			return between(r, .17, .33)
		}
		return max(p.level+.01*x, 0)
	}
	if p.every > 0 && (t+p.phase)%p.every < p.dip {
		return .04 * r.Float64()
	}
	return c.busy.at(p.level + .07*x)
}

// effect changes the samples of a run, or of one of its GPUs.
type effect struct {
	what     what
	from, to time.Duration
	use      float64
	n        int           // GPUs that idle, or minutes of ten
	gpu      int           // the only one concerned, -1 for all
	watts    float64       // above idle
	every    time.Duration // period of the effect
	clock    float64       // ratio to the application clock
	bit      uint64
	shape    shaping
}

type what uint8

const (
	low      what = iota // use of all GPUs is low
	partly               // n of the GPUs idle
	idle                 // no GPU works
	pulsed               // idle, but for a minute every so often
	thinned              // idle, with samples missing
	quiet                // hardly any use
	gone                 // its process has ended
	silent               // no samples
	full                 // memory
	throttle             // clocks are held down in n of ten minutes
	shaped               // as a function says
)

// seat is a job's hold on a GPU.
type seat struct {
	run  *run
	gpu  int // of the job
	x    float64
	rand *rand.Rand
}

// maintenance is a time in which a node measures nothing.
type maintenance struct {
	node     int
	from, to time.Duration
}

// generator makes the samples of a stream.
type generator struct {
	s       *Stream
	seats   []seat // by GPU
	idle    *rand.Rand
	next    int // run to start
	sample  telemetry.GPUSample
	row     telemetry.Iteration
	decay   float64
	innov   float64
	epoch   time.Duration
	tracked []*run
}

func newGenerator(s *Stream) *generator {
	g := &generator{s: s, seats: make([]seat, s.Cluster.Groups[0].Nodes*s.perNode), idle: s.stream("idle GPU"),
		epoch: s.epoch(0)}
	// First-order autoregression, with the correlation of samples 15 s apart.
	correlation := .9
	if s.varied {
		correlation = .7
	}
	g.decay = math.Pow(correlation, s.Period.Seconds()/15)
	g.innov = math.Sqrt(1 - g.decay*g.decay)
	for _, r := range s.runs {
		if r.steps != nil {
			g.tracked = append(g.tracked, r)
		}
	}
	return g
}

// tick makes the samples of an instant.
func (g *generator) tick(t time.Duration, yield func(Record) bool) bool {
	s := g.s
	for i := range g.seats {
		if r := g.seats[i].run; r != nil && r.end <= t {
			g.seats[i] = seat{}
		}
	}
	for ; g.next < len(s.runs) && s.runs[g.next].start <= t; g.next++ {
		r := s.runs[g.next]
		if r.end <= t {
			continue
		}
		for i, at := range r.at {
			rand := s.stream("GPU", uint64(r.index), uint64(i))
			g.seats[at] = seat{run: r, gpu: i, x: rand.NormFloat64(), rand: rand}
		}
	}
	if (t-s.From)%time.Minute == 0 {
		for _, r := range g.tracked {
			if r.start < t && t < r.end && !g.rows(r, t, yield) {
				return false
			}
		}
	}
	for at := range g.seats {
		if g.read(at, t) && !yield(Record{At: t, GPU: &g.sample}) {
			return false
		}
	}
	return true
}

// read takes a sample of a GPU; false if there is none.
func (g *generator) read(at int, t time.Duration) bool {
	s := g.s
	node := at / s.perNode
	for _, m := range s.dark {
		if m.node == node && m.from <= t && t < m.to {
			return false
		}
	}
	d := &g.sample
	*d = telemetry.GPUSample{GPU: telemetry.GPU{Node: s.Nodes[node], Index: at % s.perNode, Instance: -1},
		Time: g.epoch + t, MemoryTotal: totalMiB, SMClock: clockMHz, ApplicationClock: clockMHz,
		Known: telemetry.Utilization | telemetry.MemoryUsed | telemetry.MemoryTotal | telemetry.Power |
			telemetry.SMClock | telemetry.ApplicationClock | telemetry.Throttle | telemetry.Processes}
	if s.curves.sm {
		d.Known |= telemetry.SMActive
	}
	h := &g.seats[at]
	r := h.run
	if r == nil {
		d.Power, d.SMClock, d.Throttle = idleWatts+g.idle.NormFloat64(), 210, telemetry.ThrottleIdle
		return true
	}
	h.x = g.decay*h.x + g.innov*h.rand.NormFloat64()
	p := &r.prof
	if p.gap[0] <= t && t < p.gap[1] {
		return false
	}
	d.Job, d.Processes = r.job.ID, 1
	u := p.use(s.curves, t-r.start, h.x, h.rand)
	if t-r.start < 4*time.Minute {
		u *= .3 // the job reads its data
	}
	memory, watts := p.memory, -1.
	for i := range r.effects {
		e := &r.effects[i]
		if t < e.from || t >= e.to || e.gpu >= 0 && e.gpu != h.gpu {
			continue
		}
		switch e.what {
		case low:
			u = max(e.use+.012*h.x, .012)
		case partly:
			if h.gpu < e.n {
				u = 0
			}
		case idle, pulsed, thinned:
			u, watts = e.use*h.rand.Float64(), e.watts
			into := t - e.from
			if e.what == pulsed && into%e.every >= e.every-time.Minute {
				u = between(h.rand, .012, .05)
			}
			if e.what == thinned && into%(10*time.Minute) < e.every {
				return false
			}
			if e.n == 0 {
				d.Processes, memory = 0, 0
			}
		case quiet:
			u = e.use * between(h.rand, .8, 1)
		case gone:
			u, memory, d.Processes = 0, 0, 0
		case silent:
			return false
		case full:
			memory = e.use
		case throttle:
			d.SMClock = e.clock * clockMHz
			if int((t-e.from)/time.Minute)%10 < e.n {
				d.Throttle = e.bit
			}
		case shaped:
			v := reading{use: u, memory: memory, watts: watts}
			if e.shape(t-e.from, h, d, &v); v.lost {
				return false
			}
			u, memory, watts = v.use, v.memory, v.watts
		}
	}
	g.fill(u, memory, watts, h)
	return true
}

// fill sets the quantities that follow from the use and the memory. Power above idle is drawn
// where it is not given.
func (g *generator) fill(u, memory, watts float64, h *seat) {
	d, c := &g.sample, g.s.curves
	d.MemoryUsed = memory * totalMiB
	if watts < 0 {
		watts = 30
		if u > 0 {
			watts = max(watts, c.power.at(u)-idleWatts)
		}
	}
	d.Power = idleWatts + watts + .3*h.x
	u = min(u, 1)
	if c.sm {
		d.SMActive = u
		d.Utilization = 100 * min(1, 2.2*u) // it saturates
		return
	}
	d.Utilization = 100 * u
}

package patterns

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// spiral finds queues that grow though they need not: waits that rise while less arrives and GPUs
// are free, or pending GPUs that rise while less arrives than is served.
type spiral struct {
	passive
	r     *compiled
	pools map[string]*spiralPool
}

// interval has the flow of a queue in one interval.
type interval struct {
	at               time.Duration
	wait             time.Duration // median of the jobs that started, or that wait where hardly any did
	longest          time.Duration
	waited           bool
	arrived, served  float64
	guessed          float64 // of arrived
	arrivalsKnown    bool
	free             float64 // mean share
	freeKnown        bool
	pending, reserve float64 // mean pending and free GPUs
}

type spiralPool struct {
	intervals            []interval
	began                time.Duration
	free, pending, spare float64
	freeN, pendingN      int
	clear                int
}

func newSpiral(r *compiled) detector { return &spiral{r: r, pools: map[string]*spiralPool{}} }

func (d *spiral) tick(s *Scanner) {
	length := time.Duration(d.r.param("interval_minutes") * float64(time.Minute))
	for _, p := range s.cluster.Pools {
		if !p.Used || p.Name == cluster.AllJobs && s.cluster.Split() {
			continue
		}
		x := d.pools[p.Name]
		if x == nil {
			if len(d.pools) >= s.o.Cap {
				s.cluster.Drop(d.r.rule.ID)
				continue
			}
			x = &spiralPool{began: s.now()}
			d.pools[p.Name] = x
			p.Flow = cluster.Flow{Unknown: p.Flow.Unknown}
			continue
		}
		if free, known := p.Free(); known && p.Capacity() > 0 {
			x.free += float64(free) / float64(p.Capacity())
			x.spare += float64(free)
			x.freeN++
		}
		x.pending += float64(p.PendingGPUs())
		x.pendingN++
		if s.now()-x.began < length {
			continue
		}
		one := interval{at: s.now(), arrived: p.Flow.Arrived, guessed: p.Flow.Guessed, served: p.Flow.Served,
			arrivalsKnown: !p.Flow.Unknown,
			freeKnown:     x.freeN > 0, pending: x.pending / float64(max(1, x.pendingN))}
		one.free = x.free / float64(max(1, x.freeN))
		one.reserve = x.spare / float64(max(1, x.freeN))
		least := max(1, int(d.r.param("least_starts")))
		waits := p.Flow.Waits
		if len(waits) < least && p.Flow.Arrived > 0 && s.cluster.Seen.Starts {
			waits = append(waits, s.cluster.WaitedSoFar(p)...) // of jobs that do not start, no wait is known
		}
		if len(waits) >= least {
			slices.Sort(waits)
			one.wait, one.longest, one.waited = waits[len(waits)/2], waits[len(waits)-1], true
		}
		p.Flow = cluster.Flow{Waits: waits[:0]}
		*x = spiralPool{intervals: append(x.intervals, one), began: s.now(), clear: x.clear}
		most := max(int(d.r.param("trend_intervals")), int(d.r.param("times"))+1)
		if n := len(x.intervals); n > most {
			x.intervals = slices.Delete(x.intervals, 0, n-most)
		}
		d.judge(s, p, x)
	}
}

func (d *spiral) judge(s *Scanner, p *cluster.Pool, x *spiralPool) {
	e := Entity{"queue", p.Name}
	evidence, began, margin, ok := d.waitsRise(s, x.intervals)
	if !ok {
		evidence, began, margin, ok = d.pendingRises(s, p, x.intervals)
	}
	last := &x.intervals[len(x.intervals)-1]
	if ok {
		x.clear = 0
		s.found(d.r, began, Finding{Entity: e, Evidence: evidence, Confidence: min(.95, .6+.35*margin)},
			min(last.reserve, last.pending))
		return
	}
	if o := d.r.open[e]; o != nil {
		o.rate = min(last.reserve, last.pending)
		if x.clear++; x.clear >= int(d.r.param("clear_intervals")) {
			s.closeFinding(d.r, e, s.now())
			x.clear = 0
		}
	}
}

// waitsRise reports whether the median wait grew several times running while arrivals did not
// and GPUs were free.
func (d *spiral) waitsRise(s *Scanner, list []interval) (out []Evidence, began time.Duration, margin float64, ok bool) {
	times := max(1, int(d.r.param("times")))
	if len(list) <= times {
		return nil, 0, 0, false
	}
	earlier := list[:len(list)-times-1]
	list = list[len(list)-times-1:]
	least := time.Duration(d.r.param("least_wait_minutes") * float64(time.Minute))
	growth, free, arrivals, step := math.Inf(1), 1., 1., 0.
	for i := range list {
		b := &list[i]
		if i == 0 {
			if !b.waited {
				return nil, 0, 0, false
			}
			continue
		}
		a := &list[i-1]
		if !b.waited || !b.freeKnown || !b.arrivalsKnown || !a.arrivalsKnown {
			return nil, 0, 0, false
		}
		growth = min(growth, float64(max(least, b.wait))/float64(max(least, a.wait)))
		free = min(free, b.free)
		if b.arrived > 0 {
			step = max(step, b.arrived/max(a.arrived, 1e-9))
		}
	}
	if first, last := list[0].arrived, list[times].arrived; last > 0 { // single intervals are noisy
		arrivals = math.Pow(last/max(first, 1e-9), 1/float64(times))
	}
	most := d.r.param("arrival_step")
	if most == 0 {
		most = d.r.param("arrival_growth")
	}
	if !(growth > d.r.param("wait_growth") && free > d.r.param("free_share") &&
		arrivals < d.r.param("arrival_growth") && step < most) {
		return nil, 0, 0, false
	}
	usual, known := usualLongest(earlier)
	if known && !(float64(list[times].wait) > d.r.param("usual")*float64(usual)) {
		return nil, 0, 0, false
	}
	from, to := list[0].at, list[times].at
	return []Evidence{
		{What: fmt.Sprintf("least growth of the median wait, %d times running", times), Value: growth,
			Threshold: d.r.param("wait_growth"), Unit: "x", From: s.at(from), To: s.at(to)},
		{What: "median wait", Value: list[times].wait.Minutes(), Threshold: list[0].wait.Minutes(), Unit: "min",
			From: s.at(from), To: s.at(to)},
		{What: "mean growth of arriving GPU-hours", Value: arrivals, Threshold: d.r.param("arrival_growth"), Unit: "x",
			From: s.at(from), To: s.at(to)},
		{What: "least share of free GPUs", Value: free, Threshold: d.r.param("free_share"), From: s.at(from),
			To: s.at(to)},
	}, from, growth/d.r.param("wait_growth") - 1, true
}

// usualLongest is the median over intervals of the longest wait of each, where there are enough of
// them. Waits that go up and down below it are no spiral.
func usualLongest(list []interval) (time.Duration, bool) {
	var longest []time.Duration
	for i := range list {
		if list[i].waited {
			longest = append(longest, list[i].longest)
		}
	}
	if len(longest) < 4 {
		return 0, false
	}
	slices.Sort(longest)
	return longest[len(longest)/2], true
}

// mostGuessed bounds the guessed share of arriving work that is compared with the served work.
const mostGuessed = .1

// pendingRises reports whether pending GPUs rise while less work arrives than is served.
func (d *spiral) pendingRises(s *Scanner, p *cluster.Pool, list []interval) (out []Evidence, began time.Duration,
	margin float64, ok bool) {
	n := int(d.r.param("trend_intervals"))
	if n < 4 || len(list) < n {
		return nil, 0, 0, false
	}
	list = list[len(list)-n:]
	pending := make([]float64, n)
	arrived, guessed, served, free, freeKnown := 0., 0., 0., 1., true
	for i := range list {
		if !list[i].arrivalsKnown {
			return nil, 0, 0, false
		}
		pending[i] = list[i].pending
		arrived += list[i].arrived
		served += list[i].served
		guessed += list[i].guessed
		if i >= n-max(1, int(d.r.param("times"))) {
			free, freeKnown = min(free, list[i].free), freeKnown && list[i].freeKnown
		}
	}
	least := d.r.param("least_pending_share") * float64(p.Capacity())
	p1 := mannKendall(pending)
	if p.Capacity() == 0 || arrived >= served || pending[n-1] < least || p1 >= d.r.param("p") {
		return nil, 0, 0, false
	}
	// Guesses are too low while long jobs run: then free GPUs have to show that it is not the load.
	if guessed > mostGuessed*arrived && !(freeKnown && free > d.r.param("free_share")) {
		return nil, 0, 0, false
	}
	from, to := list[0].at, list[n-1].at
	return []Evidence{
		{What: "arriving GPU-hours", Value: arrived, Threshold: served, Unit: "GPU-hours, of served ones",
			From: s.at(from), To: s.at(to)},
		{What: "one-sided Mann-Kendall p of rising pending GPUs", Value: p1, Threshold: d.r.param("p"),
			From: s.at(from), To: s.at(to)},
		{What: "pending GPUs", Value: pending[n-1], Threshold: pending[0], Unit: "GPUs", From: s.at(from),
			To: s.at(to)},
	}, from, 1 - p1/d.r.param("p"), true
}

// mannKendall is the one-sided p-value of a rising trend, by the normal approximation with
// correction for ties and continuity.
func mannKendall(x []float64) float64 {
	n := len(x)
	s := 0
	ties := map[float64]int{}
	for i := range x {
		ties[x[i]]++
		for k := range i {
			switch {
			case x[i] > x[k]:
				s++
			case x[i] < x[k]:
				s--
			}
		}
	}
	v := float64(n * (n - 1) * (2*n + 5))
	for _, t := range ties {
		v -= float64(t * (t - 1) * (2*t + 5))
	}
	v /= 18
	if v <= 0 || s <= 0 {
		return 1
	}
	return math.Erfc(float64(s-1)/math.Sqrt(v)/math.Sqrt2) / 2
}

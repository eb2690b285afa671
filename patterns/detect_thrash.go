package patterns

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// thrash finds preemptions that undo each other.
type thrash struct {
	passive
	r         *compiled
	stops     []stop
	evictions []eviction
	config    string
	applied   time.Duration
}

// stop is a preemption of a job.
type stop struct {
	at       time.Duration
	job      string
	tenant   string
	gpuHours float64
	nodes    []string
	taken    bool // by a job that started
}

// eviction is a stop whose GPUs another tenant's job took.
type eviction struct {
	at       time.Duration
	from, to string // tenants
	gpuHours float64
	preempts *cluster.Job
	started  time.Duration
	ran      float64 // GPU-hours of the preemptor in the window after, once it is over or it ended
	settled  bool
}

// sameMoment is how long after a preemption a start on its nodes is its cause.
const sameMoment = time.Minute

func newThrash(r *compiled) detector { return &thrash{r: r} }

func (d *thrash) window() time.Duration {
	return time.Duration(d.r.param("window_minutes") * float64(time.Minute))
}

func (d *thrash) fact(s *Scanner, f *cluster.Fact) {
	switch f.Name {
	case "config.applied":
		d.config, d.applied = f.Config, f.At
	case "job.preempted":
		x := stop{at: f.At, job: f.Job.Name, tenant: f.Job.Tenant, gpuHours: f.Ran.Hours() * f.Job.Share}
		for _, n := range f.Nodes {
			x.nodes = append(x.nodes, n.Node)
		}
		if len(d.stops) >= s.o.Cap {
			s.cluster.Drop(d.r.rule.ID)
			return
		}
		d.stops = append(d.stops, x)
		d.judgeNow(s)
	case "job.started", "job.resumed":
		for i := range d.stops {
			x := &d.stops[i]
			if x.taken || x.job == f.Job.Name || f.At-x.at > sameMoment || !x.shares(f) {
				continue
			}
			x.taken = true
			d.evictions = append(d.evictions, eviction{at: f.At, from: x.tenant, to: f.Job.Tenant, gpuHours: x.gpuHours,
				preempts: f.Job, started: f.At})
			d.judgeNow(s)
		}
	}
}

// shares reports whether a job started on a node of the stopped one; where nodes are not known,
// the instant decides.
func (x *stop) shares(f *cluster.Fact) bool {
	if len(x.nodes) == 0 || len(f.Nodes) == 0 {
		return true
	}
	for _, n := range f.Nodes {
		if slices.Contains(x.nodes, n.Node) {
			return true
		}
	}
	return false
}

func (d *thrash) jobEnded(_ *Scanner, j *cluster.Job, at time.Duration) {
	for i := range d.evictions {
		if e := &d.evictions[i]; e.preempts == j {
			e.ran = j.Share * (min(at, e.started+d.window()) - e.started).Hours()
			e.preempts, e.settled = nil, true
		}
	}
}

func (d *thrash) tick(s *Scanner) {
	w := d.window()
	e := Entity{"cluster", cluster.AllJobs}
	if o := d.r.open[e]; o != nil && s.now()-o.matched > w {
		s.closeFinding(d.r, e, s.now())
	}
	if len(d.stops)+len(d.evictions) == 0 {
		return
	}
	for i := range d.evictions {
		if e := &d.evictions[i]; !e.settled && s.now()-e.started >= w {
			e.ran = e.preempts.Share * w.Hours()
			e.preempts, e.settled = nil, true
		}
	}
	d.judge(s)
	d.stops = slices.DeleteFunc(d.stops, func(x stop) bool { return x.at < s.now()-w })
	d.evictions = slices.DeleteFunc(d.evictions, func(e eviction) bool { return e.at < s.now()-2*w })
}

// fewStops is up to how many stops in a window each is judged at once, and not at the next tick.
const fewStops = 100

func (d *thrash) judgeNow(s *Scanner) {
	if len(d.stops) <= fewStops {
		d.judge(s)
	}
}

func (d *thrash) judge(s *Scanner) {
	w := d.window()
	counts := map[string]int{}
	var evidence []Evidence
	began, lost, margin := s.now(), 0., 0.
	for _, x := range d.stops {
		if x.at < s.now()-w {
			continue
		}
		lost += x.gpuHours
		began = min(began, x.at)
		counts[x.job]++
		if n := counts[x.job]; float64(n) == d.r.param("stops") {
			evidence = append(evidence, Evidence{What: "stops of job " + x.job, Value: float64(n),
				Threshold: d.r.param("stops"), From: s.at(s.now() - w), To: s.at(s.now())})
		}
	}
	mutual := time.Duration(d.r.param("mutual_minutes") * float64(time.Minute))
	for i, a := range d.evictions {
		for k := i - 1; k >= 0 && a.at-d.evictions[k].at <= mutual; k-- {
			b := d.evictions[k]
			if a.from != a.to && a.from == b.to && a.to == b.from && a.at >= s.now()-w {
				what := fmt.Sprintf("minutes until %s and %s stopped each other", b.from, b.to)
				evidence = append(evidence, Evidence{What: what, Value: (a.at - b.at).Minutes(),
					Threshold: mutual.Minutes(), Unit: "min", From: s.at(b.at), To: s.at(a.at)})
				break
			}
		}
	}
	evicted, ran := 0., 0.
	for _, e := range d.evictions {
		if e.settled {
			evicted += e.gpuHours
			ran += e.ran
		}
	}
	if evicted >= d.r.param("least_gpu_hours") && evicted > d.r.param("ratio")*ran {
		evidence = append(evidence, Evidence{What: "evicted GPU-hours, of those that preemptors ran", Value: evicted,
			Threshold: d.r.param("ratio") * ran, Unit: "GPU-hours", From: s.at(s.now() - 2*w), To: s.at(s.now())})
	}
	if len(evidence) == 0 {
		return
	}
	margin = min(.9, .6+.1*float64(len(evidence)))
	f := Finding{Entity: Entity{"cluster", cluster.AllJobs}, Evidence: evidence[:min(8, len(evidence))],
		Confidence: margin}
	if d.config != "" && s.now()-d.applied < hours(d.r.param("rollback_hours")) {
		f.Action = "roll_back"
		f.Words = fmt.Sprintf("Preemptions undo each other since shortly after configuration %s: freeze tuning and roll "+
			"it back.", d.config)
	}
	fresh := d.r.open[f.Entity] == nil
	o := s.found(d.r, began, f, 0)
	if fresh {
		o.WastedGPUHours = lost
	}
}

// regression finds configurations after which guardrails leave their forecast intervals.
type regression struct {
	passive
	r       *compiled
	applied map[string]time.Duration
	windows map[string][]outside // by configuration and guardrail
}

type outside struct {
	at      time.Duration
	is      bool
	value   float64
	low, up float64
}

func newRegression(r *compiled) detector {
	return &regression{r: r, applied: map[string]time.Duration{}, windows: map[string][]outside{}}
}

func (d *regression) fact(s *Scanner, f *cluster.Fact) {
	if f.Name == "config.applied" && f.Config != "" && len(d.applied) < s.o.Cap {
		d.applied[f.Config] = f.At
	}
}

func (d *regression) guardrail(s *Scanner, g *Guardrail, at time.Duration) {
	since, known := d.applied[g.Revision]
	if !known && g.Applied != 0 && len(d.applied) < s.o.Cap {
		since, known = g.Applied-s.zeroUnix(), true
		d.applied[g.Revision] = since
	}
	if !known || at-since > hours(d.r.param("within_hours")) || at < since {
		return
	}
	key := g.Revision + "\x00" + g.Name
	list := d.windows[key]
	if n := len(list); n > 0 && list[n-1].at == at {
		return // it came twice
	}
	list = append(list, outside{at: at, is: !g.DemandOutside && (g.Value < g.Low || g.Value > g.High),
		value: g.Value, low: g.Low, up: g.High})
	if n := max(1, int(d.r.param("windows"))); len(list) > n {
		list = list[len(list)-n:]
	}
	d.windows[key] = list
	n := 0
	var last outside
	for _, w := range list {
		if w.is {
			n++
			last = w
		}
	}
	e := Entity{"config_version", g.Revision}
	if float64(n) < d.r.param("outside") {
		return
	}
	limit := last.up
	if last.value < last.low {
		limit = last.low
	}
	s.found(d.r, list[0].at-time.Hour, Finding{Entity: e, Confidence: min(.95, .5+.15*float64(n)),
		Evidence: []Evidence{
			{What: g.Name + " outside its forecast interval", Value: float64(n), Threshold: d.r.param("outside"),
				Unit: fmt.Sprintf("of %d hours", len(list)), From: s.at(list[0].at - time.Hour), To: s.at(at)},
			{What: g.Name, Value: last.value, Threshold: limit, From: s.at(last.at - time.Hour), To: s.at(last.at)}}},
		0)
}

func (d *regression) tick(s *Scanner) {
	if len(d.applied) == 0 {
		return
	}
	for _, rev := range slices.Sorted(maps.Keys(d.applied)) {
		if s.now()-d.applied[rev] > hours(d.r.param("within_hours"))+time.Hour {
			s.closeFinding(d.r, Entity{"config_version", rev}, s.now())
			delete(d.applied, rev)
			for key := range d.windows {
				if len(key) > len(rev) && key[:len(rev)] == rev && key[len(rev)] == 0 {
					delete(d.windows, key)
				}
			}
		}
	}
}

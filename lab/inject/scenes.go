package inject

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/workload"
)

const (
	slot       = 6 * time.Hour // of a queue or of the cluster: has one case at most
	sceneNodes = 8
	sceneGPUs  = 8
)

// scenes adds partitions of scripted jobs, without telemetry of their GPUs.
func (s *Stream) scenes(o *Options) {
	if o.wants("queue_spiral") {
		for i := range 3 {
			s.steadyQueue(o, "queue"+strconv.Itoa(i), uint64(i))
		}
	}
	if o.wants("starvation") && s.To-s.From >= 40*time.Hour {
		for i := range 3 {
			s.wideJobs(o, "wide"+strconv.Itoa(i), uint64(i))
		}
	}
	if o.wants("fragmentation") {
		for i := range 3 {
			s.fragmented(o, "mixed"+strconv.Itoa(i), uint64(i))
		}
	}
	if o.wants("preemption_thrash") {
		s.preempting(o)
	}
	if o.wants("config_regression") {
		s.configured(o)
	}
}

// slots are the times of a window that can have a case each.
func (s *Stream) slots() int { return int((s.To - s.From) / slot) }

// scene is the output of a script.
type scene struct {
	s      *Stream
	name   string
	events []workload.Event
	first  int // node
}

func (s *Stream) newScene(name string, nodes int) *scene {
	s.scripted[name] = true
	return &scene{s: s, name: name, first: s.addNodes(name, nodes, sceneGPUs)}
}

// job adds a job that starts after a wait on nodes of the partition; without nodes it is cancelled
// then, before it starts.
func (c *scene) job(id, tenant string, submit, wait, run time.Duration, gpus int, nodes ...int) workload.Job {
	j := workload.Job{ID: c.name + "-" + id, Tenant: tenant, User: tenant, Key: c.name + "-" + id, Submit: submit,
		Duration: run, GPUs: workload.GPUs(gpus), Status: workload.Completed}
	j.Requested = workload.Request{Partition: c.name, TimeLimit: 2 * max(run, 10*time.Minute)}.Shared()
	c.s.scripted[j.ID] = true
	events := []workload.Event{event(workload.Submitted, submit, j, nil)}
	if len(nodes) == 0 {
		j.Status = workload.Cancelled
		events = append(events, event(workload.Finished, submit+wait, j, nil))
	} else {
		var where []workload.NodeShare
		for _, n := range nodes {
			where = append(where, workload.NodeShare{Node: c.s.Nodes[c.first+n], GPUs: gpus / len(nodes)})
		}
		events = append(events, event(workload.Started, submit+wait, j, where),
			event(workload.Finished, submit+wait+run, j, nil))
	}
	for _, e := range events {
		if e.Time < c.s.To {
			c.events = append(c.events, e)
		}
	}
	return j
}

func (c *scene) end(nodes int) { c.s.addEvents(c.name, nodes*sceneGPUs, c.events) }

// surge is a time in which waits grow by a factor in every quarter of an hour.
type surge struct {
	from, to time.Duration
	growth   float64
	arrivals float64 // factor on arrivals in every quarter of an hour
	// steady says that waits grow by the same time in every quarter of an hour, to begin with by growth.
	steady bool
}

const quarter = 15 * time.Minute

// usual is how long jobs of a steady queue wait.
const usual = 75 * time.Second

// start is when a job submitted at an instant starts. Waits are of the jobs that start at an
// instant, and jobs start in order of submission.
func (g *surge) start(submit time.Duration) time.Duration {
	wait := func(at time.Duration) time.Duration {
		if g == nil || at < g.from || submit >= g.to {
			return usual
		}
		quarters := float64(min(at, g.to)-g.from) / float64(quarter)
		if g.steady {
			return time.Duration(float64(usual) * (1 + (g.growth-1)*quarters))
		}
		return time.Duration(float64(usual) * math.Pow(g.growth, quarters))
	}
	lo, hi := submit, submit+2*time.Hour
	for hi-lo > time.Second {
		if mid := (lo + hi) / 2; mid-wait(mid) < submit {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// steadyQueue has jobs of one GPU at equal intervals and free GPUs at any time. In a spiral the
// waits grow, though no more jobs arrive.
func (s *Stream) steadyQueue(o *Options, name string, n uint64) {
	x := s.stream("queue", n)
	c := s.newScene(name, sceneNodes)
	surges := make([]*surge, s.slots())
	for i := range surges {
		from := s.From + time.Duration(i)*slot + span(x, 90*time.Minute, 3*time.Hour)
		near := x.IntN(2) == 0
		g := &surge{from: from, growth: between(x, 1.58, 1.7), arrivals: 1}
		length := span(x, 75*time.Minute, 80*time.Minute)
		if near {
			g.growth, length = between(x, 1.28, 1.5), span(x, 78*time.Minute, 90*time.Minute)
		}
		switch p := x.Float64(); {
		case p < o.Prevalence:
			if s.varied && !near {
				g.steady, g.growth = x.IntN(2) == 0, between(x, 1.8, 2.2)
				length = span(x, 75*time.Minute, 100*time.Minute)
			}
			s.label("queue_spiral", name, g.from, g.from+length, near, .5*sceneNodes*sceneGPUs*length.Hours(),
				"fragmentation")
		case p < o.Prevalence+.05: // more jobs arrive, as every day
			g.arrivals, length = between(x, 1.2, 1.3), span(x, 45*time.Minute, time.Hour)
			g.growth = between(x, 1.22, 1.4)
		case p < o.Prevalence+.1: // waits hardly grow
			g.growth, length = between(x, 1.03, 1.1), 2*time.Hour
		case p < o.Prevalence+.15: // for a short time
			length = span(x, 14*time.Minute, 22*time.Minute)
		default:
			continue
		}
		g.to = from + length
		surges[i] = g
	}
	s.Units["queue_spiral"] += len(surges)
	rate := 24. // jobs in a quarter of an hour
	id := 0
	for t := s.From; t < s.To; {
		g := surges[min(int((t-s.From)/slot), len(surges)-1)]
		every := float64(quarter) / rate
		if g != nil && g.from <= t && t < g.to {
			every /= math.Pow(g.arrivals, float64(t-g.from)/float64(quarter))
		}
		gpus, jitter, gap := 1, 6*time.Second, between(x, .97, 1.03)
		if s.varied { // jobs of two sizes, at irregular intervals, that wait for irregular times
			gpus, jitter, gap = 1+id%2, 30*time.Second, between(x, .6, 1.4)
		}
		start := g.start(t) + span(x, 0, jitter)
		c.job(strconv.Itoa(id), "tenant"+strconv.Itoa(id%5), t, start-t, 8*time.Minute, gpus, id%32/8)
		id++
		t += time.Duration(every * gap)
	}
	c.end(sceneNodes)
}

// wideJobs is a partition with jobs that need several nodes beside small ones. At most one of them
// starves: it waits for more than a day, and three times as long as such jobs usually do, while
// later ones get twice its GPU-time.
func (s *Stream) wideJobs(o *Options, name string, n uint64) {
	x := s.stream("wide", n)
	c := s.newScene(name, sceneNodes)
	for i, at := 0, s.From; at < s.To; i, at = i+1, at+3*time.Minute {
		if !s.varied {
			c.job(strconv.Itoa(i), "tenant"+strconv.Itoa(i%5), at, usual, 8*time.Minute, 1, i%8/4)
			continue
		}
		c.job(strconv.Itoa(i), "tenant"+strconv.Itoa(i%5), at+span(x, 0, 2*time.Minute), span(x, 0, 20*time.Minute),
			span(x, 2*time.Minute, 18*time.Minute), 1+x.IntN(2), i%8/4)
	}
	const each = 24
	every := (s.To - s.From) / each
	var waits []float64
	for _, w := range s.waits {
		if 9 <= w.gpus && w.gpus <= 16 {
			waits = append(waits, (w.to - w.from).Hours())
		}
	}
	slices.Sort(waits)
	usual := 0.
	if n := len(waits) + 3*each; len(waits) > n/20 { // of those, the longest twentieth
		usual = waits[len(waits)-1-n/20]
	}
	starving := -1
	if x.Float64() < o.Prevalence*each && usual < 8 {
		starving = x.IntN(each)
	}
	near := x.IntN(2) == 0
	for i := range each {
		submit := s.From + span(x, 0, 2*time.Hour)
		run, gpus, wait := every/2, 16, span(x, 20*time.Minute, 4*time.Hour)
		switch {
		case i == starving && near:
			wait = span(x, 25*time.Hour, 31*time.Hour)
		case i == starving:
			wait = span(x, 32*time.Hour, s.To-s.From-3*time.Hour)
		case i == (starving+1)%each && near:
			wait, gpus = span(x, 17*time.Hour, 23*time.Hour), 24
		case i == (starving+1)%each: // it is passed by less than twice its GPU-time
			wait, gpus, run = span(x, 26*time.Hour, 36*time.Hour), 32, 24*time.Hour
		default: // it runs in its turn
			at := s.From + time.Duration(i)*every + every/4
			wait = min(wait, at-s.From)
			c.job("wide"+strconv.Itoa(i), "wide", at-wait, wait, run, gpus, 2, 3)
			continue
		}
		j := c.job("wide"+strconv.Itoa(i), "wide", submit, wait, run, gpus)
		if i == starving {
			s.label("starvation", j.ID, submit+24*time.Hour, submit+wait, near, 0, "fragmentation")
		}
	}
	s.Units["starvation"] += each
	c.end(sceneNodes)
}

// fragmented is a partition whose nodes all have a few free GPUs, three unless it is varied. A gang
// of a node waits at times.
func (s *Stream) fragmented(o *Options, name string, n uint64) {
	x := s.stream("fragmented", n)
	c := s.newScene(name, sceneNodes)
	free := 0
	for node := range sceneNodes {
		held := 5
		if s.varied {
			held = 4 + x.IntN(4)
		}
		free += sceneGPUs - held
		c.job("long"+strconv.Itoa(node), "long", s.From, time.Second, s.To-s.From, held, node)
	}
	for i := range s.slots() {
		from := s.From + time.Duration(i)*slot + span(x, time.Hour, 3*time.Hour)
		length := span(x, 18*time.Minute, 2*time.Hour)
		near := x.IntN(2) == 0
		if near {
			length = span(x, 13*time.Minute, 16*time.Minute)
		}
		id := strconv.Itoa(i)
		switch p := x.Float64(); {
		case p < o.Prevalence:
			c.job("gang"+id, "gangs", from, length, time.Hour, sceneGPUs)
			if s.varied { // others wait, too, and some for a part of the time
				c.job("more"+id, "gangs", from, length, time.Hour, 5+x.IntN(3))
				c.job("late"+id, "others", from+length/2, length/4, time.Hour, 2*sceneGPUs)
			}
			s.label("fragmentation", name, from, from+length, near, float64(free)*length.Hours(), "queue_spiral")
		case p < o.Prevalence+.06: // for a short time
			c.job("gang"+id, "gangs", from, span(x, 4*time.Minute, 7*time.Minute), time.Hour, sceneGPUs)
		case p < o.Prevalence+.12: // it would fit, and waits for another reason
			c.job("small"+id, "gangs", from, length, time.Hour, 2)
		}
	}
	s.Units["fragmentation"] += s.slots()
	c.end(sceneNodes)
}

// preempting is a partition in which jobs are stopped for others: in a case three times in an
// hour.
func (s *Stream) preempting(o *Options) {
	const name = "preemptible"
	x := s.stream("preempting")
	c := s.newScene(name, 2)
	for i := range s.slots() {
		at := s.From + time.Duration(i)*slot + span(x, 10*time.Minute, time.Hour)
		id := strconv.Itoa(i)
		j := c.job(id, "low", at, time.Minute, 4*time.Hour+30*time.Minute, 4, 0)
		if s.varied {
			s.mutual(c, x, o.Prevalence, j, at)
			continue
		}
		stops, within := 0, time.Duration(0)
		near := x.IntN(2) == 0
		p := x.Float64()
		switch {
		case p < o.Prevalence && near:
			stops, within = 3, span(x, 43*time.Minute, 56*time.Minute)
		case p < o.Prevalence:
			stops, within = 4+x.IntN(4), span(x, 25*time.Minute, 40*time.Minute)
		case p < o.Prevalence+.15:
			stops, within = 2, 30*time.Minute
		case p < o.Prevalence+.3:
			stops, within = 3, span(x, 130*time.Minute, 170*time.Minute)
		}
		if stops == 0 {
			continue
		}
		first := at + 30*time.Minute
		step := within / time.Duration(stops-1)
		for n := range stops {
			t := first + time.Duration(n)*step
			stop := event(workload.Preempted, t, j, nil)
			again := event(workload.Resumed, t+90*time.Second, j,
				[]workload.NodeShare{{Node: s.Nodes[c.first], GPUs: 4}})
			if again.Time < s.To {
				c.events = append(c.events, stop, again)
			}
		}
		if p < o.Prevalence {
			s.label("preemption_thrash", "", first, first+within, near, 0)
		}
	}
	s.Units["preemption_thrash"] = s.slots()
	c.end(2)
}

// mutual lets a job of another tenant stop one, and the first one stop that in turn: in a case
// within half an hour.
func (s *Stream) mutual(c *scene, x *rand.Rand, prevalence float64, j workload.Job, at time.Duration) {
	near := x.IntN(2) == 0
	after := span(x, 4*time.Minute, 18*time.Minute)
	if near {
		after = span(x, 22*time.Minute, 28*time.Minute)
	}
	first := at + 20*time.Minute
	other := j
	other.ID, other.Key, other.Tenant, other.User = j.ID+"-other", j.ID+"-other", "high", "high"
	other.Submit, other.Status = first, workload.Cancelled
	p := x.Float64()
	switch {
	case p < prevalence:
	case p < prevalence+.2: // later
		after = span(x, 34*time.Minute, 50*time.Minute)
	case p < prevalence+.4: // not in turn: it ends
		after = 3 * time.Hour
		other.Status = workload.Completed
	default:
		return
	}
	s.scripted[other.ID] = true
	where := []workload.NodeShare{{Node: s.Nodes[c.first], GPUs: 4}}
	end := event(workload.Finished, first+after, other, nil)
	events := []workload.Event{event(workload.Preempted, first, j, nil),
		event(workload.Submitted, first, other, nil), event(workload.Started, first+20*time.Second, other, where)}
	if other.Status == workload.Cancelled {
		events = append(events, event(workload.Preempted, first+after, other, nil))
		end.Time += time.Minute
	}
	for _, e := range append(events, event(workload.Resumed, first+after+20*time.Second, j, where), end) {
		if e.Time < s.To {
			c.events = append(c.events, e)
		}
	}
	if p < prevalence {
		s.label("preemption_thrash", "", first, first+after, near, 0)
	}
}

// configured applies a configuration in every slot and measures a guardrail every hour after it.
func (s *Stream) configured(o *Options) {
	x := s.stream("configured")
	const low, high = 600., 1000.
	for i := range s.slots() {
		at := s.From + time.Duration(i)*slot + 5*time.Minute
		revision := "r" + strconv.Itoa(i+1)
		s.events = append(s.events, workload.Event{ID: "config/" + revision + "/" + strconv.FormatInt(int64(at), 36),
			Kind: workload.ConfigApplied, Time: at, Revision: revision})
		outside, demand := 0, false
		near := x.IntN(2) == 0
		p := x.Float64()
		switch {
		case p < o.Prevalence && near:
			outside = 3
		case p < o.Prevalence:
			outside = 4 + x.IntN(2)
		case p < o.Prevalence+.15:
			outside = 2
		case p < o.Prevalence+.3:
			outside, demand = 4, true
		}
		late := x.Perm(5)[:outside]
		for h := range 5 {
			g := &patterns.Guardrail{Revision: revision, Name: "p95 wait", Low: low, High: high,
				Value: between(x, low+20, high-20), DemandOutside: demand}
			for _, l := range late {
				if l == h {
					g.Value = high * between(x, 1.1, 2)
					if near {
						g.Value = high * between(x, 1.02, 1.25)
					}
					if s.varied && x.IntN(2) == 0 {
						g.Value = low * between(x, .4, .97)
					}
				}
			}
			t := at + time.Duration(h+1)*time.Hour
			g.Time = s.epoch(t)
			if t < s.To {
				s.discrete = append(s.discrete, Record{At: t, Guardrail: g})
			}
			if s.varied && t < s.To && h%2 == 0 { // another one leaves its interval at times
				more := *g
				more.Name, more.Value = "utilisation", between(x, low, 1.1*high)
				if h > 2 {
					more.Value = low
				}
				s.discrete = append(s.discrete, Record{At: t, Guardrail: &more})
			}
		}
		if p < o.Prevalence {
			s.label("config_regression", revision, at, at+5*time.Hour, near, 0)
		}
	}
	s.Units["config_regression"] = s.slots()
}

package lucid

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// plain is the policy as it is described: every plan looks at every waiting job,
// and each looks at every partner. It remembers nothing from plan to plan.
type plain struct{ *policy }

func (p plain) Plan(plan *simulator.Plan) {
	p.profiler.decide(p.policy, plan)
	share := p.sharing()
	var all []head
	for _, l := range p.queue.lanes {
		for k := range l.list.Len() {
			all = append(all, head{l.list.At(k), l})
		}
	}
	slices.SortFunc(all, func(a, b head) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) })
	closed := map[*lane]bool{}
	for _, x := range all {
		j := x.ID
		if closed[x.lane] || !p.s.QuotaAllows(j) {
			continue
		}
		with := simulator.ID(-1)
		if share && p.eager {
			with = p.search(x)
		}
		started := with < 0 && plan.Start(j)
		if started {
			p.began(j)
			p.offer(j)
		} else if with < 0 && share {
			with = p.search(x)
		}
		if with >= 0 {
			p.withdraw(with)
			plan.Share(j, with)
			p.began(j)
			p.jobs[j].partner, p.jobs[with].partner = with, j
		}
		switch {
		case started || with >= 0:
			x.lane.list.Remove(x.Entry)
			p.queue.total--
		case p.quirks.BlockApart && !share:
			return
		default:
			closed[x.lane] = true
		}
	}
}

// search looks at all partners.
func (p plain) search(x head) simulator.ID {
	best := partner{job: -1}
	for j := range simulator.ID(len(p.jobs)) {
		if !p.jobs[j].offers || p.s.JobDemand(j) != x.lane.partners.width || x.lane.load == unknown {
			continue
		}
		if c := p.partner(j); c.key >= float64(x.Key)/p.factor && p.pairs.fit(x.lane.load, c.load) &&
			p.s.JobMayJoin(x.ID, j) && (best.job < 0 || c.before(&best)) {
			best = c
		}
	}
	return best.job
}

// The memory of searches for places and partners changes no decision.
func TestMemoryChangesNothing(t *testing.T) {
	testshared.Full(t)
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 4 {
			c, w, o := drawRun(t)
			config := drawConfig(t, s)
			quirks := Quirks{BlockApart: rapid.Bool().Draw(t, "block"), PlanOrder: rapid.Bool().Draw(t, "plan order")}
			fast, pairs := tell(t, c, w, o, NewOriginal(config, quirks))
			slow, _ := tell(t, c, w, o, plain{NewOriginal(config, quirks).(*policy)})
			if fast != slow {
				t.Fatalf("%v\ndecides\n%s\nand looking at everything\n%s", config, fast, slow)
			}
			shared += pairs
		}
	})
	if shared == 0 && !testing.Short() {
		t.Error("nobody ever shared GPUs")
	}
}

// tell writes down all that happens in a run, and how often a job began on the
// GPUs of another.
func tell(t *rapid.T, c workload.Cluster, w *workload.Workload, o simulator.Options, p simulator.Policy) (string, int) {
	var sim simulator.Sim
	var log strings.Builder
	pairs := 0
	o.Observer = func(e simulator.Event) {
		fmt.Fprintln(&log, e.Time, e.Kind, e.Job, sim.JobPartner(e.Job), sim.Placement(nil, e.Job))
		if sim.JobPartner(e.Job) >= 0 {
			pairs++
		}
	}
	if err := sim.Start(c, w, p, o); err != nil {
		t.Fatal(err)
	}
	err := sim.Run(context.Background())
	fmt.Fprintln(&log, err, sim.Events(), sim.Outcomes(nil))
	return log.String(), pairs
}

func drawRun(t *rapid.T) (workload.Cluster, *workload.Workload, simulator.Options) {
	c := workload.Uniform(rapid.IntRange(1, 4).Draw(t, "nodes"), 1<<rapid.IntRange(0, 2).Draw(t, "log2"))
	o := simulator.Options{Models: drawModels(t),
		Peer: simulator.Peer{NoRestartCost: rapid.Bool().Draw(t, "free restarts"),
			GuestStaysSlow: rapid.Bool().Draw(t, "slow guests")}}
	if rapid.Bool().Draw(t, "estimates") {
		o.Estimate = func(j *workload.Job) time.Duration { return j.Duration.Round(10 * time.Minute) }
	}
	jobs := drawJobs(t, c, o.Models)
	if rapid.Bool().Draw(t, "quotas") {
		o.Quota = simulator.QuotaStrict
		half := c.TotalGPUs() / 2
		c.VCs = []workload.VC{{Tenant: "a", GPUs: half}}
		for i := range jobs {
			if jobs[i].GPUs.Whole() > c.TotalGPUs()-half {
				jobs[i].Tenant = "a"
			}
		}
	}
	if rapid.Bool().Draw(t, "memory") {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "requests"), 1))
		c.Groups[0].Memory = int64(c.Groups[0].GPUsPerNode) << 32
		for i := range jobs {
			x := jobs[i].Request()
			x.Memory = r.Int64N(int64(jobs[i].GPUs.Whole()) << 32)
			jobs[i].Requested = x.Shared()
		}
	}
	w, err := workload.New("random", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return c, w, o
}

// drawModels draws the default ones, which have few pairs that fit, some of
// which most fit, and some without loads.
func drawModels(t *rapid.T) *simulator.Models {
	m := simulator.DefaultModels()
	switch rapid.IntRange(0, 3).Draw(t, "models") {
	case 1:
		m.Loads, m.Pair = nil, nil
	case 2, 3:
		m.Pair = nil
		for i := range m.Loads {
			m.Loads[i].Util, m.Loads[i].Mem, m.Loads[i].Score = float64(i%5)/5, float64(3000*(i%8)), i%3
		}
	}
	return m
}

// drawJobs draws more than the cluster can take, of few widths.
func drawJobs(t *rapid.T, c workload.Cluster, m *simulator.Models) []workload.Job {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)) // rapid's draws prefer the edges
	jobs := make([]workload.Job, 1+r.IntN(160))
	widest := 1 + r.IntN(4)
	at := time.Duration(0)
	for i := range jobs {
		at += time.Duration(r.IntN(200)) * time.Second
		g := min(1<<r.IntN(widest), c.TotalGPUs())
		jobs[i] = workload.Job{ID: fmt.Sprint(i), Submit: at, Duration: time.Duration(1+r.IntN(9000)) * time.Second,
			GPUs: workload.GPUs(g), Tenant: string(rune('a' + r.IntN(3))), Key: fmt.Sprint(r.IntN(10))}
		if len(m.Loads) > 0 {
			jobs[i].Model = m.Loads[r.IntN(min(8, len(m.Loads)))].Name
		}
		if g > 1 && r.IntN(8) == 0 {
			jobs[i].Members = int32(g)
		}
	}
	return jobs
}

func drawConfig(t *rapid.T, s *space.Space) space.Config {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "configuration"), 1))
	x := make([]float64, s.Dims())
	for i := range x {
		x[i] = r.Float64()
	}
	return s.Decode(x)
}

// Models without loads tell by class the effect of jobs on each other, and models that
// have only speeds of pairs the same for all.
func TestSharingWithoutLoads(t *testing.T) {
	jobs := []workload.Job{ask("a", "vgg16", 0, 1000, 2), ask("b", "vgg16", 10, 500, 2)}
	s, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Parse(s.Default(), alone())
	if err != nil {
		t.Fatal(err)
	}
	models := simulator.DefaultModels()
	models.Loads, models.Pair = nil, nil
	speed := .985 - .368*.5 // two that keep a GPU busy for .75 of the time
	o := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}, Models: models}
	ends(t, play(t, 1, New(config), o, jobs), 10+500/speed+490, 10+500/speed)
	models.Pair = func(int, int) (float64, float64) { return .8, .8 }
	ends(t, play(t, 1, New(config), o, jobs), 10+500/.8+490, 10+500/.8)
	models.Pair = func(int, int) (float64, float64) { return .5, .5 } // no more than in turns
	ends(t, play(t, 1, New(config), o, jobs), 1000, 1500)
}

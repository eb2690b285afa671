package elastic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// curves are gains that fall along a few curves, so that many are equal; with
// bumps, not everywhere.
type curves struct {
	s     *simulator.Sim
	own   bool // each job has gains of its own
	bumps bool
}

func (c *curves) Begin(s *simulator.Sim, _ *rounds.Service) { c.s = s }
func (c *curves) Prepare(int)                               {}
func (c *curves) Steady() bool                              { return false }

func (c *curves) Kind(j simulator.ID) int {
	if c.own {
		return -1
	}
	return c.s.JobGPUs(j)
}

func (c *curves) Stop(j simulator.ID, most int) (int, bool) { return Stop(c, j, most) }

func (c *curves) Gain(j simulator.ID, gpus int) float64 {
	if c.bumps && gpus == 2 {
		return 3
	}
	gain := float64(6 - gpus + c.s.JobGPUs(j)%2)
	if c.own {
		gain += float64(j % 3)
	}
	return gain
}

// falling are gains of each job's own that fall and change with time, some of them
// equal.
type falling struct{ curves }

func (c *falling) Gain(j simulator.ID, gpus int) float64 {
	work := 10 + int(j)%3 + int(c.s.Now()/time.Hour)%(int(j)%4+1)
	return float64(work) / float64(gpus*(gpus+1))
}

func (c *falling) Falls(simulator.ID, int) bool           { return true }
func (c *falling) Rough(j simulator.ID, gpus int) float64 { return c.Gain(j, gpus) * (1 - 1e-10) }

// plain checks each decision of a policy against one that looks at all jobs for
// each GPU.
type plain struct {
	*Policy
	decisions, grown, windows int
	err                       error
}

func (p *plain) targets() []int {
	s, room := p.s, p.s.Room()
	target, open := make([]int, s.Submitted()), []simulator.ID{}
	for j := range s.Submitted() {
		switch until := s.JobSince(j) + time.Duration(p.grid) + s.Models().Restart(s.JobHeld(j)); {
		case !s.JobActive(j) || !s.JobRunning(j):
			continue
		case s.Now() < until:
			target[j] = s.JobHeld(j)
		default:
			target[j] = 1
			open = append(open, j)
		}
		room.Keep(j, target[j])
	}
	for j := range s.Submitted() {
		if s.JobActive(j) && !s.JobRunning(j) && room.Left() > 0 && room.Give(j, 1) {
			target[j] = 1
			open = append(open, j)
		}
	}
	for room.Left() > 0 {
		best, most := -1, 0.0
		for i, j := range open {
			if k := target[j]; k < min(s.JobGPUs(j)*p.maxScale, s.Cluster().TotalGPUs()) {
				if gain := p.chooser.Gain(j, k); gain > most || best >= 0 && gain == most && j < open[best] {
					best, most = i, gain
				}
			}
		}
		if best < 0 {
			break
		}
		if j := open[best]; room.Give(j, 1) {
			target[j]++
			p.grown++
		} else {
			open = append(open[:best], open[best+1:]...)
		}
	}
	return target
}

func (p *plain) Plan(plan *simulator.Plan) {
	if p.s.Active() > 0 && p.err == nil {
		want, quiet := p.targets(), p.quiet
		p.heap = p.heap[:0]
		if p.aim(); p.left == 0 && len(p.heap) > 0 && len(p.heap) < len(p.open)/2 {
			p.windows++ // greedy has offers of all
		}
		for j := range p.s.Submitted() {
			got := 0
			if p.s.JobRunning(j) {
				got = int(p.jobs[j].target)
			}
			for i := range p.given {
				if p.wait.At(i).ID == j {
					got = int(p.jobs[j].target)
				}
			}
			if got != want[j] && p.s.JobActive(j) {
				p.err = fmt.Errorf("at %v job %d is to have %d GPUs, want %d", p.s.Now(), j, got, want[j])
			}
		}
		p.quiet = quiet
		p.decisions++
	}
	p.Policy.Plan(plan)
}

// TestSharesOneByOne: whether gains are of jobs or of kinds, and fall or not, GPUs
// go where they would go one by one.
func TestSharesOneByOne(t *testing.T) {
	decisions, grown, windows := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		number := func(low, high int, name string) int { return rapid.IntRange(low, high).Draw(t, name) }
		c := workload.Cluster{Nodes: number(1, 8, "nodes"), GPUsPerNode: 4}
		var o simulator.Options
		if rapid.Bool().Draw(t, "strict") {
			o.Quota = simulator.QuotaStrict
			c.VCs = []workload.VC{{Tenant: "a", GPUs: number(0, 2*c.Nodes, "quota")}, {Tenant: "b", GPUs: number(0, c.Nodes, "quota")}}
		}
		jobs := make([]workload.Job, number(1, 50, "jobs"))
		at := time.Duration(0)
		for i := range jobs {
			at += time.Duration(number(0, 10, "gap")) * time.Minute
			jobs[i] = workload.Job{ID: fmt.Sprint(i), Submit: at, Duration: time.Duration(number(1, 300, "minutes")) * time.Minute,
				GPUs: workload.GPUs(number(1, min(c.Nodes, 4), "GPUs")), Tenant: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")}
		}
		w, err := workload.New("random", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		params, err := space.New([]space.Param{IntervalParam(600, 60), MaxScaleParam()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := params.Parse(params.Default(), []string{fmt.Sprintf("max_scale=%d", number(1, 4, "scale"))})
		if err != nil {
			t.Fatal(err)
		}
		var chooser Chooser = &curves{own: rapid.Bool().Draw(t, "own"), bumps: rapid.Bool().Draw(t, "bumps")}
		if rapid.Bool().Draw(t, "falling") {
			chooser = &falling{curves{own: true}}
		}
		p := &plain{Policy: New(config, chooser)}
		var s simulator.Sim
		if err := s.Start(c, w, p, o); err != nil {
			return // a job is wider than its tenant's quota
		}
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if p.err != nil {
			t.Fatal(p.err)
		}
		decisions += p.decisions
		grown += p.grown
		windows += p.windows
	})
	if decisions < 100 || grown < decisions || windows < 5 {
		t.Errorf("%d decisions, %d of them by a window, with %d GPUs beyond the first of each job", decisions, windows, grown)
	}
}

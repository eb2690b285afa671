package themis_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/schedulers/themis"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// plain decides as themis.New does, but asks and sorts all jobs every time.
type plain struct {
	term                time.Duration
	byService           bool
	fraction, threshold float64

	s       *simulator.Sim
	service rounds.Service
	active  []simulator.ID
	until   map[simulator.ID]time.Duration // the end of the first lease of a running job's spell
}

func newPlain(c space.Config) *plain {
	return &plain{
		term:      time.Duration(c.Get("lease_term").Float() * float64(time.Second)),
		byService: c.Get("lease_priority").Text() == "service",
		fraction:  c.Get("fraction").Float(),
		threshold: c.Get("consolidation_threshold").Float(),
	}
}

func (p *plain) Reset(s *simulator.Sim) {
	p.s, p.active, p.until = s, nil, map[simulator.ID]time.Duration{}
	p.service.Reset(s)
}

func (p *plain) length(j simulator.ID) time.Duration {
	if p.byService {
		return max(p.term/time.Duration(p.s.JobWidth(j)), min(p.term, time.Minute))
	}
	return p.term
}

func (p *plain) grid(j simulator.ID) rounds.Grid { return rounds.NewGrid(p.s, p.length(j)) }

func (p *plain) Admit(j simulator.ID, seen simulator.Seen) {
	p.service.Admit(j, seen)
	p.active = append(p.active, j)
	p.s.SetRelaxed(j, p.threshold > 0 && p.s.JobSkew(j) <= p.threshold)
	if p.s.JobRunning(j) {
		p.lease(j)
		if seen.LeaseUntil != 0 {
			p.until[j] = seen.LeaseUntil
		}
	}
	p.wake()
}

func (p *plain) lease(j simulator.ID) {
	p.until[j] = p.s.JobSince(j) + p.length(j)
	if p.s.JobStarts(j) > 1 {
		p.until[j] += p.s.Models().Restart(p.s.JobHeld(j) / p.s.JobMembers(j))
	}
}

func (p *plain) Finish(j simulator.ID) {
	i := slices.Index(p.active, j)
	p.active = slices.Delete(p.active, i, i+1)
}

func (p *plain) wake() {
	for _, j := range p.active {
		if p.s.Waiting() > 0 && p.s.JobRunning(j) {
			p.s.WakeAt(p.grid(j).After(p.s.Now()))
		}
	}
}

// outlook is how long a job will have run in all, and how long it still will.
func (p *plain) outlook(j simulator.ID) (total, rest time.Duration) {
	ran := p.service.Received(j)
	if told, ok := p.s.JobEstimate(j); ok && told > ran {
		return told, told - ran
	}
	rest = max(ran, p.length(j))
	return ran + rest, rest
}

func (p *plain) crowd(j simulator.ID) float64 {
	return max(1, float64(p.s.JobWidth(j))*float64(p.s.Active())/float64(p.s.Cluster().TotalGPUs()))
}

func (p *plain) rho(j simulator.ID) float64 {
	total, rest := p.outlook(j)
	return (p.s.Now() - p.s.JobSubmit(j) + rest).Seconds() / float64(total.Seconds()*p.crowd(j))
}

// between is rho as it is added up between offers.
func (p *plain) between(j simulator.ID) float64 {
	total, rest := p.outlook(j)
	return (p.s.Now().Seconds() + (rest - p.s.JobSubmit(j)).Seconds()) / total.Seconds() / p.crowd(j)
}

// largest are jobs in order, the largest rho first, ties by ID.
func largest(jobs []simulator.ID, rho func(simulator.ID) float64) []simulator.ID {
	slices.SortFunc(jobs, func(a, b simulator.ID) int {
		return cmp.Or(cmp.Compare(rho(b), rho(a)), cmp.Compare(a, b))
	})
	return jobs
}

func (p *plain) Plan(plan *simulator.Plan) {
	if p.s.Waiting() == 0 {
		return
	}
	p.offer(plan)
	var wait []simulator.ID
	for _, j := range p.active {
		if !p.s.JobRunning(j) {
			wait = append(wait, j)
		}
	}
	for _, j := range largest(wait, p.between) {
		if plan.Start(j) {
			p.lease(j)
		}
	}
	p.wake()
}

func (p *plain) offer(plan *simulator.Plan) {
	room, over := p.s.Room(), 0
	var all []simulator.ID
	for _, j := range p.active {
		switch runs := p.s.JobRunning(j); {
		case runs && (p.until[j] > p.s.Now() || !p.grid(j).On(p.s.Now())):
			room.Keep(j, p.s.JobHeld(j))
		case runs:
			over++
			fallthrough
		default:
			all = append(all, j)
		}
	}
	if over == 0 {
		return
	}
	var stop, start []simulator.ID
	choose := func(jobs []simulator.ID, want func(runs bool) bool) {
		for _, j := range jobs {
			runs := p.s.JobRunning(j)
			if !want(runs) {
				continue
			}
			if took := room.Take(j); took && !runs {
				start = append(start, j)
			} else if !took && runs {
				stop = append(stop, j)
			}
		}
	}
	all = largest(all, p.rho)
	first := len(all) - int(p.fraction*float64(len(all)))
	choose(all[:first], func(bool) bool { return true })
	choose(all[first:], func(runs bool) bool { return runs })
	choose(all[first:], func(runs bool) bool { return !runs })
	if len(start) == 0 {
		return
	}
	plan.Exchange(stop, start)
	for _, j := range start {
		if p.s.JobRunning(j) {
			p.lease(j)
		}
	}
}

// drawCase draws a run in which jobs queue: of equal jobs and odd ones, of
// groups, with and without quotas, estimates and protection.
func drawCase(t *rapid.T) (workload.Cluster, *workload.Workload, simulator.Options) {
	within := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(t, what) }
	c := workload.Cluster{Nodes: within(1, 5, "nodes"), GPUsPerNode: 1 << within(0, 3, "GPUs per node, log 2")}
	o := simulator.Options{
		NoRestartCost:         rapid.Bool().Draw(t, "no restart cost"),
		RestartOutsideService: within(0, 3, "restart outside service") == 0,
		QuotaOnly:             within(0, 3, "quota only") == 0,
		Placement:             []simulator.Placement{simulator.ConsolidateFewest, simulator.Count, simulator.FirstFit}[within(0, 2, "placement")],
		Round:                 []time.Duration{0, 0, 0, 30 * time.Second}[within(0, 3, "round")],
	}
	switch within(0, 3, "told") {
	case 0:
		o.Estimate = told
	case 1:
		o.Estimate = func(j *workload.Job) time.Duration { return j.Duration / 2 }
	}
	if within(0, 3, "protected") == 0 {
		o.Protect = simulator.Protection{MaxPreemptions: within(0, 3, "preemptions"), MinRun: time.Duration(within(0, 3000, "run")) * time.Second}
	}
	most := c.TotalGPUs()
	if most > 2 && rapid.Bool().Draw(t, "quotas") {
		o.Quota = simulator.QuotaStrict
		most = within(1, most/3, "quota") // the rest is for all
		c.VCs = []workload.VC{{Tenant: "a", GPUs: most}, {Tenant: "b", GPUs: most}, {Tenant: "c", GPUs: most}}
	}
	coarse := time.Duration(1)
	if rapid.Bool().Draw(t, "coarse") {
		coarse = 10 * time.Minute // so that there are ties
	}
	var jobs []workload.Job
	at := time.Duration(0)
	for i := range within(2, 120, "jobs") {
		at += time.Duration(within(0, 1000, "gap")) * time.Second
		j := workload.Job{
			ID: fmt.Sprintf("%03d", i), Submit: at.Round(coarse), Tenant: string(rune('a' + within(0, 2, "tenant"))), Model: "resnet50",
			Duration: (time.Duration(within(1, 20_000, "seconds"))*time.Second + 1).Round(coarse), GPUs: workload.GPUs(min(most, 1<<within(0, 4, "width, log 2"))),
		}
		if j.Duration == 0 {
			j.Duration = time.Second / 3
		}
		if g := j.GPUs.Whole(); g%2 == 0 && within(0, 5, "group") == 0 {
			j.Members = 2
		}
		jobs = append(jobs, j)
	}
	w, err := workload.New("random", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return c, w, o
}

// TestDecidesAsPlain: what is kept and left out to decide faster changes nothing.
func TestDecidesAsPlain(t *testing.T) {
	s, err := space.New(themis.Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var used simulator.Sim
	rapid.Check(t, func(t *rapid.T) {
		c, w, o := drawCase(t)
		at := make([]float64, s.Dims())
		for i := range at {
			at[i] = rapid.Float64Range(0, 1).Draw(t, s.Dim(i).Param)
		}
		config := s.Decode(at)
		lives := func(sim *simulator.Sim, p simulator.Policy) (out []string) {
			o.Observer = func(e simulator.Event) {
				out = append(out, fmt.Sprintf("%v: %s %v on %v", e.Time, sim.JobName(e.Job), e.Kind, sim.Placement(nil, e.Job)))
			}
			if err := sim.Start(c, w, p, o); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				out = append(out, err.Error())
			}
			return out
		}
		want, got := lives(new(simulator.Sim), newPlain(config)), lives(&used, themis.New(config))
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("%v: of %d events, event %d is %s, want %s", config, len(want), i, got[i], want[i])
			}
		}
		if len(want) != len(got) {
			t.Fatalf("%v: %d events, want %d", config, len(got), len(want))
		}
	})
}

package rounds

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// dice ranks jobs by chance, with many ties. The ranks of waiting jobs stay for
// some rounds.
type dice struct {
	s    *simulator.Sim
	stay time.Duration
	last int64
}

func (d *dice) age() int64 { return int64(d.s.Now() / d.stay) }

func (d *dice) Begin(s *simulator.Sim, _ *Service) { d.s, d.last = s, -1 }

func (d *dice) Prepare(*lanes.List, bool) (keep bool) {
	keep = d.age() == d.last
	d.last = d.age()
	return keep
}

func (d *dice) key(j simulator.ID, running bool) float64 {
	x := uint64(j)*0x9e3779b97f4a7c15 + uint64(d.age())*0xbf58476d1ce4e5b9 // a constant of SplitMix64
	if running {
		x += uint64(d.s.Now())
	}
	x = (x ^ x>>31) * 0x94d049bb133111eb
	return float64(x>>40%7) - 3
}

func (d *dice) Rank(jobs []Ranked, running bool) {
	for i := range jobs {
		jobs[i].Key = d.key(jobs[i].ID, running)
	}
}

func (d *dice) Line(j simulator.ID) int64 { return int64(d.key(j, false)) }

// plain checks each round of a policy against one that sorts all jobs and looks
// at each.
type plain struct {
	*Policy
	dice         *dice
	shares       bool
	start, stop  []simulator.ID
	rounds, many int
	err          error
}

// Shares marks a simulator.Sharer.
func (p *plain) Shares() {}

func (p *plain) choose() {
	s := p.s
	p.start, p.stop = nil, nil
	var all []Ranked
	room := s.Room()
	for i := range p.active.Len() {
		j := p.active.At(i).ID
		until := s.JobSince(j) + time.Duration(p.grid)
		if s.JobStarts(j) > 1 {
			until += s.Models().Restart(s.JobHeld(j))
		}
		if s.JobRunning(j) && (s.JobPartner(j) >= 0 || s.Now() < until) {
			room.Keep(j, s.JobHeld(j))
			continue
		}
		all = append(all, Ranked{Key: p.dice.key(j, s.JobRunning(j)), ID: j})
	}
	slices.SortFunc(all, compare)
	for _, x := range all {
		switch runs := s.JobRunning(x.ID); {
		case room.Take(x.ID):
			if !runs {
				p.start = append(p.start, x.ID)
			}
		case runs:
			p.stop = append(p.stop, x.ID)
		}
	}
	slices.SortStableFunc(p.start, func(a, b simulator.ID) int { return s.JobGPUs(b) - s.JobGPUs(a) }) // as Exchange does
}

func (p *plain) Plan(plan *simulator.Plan) {
	due := p.grid.On(p.s.Now()) && p.s.Waiting() > 0
	if due {
		p.choose()
	}
	p.Policy.Plan(plan)
	if due {
		p.rounds++
		if len(p.start) > 0 && len(p.stop) > 0 {
			p.many++
		}
		got := slices.Clone(p.Policy.start)
		slices.SortStableFunc(got, func(a, b simulator.ID) int { return p.s.JobGPUs(b) - p.s.JobGPUs(a) })
		if p.err == nil && (!slices.Equal(got, p.start) || len(got) > 0 && !slices.Equal(p.Policy.stop, p.stop)) {
			p.err = fmt.Errorf("at %v %v start for %v, want %v for %v", p.s.Now(), got, p.Policy.stop, p.start, p.stop)
		}
	}
	if p.shares {
		p.share(plan)
	}
}

// share puts the first that waits beside the first that runs alone on as many
// GPUs.
func (p *plain) share(plan *simulator.Plan) {
	p.queue.Walk(1 << 20)
	j, in, ok := p.queue.Next(1 << 20)
	if !ok || !p.s.QuotaAllows(j) {
		return
	}
	for i := range p.active.Len() {
		host := p.active.At(i).ID
		if p.s.JobRunning(host) && !p.s.JobShares(host) && p.s.JobHeld(host) == p.s.JobGPUs(j) {
			plan.Share(j, host)
			p.Took(j, in)
			return
		}
	}
}

// TestChoosesAsAFullSort: whatever the ranks, quotas and widths, a round chooses
// who would be chosen by sorting all jobs, in the same order.
func TestChoosesAsAFullSort(t *testing.T) {
	rounds, many := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		number := func(low, high int, name string) int { return rapid.IntRange(low, high).Draw(t, name) }
		c := workload.Cluster{Nodes: number(1, 6, "nodes"), GPUsPerNode: 4}
		o := simulator.Options{QuotaOnly: rapid.Bool().Draw(t, "quota only"), Placement: simulator.Placement(number(0, 3, "placement"))}
		if rapid.Bool().Draw(t, "strict") {
			o.Quota = simulator.QuotaStrict
			c.VCs = []workload.VC{{Tenant: "a", GPUs: number(0, 2*c.Nodes, "quota")}, {Tenant: "b", GPUs: number(0, c.Nodes, "quota")}}
		}
		jobs := make([]workload.Job, number(1, 60, "jobs"))
		at := time.Duration(0)
		for i := range jobs {
			at += time.Duration(number(0, 20, "gap")) * time.Minute
			jobs[i] = workload.Job{ID: fmt.Sprint(i), Submit: at, Duration: time.Duration(number(1, 600, "minutes")) * time.Minute,
				GPUs: workload.GPUs(number(1, min(c.Nodes, 5), "GPUs")), Tenant: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")}
		}
		w, err := workload.New("random", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		length := time.Duration(number(5, 60, "round")) * time.Minute
		d := &dice{stay: length * time.Duration(number(1, 5, "rounds that ranks stay"))}
		p := &plain{Policy: New(length, d), dice: d, shares: rapid.Bool().Draw(t, "share")}
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
		rounds += p.rounds
		many += p.many
	})
	if rounds < 100 || many < rounds/20 {
		t.Errorf("%d rounds, %d of them with jobs to start and to stop", rounds, many)
	}
}

// TestMerge: lists of any length, in almost any order, are sorted.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]Ranked, rapid.IntRange(0, 200).Draw(t, "jobs"))
		for i := range list {
			list[i] = Ranked{Key: float64(rapid.IntRange(-4, 4).Draw(t, "key")), ID: simulator.ID(i), Width: int32(i)}
		}
		old := rapid.IntRange(0, len(list)).Draw(t, "old")
		if rapid.Bool().Draw(t, "almost") {
			slices.SortFunc(list[:old], compare)
			for i := 7; i < old; i += 11 {
				list[i].Key = rapid.Float64Range(-4, 4).Draw(t, "other key")
			}
		}
		want := slices.Clone(list)
		slices.SortFunc(want, compare)
		repair(list[:old])
		repair(list[old:])
		merge(list, old, nil)
		if !slices.Equal(list, want) {
			t.Fatalf("%v, want %v", list, want)
		}
	})
}

package lucid

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/simulator"
)

// plainWalk sorts all active jobs anew in every plan.
type plainWalk struct {
	walk
	order []active
}

type active struct {
	key, entry int64
	id         simulator.ID
	runs       bool
}

func (p *plainWalk) Reset(s *simulator.Sim) {
	p.walk.Reset(s)
	p.order = nil
}

func (p *plainWalk) Admit(j simulator.ID, _ simulator.Seen) {
	p.order = append(p.order, active{id: j})
	p.join(j)
}

func (p *plainWalk) join(j simulator.ID) {
	p.entered++
	a := &p.order[slices.IndexFunc(p.order, func(a active) bool { return a.id == j })]
	a.entry, a.runs = p.entered, p.s.JobRunning(j)
	if a.runs && !p.turns {
		p.watch(j)
	}
}

func (p *plainWalk) Finish(j simulator.ID) {
	p.order = slices.DeleteFunc(p.order, func(a active) bool { return a.id == j })
}

func (p *plainWalk) Quantum(simulator.ID) {}

func (p *plainWalk) Plan(plan *simulator.Plan) {
	for i := range p.order {
		p.order[i].key = p.key(p.order[i].id)
	}
	slices.SortFunc(p.order, func(a, b active) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		if a.runs != b.runs {
			if a.runs == p.turns {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.entry, b.entry)
	})
	var stop, start []simulator.ID
	quota := p.s.Cluster().TotalGPUs()
	for _, a := range p.order {
		if g := p.s.JobGPUs(a.id); g <= quota {
			quota -= g
			if !a.runs {
				start = append(start, a.id)
			}
		} else if a.runs {
			stop = append(stop, a.id)
		}
	}
	if p.s.Waiting() == 0 || len(stop)+len(start) == 0 {
		return
	}
	plan.ExchangeInOrder(slices.Clone(stop), slices.Clone(start))
	for _, j := range append(stop, start...) {
		if p.s.JobRunning(j) != slices.Contains(stop, j) {
			p.join(j)
		}
	}
	for i, a := range p.order {
		if !p.turns || a.runs || !slices.Contains(start, a.id) {
			continue
		}
		if k := slices.IndexFunc(p.order[i:], func(b active) bool { return b.runs }); k >= 0 {
			p.s.WakeAt(p.s.Now() + time.Duration(p.order[i+k].key-a.key) + 1)
		}
	}
}

// Lines that are kept sorted are as good as sorting anew, also where jobs
// restart, run slower, or receive less service than they hold GPUs.
func TestLinesStaySorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 4 {
			c, w, o := drawRun(t)
			o.Placement = rapid.SampledFrom([]simulator.Placement{simulator.ConsolidateFewest, simulator.ConsolidateWhole, simulator.Count}).Draw(t, "placement")
			o.Round = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "round")
			o.Peer.RestartOutsideService = rapid.Bool().Draw(t, "restart outside service")
			o.Peer.RestartAsWork = rapid.Bool().Draw(t, "restart as work")
			o.Peer.QuotaOnly = rapid.Bool().Draw(t, "quota only")
			if o.Round == time.Second {
				o.Peer.Clock = time.Second
			}
			kept, plain := walk{turns: true}, walk{turns: true}
			if rapid.Bool().Draw(t, "tiresias") {
				kept = walk{threshold: time.Duration(rapid.IntRange(0, 20_000).Draw(t, "threshold")) * time.Second}
				plain = kept
			}
			fast, _ := tell(t, c, w, o, &kept)
			slow, _ := tell(t, c, w, o, &plainWalk{walk: plain})
			if fast != slow {
				t.Fatalf("kept sorted\n%s\nand sorted anew\n%s", fast, slow)
			}
		}
	})
}

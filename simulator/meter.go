package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// Meter measures the power of jobs. Its results must depend on the spell alone, and calls must be
// safe for concurrent use if several runs share it.
type Meter interface {
	Draw(Spell) Draw
	// Digest identifies the inputs of Draw.
	Digest() string
}

// Spell is a time in which a job held the same GPUs. Only the call it is given to may use At.
type Spell struct {
	Job      ID
	At       []workload.NodeGPUs // empty where GPUs are only counted
	GPUs     int
	Shared   bool // with another job
	From, To time.Duration
}

// Draw is energy in kWh, its cost in $ and its emissions in kg of CO2.
type Draw struct{ Energy, Cost, CO2 float64 }

// Drawn is the sum of Options.Meter so far in this run: of all jobs and, where nodes sleep and it is a
// NodeMeter, of nodes while they are awake.
func (s *Sim) Drawn() (sum Draw) {
	for i := range s.drawn {
		sum.add(s.drawn[i])
	}
	sum.add(s.drawnByNodes())
	return sum
}

func (d *Draw) add(x Draw) { d.Energy, d.Cost, d.CO2 = d.Energy+x.Energy, d.Cost+x.Cost, d.CO2+x.CO2 }

// meter measures the spell of a running job since it was last settled.
func (s *Sim) meter(id ID, j *job) {
	if s.opts.Meter == nil || s.now <= j.mark {
		return
	}
	for int(id) >= len(s.drawn) {
		s.drawn = append(s.drawn, Draw{})
	}
	s.metered = s.placementOf(s.metered[:0], j)
	x := s.opts.Meter.Draw(Spell{Job: id, At: s.metered, GPUs: int(j.held), Shared: j.shares, From: j.mark, To: s.now})
	s.drawn[id].add(x)
}

package lucid

import "github.com/autosched/autosched/simulator"

// pairs says which jobs may share GPUs, by their loads.
type pairs struct {
	limit  int     // of the sum of two share scores; Off if no jobs share
	memory float64 // MB, of two jobs on a GPU

	models  *simulator.Models
	loads   []simulator.Load
	byClass bool // a job's load is its class

	classes simulator.Models // substitutes of models without loads
}

// reset takes the models of a run. Where they have no loads, a job's class gives
// its utilisation; where they have only speeds of pairs, all jobs are alike.
func (p *pairs) reset(m *simulator.Models) {
	p.models, p.byClass = m, len(m.Loads) == 0 && m.Pair == nil
	p.loads = m.Loads
	if len(m.Loads) > 0 {
		return
	}
	p.classes.Loads = append(p.classes.Loads[:0], simulator.Load{})
	if p.byClass {
		p.classes.Loads = p.classes.Loads[:0]
		for i := range m.Classes {
			p.classes.Loads = append(p.classes.Loads, simulator.Load{Util: m.Classes[i].Util})
		}
		p.models = &p.classes
	}
	p.loads = p.classes.Loads
}

// of is the index of a job's load.
func (p *pairs) of(s *simulator.View, j simulator.ID) int32 {
	if p.byClass {
		return int32(s.JobClass(j))
	}
	return int32(s.JobLoad(j))
}

// fit reports whether jobs of two loads may share GPUs: whether they are light
// enough together, and make more progress than in turns.
func (p *pairs) fit(a, b int32) bool {
	x, y := &p.loads[a], &p.loads[b]
	if x.Score+y.Score > p.limit || x.Mem+y.Mem >= p.memory {
		return false
	}
	first, second := p.models.PairSpeeds(int(a), int(b))
	return first+second > 1
}

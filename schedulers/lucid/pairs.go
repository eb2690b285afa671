package lucid

import "github.com/autosched/autosched/simulator"

// pairs says which loads may share GPUs. It is asked for every partner of every
// job, so a row of bits is kept for each load, made when it is first asked for.
type pairs struct {
	limit  int // Off if no jobs share
	memory float64

	models  *simulator.Models
	loads   []simulator.Load
	byClass bool // a job's load is its class
	// hosts[a] are the loads beside which a may begin, guests[b] those that may
	// begin beside b; both are empty until made.
	hosts, guests []set

	classes []simulator.Load // of models without loads
	plain   simulator.Models // with them
}

// reset takes the models of a run. Where they have no loads, what a job does to
// another is told by its class, or is the same for all.
func (p *pairs) reset(m *simulator.Models) {
	p.models, p.loads, p.byClass = m, m.Loads, false
	if len(m.Loads) == 0 {
		p.classes = append(p.classes[:0], simulator.Load{})
		if p.byClass = m.Pair == nil; p.byClass {
			p.classes = p.classes[:0]
			for i := range m.Classes {
				p.classes = append(p.classes, simulator.Load{Util: m.Classes[i].Util})
			}
			p.plain.Loads = p.classes
			p.models = &p.plain
		}
		p.loads = p.classes
	}
	for len(p.hosts) < len(p.loads) {
		p.hosts, p.guests = append(p.hosts, nil), append(p.guests, nil)
	}
	for i := range p.hosts {
		p.hosts[i], p.guests[i] = p.hosts[i][:0], p.guests[i][:0]
	}
}

// of is a job's load, an index.
func (p *pairs) of(s *simulator.Sim, j simulator.ID) int32 {
	if p.byClass {
		return int32(s.JobClass(j))
	}
	return int32(s.JobLoad(j))
}

// fit reports whether a job of load a may begin beside one of load b: whether
// they are light enough together, and do more than in turns.
func (p *pairs) fit(a, b int) bool {
	x, y := &p.loads[a], &p.loads[b]
	if x.Score+y.Score > p.limit || x.Mem+y.Mem >= p.memory {
		return false
	}
	own, other := p.models.PairSpeeds(a, b)
	return own+other > 1
}

// besides are the loads beside which one may begin.
func (p *pairs) besides(a int32) set {
	row := p.hosts[a]
	if len(row) == 0 {
		row = row.sized(len(p.loads))
		for b := range p.loads {
			if p.fit(int(a), b) {
				row.add(b)
			}
		}
		p.hosts[a] = row
	}
	return row
}

// welcome are the loads that may begin beside one.
func (p *pairs) welcome(b int32) set {
	row := p.guests[b]
	if len(row) == 0 {
		row = row.sized(len(p.loads))
		for a := range p.loads {
			if p.fit(a, int(b)) {
				row.add(a)
			}
		}
		p.guests[b] = row
	}
	return row
}

// set is a set of small numbers.
type set []uint64

// sized is an empty set of numbers below n, in the memory of another.
func (s set) sized(n int) set {
	n = (n + 63) / 64
	if cap(s) < n {
		return make(set, n)
	}
	s = s[:n]
	clear(s)
	return s
}

func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) remove(i int)   { s[i>>6] &^= 1 << (i & 63) }
func (s set) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }

package patterns

import (
	"slices"
	"time"
)

// viewOf is what conditions of an entity are judged by.
func (s *Scanner) viewOf(r *compiled, e *entity, d *Derive) view {
	v := view{s: s, r: r, e: e, expected: 1, trust: 1}
	var j *job
	switch e.kind {
	case "job":
		if j = s.jobs[e.name]; j != nil {
			v.expected = max(1, j.gpus)
		}
	case "gpu":
		if g := s.gpuNames[e.name]; g != nil {
			j = g.job
		}
	}
	if d != nil {
		v.coverage = d.Coverage
		if j != nil && d.WarmUp > 0 {
			v.from = j.start + time.Duration(d.WarmUp)
		}
	}
	return v
}

// state is a rule's state of an entity, nil if there is none.
func (s *Scanner) state(r *compiled, e *entity) *ruleState {
	if r.index >= len(e.states) || e.states[r.index].active == nil {
		return nil
	}
	return &e.states[r.index]
}

// exempt reports whether a rule leaves a job out.
func (s *Scanner) exempt(r *compiled, j *job) bool {
	if len(r.exempt) == 0 || len(j.labels) == 0 {
		return false
	}
	for _, u := range r.rule.Unless {
		if slices.Contains(j.labels, u.Label) && (u.Younger == 0 || s.now-j.start < time.Duration(u.Younger)) {
			return true
		}
	}
	return false
}

// tick does what is due at an instant.
func (s *Scanner) tick() {
	s.sampleQueues()
	if floorDiv(s.now, time.Hour) != floorDiv(s.now-tick, time.Hour) {
		s.hourly()
	}
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.tick(s)
		} else if len(r.rule.Derive) > 0 && mod(int64(s.now), int64(r.every)) == 0 {
			s.examineEntities(r)
		}
	}
	s.settle()
	for _, r := range s.rules {
		if len(r.opened) > 0 {
			s.attend(r)
		}
	}
}

// hourly drops what no rule can need any more.
func (s *Scanner) hourly() {
	for _, r := range s.rules {
		r.forget(s.now)
	}
	for i := range s.widths {
		s.widthSorted[i] = nil
		if k := slices.IndexFunc(s.widths[i], func(w waited) bool { return w.at >= s.now-7*24*time.Hour }); k > 0 {
			s.widths[i] = append(s.widths[i][:0], s.widths[i][k:]...)
		}
	}
	for _, name := range s.poolNames {
		s.dropOvertakers(s.pools[name])
	}
	// A job that only samples name has ended when they have.
	for _, j := range slices.Clone(s.running.list) {
		if last := max(j.seen, j.progress); j.inferred && s.now-last > time.Hour {
			s.closeJob(j, last)
			if s.o.OnJob != nil {
				s.o.OnJob(s.report(j))
			}
			s.release(j)
			s.forget(j)
		}
	}
}

// examineEntities judges the derived conditions of a rule.
func (s *Scanner) examineEntities(r *compiled) {
	switch r.kind {
	case "job":
		set := &s.running
		if r.rule.State == "pending" {
			set = &s.pending
		}
		for _, j := range set.list {
			if !s.exempt(r, j) {
				s.derive(r, &j.entity, j)
			} else {
				s.closeFinding(r, Entity{"job", j.name}, s.now)
			}
		}
	case "gpu":
		for _, g := range s.gpuList {
			if g.rings != nil {
				s.derive(r, &g.entity, g.job)
			}
		}
	case "tenant":
		for _, vc := range s.o.Cluster.VCs {
			s.derive(r, &s.tenants[vc.Tenant].entity, nil)
		}
	case "partition":
		for _, name := range s.poolNames {
			if name != allJobs || !s.split() {
				s.derive(r, &s.pools[name].part, nil)
			}
		}
	case "queue":
		for _, name := range s.poolNames {
			s.derive(r, &s.pools[name].entity, nil)
		}
	}
}

// split reports whether jobs are in queues of known size: what holds for one of them is not said
// again of all.
func (s *Scanner) split() bool {
	for name, p := range s.pools {
		if name != allJobs && p.everSeen && p.capacity() > 0 {
			return true
		}
	}
	return false
}

// derive judges the conditions of an entity, and sends those that hold as facts.
func (s *Scanner) derive(r *compiled, e *entity, j *job) {
	st := s.state(r, e)
	any := false
	for i := range r.rule.Derive {
		d := &r.rule.Derive[i]
		c := condState{}
		if st != nil {
			c = st.active[i]
		}
		was := c
		switch needed := r.needed(st, d); {
		case !needed:
			c = condState{}
		case c.on:
			if s.left(r, e, d, &c) {
				c = condState{}
			}
		default:
			v := s.viewOf(r, e, d)
			if v.judge(&d.Condition) != yes {
				c = condState{}
			} else if !c.holds {
				c = condState{holds: true, since: s.now, trust: v.trust}
			}
			if c.holds && s.now-c.since >= time.Duration(d.For) {
				c.on = true
			}
		}
		if c == was && st == nil {
			continue
		}
		if st == nil {
			st = s.makeState(r, e)
		}
		st.active[i] = c
		any = any || c.on
		if was.on && !c.on && r.closes(d) {
			s.closeFinding(r, Entity{e.kind, e.name}, s.now)
		}
	}
	if !any {
		return
	}
	for i := range r.rule.Derive {
		if st.active[i].on {
			s.offer(r, &fact{name: "derived:" + r.rule.Derive[i].Name, at: s.now, job: j, entity: e})
		}
	}
}

// needed reports whether the condition that another needs holds.
func (r *compiled) needed(st *ruleState, d *Derive) bool {
	if d.Needs == "" {
		return true
	}
	for i := range r.rule.Derive {
		if r.rule.Derive[i].Name == d.Needs {
			return st != nil && st.active[i].on
		}
	}
	return false
}

// left reports whether a condition that entered has ended. What is unknown has not.
func (s *Scanner) left(r *compiled, e *entity, d *Derive, c *condState) bool {
	v := s.viewOf(r, e, d)
	if d.Leave != nil {
		return v.judge(d.Leave) == yes
	}
	return v.judge(&d.Condition) == no
}

// closes reports whether the end of a condition closes a finding: the first condition of the
// match does.
func (r *compiled) closes(d *Derive) bool {
	return r.rule.match().terms()[0].Derived == d.Name
}

func (s *Scanner) makeState(r *compiled, e *entity) *ruleState {
	if e.states == nil {
		e.states = make([]ruleState, len(s.rules))
	}
	e.states[r.index].active = make([]condState, len(r.rule.Derive))
	return &e.states[r.index]
}

// sampleQueues records the signals of queues, partitions and tenants.
func (s *Scanner) sampleQueues() {
	for _, name := range s.poolNames {
		p := s.pools[name]
		if p.hasSample && s.now-p.sampled > 2*time.Minute+Lateness(s.o.Period) {
			p.hasSample = false
		}
		free, known := p.free()
		s.attribute(p)
		if known {
			s.put(&p.part, s.slots.partitionFree, s.now, float64(free))
			if c := p.capacity(); c > 0 {
				s.put(&p.entity, s.slots.queued, s.now, float64(free)/float64(c))
			}
			s.sampleBlocked(p, free)
		}
		if p.everSeen {
			s.put(&p.entity, s.slots.pendingGPUs, s.now, float64(p.pendingGPUs()))
		}
		p.served += float64(p.held) * tick.Hours()
	}
	for _, p := range s.pools {
		p.started = 0
	}
	for _, vc := range s.o.Cluster.VCs {
		t := s.tenants[vc.Tenant]
		if t.quota <= 0 {
			continue
		}
		s.put(&t.entity, s.slots.quotaUse, s.now, float64(t.held)/float64(t.quota))
		waiting := 0.
		if len(s.pending.list) > t.pending {
			waiting = 1
		}
		s.put(&t.entity, s.slots.othersWaiting, s.now, waiting)
	}
}

// sampleBlocked records fragmentation: F1 where there are enough free GPUs for the smallest
// request and no pending gang can be placed, else 0. Where the nodes of a running job are not
// known, neither is what can be placed.
func (s *Scanner) sampleBlocked(p *pool, free int) {
	if s.slots.blocked < 0 || len(p.nodes) == 0 || p.unplaced > 0 {
		return
	}
	if free == 0 || len(p.pending) == 0 {
		s.put(&p.part, s.slots.blocked, s.now, 0)
		return
	}
	counts := map[int]int{}
	least := 0
	for n, c := range p.pending {
		counts[n.gpus] += c
		if least == 0 || n.gpus < least {
			least = n.gpus
		}
	}
	demand, placeable, any := 0., 0., false
	for size, c := range counts {
		d := float64(size * c)
		fit := min(c, p.fits(size, c))
		any = any || fit > 0
		demand += d
		placeable += d * float64(min(free, size*fit))
	}
	f1 := 0.
	if free >= least && !any {
		f1 = 1 - placeable/(demand*float64(free))
	}
	s.put(&p.part, s.slots.blocked, s.now, f1)
}

// fits is how many requests of a size, at most a number, fit the free GPUs of nodes: gangs wider
// than a node on nodes with an equal share each.
func (p *pool) fits(size, most int) int {
	largest := 0
	for _, n := range p.nodes {
		largest = max(largest, n.gpus)
	}
	if size <= 0 || largest == 0 {
		return 0
	}
	nodes := (size + largest - 1) / largest
	each := (size + nodes - 1) / nodes
	places := 0
	for _, n := range p.nodes {
		places += n.free() / each
		if places >= nodes*most {
			return most
		}
	}
	return places / nodes
}

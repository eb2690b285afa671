package patterns

import (
	"slices"
	"time"
)

// viewOf returns the view by which conditions of a subject are judged.
func (s *Scanner) viewOf(r *compiled, e *subject, d *Derive) view {
	v := view{s: s, r: r, e: e, expected: 1, trust: 1}
	if e.kind == "job" {
		v.expected = max(1, e.job.gpus)
	}
	if d != nil {
		v.coverage = d.Coverage
		if e.job != nil && d.WarmUp > 0 {
			v.from = e.job.start + time.Duration(d.WarmUp)
		}
	}
	return v
}

// exempt reports whether a rule leaves a job out.
func (s *Scanner) exempt(r *compiled, j *job) bool {
	if len(r.exempt) == 0 || len(j.labels) == 0 {
		return false
	}
	for _, u := range r.rule.Unless {
		if slices.Contains(j.labels, u.Label) && (u.Younger == 0 || s.now()-j.start < time.Duration(u.Younger)) {
			return true
		}
	}
	return false
}

// tick does what is due at an instant.
func (s *Scanner) tick() {
	s.cluster.sampleQueues()
	if stepOf(s.now(), time.Hour) != stepOf(s.now()-tick, time.Hour) {
		for _, r := range s.rules {
			r.forget(s.now())
		}
		s.cluster.hourly()
	}
	for _, r := range s.rules {
		if r.detector != nil {
			r.detector.tick(s)
		} else if len(r.rule.Derive) > 0 && s.now()%r.every == 0 {
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

// examineEntities judges the derived conditions of a rule.
func (s *Scanner) examineEntities(r *compiled) {
	c := s.cluster
	switch r.kind {
	case "job":
		set := &c.running
		if r.rule.State == "pending" {
			set = &c.pending
		}
		for _, j := range set.list {
			if !s.exempt(r, j) {
				s.derive(r, &j.subject)
			} else {
				s.closeFinding(r, Entity{"job", j.name}, s.now())
			}
		}
	case "gpu":
		for _, g := range c.gpus {
			if g.rings != nil {
				s.derive(r, &g.subject)
			}
		}
	case "tenant":
		for _, vc := range s.o.Cluster.VCs {
			s.derive(r, &c.tenants[vc.Tenant].subject)
		}
	case "partition":
		for _, p := range c.pools {
			if p.name != allJobs || !c.split() {
				s.derive(r, &p.part)
			}
		}
	case "queue":
		for _, p := range c.pools {
			s.derive(r, &p.subject)
		}
	}
}

// derive judges the conditions of an entity, and sends those that hold as facts.
func (s *Scanner) derive(r *compiled, e *subject) {
	st := r.states[e]
	any := false
	for i := range r.rule.Derive {
		d := &r.rule.Derive[i]
		c := condState{}
		if st != nil {
			c = st[i]
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
				c = condState{holds: true, since: s.now(), trust: v.trust}
			}
			if c.holds && s.now()-c.since >= time.Duration(d.For) {
				c.on = true
			}
		}
		if c == was && st == nil {
			continue
		}
		if st == nil {
			st = make([]condState, len(r.rule.Derive))
			r.states[e] = st
		}
		st[i] = c
		any = any || c.on
		if was.on && !c.on && r.closes(d) {
			s.closeFinding(r, Entity{e.kind, e.name}, s.now())
		}
	}
	if !any {
		return
	}
	for i := range r.rule.Derive {
		if st[i].on {
			s.offer(r, &fact{name: "derived:" + r.rule.Derive[i].Name, at: s.now(), job: e.job, subject: e})
		}
	}
}

// needed reports whether the condition that another needs holds.
func (r *compiled) needed(st []condState, d *Derive) bool {
	if d.Needs == "" {
		return true
	}
	for i := range r.rule.Derive {
		if r.rule.Derive[i].Name == d.Needs {
			return st != nil && st[i].on
		}
	}
	return false
}

// left reports whether a condition that entered has ended. What is unknown has not.
func (s *Scanner) left(r *compiled, e *subject, d *Derive, c *condState) bool {
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

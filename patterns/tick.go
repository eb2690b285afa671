package patterns

import (
	"slices"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// viewOf returns the view by which conditions of a subject are judged.
func (s *Scanner) viewOf(r *compiled, e *cluster.Subject, d *Derive) view {
	v := view{s: s, r: r, e: e, expected: 1, trust: 1}
	if e.Kind == "job" {
		v.expected = max(1, e.Job.GPUs)
	}
	if d != nil {
		v.coverage = d.Coverage
		if e.Job != nil && d.WarmUp > 0 {
			v.from = e.Job.Start + time.Duration(d.WarmUp)
		}
	}
	return v
}

// exempt reports whether a rule leaves a job out.
func (s *Scanner) exempt(r *compiled, j *cluster.Job) bool {
	if len(r.exempt) == 0 || len(j.Labels) == 0 {
		return false
	}
	for _, u := range r.rule.Unless {
		if slices.Contains(j.Labels, u.Label) && (u.Younger == 0 || s.now()-j.Start < time.Duration(u.Younger)) {
			return true
		}
	}
	return false
}

// tick examines the state at an instant.
func (s *Scanner) tick() {
	s.cluster.SampleQueues()
	if cluster.StepOf(s.now(), time.Hour) != cluster.StepOf(s.now()-cluster.Tick, time.Hour) {
		for _, r := range s.rules {
			r.forget(s.now())
		}
		s.cluster.Hourly()
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
		set := &c.Running
		if r.rule.State == "pending" {
			set = &c.Pending
		}
		for _, j := range set.List {
			if !s.exempt(r, j) {
				s.derive(r, &j.Subject)
			} else {
				s.closeFinding(r, Entity{"job", j.Name}, s.now())
			}
		}
	case "gpu":
		for _, g := range c.GPUs {
			if g.Rings != nil {
				s.derive(r, &g.Subject)
			}
		}
	case "tenant":
		for _, vc := range s.o.Cluster.VCs {
			s.derive(r, &c.Tenants[vc.Tenant].Subject)
		}
	case "partition":
		for _, p := range c.Pools {
			if p.Name != cluster.AllJobs || !c.Split() {
				s.derive(r, &p.Part)
			}
		}
	case "queue":
		for _, p := range c.Pools {
			s.derive(r, &p.Subject)
		}
	}
}

// derive judges the conditions of an entity, and sends the ones that hold as facts.
func (s *Scanner) derive(r *compiled, e *cluster.Subject) {
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
			s.closeFinding(r, Entity{e.Kind, e.Name}, s.now())
		}
	}
	if !any {
		return
	}
	for i := range r.rule.Derive {
		if st[i].on {
			s.offer(r, &cluster.Fact{Name: "derived:" + r.rule.Derive[i].Name, At: s.now(), Job: e.Job, Subject: e})
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

// left reports whether a condition that entered has ended. An unknown one has not.
func (s *Scanner) left(r *compiled, e *cluster.Subject, d *Derive, c *condState) bool {
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

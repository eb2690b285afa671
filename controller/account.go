package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/workload"
)

// EnergyQuery chooses the time of an account. A zero To is the latest event, a zero From a week before.
type EnergyQuery struct {
	From, To time.Time
	// Measure integrates the samples of the GPUs of jobs; nil where none are kept.
	Measure func(ctx context.Context, from, to time.Time, m *energy.GPUMeter) error
}

// Energy is the account of the energy of a scheduler's cluster.
type Energy struct {
	*energy.Report
	// ByActivity are the GPU-hours among the measured ones whose power follows from the activity of the GPU.
	ByActivity float64
	GPUModel   string // that is assumed of nodes whose GPUs are not registered; empty if none is
	At         time.Time
	Reason     string // why Report is nil
}

// metered is the last Energy of a scheduler.
type metered struct {
	Energy
	from, to time.Duration
	tariff   *energy.Tariff
	clockSet int64
}

const (
	longestAccount = 31 * 24 * time.Hour
	mostSpells     = 2_000_000
)

// Energy accounts for the energy of a scheduler's cluster by the tariff at present, as its jobs ran. One account is
// made at a time; it is kept until the next full hour.
func (s *Service) Energy(ctx context.Context, id string, q EnergyQuery) (out Energy, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return out, err
	}
	switch {
	case s.o.Energy == nil:
		return Energy{Reason: noTariff}, nil
	case p.zero.IsZero():
		return Energy{Reason: "there are no events yet"}, nil
	}
	v, tariff := p.m.snapshot.Load(), s.o.Energy()
	begin, end := p.hours(q.From, q.To)
	begin = max(begin, 0, v.horizon(p.at)) // nothing is known of the time before
	if end <= begin {
		_, end = p.week(q.From, q.To)
	}
	switch {
	case end <= begin:
		return out, fmt.Errorf("%w: there is no event after %s", rollout.ErrState,
			p.zero.Add(begin).Format(time.RFC3339))
	case end-begin > longestAccount:
		return out, fmt.Errorf("%w: %s to %s is longer than the 31 days that are accounted for at once",
			rollout.ErrState, p.zero.Add(begin).Format(time.RFC3339), p.zero.Add(end).Format(time.RFC3339))
	}
	select { // accounts take memory for all jobs of their time
	case s.accounts <- struct{}{}:
		defer func() { <-s.accounts }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	p.m.mu.Lock()
	last := p.m.metered
	p.m.mu.Unlock()
	if last.Report == nil || last.from != begin || last.to != end || last.tariff != tariff ||
		last.clockSet != v.ClockSet {
		last = metered{from: begin, to: end, tariff: tariff, clockSet: v.ClockSet}
		if last.Energy, err = p.account(ctx, tariff, begin, end, q.Measure); err != nil {
			return out, err
		}
		p.m.mu.Lock()
		p.m.metered = last
		p.m.mu.Unlock()
	}
	last.At = p.zero.Add(p.at)
	return last.Energy, nil
}

// account accounts for a window.
func (p *past) account(ctx context.Context, t *energy.Tariff, from, to time.Duration,
	measure func(ctx context.Context, from, to time.Time, m *energy.GPUMeter) error) (out Energy, err error) {
	in := energy.Input{Zero: p.zero, From: from, To: to}
	in.Cluster, in.Nodes = p.ledger.NodesOn(from, to)
	if in.Cluster.TotalGPUs() == 0 {
		return Energy{Reason: "the nodes of the cluster are not known"}, nil
	}
	if _, err := t.Meter(in.Cluster, p.zero); err != nil {
		return Energy{Reason: err.Error()}, nil
	}
	if err := p.held(ctx, &in); err != nil {
		return out, err
	}
	model := in.Cluster.Groups[0].GPUModel
	if slices.ContainsFunc(in.Cluster.Groups, func(g workload.NodeGroup) bool { return g.GPUModel == "" }) {
		out.GPUModel = t.Assumptions.GPU
	}
	if measure != nil {
		var m energy.GPUMeter
		if !slices.ContainsFunc(in.Cluster.Groups, func(g workload.NodeGroup) bool { return g.GPUModel != model }) {
			if m.Watts, err = t.Assumptions.GPUWatts(model); err != nil {
				return out, err
			}
		}
		if err := measure(ctx, p.zero.Add(from), p.zero.Add(to), &m); err != nil {
			return out, err
		}
		in.GPUs, out.ByActivity = m.Jobs(), m.Modelled
	}
	out.Report, err = t.Account(&in)
	return out, err
}

// held fills in the jobs of a window and the times in it in which they held GPUs.
func (p *past) held(ctx context.Context, in *energy.Input) error {
	type run struct {
		job      int // of in
		on       workload.Spell
		from, to time.Duration
	}
	var runs []run
	byID := map[string][]int{} // runs of a job
	for place, more := (workload.Place{}), true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		place, more = p.ledger.Jobs(in.From, in.To, place, func(h *workload.JobHistory) bool {
			n := len(in.Jobs)
			for i := range h.Spells {
				s := h.Spells[i]
				if s.From >= in.To || s.To <= in.From || s.To <= s.From {
					continue
				}
				if s.Job.GPUs = h.GPUs; s.Job.GPUs.Whole() != s.Held {
					s.Job.GPUs = workload.GPUs(s.Held)
				}
				byID[h.ID] = append(byID[h.ID], len(runs))
				runs = append(runs, run{n, s, max(s.From, in.From), min(s.To, in.To)})
			}
			if byID[h.ID] != nil {
				in.Jobs = append(in.Jobs, energy.Job{ID: h.ID, Tenant: h.Tenant, Submit: h.Submit, End: h.End,
					Ended: h.Ended && h.End <= in.To})
			}
			return len(runs) < mostSpells
		})
		if len(runs) >= mostSpells {
			return fmt.Errorf("%w: jobs held GPUs %d times or more in that time: choose a shorter one",
				rollout.ErrState, mostSpells)
		}
	}
	// A job shares its GPUs from the start of the second job until the first of both stops.
	type part struct{ from, to time.Duration }
	shared := make([][]part, len(runs))
	for i := range runs {
		r := &runs[i]
		for _, k := range byID[r.on.SharesWith] {
			o := &runs[k]
			if o.on.From <= r.on.From && o.on.To > r.on.From {
				both := part{r.from, min(r.to, o.to)}
				shared[i], shared[k] = append(shared[i], both), append(shared[k], both)
			}
		}
	}
	for i := range runs {
		r := &runs[i]
		at := p.nodes(in, &r.on)
		add := func(from, to time.Duration, both bool) {
			if to > from {
				in.Spells = append(in.Spells, energy.Spell{Job: r.job, At: at, GPUs: r.on.Job.GPUs, Shared: both,
					From: from, To: to})
			}
		}
		slices.SortFunc(shared[i], func(a, b part) int { return cmp.Compare(a.from, b.from) })
		from := r.from
		for _, both := range shared[i] {
			add(from, both.from, false)
			add(max(from, both.from), both.to, true)
			from = max(from, both.to)
		}
		add(from, r.to, false)
	}
	return nil
}

// nodes are the GPUs of a spell by node; a node stands for those of its group. Nil where a node is not known.
func (p *past) nodes(in *energy.Input, s *workload.Spell) (out []workload.NodeGPUs) {
	if len(in.Cluster.Groups) == 1 {
		return nil
	}
	total := 0
	for _, n := range s.Placement() {
		g := p.ledger.GroupOf(n.Node, s.From)
		if g < 0 || in.Cluster.Groups[g].Nodes == 0 {
			return nil
		}
		first := 0
		for _, before := range in.Cluster.Groups[:g] {
			first += before.Nodes
		}
		out = append(out, workload.NodeGPUs{Node: first, GPUs: n.GPUs})
		total += n.GPUs
	}
	if total != s.Held {
		return nil
	}
	return out
}

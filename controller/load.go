package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// Load is a cluster's load as of the latest events, and the freshness of its records.
type Load struct {
	At                   time.Time // event time; zero before the first event
	Total, Busy, Waiting int       // GPUs of nodes that take jobs, held, and waited for
	Running, Queued      int       // jobs
	LongestWait          time.Duration
	Nodes, Closed        int // that take jobs, and that are down or draining
	// Received is the service's time of the last events since it started, and Skew by how much they were ahead of it.
	Received time.Time
	Skew     time.Duration
	// Acknowledged is the service's time of the last acknowledgement.
	Acknowledged time.Time
}

// Load returns the load of a scheduler's cluster.
func (s *Service) Load(ctx context.Context, id string) (out Load, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return out, err
	}
	m := p.m
	for _, i := range m.snapshot.Load().Instances {
		if i.Reported.After(out.Acknowledged) {
			out.Acknowledged = i.Reported
		}
	}
	m.mu.Lock()
	out.Received, out.Skew = m.lastEventsAt, m.skew
	m.mu.Unlock()
	state := p.ledger.State(p.at)
	open := state.Available()
	out.Total, out.Nodes = open.TotalGPUs(), open.Nodes()
	for _, n := range p.ledger.Nodes(p.at) {
		if !n.Up {
			out.Closed++
		}
	}
	if !p.zero.IsZero() {
		out.At = p.zero.Add(p.at)
	}
	busy, waiting := 0.0, 0.0
	for i := range state.Jobs {
		switch a := &state.Jobs[i]; {
		case !a.Running:
			waiting, out.Queued = waiting+a.GPUs.Count(), out.Queued+1
			out.LongestWait = max(out.LongestWait, p.at-a.Since)
		case a.SharesWith == "":
			busy += a.GPUs.Of(a.Held)
			fallthrough
		default: // its GPUs are those of another one
			out.Running++
		}
	}
	out.Busy, out.Waiting = wholeGPUs(busy), wholeGPUs(waiting)
	return out, nil
}

// wholeGPUs rounds a sum of GPUs up.
func wholeGPUs(sum float64) int { return int(math.Ceil(sum - 1e-6)) }

// Ahead is the course of a cluster in the next hours.
type Ahead struct {
	*round.Ahead
	Zero     time.Time
	Revision int64  // that runs, 0 for the defaults
	Reason   string // why Ahead is nil
}

// foreseen is the last Ahead of a scheduler.
type foreseen struct {
	Ahead
	clockSet int64
}

const (
	aheadHorizon = 12 * time.Hour
	aheadStep    = 30 * time.Minute
	aheadFor     = 10 * time.Minute // event time
)

// LookAhead simulates the next hours under the configuration that runs, at most once in ten minutes of event time.
func (s *Service) LookAhead(ctx context.Context, id string) (out Ahead, err error) {
	m, err := s.active(id)
	if err != nil {
		return out, err
	}
	if m.snapshot.Load().Type == External {
		return Ahead{Reason: round.ErrNoModel.Error()}, nil
	}
	if kept, ok := m.lookedAhead(); ok {
		return kept, nil
	}
	err = s.borrow(ctx, m, func(ctx context.Context, turn round.Turn, v *snapshot, ledger *workload.Ledger) error {
		if kept, ok := m.lookedAhead(); ok {
			out = kept
			return nil
		}
		if v.Zero.IsZero() {
			out.Reason = "there are no events yet"
			return nil
		}
		state := v.rollout()
		incumbent, err := state.Incumbent(v.space.Default())
		if err != nil {
			out.Reason = "what runs is outside the space: " + err.Error()
			return nil
		}
		m.mu.Lock()
		at := m.history.Known()
		m.mu.Unlock()
		seen := v.at(ledger, at)
		seen.Turn = turn
		in := round.Input{Snapshot: seen, Settings: v.settings(s.o.Workers), Scheduler: v.Type, Space: v.space,
			Goal: v.goal, Engine: m.futures.of(v)}
		out = Ahead{Zero: v.Zero, Revision: v.basis().Running}
		out.Ahead, err = round.LookAhead(ctx, in, incumbent, aheadHorizon, aheadStep)
		if errors.Is(err, round.ErrNoModel) || errors.Is(err, round.ErrNoNode) || errors.Is(err, round.ErrNoFuture) {
			out.Reason = err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.ahead = foreseen{out, v.ClockSet}
		m.mu.Unlock()
		return nil
	})
	return out, err
}

// lookedAhead returns what is kept, if it is of the last minutes and of what runs.
func (m *schedulerState) lookedAhead() (Ahead, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, kept := m.snapshot.Load(), &m.ahead
	ok := kept.Ahead.Ahead != nil && kept.clockSet == v.ClockSet && kept.Revision == v.basis().Running &&
		m.history.Known() < kept.At+aheadFor
	return kept.Ahead, ok
}

// TimelineQuery chooses a timeline. A zero To is the latest event, a zero From a day before.
type TimelineQuery struct {
	From, To      time.Time
	By            workload.TimelineBy
	Rows, Buckets int
	First, Last   string // the range of nodes; all where empty
}

// Timeline is a timeline of a scheduler's jobs, with the revisions that took effect in its time.
type Timeline struct {
	*workload.Timeline
	Zero    time.Time
	Known   time.Time // of the latest event
	Changes []*rollout.Configuration
}

// Timeline sums up the jobs of a scheduler.
func (s *Service) Timeline(ctx context.Context, id string, q TimelineQuery) (out Timeline, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return out, err
	}
	if p.zero.IsZero() {
		return out, noEvents(id)
	}
	select { // each takes memory for all jobs of its time
	case s.timelines <- struct{}{}:
		defer func() { <-s.timelines }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	to := p.at
	if !q.To.IsZero() {
		to = q.To.Sub(p.zero)
	}
	from := to - 24*time.Hour
	if !q.From.IsZero() {
		from = q.From.Sub(p.zero)
	}
	if from >= to {
		return out, fmt.Errorf("%w: the timeline ends at %s, before it begins", rollout.ErrState,
			p.zero.Add(to).Format(time.RFC3339))
	}
	has := func(node string) bool { return (q.First == "" || node >= q.First) && (q.Last == "" || node <= q.Last) }
	b := workload.NewTimeline(q.By, from, to, p.at)
	sizes, guests := map[string]int{}, []workload.JobHistory(nil)
	v := p.m.snapshot.Load()
	if q.By == workload.ByNode {
		for _, n := range p.ledger.Nodes(min(to, p.at)) {
			if sizes[n.Name] = n.GPUs; has(n.Name) && (n.Up || n.Draining) {
				b.Node(n.Name)
			}
		}
	} else {
		for _, vc := range v.Cluster.VCs {
			sizes[vc.Tenant] = vc.GPUs
		}
	}
	for place, more := (workload.Place{}), true; more; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		place, more = p.ledger.Jobs(from, min(to, p.at), place, func(h *workload.JobHistory) bool {
			b.Add(h, has)
			if h.Joins() {
				guests = append(guests, h.Clone())
			}
			return true
		})
	}
	for i := range guests {
		for _, joint := range p.ledger.Joints(&guests[i], min(to, p.at)) {
			b.Share(&joint, has)
		}
	}
	out = Timeline{Timeline: b.Build(q.Rows, q.Buckets, func(name string) int { return sizes[name] }), Zero: p.zero,
		Known: p.zero.Add(p.at)}
	for _, c := range v.configs {
		if at := TookEffect(c); !at.IsZero() && !at.Before(p.zero.Add(from)) && !at.After(p.zero.Add(to)) {
			out.Changes = append(out.Changes, c)
		}
	}
	return out, nil
}

// TookEffect is the event time at which a revision took effect; zero if it did not.
func TookEffect(c *rollout.Configuration) time.Time {
	if c.Ack == nil || c.Ack.State != rollout.AckApplied && c.Ack.State != rollout.AckPartial {
		return time.Time{}
	}
	return cmp.Or(c.Ack.Applied, c.OfferedAt)
}

// Tenant is what a tenant got in a time.
type Tenant struct {
	Name                            string
	Quota                           int
	Held, Asked                     float64 // GPU-hours
	Share                           float64
	Jobs, Submitted, Started, Ended int
	Preemptions, Restarted          int           // Restarted are the starts after one
	MeanWait, P95Wait               time.Duration // for the first start
	MeanRestartWait                 time.Duration
	Busy, Waiting                   int // GPUs at the end of the time
	busy, waiting                   float64
	waits                           []float64
	restarts                        float64 // seconds
}

// tenantSums are Tenants of a scheduler, with what they were made of.
type tenantSums struct {
	from, to time.Time
	at       time.Duration
	events   int64
	ledger   *workload.Ledger
	all      []*Tenant
}

// keptSums bounds the times of which a scheduler keeps the sums.
const keptSums = 4

// Tenants sums up the jobs of a scheduler by tenant, the most GPU-hours first. A zero to is the latest event, a zero
// from a week before. Further says that the caller goes on reading the sums of the same time: those of a call in the
// last minutes of event time are returned, whatever happened since.
func (s *Service) Tenants(ctx context.Context, id string, from, to time.Time, further bool) ([]*Tenant, error) {
	p, err := s.readPast(ctx, id)
	if err != nil || p.zero.IsZero() {
		return nil, err
	}
	p.m.mu.Lock()
	kept, events := p.m.tenants, p.m.history.Applied()
	p.m.mu.Unlock()
	same := func(k tenantSums) bool { return k.from.Equal(from) && k.to.Equal(to) }
	for _, k := range kept {
		if same(k) && k.ledger == p.ledger &&
			(k.at == p.at && k.events == events || further && p.at < k.at+aheadFor) {
			return k.all, nil
		}
	}
	select { // each takes memory for the tenants and waits of its time
	case s.timelines <- struct{}{}:
		defer func() { <-s.timelines }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	all, err := p.tenants(ctx, from, to)
	if err == nil {
		p.m.mu.Lock()
		others := slices.DeleteFunc(slices.Clone(p.m.tenants), same)
		p.m.tenants = append([]tenantSums{{from, to, p.at, events, p.ledger, all}},
			others[:min(len(others), keptSums-1)]...)
		p.m.mu.Unlock()
	}
	return all, err
}

// tenants sums up the jobs of a time by tenant.
func (p *past) tenants(ctx context.Context, from, to time.Time) ([]*Tenant, error) {
	begin, end := p.week(from, to)
	all, total := map[string]*Tenant{}, 0.0
	var guests []workload.JobHistory
	for _, vc := range p.m.snapshot.Load().Cluster.VCs {
		all[vc.Tenant] = &Tenant{Name: vc.Tenant, Quota: vc.GPUs}
	}
	for place, more := (workload.Place{}), true; more; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		place, more = p.ledger.Jobs(begin, end, place, func(h *workload.JobHistory) bool {
			t := all[h.Tenant]
			if t == nil {
				t = &Tenant{Name: h.Tenant}
				all[h.Tenant] = t
			}
			total += t.add(h, begin, end)
			if h.Joins() {
				guests = append(guests, h.Clone())
			}
			return true
		})
	}
	for i := range guests {
		for _, joint := range p.ledger.Joints(&guests[i], end) {
			total -= joint.GPUs * max(0, min(joint.To, end)-max(joint.From, begin)).Hours()
			for _, h := range []*workload.JobHistory{&joint.Guest, &joint.Host} {
				if t := all[h.Tenant]; t != nil {
					t.share(&joint, begin, end)
				}
			}
		}
	}
	out := make([]*Tenant, 0, len(all))
	for _, t := range all {
		t.Busy, t.Waiting = wholeGPUs(t.busy), wholeGPUs(t.waiting)
		if n := len(t.waits); n > 0 {
			slices.Sort(t.waits)
			t.MeanWait = seconds(stat.Mean(t.waits, nil))
			t.P95Wait = seconds(t.waits[stats.NearestRank(0.95, n)])
			t.waits = nil
		}
		if t.Restarted > 0 {
			t.MeanRestartWait = seconds(t.restarts / float64(t.Restarted))
		}
		if total > 0 {
			t.Share = t.Held / total
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *Tenant) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// add adds a job that was there in a time, as of its end, and returns the GPU-hours that it held.
func (t *Tenant) add(h *workload.JobHistory, begin, end time.Duration) (total float64) {
	in := func(at time.Duration) int {
		if at >= begin && at <= end {
			return 1
		}
		return 0
	}
	hours := func(a, z time.Duration, gpus float64) float64 {
		return max(0, min(z, end)-max(a, begin)).Hours() * gpus
	}
	t.Jobs, t.Submitted, t.Preemptions = t.Jobs+1, t.Submitted+in(h.Submit), t.Preemptions+h.Preemptions
	if h.Starts > 0 && in(h.FirstStart) > 0 {
		t.Started++
		t.waits = append(t.waits, (h.FirstStart - h.Submit).Seconds())
	}
	at, last := h.Submit, end
	if h.Ended || h.Missing {
		last = h.End
	}
	if h.Ended {
		t.Ended += in(h.End)
	}
	for i := range h.Spells {
		one := &h.Spells[i]
		if i > 0 && (one.From > at || !one.Resized) && in(one.From) > 0 {
			t.Restarted++
			t.restarts += (one.From - at).Seconds()
		}
		t.Asked += hours(at, one.From, h.GPUs.Count())
		held := hours(one.From, one.To, h.GPUs.Of(one.Held))
		t.Held, total, at = t.Held+held, total+held, one.To
	}
	switch {
	case h.Running:
		t.busy += h.GPUs.Of(h.Held)
	case !h.Ended && !h.Missing:
		t.waiting += h.GPUs.Count()
		fallthrough
	default:
		t.Asked += hours(at, last, h.GPUs.Count())
	}
	return total
}

// share takes off the half of the GPUs that a job has while another one shares them.
func (t *Tenant) share(j *workload.Joint, begin, end time.Duration) {
	t.Held -= j.GPUs / 2 * max(0, min(j.To, end)-max(j.From, begin)).Hours()
	if j.Guest.Running && j.Host.Running && j.To >= end && j.From <= end {
		t.busy -= j.GPUs / 2
	}
}

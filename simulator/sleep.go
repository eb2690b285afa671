package simulator

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// Sleeper is a policy under which nodes without jobs sleep. A sleeping node is as free as others, but a job that
// starts on it makes no progress until the node is awake (Options.Wake). Of the empty nodes that a job may start
// on, awake ones come first. Nodes that are empty when a run begins are awake.
type Sleeper struct {
	Policy
	// After is how long a node has no job before it sleeps.
	After time.Duration
}

// DefaultWake is how long a node takes to wake unless Options.Wake says: an assumed boot of a GPU server.
const DefaultWake = 5 * time.Minute

// Forever is the end of a nap that goes on.
const Forever = time.Duration(math.MaxInt64)

// Nap is a time in which a node slept. A job had it woken at To, and it was awake at Awake. A node that went
// down has the same for both; one that sleeps on has Forever.
type Nap struct {
	Node            int
	From, To, Awake time.Duration
}

// NodeMeter is a Meter that knows the power of awake nodes above sleeping ones, and of nodes while they
// wake, from the beginning until an instant.
type NodeMeter interface {
	Meter
	Awake(node int, from, to, woken time.Duration) Draw
}

// sleep is the state of nodes that may sleep.
type sleep struct {
	on    bool
	after time.Duration   // never where nodes do not sleep
	empty []time.Duration // by node: since when it has no job; never if it has one or is down
	since []time.Duration // by node: since when it is awake, or was before it slept; never if it is down
	awake []time.Duration // by node: when its last waking is over
	naps  []Nap           // that are over
	drawn Draw            // by nodes, until their last nap
	delay []time.Duration // by job: span that it waited for nodes to wake
}

// sleepAfter lets nodes sleep after a span, or, with never, no more.
func (s *Sim) sleepAfter(after time.Duration) {
	x := &s.sleep
	if s.place.mode == Count || after == x.after {
		return
	}
	if len(x.empty) == 0 {
		nodes := len(s.place.free)
		x.empty, x.since, x.awake = resized(x.empty, nodes), resized(x.since, nodes), resized(x.awake, nodes)
		x.delay = resized(x.delay, s.total)
		clear(x.delay)
		for n := range x.empty {
			x.empty[n], x.since[n], x.awake[n] = never, never, s.now
			if s.place.status[n] != down {
				x.since[n] = s.now
				s.vacant(n)
			}
		}
	}
	was := x.after
	for n, at := range x.empty {
		switch {
		case at == never || was == never:
		case s.asleep(n) && after == never:
			s.endNap(n, s.now+s.wakeTime())
			x.empty[n] = s.now
		case s.asleep(n):
			x.empty[n] = at + was - after
		default:
			x.empty[n] = max(at, s.now-after)
		}
	}
	if x.after, x.on = after, after != never; !x.on {
		x.empty = x.empty[:0]
	}
}

// sleeps reports whether nodes may sleep.
func (s *Sim) sleeps() bool { return s.sleep.on }

func (s *Sim) wakeTime() time.Duration {
	if s.opts.Wake > 0 {
		return s.opts.Wake
	}
	return DefaultWake
}

// asleep reports whether a node sleeps.
func (s *Sim) asleep(n int) bool {
	at := s.sleep.empty[n]
	return at != never && s.now-at > s.sleep.after
}

// vacant notes that a node has no job any more, if that is so.
func (s *Sim) vacant(n int) {
	if int(s.place.free[n]) == s.place.gpus(n) {
		s.sleep.empty[n] = s.now
	}
}

// vacantAll is vacant for the nodes of a job.
func (s *Sim) vacantAll(j *job) {
	if j.multi < 0 {
		s.vacant(int(j.node))
		return
	}
	for _, n := range s.multi[j.multi] {
		s.vacant(n.Node)
	}
}

// rouse wakes the nodes that a job takes.
func (s *Sim) rouse(at []workload.NodeGPUs) {
	for _, n := range at {
		if s.asleep(n.Node) {
			s.endNap(n.Node, s.now+s.wakeTime())
		}
		s.sleep.empty[n.Node] = never
	}
}

// endNap ends a node's nap now. It is awake at an instant.
func (s *Sim) endNap(n int, awake time.Duration) {
	x := &s.sleep
	from := x.empty[n] + x.after
	x.drawn.add(s.drawnBy(n, from))
	x.naps = append(x.naps, Nap{n, from, s.now, awake})
	x.since[n], x.awake[n] = s.now, awake
}

// drawnBy is the energy of a node since it was woken, until an instant.
func (s *Sim) drawnBy(n int, to time.Duration) Draw {
	if m, ok := s.opts.Meter.(NodeMeter); ok && s.sleep.since[n] != never {
		return m.Awake(n, s.sleep.since[n], to, s.sleep.awake[n])
	}
	return Draw{}
}

// sleepChanged follows a node that went down or came up.
func (s *Sim) sleepChanged(n int) {
	x := &s.sleep
	isDown := s.place.status[n] == down
	switch {
	case isDown && x.since[n] != never:
		if s.asleep(n) {
			s.endNap(n, s.now)
		} else {
			x.drawn.add(s.drawnBy(n, s.now))
		}
		x.empty[n], x.since[n] = never, never
	case !isDown && x.since[n] == never:
		x.since[n], x.awake[n] = s.now, s.now
		s.vacant(n)
	}
}

// preferAwake moves a place from sleeping nodes to empty ones of the same cell that are awake.
func (s *Sim) preferAwake(at []workload.NodeGPUs) {
	for i := range at {
		if !s.asleep(at[i].Node) {
			continue
		}
		c := &s.place.cells[s.place.cell(at[i].Node)]
		empty := &c.level[c.perNode]
		for k := empty.next(0); k >= 0; k = empty.next(k + 1) {
			n := c.first + k
			if !s.asleep(n) && !slices.ContainsFunc(at, func(x workload.NodeGPUs) bool { return x.Node == n }) {
				at[i].Node = n
				break
			}
		}
	}
}

// awakeFor is when the nodes of a job that starts are awake.
func (s *Sim) awakeFor(id ID) time.Duration {
	at := s.now
	s.metered = s.placementOf(s.metered[:0], &s.jobs[id])
	for _, n := range s.metered {
		at = max(at, s.sleep.awake[n.Node])
	}
	s.sleep.delay[id] += at - s.now
	return at
}

// Naps are the naps of nodes: past ones in order of their end, then, by node, current ones and those that will
// begin unless a job comes.
func (s *Sim) Naps() []Nap {
	out := slices.Clone(s.sleep.naps)
	if s.sleeps() {
		for n, at := range s.sleep.empty {
			if at != never {
				out = append(out, Nap{n, at + s.sleep.after, Forever, Forever})
			}
		}
	}
	return out
}

// drawnByNodes is the energy of awake nodes above sleeping ones. Nodes without a job are awake until
// they sleep, which may be after the end of the run: so runs of different length compare.
func (s *Sim) drawnByNodes() Draw {
	x := &s.sleep
	sum := x.drawn
	if !s.sleeps() {
		return sum
	}
	for n, at := range x.empty {
		if at == never {
			sum.add(s.drawnBy(n, s.now))
		} else {
			sum.add(s.drawnBy(n, at+x.after))
		}
	}
	return sum
}

// Sleep describes the sleep of nodes in a run.
type Sleep struct {
	Wakes     int     `json:"wake_ups"`
	NodeHours float64 `json:"node_hours_asleep"`
	// Delayed jobs waited for nodes to wake, MeanDelay and MaxDelay seconds, together Delay.
	Delayed   int     `json:"delayed_jobs"`
	Delay     float64 `json:"delay_s"`
	MeanDelay float64 `json:"mean_delay_s"`
	MaxDelay  float64 `json:"max_delay_s"`
}

// Sleep describes the sleep of nodes so far; nil if they do not sleep.
func (s *Sim) Sleep() *Sleep {
	if !s.sleeps() {
		return nil
	}
	out := &Sleep{}
	for _, n := range s.Naps() {
		out.NodeHours += max(0, min(n.To, s.now)-n.From).Hours()
		if n.Awake > n.To && n.To != Forever {
			out.Wakes++
		}
	}
	for id, d := range s.sleep.delay[:len(s.jobs)] {
		if d > 0 {
			out.Delayed += int(s.jobs[id].members)
			out.Delay += d.Seconds() * float64(s.jobs[id].members)
			out.MaxDelay = max(out.MaxDelay, d.Seconds())
		}
	}
	out.MeanDelay = out.Delay / float64(max(1, out.Delayed))
	return out
}

// copyFrom copies the state into this memory.
func (x *sleep) copyFrom(src *sleep) {
	x.on, x.after, x.drawn = src.on, src.after, src.drawn
	x.empty, x.since = append(x.empty[:0], src.empty...), append(x.since[:0], src.since...)
	x.awake, x.naps = append(x.awake[:0], src.awake...), append(x.naps[:0], src.naps...)
	x.delay = append(x.delay[:0], src.delay...)
}

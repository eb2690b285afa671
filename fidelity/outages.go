package fidelity

import (
	"context"
	"math"
	"time"

	"github.com/autosched/autosched/workload"
)

// Outages are the nodes that the record shows to be down, drained or reserved, hour by hour.
// They describe the past: no later half could confirm them.
type Outages struct {
	Hours int `json:"hours"` // with a node out
	Least int `json:"least_nodes"`
	// Delay is the agreement of the simulation with them.
	Delay  Agreement            `json:"queueing_delay"`
	Events []workload.NodeEvent `json:"-"` // in order of time
}

// enoughWaiting is the time that jobs together wait in an hour beside free GPUs from which the
// GPUs in use are taken to be the only ones.
const enoughWaiting = 15 * time.Minute

// outages estimates the nodes that were out, and simulates without them. It is nil where the
// delays do not follow the record clearly better then, and on clusters of several groups.
func (in *Input) outages(ctx context.Context, rec *record, own, best *run) (*Outages, error) {
	if len(in.Cluster.Groups) != 1 || len(in.Simulate.Nodes) > 0 || in.Recorded != in.Scheduler.Name {
		return nil, nil
	}
	was, _ := poolsOf(in).idle(own.pairs)
	excess, _ := excessOf(was, own, best)
	out := &Outages{Least: in.Cluster.Nodes()}
	hours := int((in.To-in.From)/time.Hour) + 1
	waiting := waitingBeside(in, rec, own.pairs, excess, hours)
	up := in.Cluster.Nodes()
	for h := range hours {
		at := in.From + time.Duration(h)*time.Hour
		now := in.Cluster.Nodes()
		if waiting[h] >= enoughWaiting {
			used := float64(rec.used.most(at, at+time.Hour)) / 1000
			now = min(now, int(math.Ceil(used/float64(in.Cluster.GPUsPerNode()))))
		}
		if now < in.Cluster.Nodes() {
			out.Hours++
			out.Least = min(out.Least, now)
		}
		for n := now; n < up; n++ {
			out.Events = append(out.Events, workload.NodeEvent{At: at, Node: n, Kind: workload.NodeDrained})
		}
		for n := up; n < now; n++ {
			out.Events = append(out.Events, workload.NodeEvent{At: at, Node: n, Kind: workload.NodeUp})
		}
		up = now
	}
	for n := up; n < in.Cluster.Nodes(); n++ {
		out.Events = append(out.Events, workload.NodeEvent{At: in.From + time.Duration(hours)*time.Hour, Node: n,
			Kind: workload.NodeUp})
	}
	if out.Hours == 0 {
		return nil, nil
	}
	without := *in
	without.Simulate.Nodes = out.Events
	got, err := without.run(ctx, in.policy())
	if err != nil {
		return nil, err
	}
	if out.Delay = got.delay(); math.Log(out.Delay.Factor) > (1-worth)*math.Log(own.delay().Factor) {
		return nil, nil
	}
	return out, nil
}

// waitingBeside is how long jobs with an excess of delay waited, by hour since From, while the GPUs
// that they ask for were free in the assumed cluster.
func waitingBeside(in *Input, rec *record, pairs []pair, excess []float64, hours int) []time.Duration {
	out := make([]time.Duration, hours)
	free := rec.free.byLevel()
	for i := range pairs {
		if excess[i] == 0 {
			continue
		}
		p := &pairs[i]
		until := free(int64(p.job.GPUs))
		start := p.job.Submit + p.recorded
		for at := p.job.Submit; at < start; {
			h := int((at - in.From) / time.Hour)
			if h >= hours {
				break
			}
			next := min(start, in.From+time.Duration(h+1)*time.Hour)
			out[h] += until(next) - until(at)
			at = next
		}
	}
	return out
}

package energy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// NodeLog is how many nodes of a cluster had jobs over time.
type NodeLog struct {
	rows []nodeRow
	step time.Duration // the usual time between rows
	// Unknown rows have no active node, which is taken for an outage of the log.
	Unknown int
}

type nodeRow struct {
	at            time.Time
	active, total int
}

// mostNodes of a row.
const mostNodes = 1_000_000

// ReadNodeLog reads a CSV with the columns time (as in ReadPrices), active and total: the nodes with jobs, and all
// nodes, from an instant on.
func ReadNodeLog(r io.Reader, name string, zone *time.Location) (*NodeLog, error) {
	l := &NodeLog{}
	var last time.Time
	var steps []time.Duration
	err := readRows(r, []string{"time", "active", "total"}, func(row map[string]string) error {
		t, err := nextInstant(row["time"], zone, last)
		if err != nil {
			return fmt.Errorf("time: %w", err)
		}
		if !last.IsZero() {
			steps = append(steps, t.Sub(last))
		}
		last = t
		n := nodeRow{at: t}
		for _, c := range []struct {
			name string
			to   *int
		}{{"active", &n.active}, {"total", &n.total}} {
			if *c.to, err = strconv.Atoi(row[c.name]); err != nil || *c.to < 0 || *c.to > mostNodes {
				return fmt.Errorf("%s: %q is not a number of nodes from 0 to %d", c.name, row[c.name], mostNodes)
			}
		}
		switch {
		case n.active == 0:
			l.Unknown++
		case n.active > n.total:
			return fmt.Errorf("active: %d nodes of %d", n.active, n.total)
		default:
			l.rows = append(l.rows, n)
		}
		return nil
	})
	if err == nil && (len(steps) == 0 || len(l.rows) == 0) {
		err = errors.New("want two rows below the header, and one with active nodes")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.Sort(steps)
	l.step = steps[len(steps)/2]
	return l, nil
}

// SleepPlan says when idle nodes of a log sleep.
type SleepPlan struct {
	After time.Duration `json:"-"` // without a job
	Spare int           `json:"spare_nodes"`
	// GPUsPerNode of the default model, or the number in the assumptions.
	GPUsPerNode int `json:"gpus_per_node"`
}

// LogSleep is the saving of sleep in the time of a log.
type LogSleep struct {
	AfterS float64 `json:"sleep_after_s"`
	SleepPlan
	// Days that the log covers, gaps left out.
	Days float64 `json:"days"`
	// Active, Asleep and Total nodes, means over time.
	Active float64 `json:"active_nodes"`
	Asleep float64 `json:"asleep_nodes"`
	Total  float64 `json:"nodes"`
	// WakeUps of nodes; Late are wake-ups that found no spare node awake, so that a job waits.
	WakeUps int `json:"wake_ups"`
	Late    int `json:"late_wake_ups"`
	// Idle is the energy of nodes without jobs if they are always on, Saved the saving of sleep.
	Idle  Amount `json:"idle"`
	Saved Amount `json:"saved"`
}

// Sleep replays a log: a node sleeps once it was idle for a time and others are spare, and wakes when more nodes
// than are awake have jobs. Of the idle nodes, the one that was busy last gets the next job. Time without rows is left
// out, and nodes awake before it are awake after it.
func (l *NodeLog) Sleep(as *Assumptions, p SleepPlan, prices, intensities *Series) (*LogSleep, error) {
	if p.After <= 0 || p.Spare < 0 || p.GPUsPerNode < 1 {
		return nil, fmt.Errorf("energy: sleep after %v, %d spare nodes, %d GPUs per node: want more than 0, 0 or more, "+
			"more than 0", p.After, p.Spare, p.GPUsPerNode)
	}
	m, err := NewMeter(as, workload.Uniform(1, p.GPUsPerNode), l.rows[0].at, prices, intensities)
	if err != nil {
		return nil, err
	}
	a, out := m.a, &LogSleep{AfterS: p.After.Seconds(), SleepPlan: p}
	hours, awake, w := 0.0, -1, &a.watts[0]
	scaled := func(of *[bands]float64, by, minus float64) (x [bands]float64) {
		for k := range bands {
			x[k] = of[k]*by - w.asleep[k]*minus
		}
		return x
	}
	var peaks []int // rows whose nodes may still be awake, each with fewer of them than the one before
	for i, row := range l.rows {
		span := l.step
		if i+1 < len(l.rows) {
			span = min(span, l.rows[i+1].at.Sub(row.at))
		}
		for len(peaks) > 0 && l.rows[peaks[len(peaks)-1]].active <= row.active {
			peaks = peaks[:len(peaks)-1]
		}
		for len(peaks) > 0 && row.at.Sub(l.rows[peaks[0]].at)-l.step >= p.After {
			peaks = peaks[1:]
		}
		peaks = append(peaks, i)
		need := min(row.total, l.rows[peaks[0]].active+p.Spare)
		from := row.at.Sub(l.rows[0].at)
		if woken := need - awake; awake >= 0 && woken > 0 {
			out.WakeUps += woken
			out.Late += max(0, row.active-awake)
			x := a.amount(scaled(&w.waking, -float64(woken), 0), from, from+as.WakeTime())
			out.Saved.add(&x)
		}
		awake = need
		h := span.Hours()
		hours += h
		out.Active += float64(row.active) * h
		out.Asleep += float64(row.total-awake) * h
		out.Total += float64(row.total) * h
		gpus, n := float64(p.GPUsPerNode), float64(row.total-awake)
		saved := a.amount(scaled(&w.base, gpus*n, n), from, from+span)
		idle := a.amount(scaled(&w.base, gpus*float64(row.total-row.active), 0), from, from+span)
		out.Saved.add(&saved)
		out.Idle.add(&idle)
	}
	out.Days, out.Active, out.Asleep, out.Total = hours/24, out.Active/hours, out.Asleep/hours, out.Total/hours
	return out, nil
}

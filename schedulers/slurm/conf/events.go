package conf

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// Command prints a part of the description of a cluster; File is the name under which its output is saved.
type Command struct {
	File string
	Args []string
}

// EventCommand prints the times in which nodes were down or drained, for [Shown].Events. Without it nodes are up
// throughout.
var EventCommand = Command{"events.txt", []string{"sacctmgr", "-P", "show", "event", "Start=now-90days",
	"format=NodeName,TimeStart,TimeEnd,State"}}

// maxEvents bounds a file of events.
const maxEvents = 1_000_000

// out is a time in which a node was not up.
type out struct {
	from, to time.Time // to is zero while it lasts
	kind     workload.EventKind
}

// events reads sacctmgr's events of nodes, with a header or, of option -n, without. number are the nodes of the
// cluster. Times without a zone are in zone.
func (s *Site) events(text []byte, number map[string]int, zone *time.Location) error {
	node, start, end, state := -1, -1, -1, -1
	outs := map[string][]out{}
	line, rows := 0, 0
	for l := range bytes.Lines(text) {
		line++
		f := strings.Split(strings.TrimRight(string(l), "\r\n"), "|")
		if len(f) == 1 && strings.TrimSpace(f[0]) == "" {
			continue
		}
		if node < 0 {
			column := func(names ...string) int {
				return slices.IndexFunc(f, func(name string) bool {
					return slices.Contains(names, strings.ToLower(strings.ReplaceAll(name, " ", "")))
				})
			}
			node, start = column("nodename", "node"), column("timestart", "start")
			end, state = column("timeend", "end"), column("state")
			if node >= 0 && start >= 0 && end >= 0 && state >= 0 {
				continue
			}
			// Without a header the columns are sacctmgr's default, with or without the cluster.
			first := slices.IndexFunc(f, func(v string) bool { _, err := eventTime(v, zone); return err == nil })
			if first < 1 {
				return fmt.Errorf("events.txt:%d: neither has columns NodeName, TimeStart, TimeEnd and State nor a time: "+
					"write what %s prints into it", line, strings.Join(EventCommand.Args, " "))
			}
			node, start, end, state = first-1, first, first+1, first+2
		}
		if len(f) <= max(node, start, end, state) {
			return fmt.Errorf("events.txt:%d: has %d columns, and State is the %dth", line, len(f), state+1)
		}
		if f[node] == "" {
			continue // of the cluster, such as its registration
		}
		if rows++; rows > maxEvents {
			return fmt.Errorf("events.txt:%d: is more than a million events", line)
		}
		o := out{kind: workload.NodeDown}
		switch slurmtext.ParseNodeState(f[state]) {
		case slurmtext.Up:
			continue
		case slurmtext.Draining:
			o.kind = workload.NodeDrained
		}
		var err error
		if o.from, err = eventTime(f[start], zone); err != nil {
			return fmt.Errorf("events.txt:%d: TimeStart: %w", line, err)
		}
		if !strings.EqualFold(f[end], "Unknown") && f[end] != "" {
			if o.to, err = eventTime(f[end], zone); err != nil {
				return fmt.Errorf("events.txt:%d: TimeEnd: %w", line, err)
			}
			if o.to.Before(o.from) {
				return fmt.Errorf("events.txt:%d: TimeEnd is before TimeStart", line)
			}
		}
		names, err := slurmtext.HostList(f[node])
		if err != nil {
			return fmt.Errorf("events.txt:%d: NodeName: %w", line, err)
		}
		for _, name := range names {
			outs[name] = append(outs[name], o)
		}
	}
	foreign, hosts, all := 0, slurmtext.NewHosts(number), map[int][]out{}
	for _, name := range slices.Sorted(maps.Keys(outs)) {
		if n, ok := hosts.Find(name); ok {
			all[n] = append(all[n], outs[name]...)
		} else {
			foreign++
		}
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		s.Outages = append(s.Outages, changes(strconv.Itoa(n), all[n])...)
	}
	slices.SortStableFunc(s.Outages, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	if foreign > 0 {
		s.note("events.txt: %d nodes are not among those with GPUs, and are left out", foreign)
	}
	return nil
}

// changes are when a node goes down, is drained and comes back. Where times overlap, down counts.
func changes(node string, outs []out) []workload.Event {
	type step struct {
		at   time.Duration
		kind workload.EventKind
		by   int
	}
	var steps []step
	for _, o := range outs {
		steps = append(steps, step{o.from.Sub(time.Unix(0, 0)), o.kind, 1})
		if !o.to.IsZero() {
			steps = append(steps, step{o.to.Sub(time.Unix(0, 0)), o.kind, -1})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	var events []workload.Event
	now, lasting := workload.NodeUp, map[workload.EventKind]int{}
	for i, x := range steps {
		if lasting[x.kind] += x.by; i+1 < len(steps) && steps[i+1].at == x.at {
			continue
		}
		next := workload.NodeUp
		switch {
		case lasting[workload.NodeDown] > 0:
			next = workload.NodeDown
		case lasting[workload.NodeDrained] > 0:
			next = workload.NodeDrained
		}
		if next != now {
			events = append(events, workload.Event{Kind: next, Time: x.at, Node: node})
			now = next
		}
	}
	return events
}

// eventTime reads seconds since 1970 or a time of the zone.
func eventTime(text string, zone *time.Location) (time.Time, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<33 {
		return time.Unix(n, 0).UTC(), nil
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, zone)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		return t, fmt.Errorf("%q is neither a time such as 2026-11-22T06:35:26 nor seconds since 1970", text)
	}
	return t.UTC(), nil
}

package conf

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// ReservationCommand prints the reservations of now and later, and PastCommand, where there is a slurmdbd, of before.
var (
	ReservationCommand = Command{"reservations.txt", []string{"scontrol", "-a", "show", "reservation", "-o"}}
	PastCommand        = Command{"past-reservations.txt", []string{"sacctmgr", "-P", "show", "reservation",
		"Start=now-90days", "format=Name,Start,End,NodeNames,Flags"}}
)

// reservations reads scontrol's and sacctmgr's reservations. number are the nodes of the cluster; times without a zone
// are in zone.
func (s *Site) reservations(shown, past []byte, number map[string]int, zone *time.Location) error {
	hosts := slurmtext.NewHosts(number)
	known := map[string]bool{}
	read := func(file string, r slurmtext.Record, name, start, end, nodes string) error {
		out := workload.Reservation{Name: r[name]}
		var err error
		if out.From, err = eventTime(r[start], zone); err == nil {
			out.To, err = eventTime(r[end], zone)
		}
		if err != nil {
			return fmt.Errorf("%s: reservation %s: %w", file, out.Name, err)
		}
		names, err := slurmtext.HostList(r[nodes])
		if err != nil {
			return fmt.Errorf("%s: reservation %s: nodes: %w", file, out.Name, err)
		}
		out.Nodes = numbered(hosts, names)
		key := fmt.Sprint(out.Name, out.From)
		if len(out.Nodes) == 0 || known[key] || !out.From.Before(out.To) {
			return nil // of licenses or of nodes without GPUs, or in both listings
		}
		known[key] = true
		if r["coreids"] != "" {
			s.note("reservation %s: is of some cores, and its nodes are simulated as reserved whole", out.Name)
		}
		for flag := range strings.SplitSeq(strings.ToUpper(r["flags"]), ",") {
			switch flag, _, _ = strings.Cut(flag, "="); flag {
			case "MAINT", "ALL_NODES", "PART_NODES":
				out.Whole = true
			case "DAILY", "HOURLY", "WEEKLY", "WEEKDAY", "WEEKEND", "FLEX", "MAGNETIC", "REPLACE", "REPLACE_DOWN",
				"TIME_FLOAT", "PURGE_COMP":
				s.note("reservation %s: flag %s is not simulated", out.Name, flag)
			}
		}
		s.Cluster.Site.Reservations = append(s.Cluster.Site.Reservations, out)
		return nil
	}
	for _, r := range slurmtext.Records(string(shown), "reservationname") {
		if err := read(ReservationCommand.File, r, "reservationname", "starttime", "endtime", "nodes"); err != nil {
			return err
		}
		if r["users"]+r["accounts"]+r["groups"] != "" && !strings.Contains(strings.ToUpper(r["flags"]), "MAINT") {
			s.note("reservation %s: jobs that run within it wait for other nodes in simulations", r["reservationname"])
		}
	}
	if len(bytes.TrimSpace(past)) == 0 {
		return nil
	}
	rows, err := slurmtext.Table(string(past), "name", "timestart", "timeend", "nodename", "flags")
	if err != nil {
		return fmt.Errorf("%s:%w", PastCommand.File, err)
	}
	for _, r := range rows {
		if err := read(PastCommand.File, r, "name", "timestart", "timeend", "nodename"); err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.Cluster.Site.Reservations, func(a, b workload.Reservation) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// numbered returns the nodes of some names that are hosts, in order of number.
func numbered(hosts *slurmtext.Hosts[int], names []string) (out []workload.ReservedNode) {
	at := map[int]string{}
	for _, name := range names {
		if n, ok := hosts.Find(name); ok {
			at[n] = name
		}
	}
	for _, n := range slices.Sorted(maps.Keys(at)) {
		out = append(out, workload.ReservedNode{Number: n, Name: at[n]})
	}
	return out
}

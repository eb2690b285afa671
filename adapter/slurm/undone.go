package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// A kept setting is one that scontrol update changes and a reconfiguration takes back to slurm.conf.
type kept struct {
	key, shown string // in slurm.conf, and in scontrol show if that differs
	fallback   string // where slurm.conf says nothing
}

// Keys in lower case. init_conf_part and init_node_conf in src/slurmctld have the values of absent ones.
var (
	keptOfPartitions = []kept{{"state", "", "up"}, {"maxtime", "", "unlimited"}, {"defaulttime", "", "none"},
		{"maxnodes", "", "unlimited"}, {"prioritytier", "", "1"}, {"priorityjobfactor", "", "1"}, {"hidden", "", "no"},
		{"rootonly", "", "no"}, {"allowaccounts", "", "all"}, {"allowgroups", "", "all"}, {"allowqos", "", "all"},
		{"denyaccounts", "", ""}, {"denyqos", "", ""}, {"qos", "", "n/a"}}
	keptOfNodes = []kept{{"weight", "", "1"}, {"features", "availablefeatures", ""}}
)

// undone lists the changes by hand that a reconfiguration would take back: partitions and nodes in force that differ
// from slurm.conf. Reservations and the states of nodes outlive one.
func (c Commands) undone(ctx context.Context, path string, config *conf.Config) ([]string, error) {
	written, err := conf.Read(path, os.ReadFile)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, of := range []struct {
		what, name string
		records    []conf.Record
		keys       []kept
	}{{"partition", "partitionname", written.Partitions, keptOfPartitions},
		{"node", "nodename", written.Nodes, keptOfNodes}} {
		if of.what == "partition" && strings.Contains(strings.ToLower(config.Get("ReconfigFlags")), "keeppartinfo") {
			continue
		}
		text, err := c.Run(ctx, "scontrol", "-a", "show", of.what, "-o")
		if err != nil {
			return nil, err
		}
		shown := map[string]slurmtext.Record{}
		for _, r := range slurmtext.Records(text, of.name) {
			shown[r[of.name]] = r
		}
		said, err := byName(of.name, of.records)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(shown)) {
			if said[name] == nil {
				continue // made by scontrol create, and kept
			}
			for _, k := range of.keys {
				if k.key == "state" && strings.Contains(strings.ToLower(config.Get("ReconfigFlags")), "keeppartstate") {
					continue
				}
				if d := k.differs(shown[name], said[name]); d != "" {
					out = append(out, fmt.Sprintf("%s %s: %s", of.what, name, d))
				}
			}
		}
	}
	return out, nil
}

// differs describes a value in force that slurm.conf does not have; empty if they agree.
func (k kept) differs(shown slurmtext.Record, said conf.Record) string {
	now, known := shown[cmp.Or(k.shown, k.key)]
	want, there := said[k.key]
	if !there {
		if want, there = said[strings.TrimSuffix(k.key, "s")]; !there { // Slurm takes Feature as Features
			want = k.fallback
		}
	}
	if !known || k.normal(now) == k.normal(want) {
		return ""
	}
	return fmt.Sprintf("%s is %s, and slurm.conf has %s", k.key, now, cmp.Or(want, "nothing"))
}

// normal is a text that two spellings of one value share.
func (k kept) normal(text string) string {
	text = strings.ToLower(text)
	switch {
	case strings.HasSuffix(k.key, "time"):
		if d, err := slurmtext.ParseLimit(text); err == nil && text != "" {
			return d.Round(time.Minute).String()
		}
	case text == "n/a" || text == "(null)":
		return ""
	case text == "infinite":
		return "unlimited"
	}
	items := strings.Split(text, ",")
	slices.Sort(items)
	return strings.Join(items, ",")
}

// byName has the settings of slurm.conf by partition or node, with the ones of DEFAULT lines above.
func byName(first string, records []conf.Record) (map[string]conf.Record, error) {
	out, common := map[string]conf.Record{}, conf.Record{}
	for _, r := range records {
		if strings.EqualFold(r[first], "default") {
			maps.Copy(common, r)
			continue
		}
		names, err := slurmtext.HostList(r[first])
		if err != nil {
			return nil, fmt.Errorf("slurm.conf: %s: %w", first, err)
		}
		for _, name := range names {
			if out[name] == nil {
				out[name] = maps.Clone(common)
			}
			maps.Copy(out[name], r)
		}
	}
	return out, nil
}

// errUndoes is wrapped by errors about changes by hand that a reconfiguration would take back.
var errUndoes = errors.New("a reconfiguration would undo changes by hand")

// keeps is an error if a reconfiguration would undo what someone changed by hand.
func (t *Target) keeps(ctx context.Context, config *conf.Config) error {
	changed, err := t.undone(ctx, t.Options.Conf, config)
	if err != nil || len(changed) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s: put them into slurm.conf, or set ReconfigFlags=KeepPartInfo there", errUndoes,
		strings.Join(changed, "; "))
}

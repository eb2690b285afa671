package site

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// Files of a folder.
const (
	Cluster    = "cluster.json"    // the cluster, as workload.Cluster
	Current    = "current.yaml"    // the settings in force
	Scheduler  = "scheduler.json"  // the registration
	Settings   = "autosched.conf"  // the file that slurm.conf includes
	NodeEvents = "node-events.csv" // optional: when nodes were down or drained
)

// A Folder is the path of a folder that [Description.Write] wrote.
type Folder string

// Path returns the path of a file of the folder.
func (f Folder) Path(name string) string { return filepath.Join(string(f), name) }

// Missing returns the path of the first required file that is not there, empty if all are.
func (f Folder) Missing() string {
	for _, name := range []string{Cluster, Current, Scheduler, Settings} {
		if path := f.Path(name); !exists(path) {
			return path
		}
	}
	return ""
}

// HasNodeEvents reports whether the folder has events of nodes.
func (f Folder) HasNodeEvents() bool { return exists(f.Path(NodeEvents)) }

// Narrow returns Slurm with the parameters and ranges of a registration. Defaults are Slurm's, or the nearest in range.
// Presets keep the site's intervals, so that they differ in the order of jobs alone.
func Narrow(registered *space.Space) (*schedulers.Scheduler, error) {
	s, err := schedulers.Find("slurm")
	if err != nil {
		return nil, err
	}
	params := registered.Params()
	intervals := space.Values{}
	for i := range params {
		p := &params[i]
		if slices.Contains(slurm.Intervals, p.ID) {
			intervals[p.ID] = p.Default
		}
		d, ok := s.Space.Param(p.ID)
		if v := d.Default.Float(); ok && (v >= p.Min && v <= p.Max || p.Min == d.Min && p.Max == d.Max) {
			p.Default = d.Default
		}
	}
	out, err := s.WithSpace(params, registered.Rules())
	if err != nil {
		return nil, err
	}
	var presets []schedulers.Preset
	for _, p := range out.Presets {
		values := p.Config.Values()
		maps.Copy(values, intervals)
		p.Name = strings.TrimSuffix(p.Name, "-bf10")
		if p.Name == "default" {
			p.Name = "default-order"
		}
		p.Config, _ = out.Space.Project(values)
		if !slices.ContainsFunc(presets, func(o schedulers.Preset) bool { return o.Config.Equal(p.Config) }) {
			presets = append(presets, p)
		}
	}
	out.Presets = presets
	return out, nil
}

// Change describes the change of the folder's settings from one configuration to another; nil where they are equal. to
// is the path that the commands name for the new file. The waits of jobs are simulated as in says, in its one window.
func (f Folder) Change(ctx context.Context, s *schedulers.Scheduler, from, after space.Config, to string,
	in replay.CompareOptions) (*replay.SettingsChange, error) {
	if from.Equal(after) {
		return nil, nil
	}
	text, err := os.ReadFile(f.Path(Settings))
	if err != nil {
		return nil, err
	}
	patch, err := conf.NewPatch(f.Path(Settings), text, after, to)
	if err != nil {
		return nil, err
	}
	apply := "autosched slurm apply " + to
	if qos, err := conf.QOSPriorities(patch.Text); err != nil || len(qos) > 0 {
		apply += " --allow-qos own"
	}
	clock := func(d time.Duration) string { return in.Trace.Zero().Add(d).Format(time.RFC3339) }
	out := &replay.SettingsChange{From: clock(in.Windows[0].From), To: clock(in.Windows[0].To),
		Text: string(patch.Text), Patch: patch.Diff, QOS: patch.QOS,
		Commands: []string{apply + " --dry-run", apply, "autosched slurm rollback"}}
	in.Rows = []replay.Row{{Name: "current", Scheduler: s, Config: from},
		{Name: "recommended", Scheduler: s, Config: after}}
	out.Waits, err = replay.CompareWaits(ctx, in)
	return out, err
}

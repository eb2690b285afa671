package site

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// Settings is the file of a folder that slurm.conf includes.
const Settings = "autosched.conf"

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

// Change describes a change of a folder's settings to a configuration. to is the path that the commands name for the
// new file.
func Change(f site.Folder, after space.Config, to string) (*replay.SettingsChange, error) {
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
	return &replay.SettingsChange{Text: string(patch.Text), Patch: patch.Diff, QOS: patch.QOS,
		Commands: []string{apply + " --dry-run", apply, "autosched slurm rollback"}}, nil
}

package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/space"
)

// Patch is a change of the file that slurm.conf includes.
type Patch struct {
	// Text is the file after the change, whole.
	Text []byte
	// Diff has the lines that change and their context, as patch reads them; empty if none does.
	Diff string
	// QOS are the commands that change priorities of QOS.
	QOS []string
}

// NewPatch changes a file that AutoSched owns, such as slurm init writes, so that a configuration of package slurm is
// in force. Parameters without effect keep their values. to is the name of the file after the change, for the diff.
func NewPatch(file string, text []byte, config space.Config, to string) (*Patch, error) {
	c, err := Read(file, func(path string) ([]byte, error) {
		if path != file {
			return nil, fmt.Errorf("%s: include lines belong into slurm.conf", path)
		}
		return text, nil
	})
	if err != nil {
		return nil, err
	}
	tuned := append(c.QOS(), slices.DeleteFunc(Tuned(), func(id string) bool {
		key, _, _ := strings.Cut(id, ".")
		_, there := c.Find(key)
		return !there
	})...)
	now, _, err := c.Current()
	if err != nil {
		return nil, err
	}
	changed := space.Values{}
	for _, id := range config.IDs() {
		want := config.Get(id)
		if want.Equal(now.Get(id)) {
			continue
		}
		if changed[id] = want; !slices.Contains(tuned, id) && (now.Has(id) || c.differs(id, want)) {
			return nil, fmt.Errorf("%s: is %s in the configuration, and %s does not set it: run slurm init again, which "+
				"says why if it cannot be set here", id, want, file)
		}
	}
	after, err := c.owned(tuned, changed)
	if err != nil {
		return nil, err
	}
	p := &Patch{Text: after, Diff: lines.Diff(file, to, text, after)}
	before, err := c.Values(c.QOS())
	if err != nil {
		return nil, err
	}
	for _, id := range c.QOS() {
		if v, there := changed[id]; there && !v.Equal(before[id]) {
			name, _ := slurm.QOSOf(id)
			p.QOS = append(p.QOS, strings.Join(SetQOS(name, int64(v.Float())), " "))
		}
	}
	return p, nil
}

// SetQOS is the command that sets the priority of a QOS.
func SetQOS(name string, priority int64) []string {
	return []string{"sacctmgr", "-i", "modify", "qos", name, "set", fmt.Sprintf("Priority=%d", priority)}
}

// differs reports whether a parameter that has no effect now has another value in force.
func (c *Config) differs(id string, want space.Value) bool {
	values, err := c.Values([]string{id})
	return err != nil || !values[id].Equal(want)
}

// owned renders the settings in force with others in their place.
func (c *Config) owned(tuned []string, changed space.Values) ([]byte, error) {
	values, err := c.Values(tuned)
	if err != nil {
		return nil, err
	}
	for id, v := range changed {
		if slices.Contains(tuned, id) {
			values[id] = v
		}
	}
	maps.DeleteFunc(values, func(id string, v space.Value) bool {
		of, sign := strings.CutSuffix(id, Negative)
		return sign && values[of].Float() == 0 || id == "PriorityDecayHalfLife" && v.Float() == 0
	})
	form := &Form{Tuned: tuned, Site: c.Site(tuned)}
	return form.Render(values)
}

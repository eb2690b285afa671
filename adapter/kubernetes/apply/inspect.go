package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Inspection lists settings that cannot be tuned in a cluster, and changes by others.
type Inspection struct {
	// Idle are the settings without an effect in this installation.
	Idle []Idle
	// Marked is the number of annotations of the adapter's, and Foreign says which were changed since by someone
	// else.
	Marked  int
	Foreign string
}

// Idle is a setting without an effect in objects, and why.
type Idle struct {
	Setting, Why string
	Objects      []string
}

// String names the setting, the objects and the reason.
func (i Idle) String() string {
	if len(i.Objects) == 0 {
		return i.Setting + ": " + i.Why
	}
	return fmt.Sprintf("%s of %s: %s", i.Setting, strings.Join(i.Objects, ", "), i.Why)
}

// Inspect looks at all settings, whatever is tuned: a configuration that sets one without effect is refused. It writes
// nothing.
func Inspect(ctx context.Context, o Options) (*Inspection, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, err
	}
	live, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	out := &Inspection{Idle: o.Scheduler.idle(live), Foreign: live.foreign()}
	for range live.marks() {
		out.Marked++
	}
	queues := o.Scheduler.Objects()[0].Resource.GroupResource()
	for _, name := range sorted(live) {
		if name.Resource.GroupResource() != queues || name.Name == rootQueue {
			continue
		}
		for _, setting := range o.Scheduler.Names() {
			path, err := o.Scheduler.path(live[name], setting)
			if err == nil {
				f := Field{name, path}
				err = cmp.Or(has(ctx, d.api, f, live[name].GetKind()), o.Scheduler.Effect(f, nil, live))
			}
			if err == nil {
				continue
			}
			i := slices.IndexFunc(out.Idle, func(x Idle) bool { return x.Setting == setting && x.Why == err.Error() })
			if i < 0 {
				i = len(out.Idle)
				out.Idle = append(out.Idle, Idle{Setting: setting, Why: err.Error()})
			}
			out.Idle[i].Objects = append(out.Idle[i].Objects, name.Name)
		}
	}
	return out, nil
}

package schedulers

import (
	"testing"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// TestSleepingSchedulers: with the suffix, a scheduler has its space with one parameter more, and its presets.
func TestSleepingSchedulers(t *testing.T) {
	for _, s := range All {
		x, err := Find(s.Name + SleepSuffix)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Find(x.Name)
		if err != nil || again != x || !Sleeps(x.Name) || Sleeps(s.Name) {
			t.Errorf("%s: %v, %v", x.Name, again, err)
		}
		if len(x.Space.Params()) != len(s.Space.Params())+1 || len(x.Presets) != len(s.Presets) {
			t.Errorf("%s: %d parameters of %d, %d presets of %d", x.Name, len(x.Space.Params()),
				len(s.Space.Params()), len(x.Presets), len(s.Presets))
		}
		for i, p := range x.Presets {
			for _, id := range s.Presets[i].Config.IDs() {
				if p.Config.Get(id).String() != s.Presets[i].Config.Get(id).String() {
					t.Errorf("%s: preset %s: %s differs", x.Name, p.Name, id)
				}
			}
		}
		c, changes := x.Space.Project(space.Values{"sleep_after": space.Num(5)})
		if p, ok := x.New(c).(*simulator.Sleeper); !ok || p.After.Seconds() != 60 || len(changes) == 0 {
			t.Errorf("%s: %v, %v", x.Name, p, changes)
		}
	}
	for name, want := range map[string]bool{"none" + SleepSuffix: false, "fifo+defer": true, "fifo+defer+sleep": true,
		"fifo+sleep+defer": false, "fifo+": false, "fifo+sleep+sleep": false} {
		x, err := Find(name)
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if want && (!Defers(name) || len(x.Space.Params()) != 3+len(name)/len("fifo+defer+sleep")) {
			t.Errorf("%s: %v", name, x.Space.Params())
		}
	}
}

package simulator

import (
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestWorkOfSpells: progress is the time on the GPUs, less restarts, at the speed of the models.
func TestWorkOfSpells(t *testing.T) {
	s := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	spell := func(id string, from, to float64, held int) workload.Spell {
		return workload.Spell{Job: workload.Job{ID: id, GPUs: workload.GPUs(2)}, From: s(from), To: s(to), Held: held}
	}
	host, guest, late := spell("host", 0, 100, 2), spell("guest", 40, 80, 2), spell("late", 100, 120, 2)
	guest.SharesWith, late.SharesWith = "host", "host" // which has left
	spread, resumed, resized := spell("spread", 0, 100, 2), spell("resumed", 5, 50, 2), spell("resized", 10, 40, 4)
	spread.Spread, resumed.Resumed, resized.Resized = true, true, true
	spells := []workload.Spell{host, guest, late, spread, resumed, resized, spell("resized", 0, 10, 2)}
	m := &Models{Restart: func(gpus int, _ int64) time.Duration { return s(5 * float64(gpus)) },
		Classes: []Class{{Slowdown: 2, Weight: 1}}, Pair: func(int, int) (float64, float64) { return .5, .75 }}
	for _, x := range []struct {
		from, to float64
		peer     Peer
		even     bool // scattered
		want     map[string]float64
	}{
		{0, 200, Peer{}, false, map[string]float64{"host": 60 + .75*40, "guest": .5 * 40, "late": 20, "spread": 50,
			"resumed": 35, "resized": 10 + 2*10}},
		{60, 90, Peer{}, false, map[string]float64{"host": 10 + .75*20, "guest": .5 * 20, "late": 0, "spread": 15}},
		{0, 20, Peer{NoRestartCost: true}, false, map[string]float64{"host": 20, "spread": 10, "resumed": 15,
			"resized": 10 + 2*10}},
		{0, 20, Peer{NoRestartCost: true}, true, map[string]float64{"host": 20, "spread": 20, "resumed": 15,
			"resized": 10 + 2*10}},
		{0, 20, Peer{RestartAsWork: true}, false, map[string]float64{"host": 20, "spread": 10, "resumed": 15,
			"resized": 10}},
	} {
		o := Options{Models: m, Peer: x.peer}
		got := o.Work(spells, s(x.from), s(x.to), x.even)
		for _, one := range spells {
			if got[one.ID] != s(x.want[one.ID]) {
				t.Errorf("from %v to %v s, %+v: %s did %v, want %v s", x.from, x.to, x.peer, one.ID,
					got[one.ID], x.want[one.ID])
			}
		}
	}
}

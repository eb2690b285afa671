package simulator

import (
	"math"
	"time"

	"github.com/autosched/autosched/workload"
)

// Work is the progress that jobs made between two instants in the spells observed, less what preemptions
// lost, by id: time on the requested GPUs, consolidated and alone. The speed of each spell is the models'; spreading
// slows no job of a Scattered policy.
func (o *Options) Work(spells []workload.Spell, from, to time.Duration, scattered bool) map[string]time.Duration {
	m := o.Models
	if m == nil {
		m = defaultModels
	}
	var classes, loads lottery
	m.lotteries(&classes, &loads)
	of := map[string][]int{}
	for i := range spells {
		of[spells[i].ID] = append(of[spells[i].ID], i)
	}
	together := make([][]shared, len(spells))
	speeds := func(a, b *workload.Job) (float64, float64) {
		if len(m.Loads) == 0 && m.Pair == nil {
			return hinge(m.Classes[classes.draw(a.Model, a.Key)].Util, m.Classes[classes.draw(b.Model, b.Key)].Util)
		}
		return m.PairSpeeds(loads.draw(a.Model, a.Key), loads.draw(b.Model, b.Key))
	}
	for i := range spells {
		guest := &spells[i]
		if guest.SharesWith == "" {
			continue
		}
		for _, k := range of[guest.SharesWith] {
			host := &spells[k]
			if guest.From < host.From || guest.From >= host.To {
				continue
			}
			own, other := speeds(&guest.Job, &host.Job)
			until := min(guest.To, host.To)
			together[i] = append(together[i], shared{guest.From, until, own})
			together[k] = append(together[k], shared{guest.From, until, other})
		}
	}
	out := make(map[string]time.Duration, len(of))
	for i := range spells {
		x := &spells[i]
		begin := x.From
		if x.Resized || x.Resumed && !o.Peer.RestartAsWork {
			if !o.Peer.NoRestartCost {
				begin += m.JobRestart(&x.Job, x.Held)
			}
		}
		begin, end := max(begin, from), min(x.To, to)
		progress := max(0, end-begin).Seconds()
		for _, s := range together[i] {
			progress -= (1 - s.speed) * max(0, min(s.to, end)-max(s.from, begin)).Seconds()
		}
		class := classes.draw(x.Model, x.Key)
		if d := m.Classes[class].Slowdown; x.Spread && !scattered && d > 1 {
			progress /= d
		}
		if asked := x.GPUs.Whole(); x.Held != asked {
			progress *= m.speedup(class, asked, x.Held)
		}
		out[x.ID] += time.Duration(math.Round(progress * float64(time.Second)))
		if x.To <= to {
			out[x.ID] -= x.Lost
		}
	}
	return out
}

// shared is a time in which a job shares its GPUs, and its speed then.
type shared struct {
	from, to time.Duration
	speed    float64
}

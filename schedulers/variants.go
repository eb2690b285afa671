package schedulers

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Suffixes of a scheduler's name, in this order. Under SleepSuffix nodes without jobs sleep, and the space has
// sleep_after. Under DeferSuffix deferrable jobs wait for cheaper or cleaner hours, and the space has defer_share
// and defer_limit.
const (
	DeferSuffix = "+defer"
	SleepSuffix = "+sleep"
)

var (
	// sleepAfter is how long nodes are empty before they sleep; a day is practically never.
	sleepAfter = space.Param{ID: "sleep_after", Module: "placement", Unit: "s", Kind: space.KindDuration, Min: 60,
		Max: 86400, Log: true, Default: space.Num(3600),
		Description: "how long a node has no job before it sleeps; jobs wait for it to wake"}
	deferShare = space.Param{ID: "defer_share", Module: "admission", Kind: space.KindFloat, Min: .02, Max: 1,
		Default:     space.Num(.25),
		Description: "deferrable jobs start in this share of the time until defer_limit, the cheapest; 1 defers none"}
	deferLimit = space.Param{ID: "defer_limit", Module: "admission", Unit: "s", Kind: space.KindDuration, Min: 600,
		Max: 86400, Log: true, Default: space.Num(6 * 3600),
		Description: "how long after its submission a deferrable job may start at the latest"}
)

// Sleeps reports whether nodes without jobs sleep under the scheduler of a name.
func Sleeps(name string) bool { return strings.HasSuffix(name, SleepSuffix) }

// Defers reports whether jobs are deferred under the scheduler of a name.
func Defers(name string) bool { return strings.Contains(name, DeferSuffix) }

// variants are the schedulers with suffixes, by name.
var variants = sync.OnceValue(func() map[string]*Scheduler {
	out := map[string]*Scheduler{}
	span := func(c space.Config, p *space.Param) time.Duration {
		return time.Duration(c.Get(p.ID).Float() * float64(time.Second))
	}
	sleeping := func(c space.Config, p simulator.Policy) simulator.Policy {
		return &simulator.Sleeper{Policy: p, After: span(c, &sleepAfter)}
	}
	deferring := func(c space.Config, p simulator.Policy) simulator.Policy {
		return &simulator.Deferrer{Policy: p, Share: c.Get(deferShare.ID).Float(), Limit: span(c, &deferLimit)}
	}
	for _, s := range All {
		d := s.with(DeferSuffix, "deferrable jobs wait for cheap hours", deferring, deferShare, deferLimit)
		for _, x := range []*Scheduler{d, s.with(SleepSuffix, "nodes without jobs sleep", sleeping, sleepAfter),
			d.with(SleepSuffix, "nodes without jobs sleep", sleeping, sleepAfter)} {
			out[x.Name] = x
		}
	}
	return out
})

// with is the scheduler with a suffix, further parameters, and their effect on its policy.
func (s *Scheduler) with(suffix, title string, around func(space.Config, simulator.Policy) simulator.Policy,
	params ...space.Param) *Scheduler {
	x := *s
	x.Name, x.Title, x.Native = s.Name+suffix, s.Title+"; "+title, nil
	x.Space = must(space.New(slices.Concat(s.Space.Params(), params), s.Space.Rules()))
	x.New = func(c space.Config) simulator.Policy { return around(c, s.New(c)) }
	x.Presets = nil
	for _, p := range s.Presets {
		values := map[string]space.Value{}
		for _, id := range p.Config.IDs() {
			values[id] = p.Config.Get(id)
		}
		for _, extra := range params {
			values[extra.ID] = extra.Default
		}
		x.Presets = append(x.Presets, Preset{p.Name, mustConfig(x.Space, p.Name, values)})
	}
	return &x
}

package round

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// What a round searches.
const (
	// SearchAuto searches the whole space at a cold start and when the shape of
	// the workload is a new one, and the portfolio otherwise.
	SearchAuto = "auto"
	// SearchPortfolio measures the default, the incumbent, the scheduler's presets
	// and winners of earlier rounds, and nothing else.
	SearchPortfolio = "portfolio"
	// SearchFull measures these, then what a sampler suggests.
	SearchFull = "full"
)

// Searches lists the values of Settings.Search.
var Searches = []string{SearchAuto, SearchPortfolio, SearchFull}

// CheckSearch refuses what is not in Searches.
func CheckSearch(name string) error {
	if !slices.Contains(Searches, name) {
		return fmt.Errorf("search: %q is not known; there are %s", name, strings.Join(Searches, ", "))
	}
	return nil
}

const (
	// portfolioSize bounds the portfolio, the default and the incumbent included.
	// On few futures the best of many is the luckiest: of 8 to 16 configurations
	// known to be good, hourly rounds made more than of 40 from the whole space.
	portfolioSize = 16
	// presetsKept of them at most are presets, so that some are from history.
	presetsKept = 10
	// pastInFull is how many winners a search of the whole space starts from.
	pastInFull = 4
	// winnersKept, shapesKept and struckKept bound the experience.
	winnersKept = 32
	shapesKept  = 32
	struckKept  = 64
	// runnersUp of a search of the whole space are remembered with its winner.
	runnersUp = 3
	// alike is the mean difference of two configurations in the unit cube below
	// which measuring both tells little.
	alike = .02
)

// experience is what a round knows from those before it. It is a function of these
// alone, so decisions replay.
type experience struct {
	Version int `json:"version"`
	// Full counts the searches of the whole space, Shapes are what they met, those
	// that are known well enough, oldest first.
	Full   int     `json:"full"`
	Shapes []shape `json:"shapes,omitempty"`
	// Winners other than the default and the presets, which are candidates anyway.
	Winners []winner `json:"winners,omitempty"`
	// Struck are hashes of winners that ran out of events on a later round's futures,
	// where others did not, oldest first. They win no more: what is best on one
	// hour's futures and livelocked on the next one's is not worth having at any.
	Struck []string `json:"struck,omitempty"`
}

// experienceVersion changes with the meaning of experience; one of another version
// counts for nothing.
const experienceVersion = 1

type winner struct {
	Config json.RawMessage `json:"config"`
	// Met is the situation of the last round it won, Round its number, Wins how
	// many rounds it won.
	Met   situation `json:"met"`
	Round int       `json:"round"`
	Wins  int       `json:"wins"`
	// config is Config in the round's space.
	config space.Config
}

// recall reads an experience. Winners that are no longer in the space are forgotten.
func recall(text json.RawMessage, sp *space.Space) *experience {
	m := &experience{Version: experienceVersion}
	var old experience
	if len(text) == 0 || json.Unmarshal(text, &old) != nil || old.Version != experienceVersion {
		return m
	}
	m.Full, m.Shapes, m.Struck = old.Full, old.Shapes, old.Struck
	for _, w := range old.Winners {
		c, err := sp.ParseJSON(w.Config)
		if err != nil {
			continue
		}
		w.config = c
		m.Winners = append(m.Winners, w)
	}
	return m
}

// search decides what a round that meets x searches, and says why.
func (m *experience) search(setting string, x *situation, atDefault bool) (what, why string) {
	switch setting {
	case SearchFull, SearchPortfolio:
		return setting, "as set"
	}
	if m.Full == 0 {
		return SearchFull, "cold start: no search before"
	}
	if atDefault {
		return SearchFull, "cold start: the default is in force"
	}
	if x.Shape.Jobs < leastJobs {
		return SearchPortfolio, fmt.Sprintf("%d jobs that ended are too few to tell the workload's shape", x.Shape.Jobs)
	}
	nearest := math.Inf(1)
	for i := range m.Shapes {
		nearest = min(nearest, x.Shape.distance(&m.Shapes[i]))
	}
	switch {
	case math.IsInf(nearest, 1):
		return SearchFull, "the workload's shape is known for the first time"
	case nearest > shapeChange:
		return SearchFull, fmt.Sprintf("the workload's shape is %.2f from the nearest one searched for", nearest)
	}
	return SearchPortfolio, fmt.Sprintf("the workload's shape is %.2f from one searched for", nearest)
}

// after is the experience of a round's successor.
func (m *experience) after(round int, x *situation, s *schedulers.Scheduler, out *Result) *experience {
	if len(out.Trials) == 0 {
		return m
	}
	next := &experience{Version: experienceVersion, Full: m.Full, Shapes: slices.Clone(m.Shapes), Winners: slices.Clone(m.Winners), Struck: slices.Clone(m.Struck)}
	next.strike(out)
	if out.Best.OK() {
		next.win(round, x, s, out.Best.Config, 1)
	}
	if out.Search == SearchFull {
		next.Full++
		if x.Shape.Jobs >= leastJobs {
			next.Shapes = append(next.Shapes, x.Shape)
			next.Shapes = next.Shapes[max(0, len(next.Shapes)-shapesKept):]
		}
		for _, c := range promising(out) {
			next.win(round, x, s, c, 0)
		}
	}
	// The ones that won least go first, of these the oldest.
	for len(next.Winners) > winnersKept {
		last := 0
		for i := range next.Winners {
			a, b := &next.Winners[i], &next.Winners[last]
			if a.Wins < b.Wins || a.Wins == b.Wins && a.Round < b.Round {
				last = i
			}
		}
		next.Winners = slices.Delete(next.Winners, last, last+1)
	}
	return next
}

// strike forgets winners that a round found livelocked. If every configuration is,
// that says nothing about any.
func (m *experience) strike(out *Result) {
	if !slices.ContainsFunc(out.Trials, func(t search.Trial) bool { return t.OK() }) {
		return
	}
	for _, t := range out.Trials {
		if !t.Measurement.Exhausted {
			continue
		}
		hash := t.Config.Hash()
		won := func(w winner) bool { return w.config.Equal(t.Config) }
		if slices.ContainsFunc(m.Winners, won) && !slices.Contains(m.Struck, hash) {
			m.Winners = slices.DeleteFunc(m.Winners, won)
			m.Struck = append(m.Struck, hash)
		}
	}
	m.Struck = m.Struck[max(0, len(m.Struck)-struckKept):]
}

// win remembers a configuration.
func (m *experience) win(round int, x *situation, s *schedulers.Scheduler, c space.Config, wins int) {
	if c.Equal(c.Space().Default()) || slices.Contains(m.Struck, c.Hash()) {
		return
	}
	for _, p := range presetsIn(c.Space(), s) {
		if p.Config.Equal(c) {
			return
		}
	}
	w := winner{config: c, Met: *x, Round: round, Wins: wins}
	var err error
	if w.Config, err = json.Marshal(c); err != nil {
		return // not of numbers that JSON has: no space lets them through
	}
	for i := range m.Winners {
		if m.Winners[i].config.Equal(c) {
			w.Wins += m.Winners[i].Wins
			m.Winners[i] = w
			return
		}
	}
	m.Winners = append(m.Winners, w)
}

// promising are trials of a search that were better than the incumbent on
// average and unlike each other and the winner, the best first.
func promising(out *Result) []space.Config {
	var better []search.Trial
	for _, t := range out.Trials {
		if t.OK() && search.Gain(t, out.Incumbent).Plain > 1 {
			better = append(better, t)
		}
	}
	slices.SortStableFunc(better, func(a, b search.Trial) int {
		switch x, y := a.Measurement.Mean(), b.Measurement.Mean(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	chosen := diverse{out.Best.Config}
	for _, t := range better {
		if len(chosen) <= runnersUp {
			chosen.add(t.Config)
		}
	}
	return chosen[1:]
}

// candidates are winners to measure beside the default, the incumbent and the
// presets: in turn the one that won in the situation most like this and the one
// that won most often, each unlike all before it.
func (m *experience) candidates(x *situation, sp *space.Space, presets []search.Preset, incumbent space.Config, most int) []search.Preset {
	chosen := diverse{sp.Default(), incumbent}
	for _, p := range presets {
		chosen = append(chosen, p.Config)
	}
	near, often := make([]int, len(m.Winners)), make([]int, len(m.Winners))
	far := make([]float64, len(m.Winners))
	for i := range m.Winners {
		near[i], often[i], far[i] = i, i, x.distance(&m.Winners[i].Met)
	}
	slices.SortStableFunc(near, func(a, b int) int {
		switch {
		case far[a] < far[b]:
			return -1
		case far[a] > far[b]:
			return 1
		}
		return m.Winners[b].Round - m.Winners[a].Round
	})
	slices.SortStableFunc(often, func(a, b int) int {
		if d := m.Winners[b].Wins - m.Winners[a].Wins; d != 0 {
			return d
		}
		return m.Winners[b].Round - m.Winners[a].Round
	})
	var out []search.Preset
	for i := range near {
		for _, pick := range [...]struct {
			origin string
			at     int
		}{{"like", near[i]}, {"past", often[i]}} {
			w := &m.Winners[pick.at]
			if len(out) < most && chosen.add(w.config) {
				out = append(out, search.Preset{Name: fmt.Sprintf("round-%d", w.Round), Origin: pick.origin, Config: w.config})
			}
		}
	}
	return out
}

// diverse is a list of configurations that are not alike.
type diverse []space.Config

func (d *diverse) add(c space.Config) bool {
	x := c.Space().Encode(c)
	for _, o := range *d {
		y := c.Space().Encode(o)
		sum := 0.0
		for i := range x {
			sum += math.Abs(x[i] - y[i])
		}
		if sum < alike*float64(len(x)) || o.Equal(c) {
			return false
		}
	}
	*d = append(*d, c)
	return true
}

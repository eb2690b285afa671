package round

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

const (
	// portfolioSize bounds the portfolio, the default and the incumbent included: the
	// more configurations are compared on few futures, the larger the selection bias
	// (docs/search.md#portfolio).
	portfolioSize = 16
	// presetsKept of them at most are presets, so that some are from history.
	presetsKept = 10
	// pastInFull is how many winners a search of the whole space starts from.
	pastInFull = 4
	// winnersKept, shapesKept and excludedKept bound the history.
	winnersKept  = 32
	shapesKept   = 32
	excludedKept = 64
	// runnersUpKept of a search of the whole space are remembered with its winner.
	runnersUpKept = 3
	// minDistance is the least mean absolute difference, in the unit cube, of
	// configurations worth measuring both.
	minDistance = .02
)

// history is the knowledge that a round has from earlier rounds. It is a function of
// these alone, so decisions replay.
type history struct {
	Version int `json:"version"`
	// Full counts the searches of the whole space, Shapes are the job mixes of those
	// with enough finished jobs, oldest first.
	Full   int     `json:"full"`
	Shapes []shape `json:"shapes,omitempty"`
	// Winners other than the default and the presets, which are always candidates.
	Winners []winner `json:"winners,omitempty"`
	// Excluded are hashes of winners that exhausted their event budget on a later
	// round's scenarios where others did not, oldest first. They are never candidates
	// again.
	Excluded []string `json:"excluded,omitempty"`
	// Promised counts the decisions in a row in which configurations promised enough for the fast path, by hash, of the
	// objective of Goal. Asked is the last day, from 1970 on, on which the daily rule was asked.
	Goal     string         `json:"goal,omitempty"`
	Promised map[string]int `json:"promised,omitempty"`
	Asked    int64          `json:"asked,omitempty"`
	// Band is the demand that the last decision expects.
	Band band `json:"band,omitzero"`
	// Searched is the instant of the last search of the whole space.
	Searched time.Duration `json:"searched,omitempty"`
}

// historyVersion changes with the meaning of history; other versions are ignored.
const historyVersion = 2

type winner struct {
	Config json.RawMessage `json:"config"`
	// Situation is that of the last round it won, Round its number, Wins the number of
	// rounds it won.
	Situation situation `json:"met"`
	Round     int       `json:"round"`
	Wins      int       `json:"wins"`
	// At is the instant of that round; 0 if it is not known.
	At time.Duration `json:"at,omitempty"`
	// config is Config in the round's space.
	config space.Config
}

// loadHistory reads a history. Winners outside the space are dropped.
func loadHistory(text json.RawMessage, sp *space.Space) *history {
	h := &history{Version: historyVersion}
	var old history
	if len(text) == 0 || json.Unmarshal(text, &old) != nil || old.Version != historyVersion {
		return h
	}
	winners := old.Winners
	*h = old
	h.Winners = nil
	for _, w := range winners {
		c, err := sp.ParseJSON(w.Config)
		if err != nil {
			continue
		}
		w.config = c
		h.Winners = append(h.Winners, w)
	}
	return h
}

// pursue drops the promises of another goal.
func (h *history) pursue(goal string) {
	if h.Goal != goal {
		h.Goal, h.Promised, h.Asked = goal, nil, 0
	}
}

// observe forgets a search later than an instant, if the clock was set back.
func (h *history) observe(at time.Duration) {
	if h.Searched > at {
		h.Searched = 0
	}
}

// searchAgain is the time between searches of the whole space while the default is in
// force.
const searchAgain = 6 * time.Hour

// search decides the scope of the search of a round at an instant in situation x, and returns
// the reason.
func (h *history) search(setting Search, x *situation, at time.Duration, atDefault bool) (what Search, why string) {
	switch setting {
	case SearchFull, SearchPortfolio:
		return setting, "as set"
	}
	if h.Full == 0 {
		return SearchFull, "cold start: no search before"
	}
	if atDefault && at-h.Searched >= searchAgain {
		return SearchFull, "cold start: the default is in force"
	}
	if x.Shape.Jobs < leastJobs {
		return SearchPortfolio, fmt.Sprintf("%d jobs that ended are too few to determine the workload's shape",
			x.Shape.Jobs)
	}
	nearest := math.Inf(1)
	for i := range h.Shapes {
		nearest = min(nearest, x.Shape.distance(&h.Shapes[i]))
	}
	switch {
	case math.IsInf(nearest, 1):
		return SearchFull, "the workload's shape is known for the first time"
	case nearest > shapeChange:
		return SearchFull, fmt.Sprintf("the workload's shape is %.2f from the nearest one searched for", nearest)
	}
	return SearchPortfolio, fmt.Sprintf("the workload's shape is %.2f from one searched for", nearest)
}

// after is the history for the next round.
func (h *history) after(round int, at time.Duration, x *situation, s *schedulers.Scheduler, out *Result) *history {
	if len(out.Trials) == 0 {
		return h
	}
	c := *h
	next := &c
	next.Shapes, next.Winners, next.Excluded = slices.Clone(h.Shapes), slices.Clone(h.Winners), slices.Clone(h.Excluded)
	next.exclude(out)
	if out.top.OK() {
		next.win(round, at, x, s, out.top.Config, 1)
	}
	if out.Search == SearchFull {
		next.Full++
		next.Searched = at
		if x.Shape.Jobs >= leastJobs {
			next.Shapes = append(next.Shapes, x.Shape)
			next.Shapes = next.Shapes[max(0, len(next.Shapes)-shapesKept):]
		}
		for _, c := range runnersUp(out) {
			next.win(round, at, x, s, c, 0)
		}
	}
	// Those with the fewest wins are dropped first, of these the oldest.
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

// exclude drops winners that exhausted their events in a round, unless every
// configuration did.
func (h *history) exclude(out *Result) {
	if !slices.ContainsFunc(out.Trials, func(t search.Trial) bool { return t.OK() }) {
		return
	}
	for _, t := range out.Trials {
		if !t.Measurement.Exhausted {
			continue
		}
		hash := t.Config.Hash()
		won := func(w winner) bool { return w.config.Equal(t.Config) }
		if slices.ContainsFunc(h.Winners, won) && !slices.Contains(h.Excluded, hash) {
			h.Winners = slices.DeleteFunc(h.Winners, won)
			h.Excluded = append(h.Excluded, hash)
		}
	}
	h.Excluded = h.Excluded[max(0, len(h.Excluded)-excludedKept):]
}

// win adds a configuration with a number of wins.
func (h *history) win(round int, at time.Duration, x *situation, s *schedulers.Scheduler, c space.Config, wins int) {
	preset := func(p search.Preset) bool { return p.Config.Equal(c) }
	if c.Equal(c.Space().Default()) || slices.Contains(h.Excluded, c.Hash()) ||
		slices.ContainsFunc(presetsIn(c.Space(), s), preset) {
		return
	}
	w := winner{config: c, Situation: *x, Round: round, At: at, Wins: wins}
	var err error
	if w.Config, err = json.Marshal(c); err != nil {
		return // a value that JSON cannot hold; no space allows one
	}
	for i := range h.Winners {
		if h.Winners[i].config.Equal(c) {
			w.Wins += h.Winners[i].Wins
			h.Winners[i] = w
			return
		}
	}
	h.Winners = append(h.Winners, w)
}

// runnersUp are trials that were better than the incumbent on average, dissimilar to
// each other and to the winner, the best first.
func runnersUp(out *Result) []space.Config {
	var better []search.Trial
	for _, t := range out.Trials {
		if t.OK() && t.Measurement.Measured == 0 && search.Gain(t, out.Incumbent).Plain > 1 {
			better = append(better, t)
		}
	}
	slices.SortStableFunc(better, func(a, b search.Trial) int {
		return cmp.Compare(a.Measurement.Mean(), b.Measurement.Mean())
	})
	chosen := dissimilar{out.top.Config}
	for _, t := range better {
		if len(chosen) <= runnersUpKept {
			chosen.add(t.Config)
		}
	}
	return chosen[1:]
}

// candidates are winners to measure besides the default, the incumbent and the
// presets: alternately the one that won in the most similar situation and the one that
// won most often, each dissimilar to all before it.
func (h *history) candidates(x *situation, sp *space.Space, presets []search.Preset, incumbent space.Config,
	most int) []search.Preset {
	chosen := dissimilar{sp.Default(), incumbent}
	for _, p := range presets {
		chosen = append(chosen, p.Config)
	}
	near, often := make([]int, len(h.Winners)), make([]int, len(h.Winners))
	far := make([]float64, len(h.Winners))
	for i := range h.Winners {
		near[i], often[i], far[i] = i, i, x.distance(&h.Winners[i].Situation)
	}
	slices.SortStableFunc(near, func(a, b int) int {
		return cmp.Or(cmp.Compare(far[a], far[b]), h.Winners[b].Round-h.Winners[a].Round)
	})
	slices.SortStableFunc(often, func(a, b int) int {
		return cmp.Or(h.Winners[b].Wins-h.Winners[a].Wins, h.Winners[b].Round-h.Winners[a].Round)
	})
	var out []search.Preset
	for i := range near {
		for _, pick := range [...]struct {
			origin string
			at     int
		}{{"like", near[i]}, {"past", often[i]}} {
			w := &h.Winners[pick.at]
			if len(out) < most && chosen.add(w.config) {
				out = append(out, search.Preset{Name: fmt.Sprintf("round-%d", w.Round), Origin: pick.origin,
					Config: w.config})
			}
		}
	}
	return out
}

// Origins names the winners of earlier rounds by the origin of a candidate: "the configuration
// of" the instant at which it won last. The text is the History of the round's Input.
func Origins(text json.RawMessage, zero time.Time) map[string]string {
	var h history
	if len(text) == 0 || json.Unmarshal(text, &h) != nil || h.Version != historyVersion {
		return nil
	}
	return h.origins(zero)
}

// origins names the winners by the instant at which they won last, for reasons.
func (h *history) origins(zero time.Time) map[string]string {
	out := map[string]string{}
	for i := range h.Winners {
		w := &h.Winners[i]
		if w.At > 0 {
			name := "the configuration of " + zero.Add(w.At).Format("2 Jan 15:04")
			out[fmt.Sprintf("past:round-%d", w.Round)], out[fmt.Sprintf("like:round-%d", w.Round)] = name, name
		}
	}
	return out
}

// dissimilar is a list of configurations at least minDistance apart.
type dissimilar []space.Config

// add appends c if it is far enough from all others.
func (d *dissimilar) add(c space.Config) bool {
	x := c.Space().Encode(c)
	for _, o := range *d {
		y := c.Space().Encode(o)
		sum := 0.0
		for i := range x {
			sum += math.Abs(x[i] - y[i])
		}
		if sum < minDistance*float64(len(x)) || o.Equal(c) {
			return false
		}
	}
	*d = append(*d, c)
	return true
}

package round

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Settings bound the cost of a round and its adoptions.
type Settings struct {
	// MinRatio is the least controllable ratio (Decision.Ratio) of an adopted
	// configuration, MinGain the least share of the whole objective that it gains.
	// Every change within the last day raises MinGain by ChangePrice. Negative shares are
	// none.
	MinRatio    float64 `json:"min_ratio"`
	MinGain     float64 `json:"min_gain"`
	ChangePrice float64 `json:"change_price"`
	// Dwell is the least time that a configuration is in force before a better one
	// replaces it, unless the round finds that one better by UrgentRatio. Negative is none.
	Dwell time.Duration `json:"dwell"`
	// Guard is the share by which an adopted configuration may make a guarded metric
	// worse: each tenant's p95 queueing delay, the mean JCT of jobs of less than ten
	// minutes, and the p99 JCT. Negative means that nothing is guarded.
	Guard float64 `json:"guard"`
	// Horizon is the time that arrivals are forecast for, Futures the number of futures
	// that every configuration is measured on.
	Horizon time.Duration `json:"horizon"`
	Futures int           `json:"futures"`
	// Budget is the number of configurations measured.
	Budget int `json:"budget"`
	// Seed of all random draws; Decide mixes the round's number into it.
	Seed uint64 `json:"seed"`
	// Workers is the number of concurrent measurements; 0 is one per processor. The
	// decision does not depend on it.
	Workers int `json:"-"`
	// Search selects what is measured besides the default and the incumbent; the zero
	// value is SearchAuto.
	Search Search `json:"-"`
	// Always adopts the best on average, whatever it gains, as the paper does; for
	// evaluations only.
	Always bool `json:"-"`
	// Ablation leaves parts of the decision out; for evaluations only.
	Ablation Ablation `json:"ablation,omitzero"`
}

// Ablation says which parts of a decision are left out.
type Ablation struct {
	// NoPooling decides on the round's own futures alone.
	NoPooling bool `json:"no_pooling,omitempty"`
	// NoReplay leaves out the replay of the last days, NoStress the stressed futures,
	// NoGuards the guarded metrics.
	NoReplay bool `json:"no_replay,omitempty"`
	NoStress bool `json:"no_stress,omitempty"`
	NoGuards bool `json:"no_guards,omitempty"`
	// NoJudge leaves what was adopted unwatched, NoBurst decides at intervals alone.
	NoJudge bool `json:"no_judge,omitempty"`
	NoBurst bool `json:"no_burst,omitempty"`
}

// UrgentRatio is the controllable ratio on a round's own futures from which a
// configuration is adopted between rounds and before Dwell is over (paper, section 4.2).
const UrgentRatio = 1.1

// DefaultInterval is the time between rounds, the paper's.
const DefaultInterval = time.Hour

// DefaultSettings are those of a round every hour.
func DefaultSettings() Settings {
	return Settings{MinRatio: 1.02, MinGain: .002, ChangePrice: .001, Dwell: 2 * time.Hour, Guard: .1,
		Horizon: 12 * time.Hour, Futures: 4, Budget: 40}
}

// WithDefaults replaces settings that are zero by the defaults, and negative ones where
// they have no meaning.
func (s Settings) WithDefaults() Settings {
	d := DefaultSettings()
	if s.MinRatio > 0 {
		d.MinRatio = s.MinRatio
	}
	if s.Horizon > 0 {
		d.Horizon = s.Horizon
	}
	if s.Futures > 0 {
		d.Futures = s.Futures
	}
	if s.Budget > 0 {
		d.Budget = s.Budget
	}
	if s.MinGain != 0 {
		d.MinGain = s.MinGain
	}
	if s.ChangePrice != 0 {
		d.ChangePrice = s.ChangePrice
	}
	if s.Dwell != 0 {
		d.Dwell = s.Dwell
	}
	if s.Guard != 0 {
		d.Guard = s.Guard
	}
	d.Seed, d.Workers, d.Search, d.Always, d.Ablation = s.Seed, s.Workers, s.Search, s.Always, s.Ablation
	return d
}

// Search selects the configurations that a round measures.
type Search string

const (
	// SearchAuto searches the whole space at a cold start and when the shape of
	// the workload is new, and the portfolio otherwise.
	SearchAuto Search = "auto"
	// SearchPortfolio measures only the default, the incumbent, the scheduler's presets
	// and winners of earlier rounds.
	SearchPortfolio Search = "portfolio"
	// SearchFull measures these, then the proposals of a sampler.
	SearchFull Search = "full"
)

// Searches lists the values of Settings.Search.
var Searches = []Search{SearchAuto, SearchPortfolio, SearchFull}

// ParseSearch finds one of Searches; an empty name is SearchAuto.
func ParseSearch(name string) (Search, error) {
	s := Search(name)
	switch {
	case s == "":
		return SearchAuto, nil
	case !slices.Contains(Searches, s):
		return "", fmt.Errorf("search: %q is not known; there are %s", name, strings.Join(SearchNames(), ", "))
	}
	return s, nil
}

// SearchNames are the texts of Searches.
func SearchNames() []string {
	out := make([]string, len(Searches))
	for i, s := range Searches {
		out[i] = string(s)
	}
	return out
}

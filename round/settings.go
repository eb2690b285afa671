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
	// configuration.
	MinRatio float64 `json:"min_ratio"`
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
}

// DefaultInterval is the time between rounds, the paper's.
const DefaultInterval = time.Hour

// DefaultSettings are those of a round every hour.
func DefaultSettings() Settings {
	return Settings{MinRatio: 1.05, Horizon: 4 * time.Hour, Futures: 4, Budget: 40}
}

// WithDefaults replaces settings that are not positive by the defaults.
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
	d.Seed, d.Workers, d.Search, d.Always = s.Seed, s.Workers, s.Search, s.Always
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

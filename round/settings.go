package round

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/generation"
)

// Settings bound the cost of a round and its adoptions.
type Settings struct {
	// Guard is the share by which an adopted configuration may make a guarded time worse: the mean JCT of jobs of less
	// than ten minutes, the p99 JCT, the mean wait of the jobs of each width and the waits of probes, each by more than
	// a minute too. Negative means that nothing is guarded.
	Guard float64 `json:"guard"`
	// Rule is the adoption rule; the zero value is RuleDaily.
	Rule Rule `json:"rule,omitempty"`
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
	// Search selects the candidates besides the default and the incumbent; the zero
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
	// NoDaily leaves out the daily rule, NoFast the fast path; NoBurst decides at intervals alone.
	NoDaily bool `json:"no_daily,omitempty"`
	NoFast  bool `json:"no_fast,omitempty"`
	NoBurst bool `json:"no_burst,omitempty"`
	// NoPast searches without the winners of past rounds.
	NoPast bool `json:"-"`
}

// Rule is how a configuration is adopted.
type Rule string

const (
	// RuleDaily asks the history once a day (Ask), with a fast path for large gains between.
	RuleDaily Rule = ""
	// RulePaper adopts in every round the best of a search of the whole space if its controllable ratio is at least 1.1
	// (paper, section 4.2).
	RulePaper Rule = "paper"
	// paperRatio is that ratio.
	paperRatio = 1.1
)

// Generator is the method that makes the futures of a rule's rounds.
func (r Rule) Generator() generation.Method {
	if r != RulePaper {
		return generation.Method{}
	}
	m, err := generation.ParseMethod("paper")
	if err != nil {
		panic(err) // a method of package arrivals
	}
	return m
}

// ParseRule finds a rule by name; "" and daily are RuleDaily.
func ParseRule(name string) (Rule, error) {
	switch name {
	case "", "daily":
		return RuleDaily, nil
	case string(RulePaper):
		return RulePaper, nil
	}
	return "", fmt.Errorf("rule: %q is not known; there are daily and paper", name)
}

// String is the name of a rule.
func (r Rule) String() string {
	if r == RuleDaily {
		return "daily"
	}
	return string(r)
}

// DefaultInterval is the time between rounds, the paper's.
const DefaultInterval = time.Hour

// DefaultSettings are those of a round every hour.
func DefaultSettings() Settings {
	return Settings{Guard: .1, Horizon: 12 * time.Hour, Futures: 4, Budget: 40}
}

// WithDefaults replaces settings that are zero by the defaults, and negative ones where
// they have no meaning.
func (s Settings) WithDefaults() Settings {
	d := DefaultSettings()
	s.Horizon, s.Futures = cmp.Or(max(0, s.Horizon), d.Horizon), cmp.Or(max(0, s.Futures), d.Futures)
	s.Budget, s.Guard = cmp.Or(max(0, s.Budget), d.Budget), cmp.Or(s.Guard, d.Guard)
	return s
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

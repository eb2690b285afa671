package round

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// TestStoredForms: settings and counts are stored with schedulers and revisions.
func TestStoredForms(t *testing.T) {
	s := DefaultSettings()
	s.Seed, s.Workers, s.Search, s.Always = 3, 8, SearchFull, true
	for _, tt := range []struct {
		value any
		want  string
	}{
		{s, `{"guard":0.1,"horizon":43200000000000,"futures":4,"budget":40,"seed":3}`},
		{Stats{Trials: 40, Evaluations: 44, Replayed: 4, WiderThanCluster: 2},
			`{"evaluations":44,"jobs_wider_than_cluster":2,"replayed":4,"trials":40}`},
		{Stats{Trials: 6, Evaluations: 6}, `{"evaluations":6,"trials":6}`},
	} {
		if got, err := json.Marshal(tt.value); err != nil || string(got) != tt.want {
			t.Errorf("%s, %v; want %s", got, err, tt.want)
		}
	}
}

func TestWithDefaults(t *testing.T) {
	if got := (Settings{}).WithDefaults(); got != DefaultSettings() {
		t.Errorf("none given: %+v", got)
	}
	given := Settings{Guard: -1, Rule: RulePaper, Horizon: time.Hour, Futures: 2, Budget: 9, Seed: 5, Workers: 3,
		Search: SearchFull, Always: true}
	if got := given.WithDefaults(); got != given {
		t.Errorf("all given: %+v", got)
	}
}

// TestNegativeSettings: settings that are off stay off.
func TestNegativeSettings(t *testing.T) {
	off := DefaultSettings()
	off.Guard = -1
	if got := (Settings{Guard: -1}).WithDefaults(); got != off {
		t.Errorf("off: %+v", got)
	}
}

func TestParseSearch(t *testing.T) {
	for text, want := range map[string]Search{"": SearchAuto, "auto": SearchAuto, "portfolio": SearchPortfolio,
		"full": SearchFull} {
		if got, err := ParseSearch(text); got != want || err != nil {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if _, err := ParseSearch("all"); err == nil ||
		!strings.Contains(err.Error(), `"all" is not known; there are auto, portfolio, full`) {
		t.Errorf("error %v", err)
	}
}

// pruneAll rejects every proposal.
type pruneAll struct{}

func (pruneAll) Reject([]search.Trial, space.Config) string { return "pruned" }
func (pruneAll) Scope(_ []search.Trial, c space.Config) (space.Config, []string) {
	return c, nil
}
func (pruneAll) Finish([]search.Trial) error { return nil }

// TestReject: configurations that the scheduler refused are rejected with or without a
// pruner.
func TestReject(t *testing.T) {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused, other := sp.Default(), sp.Default().With("n", space.Int(1))
	r := Round{Problem: Problem{Refused: []space.Config{refused}}}
	if got := r.reject(nil, refused); got != "its values are parked" {
		t.Errorf("refused: %q", got)
	}
	if got := r.reject(nil, other); got != "" {
		t.Errorf("not refused: %q", got)
	}
	r.Pruner = pruneAll{}
	if got := r.reject(nil, refused) + ", " + r.reject(nil, other); got != "its values are parked, pruned" {
		t.Errorf("with a pruner: %q", got)
	}
}

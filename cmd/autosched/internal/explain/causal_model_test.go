package explain

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestCausalModelAnswers asks a table whose makings are known: the delay is the
// number of queues, the JCT 100 and ten times the delay.
func TestCausalModelAnswers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	data, tiers := clitest.WriteRuns(t, t.TempDir())
	ask := func(into any, args ...string) {
		t.Helper()
		code, out, errs := clitest.Run(append([]string{"explain", args[0], "--data", data, "--tiers", tiers, "--json"},
			args[1:]...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		if err := json.Unmarshal([]byte(out), into); err != nil {
			t.Fatal(err)
		}
	}
	near := func(what string, got, want, by float64) {
		t.Helper()
		if math.Abs(got-want) > by {
			t.Errorf("%s: %g, want about %g", what, got, want)
		}
	}

	var effects struct {
		Model struct {
			Rows    int
			Numbers string
			Errors  []struct {
				Blend, Mean float64
				Rank        float64 `json:"rank_correlation"`
			}
		}
		Objectives []struct {
			Effects []model.Effect
			Paths   []model.Path
		}
	}
	ask(&effects, "effects")
	if e := effects.Model.Errors[0]; effects.Model.Rows != 400 || effects.Model.Numbers != "predicted" ||
		e.Blend > .5*e.Mean || e.Rank < .8 {
		t.Errorf("%+v", effects.Model)
	}
	o := effects.Objectives[0]
	if e := o.Effects[0]; e.Parameter != "queues" || e.Inert || !e.Connected {
		t.Errorf("%+v", e)
	} else { // quantiles 1, 2 or 3, ..., 8
		near("effect of queues", e.ACE, 70, 7)
	}
	if e := o.Effects[1]; e.Parameter != "verbose" || e.ACE > 5 || e.Connected || e.Levels[1].Name != "yes" {
		t.Errorf("%+v", e)
	}
	if p := o.Paths; len(p) != 1 || strings.Join(p[0].Nodes, " ") != "queues delay jct" {
		t.Errorf("%+v", p)
	}

	var what struct {
		At      string
		Base    map[string]string
		Answers []model.Answer
		Notes   []string
	}
	ask(&what, "whatif", "--set", "queues=2", "--set", "verbose=no", "--base", "queues=6")
	a := what.Answers[0]
	near("before", a.Before, 160, 5)
	near("after", a.After, 120, 5)
	if !a.Identified || a.Low > 115 || a.High < 125 || what.Base["queues"] != "6" {
		t.Errorf("%+v", what)
	}
	if len(a.Moves) != 1 || a.Moves[0].Metric != "delay" {
		t.Errorf("moves: %+v", a.Moves)
	} else {
		near("delay", a.Moves[0].After, 2, .3)
	}
	ask(&what, "whatif", "--set", "delay=10", "--set", "queues=1")
	if a := what.Answers[0]; a.Head != "structural" {
		t.Errorf("%+v", a)
	} else {
		near("jct with the delay held", a.After, 200, 5)
	}
	ask(&what, "whatif", "--set", "queues=90")
	if len(what.Notes) != 1 || !strings.Contains(what.Notes[0], "outside of the data, which have 1 to 8") {
		t.Errorf("notes: %v", what.Notes)
	}
	ask(&what, "whatif", "--at-row", "7", "--set", "queues=1")
	if a := what.Answers[0]; what.At != "row 7 of the data" || a.After >= a.Before {
		t.Errorf("%+v", what)
	}
}

func TestCausalModelTables(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	data, tiers := clitest.WriteRuns(t, dir)
	graph := filepath.Join(dir, "graph.json")
	if code, _, errs := clitest.Run("explain", "learn", "--data", data, "--tiers", tiers, "--out", graph); code != 0 {
		t.Fatal(errs)
	}
	for _, tt := range []struct{ args, want string }{
		{"effects", "EFFECT ON jct|queues -> delay -> jct|verbose|inert|none was measured"},
		{"whatif --set queues=2 --at-row 3", "row 3 of the data|do(queues = 2)|PREDICTED AFTER|yes"},
	} {
		args := strings.Fields(tt.args)
		// The graph has the tiers of the columns.
		code, out, errs := clitest.Run(append([]string{"explain", args[0], "--data", data, "--graph", graph},
			args[1:]...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		for _, want := range append(strings.Split(tt.want, "|"), "ERROR ON ROWS LEFT OUT", "400 rows") {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", tt.args, want, out)
			}
		}
	}
}

func TestCausalModelErrors(t *testing.T) {
	dir := t.TempDir()
	data, tiers := clitest.WriteRuns(t, dir)
	few := filepath.Join(dir, "few.csv")
	if err := os.WriteFile(few, []byte("queues,verbose,delay,jct\n1,no,2,3\n2,yes,3,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"effects", 2, "--data is missing"},
		{"effects --data " + data, 2, "--tiers is missing"},
		{"effects --data DATA --column speed", 2, `"speed" is not an objective of the data; there are jct`},
		{"effects --data DATA --group day", 2, `no column "day"`},
		{"effects --data DATA --top -1", 2, "--top"},
		{"effects --data " + few + " --tiers " + tiers, 1, "2 rows"},
		{"whatif --data DATA", 2, "--set is missing"},
		{"whatif --data DATA --set queues", 2, `"queues" is not column=value`},
		{"whatif --data DATA --set lanes=2", 2, `no column "lanes"; there are queues, verbose, delay, jct`},
		{"whatif --data DATA --set verbose=maybe",
			2, `verbose: "maybe" is none of the categories in the data: no, yes`},
		{"whatif --data DATA --set queues=many", 2, `queues: "many" is not a finite number`},
		{"whatif --data DATA --set queues=NaN", 2, "not a finite number"},
		{"whatif --data DATA --set queues=2 --set queues=3", 2, "queues is given twice"},
		{"whatif --data DATA --set jct=2", 2, "jct is the objective"},
		{"whatif --data DATA --set queues=2 --base delay=3",
			2, "delay is predicted, not given; there are queues, verbose"},
		{"whatif --data DATA --set queues=2 --at-row 401", 2, "rows 1 to 400"},
	} {
		args := strings.Fields(strings.ReplaceAll(tt.args, "DATA", data+" --tiers "+tiers+" --boosted=false"))
		code, _, errs := clitest.Run(append([]string{"explain"}, args...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit %d, %q; want %d, %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}

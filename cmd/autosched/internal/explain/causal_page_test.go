package explain

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestCausalPage(t *testing.T) {
	dir := t.TempDir()
	data, tiers := clitest.WriteRuns(t, dir)
	out := filepath.Join(dir, "page.html")
	if code, text, errs := clitest.Run("explain", "page", "--data", data, "--tiers", tiers, "--at-row", "3", "--title",
		"A <model>", "--out", out); code != 0 || text != "" {
		t.Fatalf("exit %d: %s%s", code, text, errs)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A &lt;model&gt;", "row 3 of the data", "const evaluator", `"parents":[`, "z(queues)",
		"always predicting the mean", "inert"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, not := range []string{"http://", "https://", "src="} {
		if strings.Contains(strings.ReplaceAll(string(page), "http://www.w3.org/", ""), not) {
			t.Errorf("the page loads something: %q", not)
		}
	}
	code, text, errs := clitest.Run("explain", "page", "--data", data, "--tiers", tiers, "--at-row", "3", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var made struct {
		Model struct{ Numbers string }
		At    string
		Graph causal.Document
		Panel struct {
			Formula model.Formula
			Base    model.Point
			Effects []objectiveEffects
		}
	}
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	if p := made.Panel; made.Model.Numbers != "predicted" || !strings.HasPrefix(made.At, "row 3") ||
		len(made.Graph.Edges) != 2 || len(p.Formula.Nodes) != 2 || len(p.Base) != 4 || len(p.Effects) != 1 {
		t.Errorf("%+v", made)
	}
	if code, _, errs := clitest.Run("explain", "page", "--data", data, "--tiers", tiers, "--boosted"); code != 2 {
		t.Errorf("trees on a page: exit %d, %s", code, errs)
	}
}

// TestCausalPageComputesAsTheModel runs the page's script, where there is
// something that can, and compares its answers with the model's.
func TestCausalPageComputesAsTheModel(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node to run the page's script with")
	}
	data, tiers := clitest.WriteRuns(t, t.TempDir())
	for _, log := range []bool{true, false} {
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		l, err := (&modelFlags{data: data, tiers: tiers, seed: 1, log: log}).learn(cmd)
		if err != nil {
			t.Fatal(err)
		}
		comparePage(t, node, l)
	}
}

func comparePage(t *testing.T, node string, l *learnt) {
	f, err := l.Formula()
	if err != nil {
		t.Fatal(err)
	}
	type question struct {
		Row  model.Point        `json:"row"`
		Held map[string]float64 `json:"held"` // by column number
	}
	var questions []question
	var want []model.Answer
	delay := l.table.Index("delay")
	for r := range 20 {
		q := question{Row: model.Row(l.table, r), Held: map[string]float64{}}
		settings := []model.Setting{{Column: "queues", Value: q.Row[0]}}
		if r%3 == 0 {
			q.Held[fmt.Sprint(delay)] = float64(r)
			settings = append(settings, model.Setting{Column: "delay", Value: float64(r)})
		}
		a, err := l.Do("jct", q.Row, settings)
		if err != nil {
			t.Fatal(err)
		}
		questions, want = append(questions, q), append(want, a)
	}
	input, err := json.Marshal(map[string]any{"f": f, "questions": questions})
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(node, "-e", evaluatorScript+`
const {f, questions} = JSON.parse(require("fs").readFileSync(0, "utf8")), m = evaluator(f);
console.log(JSON.stringify(questions.map(q => m.predict(f.objectives[0], q.row, q.held))));`)
	run.Stdin = strings.NewReader(string(input))
	text, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Mean, Low, High float64
		Identified      bool
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got) != len(want) {
		t.Fatalf("%v: %s", err, text)
	}
	for i, w := range want {
		g := got[i]
		if far(g.Mean, w.After) || far(g.Low, w.Low) || far(g.High, w.High) || g.Identified != w.Identified {
			t.Errorf("question %d: the page says %+v, the model %+v", i, g, w)
		}
	}
}

func far(a, b float64) bool { return math.Abs(a-b) > 1e-9*math.Max(1, math.Abs(b)) }

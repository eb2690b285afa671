package slurm_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/internal/recorded"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/simulator"
)

var update = flag.Bool("update", false, "write the table of ablations into docs/notes/slurm-model.md")

// ablations are the model with a part replaced.
var ablations = []struct {
	part   string
	change func(*slurm.Settings)
	policy func(slurm.Settings) simulator.Policy
	limits bool // those of jobs are their run times
}{
	{part: "the whole model"},
	{part: "cycles every second", change: func(s *slurm.Settings) {
		s.BFInterval, s.SchedInterval = time.Second, time.Second
	}},
	{part: "no backfill", change: func(s *slurm.Settings) { s.BFInterval = 0 }},
	{part: "no reservations, all that fits starts", change: func(s *slurm.Settings) {
		s.BFMinAgeReserve = 1000 * time.Hour
	}},
	{part: "one reservation (EASY)", change: func(s *slurm.Settings) { s.BFJobPartCountResv = 1 }},
	{part: "GPUs reserved in place of nodes", policy: slurm.ReservingGPUs},
	{part: "run times in place of limits", limits: true},
	{part: "priorities calculated every second", change: func(s *slurm.Settings) {
		s.PriorityCalcPeriod = time.Second
	}},
	{part: "best fit by GPUs", policy: slurm.BestFit},
}

// TestAblations: the table of docs/notes/slurm-model.md has the worth of the model's parts. -update writes all of it;
// otherwise two of its columns are made again, unless the tests are to take their largest inputs.
func TestAblations(t *testing.T) {
	dir := testshared.Path(t, "golden", "slurm")
	const page = "../../docs/notes/slurm-model.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| part |"
	at := bytes.Index(text, []byte("\n"+head)) + 1
	end := at + bytes.Index(text[at:], []byte("\n\n")) + 1
	if at == 0 || end <= at {
		t.Fatalf("%s has no table of parts", page)
	}
	lines := strings.Split(strings.TrimSpace(string(text[at:end])), "\n")
	columns := strings.Split(strings.Trim(lines[0], "| "), " | ")[1:]
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n", lines[0], lines[1])
	for i, a := range ablations {
		row := []string{a.part}
		for c, run := range columns {
			if !*update && os.Getenv("AUTOSCHED_LONG") == "" && c != 1 && c != 3 && i+2 < len(lines) {
				row = append(row, strings.Split(strings.Trim(lines[i+2], "| "), " | ")[c+1])
				continue
			}
			r, err := recorded.Read(filepath.Join(dir, "runs", run+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			_, conf, _ := strings.Cut(run, ".")
			s, _, err := recorded.Settings(filepath.Join(dir, "conf", conf+".conf"))
			if err != nil {
				t.Fatal(err)
			}
			if a.change != nil {
				a.change(&s)
			}
			for k := range r.Jobs {
				if q := r.Jobs[k].Request(); a.limits {
					q.TimeLimit = r.Jobs[k].Duration
					r.Jobs[k].Requested = q.Shared()
				}
			}
			policy := a.policy
			if policy == nil {
				policy = slurm.NewPolicy
			}
			var means []float64
			for _, of := range recorded.Ensemble(&s) {
				m, err := r.Simulate(s, policy, of, nil)
				if err != nil {
					t.Fatal(err)
				}
				means = append(means, m.MeanError)
			}
			row = append(row, fmt.Sprintf("%.1f", recorded.Median(means)))
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
	}
	if *update {
		text = append(text[:at:at], append([]byte(out.String()), text[end:]...)...)
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := string(text[at:end]); got != out.String() {
		t.Errorf("the page has\n%s\nand it is\n%s", got, out.String())
	}
}

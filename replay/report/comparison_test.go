package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/workload"
)

// rows is a comparison of n rows on windows of the given numbers of jobs.
func rows(n int, jobs ...int) *replay.Comparison {
	c := &replay.Comparison{Trace: `a <b> & "c"`, Digest: "d1935", Cluster: workload.Uniform(5, 8), Simulator: "8",
		Synthetic: true}
	results := func(jobs int) (out []replay.Result) {
		for i := range n {
			r := replay.Result{Row: fmt.Sprint("row <", i, ">"), Ratio: 1 + .1*float64(i)}
			r.Jobs, r.AvgJCT = jobs, 4000/r.Ratio
			if i > 0 {
				r.Low, r.High = r.Ratio-.05, r.Ratio+.05
			}
			for j := range jobs {
				r.Rows = append(r.Rows, named(fmt.Sprint("job,", j), float64(10+j)/r.Ratio)...)
				r.Rows[j].Wait = float64(j % 7 * i)
				r.Series = append(r.Series,
					replay.GPUs{AtS: float64(600 * j), Used: float64(j % 40), Queued: float64(j)})
			}
			out = append(out, r)
		}
		return out
	}
	for i := range n {
		c.Rows = append(c.Rows, replay.ComparedRow{Name: fmt.Sprint("row <", i, ">"), Scheduler: "tiresias"})
	}
	total := 0
	for i, k := range jobs {
		w := replay.ComparedWindow{Name: fmt.Sprint("w", i), From: "2017-10-09T00:00:00Z", To: "2017-10-09T03:00:00Z",
			ToS: 10800, Results: results(k)}
		c.Windows, total = append(c.Windows, w), total+k
	}
	if len(jobs) > 1 {
		c.All = results(total)
	}
	return c
}

func TestComparisonPage(t *testing.T) {
	for _, c := range []*replay.Comparison{rows(1, 1), rows(3, 30), rows(14, 40, 300)} {
		var b bytes.Buffer
		if err := (&rowsDocument{c}).writeHTML(&b); err != nil {
			t.Fatal(err)
		}
		check(t, b.String())
		title, _ := BestRow(c)
		for _, want := range []string{"SYNTHETIC", "GPUs in use", strings.ReplaceAll(strings.ReplaceAll(title, "<", "&lt;"),
			">", "&gt;")} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the page of %d rows lacks %q", len(c.Rows), want)
			}
		}
	}
}

func TestWriteComparison(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := WriteComparison(rows(2, 3, 4), dir); err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string]int{"compare.csv": 1 + 3*2, "jobs.csv": 1 + 7} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := csv.NewReader(bytes.NewReader(text)).ReadAll(); err != nil || len(got) != lines {
			t.Errorf("%s has %d lines, want %d: %v", name, len(got), lines, err)
		}
	}
}

// TestBestRow: a gain is said with its interval, and not to be one where it may be chance.
func TestBestRow(t *testing.T) {
	all := func(c *replay.Comparison) string {
		title, text := BestRow(c)
		return title + ". " + text
	}
	c := rows(3, 30, 40)
	if got, want := all(c), "row <2>: average JCT 16.7 % shorter than row <0>. Average JCT 1 h 7 min -> 55 min 33 s; 95 % "+
		"interval of the gain 13.0 % to 20.0 %; shorter in 2 of 2 windows."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.All[2].Low = .99
	if got := all(c); !strings.HasPrefix(got, "No row is better than row <0> beyond chance; the best is row <2>: ") {
		t.Errorf("%q", got)
	}
	c = rows(2, 30)
	c.Windows[0].Results[1].Ratio = .9
	if got := all(c); got != "No row has a shorter average JCT than row <0> (1 h 7 min). " {
		t.Errorf("%q", got)
	}
	c = rows(2, 30)
	c.Windows[0].Results[1].Low, c.Windows[0].Results[1].High = 0, 0
	if got := all(c); !strings.HasSuffix(got, "Average JCT 1 h 7 min -> 1 h 1 min; there are too few jobs for an interval.") ||
		!strings.HasPrefix(got, "No row is shown to be better than row <0>; the best is row <1>: ") {
		t.Errorf("%q", got)
	}
}

// Package report writes an evaluation (package replay) as a page, JSON and CSV, with
// figures and a verdict.
package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/replay"
)

// Schema of report.json (package schema).
const Schema = "evaluation/v1"

// document is a report with the derived texts of its files.
type document struct{ *replay.Report }

// Write writes a report into a folder, which it creates: report.json, methods.csv,
// seeds.csv, decisions.csv, jobs.csv and report.html. Each file is replaced atomically,
// report.html last: if it is new, so are the others.
func Write(report *replay.Report, dir string) error {
	r := &document{report}
	return writeFiles(dir, []file{
		{"report.json", r.writeJSON},
		{"methods.csv", r.writeMethods},
		{"seeds.csv", r.writeSeeds},
		{"decisions.csv", r.writeDecisions},
		{"jobs.csv", r.writeJobs},
		{"report.html", r.writeHTML},
	})
}

type file struct {
	name  string
	write func(io.Writer) error
}

// writeFiles writes files into a folder, which it creates, one after the other, each
// atomically.
func writeFiles(dir string, files []file) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, f := range files {
		if err := atomicfile.Write(filepath.Join(dir, f.name), f.write); err != nil {
			return fmt.Errorf("report: %s: %w", f.name, err)
		}
	}
	return nil
}

func (r *document) writeJSON(w io.Writer) error { return schema.Write(w, Schema, JSON(r.Report)) }

// JSON is a report with its answer and without wall time, as report.json has it: equal runs
// have equal bytes.
func JSON(r *replay.Report) any {
	untimed := *r
	untimed.Methods = slices.Clone(r.Methods)
	for i := range untimed.Methods {
		m := &untimed.Methods[i]
		m.TuningPerRound, m.Seeds = 0, slices.Clone(m.Seeds)
		for k := range m.Seeds {
			m.Seeds[k].TuningPerRound = 0
		}
	}
	return struct {
		Answer Answer `json:"answer"`
		*replay.Report
	}{AnswerOf(r), &untimed}
}

// writeMethods writes a row for each method. Times are in seconds.
func (r *document) writeMethods(w io.Writer) error {
	rows := [][]string{{"method", "description", "avg_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "avg_queue_s",
		"ratio_to_baseline", "preemptions", "utilization", "ftf_le_1", "rounds", "changes", "evaluations",
		"configuration", "seeds", "spread", "short_avg_jct_s", "width_wait_ratio",
		"short_avg_jct_ratio", "p99_jct_ratio", "guards_broken", "robust_avg_jct_s", "guarded_avg_jct_s",
		"guarded_robust_avg_jct_s"}}
	for i := range r.Methods {
		m := &r.Methods[i]
		row := []string{m.Method, m.Description, number(m.AvgJCT), number(m.P50JCT), number(m.P95JCT),
			number(m.P99JCT), number(m.AvgQueue),
			number(m.Ratio), strconv.Itoa(m.Preemptions), number(m.Utilization), number(m.FTFLe1),
			strconv.Itoa(m.Rounds), strconv.Itoa(m.Changes),
			strconv.Itoa(m.Evaluations), m.Configuration,
			strconv.Itoa(max(1, len(m.Seeds))), number(m.Spread), number(m.ShortJCT)}
		if g := m.Guards; g != nil {
			row = append(row, number(g.WidthRatio), number(g.ShortRatio), number(g.P99Ratio),
				strconv.Itoa(len(g.Broken)))
		} else {
			row = append(row, "", "", "", "")
		}
		if h := m.Hindsight; h != nil {
			row = append(row, number(h.RobustJCT), number(h.GuardedJCT), number(h.GuardedRobustJCT))
		} else {
			row = append(row, "", "", "")
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// writeSeeds writes a row for each seed of each method. Times are in seconds.
func (r *document) writeSeeds(w io.Writer) error {
	rows := [][]string{{"method", "seed", "avg_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "avg_queue_s",
		"ratio_to_baseline", "rounds", "changes", "guards_broken"}}
	for i := range r.Methods {
		for k, m := range seedsOf(&r.Methods[i]) {
			broken := ""
			if m.Guards != nil {
				broken = strconv.Itoa(len(m.Guards.Broken))
			}
			rows = append(rows, []string{r.Methods[i].Method, r.seed(&r.Methods[i], k), number(m.AvgJCT),
				number(m.P50JCT), number(m.P95JCT), number(m.P99JCT), number(m.AvgQueue), number(m.Ratio),
				strconv.Itoa(m.Rounds), strconv.Itoa(m.Changes), broken})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// seed is the text of a method's k-th seed.
func (r *document) seed(m *replay.Method, k int) string {
	if len(m.Seeds) == 0 || k >= len(r.Seeds) {
		return strconv.FormatUint(r.Seed, 10)
	}
	return strconv.FormatUint(r.Seeds[k], 10)
}

// writeDecisions writes a row for each round of each method and seed.
func (r *document) writeDecisions(w io.Writer) error {
	rows := [][]string{{"method", "seed", "round", "at", "at_s", "adopted", "ratio", "ratio_low", "ratio_high",
		"evaluations", "search", "why", "reason", "configuration"}}
	for i := range r.Methods {
		m := &r.Methods[i]
		for k, of := range seedsOf(m) {
			for n, d := range of.Decisions {
				low, high := "", ""
				if d.Interval != nil {
					low, high = number(d.Interval.Low), number(d.Interval.High)
				}
				rows = append(rows, []string{m.Method, r.seed(m, k), strconv.Itoa(n), d.At, number(d.AtS),
					strconv.FormatBool(d.Adopted), number(d.Ratio), low, high,
					strconv.Itoa(d.Evaluations), string(d.Search), d.Why, d.Reason, d.Configuration})
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// writeJobs writes a row for each counted job, in order of submission, with its
// JCT in seconds under each method, the mean over its seeds: empty of a job that has not ended.
func (r *document) writeJobs(w io.Writer) error {
	c := csv.NewWriter(w)
	head, rows := []string{"job"}, []replay.JobRows(nil)
	for i := range r.Methods {
		head, rows = append(head, r.Methods[i].Method), append(rows, r.Methods[i].Rows)
	}
	c.Write(head)
	return writeTable(c, nil, rows)
}

// writeTable writes a row for each job: fields before its name, and its JCT in seconds in each simulation.
func writeTable(c *csv.Writer, before []string, of []replay.JobRows) error {
	err := replay.Table(of, func(id string, jcts []*float64) error {
		row := append(slices.Clone(before), id)
		for _, v := range jcts {
			if v == nil {
				row = append(row, "")
			} else {
				row = append(row, number(*v))
			}
		}
		return c.Write(row)
	})
	c.Flush()
	if err == nil {
		err = c.Error()
	}
	return err
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

package waste

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// patternsScan is the result of patterns scan.
type patternsScan struct {
	Trace     string `json:"trace,omitempty"`
	Synthetic bool   `json:"synthetic,omitempty"`
	Size      string `json:"cluster_size"`
	Jobs      int    `json:"jobs"`
	Samples   int    `json:"samples"`
	// Joins says how samples of GPUs were joined to the jobs of the trace.
	Joins *telemetry.JoinReport `json:"joins,omitempty"`
	// Findings are in order of wasted GPU-hours, most first.
	Findings []*patterns.Finding `json:"findings"`
	Wasted   float64             `json:"wasted_gpu_hours"`
	Cost     float64             `json:"cost,omitempty"`
	// Waits are the hours that jobs which ended had waited, by inferred cause, and Bottlenecks the
	// number of jobs of each class.
	Waits       map[string]float64 `json:"wait_hours"`
	Bottlenecks map[string]int     `json:"bottlenecks"`
	// Rules are the applied ones, Examined the ones whose inputs have come, Lacking the inputs that the
	// others lack, and Notes the rules that could not be examined.
	Rules    []string `json:"rules"`
	Examined []string `json:"examined"`
	Lacking  []string `json:"lacking"`
	Notes    []string `json:"notes"`

	kept    map[string]int
	reports []*patterns.JobReport
}

// add keeps a finding as it was last reported.
func (r *patternsScan) add(f *patterns.Finding) {
	key := f.Rule + "\x00" + f.Entity.String() + "\x00" + strconv.FormatInt(f.Opened.UnixNano(), 10)
	i, ok := r.kept[key]
	if !ok {
		i = len(r.Findings)
		r.kept[key], r.Findings = i, append(r.Findings, nil)
	}
	r.Findings[i] = f.Clone()
}

func (r *patternsScan) job(j *patterns.JobReport) {
	for cause, d := range j.Waits {
		r.Waits[cause] += d.Hours()
	}
	r.Bottlenecks[j.Bottleneck]++
	r.reports = append(r.reports, j)
}

// finish ranks the findings.
func (r *patternsScan) finish(s *patterns.Scanner, notes []string, rules *patterns.RuleSet, least float64) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f *patterns.Finding) bool { return f.Confidence < least })
	slices.SortStableFunc(r.Findings, func(a, b *patterns.Finding) int {
		return cmp.Or(cmp.Compare(b.WastedGPUHours, a.WastedGPUHours), cmp.Compare(b.Confidence, a.Confidence),
			a.Opened.Compare(b.Opened))
	})
	for i := range r.Findings {
		r.Wasted += r.Findings[i].WastedGPUHours
		r.Cost += r.Findings[i].Cost
	}
	if r.Findings == nil {
		r.Findings = []*patterns.Finding{}
	}
	for i := range rules.Rules {
		r.Rules = append(r.Rules, rules.Rules[i].ID)
	}
	r.Examined, r.Notes = append([]string{}, s.Examined()...), notes
	if r.Notes == nil {
		r.Notes = []string{}
	}
	r.Lacking = append([]string{}, s.Lacking()...)
}

// verdict describes the extent of a scan without findings.
func verdict(examined, rules, lacking []string) string {
	lack := strings.Join(lacking, ", ")
	switch {
	case len(examined) == 0:
		return fmt.Sprintf("Nothing could be examined: all %d rules lack what they need: %s.", len(rules), lack)
	case len(examined) == len(rules):
		return fmt.Sprintf("Nothing is wrong: %d of %d rules had what they need, and none holds.", len(examined),
			len(rules))
	}
	return fmt.Sprintf("Nothing is wrong in what could be examined: %d of %d rules had what they need, and none holds; "+
		"the others lack: %s.", len(examined), len(rules), lack)
}

func (r *patternsScan) print(w io.Writer, top int) error {
	what := fmt.Sprintf("%s samples", units.Count(r.Samples))
	if r.Trace != "" {
		what = fmt.Sprintf("%s%s: %s jobs, %s", r.Trace, cli.SyntheticLabel(r.Synthetic), units.Count(r.Jobs), what)
	}
	if r.Joins != nil && r.Joins.Samples > 0 {
		what += fmt.Sprintf(" (%s of GPUs joined to jobs)", units.Count(r.Joins.Joined))
	}
	fmt.Fprintf(w, "%s, on %s\n\n", what, r.Size)
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, verdict(r.Examined, r.Rules, r.Lacking))
	} else {
		fmt.Fprintf(w, "%s, %.1f GPU-hours wasted", findings(len(r.Findings)), r.Wasted)
		if r.Cost > 0 {
			fmt.Fprintf(w, ", at a cost of %.2f", r.Cost)
		}
		fmt.Fprintln(w, "; they may overlap.")
	}
	for i, f := range r.Findings[:min(top, len(r.Findings))] {
		printScanned(w, i+1, f)
	}
	if n := len(r.Findings) - top; n > 0 {
		fmt.Fprintf(w, "\n... and %d more (--top)\n", n)
	}
	r.printWaits(w)
	if len(r.Notes) > 0 {
		fmt.Fprintln(w, "\nNot examined:")
		for _, n := range r.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
	return nil
}

func findings(n int) string {
	if n == 1 {
		return "1 finding"
	}
	return units.Count(n) + " findings"
}

func printScanned(w io.Writer, n int, f *patterns.Finding) {
	until := f.Closed.Format(time.RFC3339)
	if f.Open {
		until = "now"
	}
	fmt.Fprintf(w, "\n%d. %s, %s: %.1f GPU-hours", n, f.Rule, f.Entity, f.WastedGPUHours)
	if f.Cost > 0 {
		fmt.Fprintf(w, ", cost %.2f", f.Cost)
	}
	fmt.Fprintf(w, ", confidence %.2f\n   since %s, found at %s, until %s\n", f.Confidence,
		f.Began.Format(time.RFC3339),
		f.Opened.Format(time.RFC3339), until)
	for _, line := range cli.WrapText(f.Words, 110) {
		fmt.Fprintf(w, "   %s\n", line)
	}
	for _, e := range f.Evidence {
		unit := ""
		if e.Unit != "" {
			unit = " " + e.Unit
		}
		fmt.Fprintf(w, "   - %s: %s, threshold %s%s\n", e.What, cli.ThreeDigits(e.Value),
			cli.ThreeDigits(e.Threshold), unit)
	}
	if len(f.Affected) > 0 {
		fmt.Fprintf(w, "   affected: %s\n", strings.Join(f.Affected, ", "))
	}
}

// printWaits prints the causes of waits and the bottlenecks of jobs.
func (r *patternsScan) printWaits(w io.Writer) {
	total := 0.
	for _, h := range r.Waits {
		total += h
	}
	if total > 0 {
		var parts []string
		causes := slices.Collect(maps.Keys(r.Waits))
		slices.SortFunc(causes, func(a, b string) int {
			return cmp.Or(cmp.Compare(r.Waits[b], r.Waits[a]), cmp.Compare(a, b))
		})
		for _, c := range causes {
			parts = append(parts, fmt.Sprintf("%s %s", strings.ReplaceAll(c, "_", " "),
				units.Percent(r.Waits[c]/total)))
		}
		fmt.Fprintf(w, "\nWhy jobs waited (%s in all), inferred from events: %s\n", units.Duration(3600*total),
			strings.Join(parts, ", "))
	}
	var classes []string
	for _, c := range cli.SortedKeys(r.Bottlenecks) {
		if c != "cannot_tell" {
			classes = append(classes, fmt.Sprintf("%s %d", strings.ReplaceAll(c, "_", " "), r.Bottlenecks[c]))
		}
	}
	if len(classes) > 0 {
		fmt.Fprintf(w, "What limited jobs: %s; cannot tell %d\n",
			strings.Join(classes, ", "), r.Bottlenecks["cannot_tell"])
	}
}

// writeJobs writes a row for each job that ended.
func (r *patternsScan) writeJobs(out io.Writer) error {
	w := csv.NewWriter(out)
	head := []string{"job_id", "bottleneck", "stability"}
	causes := cli.SortedKeys(r.Waits)
	for _, c := range causes {
		head = append(head, "wait_"+c+"_s")
	}
	w.Write(head)
	for _, j := range r.reports {
		row := []string{j.Job, j.Bottleneck, j.Stability}
		for _, c := range causes {
			row = append(row, strconv.FormatFloat(j.Waits[c].Seconds(), 'f', -1, 64))
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
}

// readRows reads a CSV file with a header, and calls each with the fields of a row by column.
func readRows(path, flag string, columns []string, each func(map[string]string) error) error {
	in, err := atomicfile.Open(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	defer in.Close()
	c := csv.NewReader(in)
	head, err := c.Read()
	if err != nil {
		return fmt.Errorf("--%s: %s: want the header %s: %w", flag, path, strings.Join(columns, ","), err)
	}
	for _, name := range columns {
		if !slices.Contains(head, name) {
			return fmt.Errorf("--%s: %s: the header lacks %s; want %s", flag, path, name, strings.Join(columns, ","))
		}
	}
	for {
		fields, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("--%s: %s: %w", flag, path, err)
		}
		row := make(map[string]string, len(head))
		for i, name := range head {
			row[name] = fields[i]
		}
		line, _ := c.FieldPos(0)
		if err := each(row); err != nil {
			return fmt.Errorf("--%s: %s: line %d: %w", flag, path, line, err)
		}
	}
}

// readLabels reads the labels of jobs.
func readLabels(path string) (func(*workload.Job) []string, error) {
	labels := map[string][]string{}
	err := readRows(path, "labels", []string{"job_id", "label"}, func(row map[string]string) error {
		if row["job_id"] == "" || row["label"] == "" {
			return fmt.Errorf("job_id, label: are empty")
		}
		labels[row["job_id"]] = append(labels[row["job_id"]], row["label"])
		return nil
	})
	return func(j *workload.Job) []string { return labels[j.ID] }, err
}

// readMessages reads lines of logs in order of time.
func readMessages(path string) (out []patterns.Message, err error) {
	err = readRows(path, "messages", []string{"time", "job", "message"}, func(row map[string]string) error {
		at, err := time.Parse(time.RFC3339, row["time"])
		if err != nil {
			return fmt.Errorf("time: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", row["time"])
		}
		out = append(out, patterns.Message{Time: time.Duration(at.UnixNano()), Job: row["job"], Node: row["node"],
			Source: row["source"], Text: row["message"]})
		return nil
	})
	slices.SortStableFunc(out, func(a, b patterns.Message) int { return cmp.Compare(a.Time, b.Time) })
	return out, err
}

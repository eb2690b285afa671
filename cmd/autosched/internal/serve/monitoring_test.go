package serve

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/autosched/autosched/rollout"
)

// family is a metric with its labels. docs/reference/metrics.md has a row for each (package server).
type family struct {
	labels    []string
	histogram bool
}

// metricFamilies are the metrics of the service by name.
func metricFamilies(t *testing.T) map[string]family {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| metric | labels | meaning |")
	out := map[string]family{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^|]*)` \\|([^|]*)\\|").FindAllStringSubmatch(table, -1) {
		out[row[1]] = family{labelName.FindAllString(row[2], -1), metricHistogram.MatchString(row[1])}
	}
	r := prometheus.NewRegistry() // as the service has
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		out[f.GetName()] = family{}
	}
	return out
}

// states are values of the label state: of revisions, and of rounds that wait.
var states = []string{string(rollout.Proposed), string(rollout.Published), string(rollout.RolledOut), "waiting"}

var (
	metricHistogram = regexp.MustCompile(`(duration|age)_seconds$`)

	labelName = regexp.MustCompile(`\w+`)
	selection = regexp.MustCompile(`\b((?:autosched|go|process)_\w+)(?:\{([^}]*)\})?(\[)?`)
	matcher   = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=) *"([^"]*)"`)
	grouping  = regexp.MustCompile(`\b(?:by|on) *\(([^)]*)\)`)
)

// checkExpression checks that the metrics of an expression of PromQL exist with the labels that it
// names, and that rates are of counters.
func checkExpression(t *testing.T, where, expr string, known map[string]family) {
	t.Helper()
	found := selection.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 || strings.Count(expr, "(") != strings.Count(expr, ")") {
		t.Errorf("%s: %s", where, expr)
	}
	targets := []string{"instance", "job"} // of every target
	all := slices.Clone(targets)
	for _, m := range found {
		name := m[1]
		f, ok := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && known[base].histogram {
				f, ok = known[base], true
				if suffix == "_bucket" {
					f.labels = append(slices.Clone(f.labels), "le")
				}
			}
		}
		if !ok || known[name].histogram { // of which there are only the series
			t.Errorf("%s: there is no metric %s", where, name)
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(f.labels, l[1]) && !slices.Contains(targets, l[1]) {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
			if l[1] == "state" && !slices.Contains(states, l[2]) {
				t.Errorf("%s: no state is %q", where, l[2])
			}
		}
		counter := strings.HasSuffix(name, "_total") || name != strings.TrimSuffix(name, "_bucket")
		if counter != (m[3] != "") {
			t.Errorf("%s: %s: rates are of counters, and counters are for rates", where, name)
		}
		all = append(all, f.labels...)
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range labelName.FindAllString(g[1], -1) {
			if !slices.Contains(all, l) {
				t.Errorf("%s: grouped by %s, which no metric of it has", where, l)
			}
		}
	}
}

// TestAlertRules: the alert rules name metrics and labels that exist, each says its meaning,
// and promtool accepts them where there is one.
func TestAlertRules(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	strictYAML(t, "prometheus-rules.yaml", deployed(t, "prometheus-rules.yaml"), &file)
	known, seen := metricFamilies(t), map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			checkExpression(t, r.Alert, r.Expr, known)
			if seen[r.Alert] || r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
				!slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s: named twice, or without summary, description or severity", r.Alert)
			}
			seen[r.Alert] = true
			for _, l := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				kept := grouping.FindStringSubmatch(r.Expr)
				for _, m := range selection.FindAllStringSubmatch(r.Expr, -1) {
					labels := known[m[1]].labels
					if kept != nil {
						labels = labelName.FindAllString(kept[1], -1)
					}
					if !slices.Contains(labels, l[1]) {
						t.Errorf("%s: its summary has the label %s, its result has not", r.Alert, l[1])
					}
				}
			}
		}
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		rules := filepath.Join(deployDir, "prometheus-rules.yaml")
		out, err := exec.Command(promtool, "check", "rules", rules).CombinedOutput()
		if err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	} else {
		t.Log("there is no promtool: the expressions are not parsed")
	}
}

// TestDashboard: the dashboard is of Grafana's schema as far as it is used, its panels do not overlap,
// and its queries name metrics and labels that exist.
func TestDashboard(t *testing.T) {
	type source struct{ Type, UID string }
	type place struct{ X, Y, W, H int }
	var board struct {
		UID, Title, Refresh    string
		Tags                   []string
		SchemaVersion, Version int
		Editable               bool
		Time                   struct{ From, To string }
		Templating             struct {
			List []struct {
				Name, Type, Query, Label, AllValue string
				Datasource                         source
				Refresh, Sort                      int
				Multi, IncludeAll                  bool
			}
		}
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Datasource               source
			GridPos                  place
			FieldConfig              struct {
				Defaults struct {
					Unit string
					Min  float64
				}
				Overrides []struct{}
			}
			Options struct{ ReduceOptions struct{ Calcs []string } }
			Targets []struct{ RefID, Expr, LegendFormat string }
		}
	}
	text := deployed(t, "grafana-dashboard.json")
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&board); err != nil {
		t.Fatal(err)
	}
	known := metricFamilies(t)
	variables := map[string]bool{}
	for _, v := range board.Templating.List {
		variables[v.Name] = true
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query); m != nil &&
			!slices.Contains(known[m[1]].labels, m[2]) {
			t.Errorf("variable %s: %s", v.Name, v.Query)
		}
	}
	for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		if !variables[v[1]] {
			t.Errorf("there is no variable %s", v[1])
		}
	}
	units := []string{"none", "s", "ops", "bytes"}
	for i, p := range board.Panels {
		a := p.GridPos
		if p.ID != i+1 || a.X < 0 || a.X+a.W > 24 || !slices.Contains(units, p.FieldConfig.Defaults.Unit) ||
			!slices.Contains([]string{"stat", "timeseries"}, p.Type) || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d: %+v", i, p)
		}
		for _, o := range board.Panels[:i] {
			if b := o.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, o.Title)
			}
		}
		for _, q := range p.Targets {
			checkExpression(t, p.Title, q.Expr, known)
			for _, l := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				labels := []string{"instance", "job"}
				for _, m := range selection.FindAllStringSubmatch(q.Expr, -1) {
					labels = append(labels, known[strings.TrimSuffix(m[1], "_bucket")].labels...)
				}
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s: its legend has the label %s, its query has not", p.Title, l[1])
				}
			}
		}
	}
}

package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// observed is a service with a simulated scheduler and one that is not simulated, and its metrics.
type observed struct {
	t                   *testing.T
	address, operations string
}

func startObserved(t *testing.T) *observed {
	t.Helper()
	var log clitest.LockedBuffer
	cmd := newServeCmd()
	cmd.SetArgs([]string{"--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0",
		"--workers", "1"})
	cmd.SetErr(&log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	o := &observed{t: t, operations: clitest.Eventually(t, log.String, `readyz" address=(\S+)`)}
	o.address = clitest.Eventually(t, log.String, `msg=serving address=(\S+)`)
	o.do("scheduler", "register", "--id", "sim", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node", "8",
		"--mode", "auto")
	o.do("scheduler", "register", "--id", "own", "--objective", "wait", "--nodes", "1", "--gpus-per-node", "8",
		"--space", clitest.NumberSpace(t))
	return o
}

func (o *observed) do(args ...string) {
	o.t.Helper()
	if code, _, errs := clitest.Run(append(args, "--server", o.address)...); code != 0 {
		o.t.Fatalf("%s: %s", strings.Join(args, " "), errs)
	}
}

// events has a job arrive in each of some hours until now, and waits for a round.
func (o *observed) events() {
	o.t.Helper()
	const hours = 6
	req := &pb.IngestEventsRequest{Parent: "schedulers/sim"}
	for i := range hours {
		req.Events = append(req.Events, &pb.Event{EventId: strconv.Itoa(i), Kind: pb.Event_SUBMITTED,
			SchedulerTime: timestamppb.New(time.Now().Add(time.Duration(i-hours) * time.Hour)),
			Job:           &pb.JobDetails{JobId: strconv.Itoa(i), MilliGpus: 1000}})
	}
	f := cli.ClientFlags{ConnectFlags: cli.ConnectFlags{Server: o.address}, Timeout: 2 * time.Minute}
	err := f.Call(o.t.Context(), false, func(ctx context.Context, c *cli.Client) error {
		stream, err := c.Tuning.IngestEvents(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(req); err != nil {
			return err
		}
		if got, err := stream.Recv(); err != nil || got.GetAcceptedCount() != hours {
			return fmt.Errorf("%v %w", got, err)
		}
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.do("scheduler", "rounds", "trigger", "sim", "--wait-time", "2m")
}

// series is a line of the service's metrics.
type series struct {
	name   string
	labels map[string]string
	value  float64
}

func (s series) String() string {
	var labels []string
	for name, value := range s.labels {
		labels = append(labels, name+"="+strconv.Quote(value))
	}
	slices.Sort(labels)
	return s.name + "{" + strings.Join(labels, ",") + "}"
}

var (
	exposedLine  = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? (\S+)$`)
	exposedLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// scrape reads the metrics as Prometheus does, which adds the target's own labels.
func (o *observed) scrape() (all []series) {
	o.t.Helper()
	resp, err := http.Get("http://" + o.operations + "/metrics")
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, m := range exposedLine.FindAllStringSubmatch(string(text), -1) {
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			o.t.Fatalf("%q: %v", m[0], err)
		}
		one := series{m[1], map[string]string{"instance": "service", "job": "autosched"}, value}
		for _, l := range exposedLabel.FindAllStringSubmatch(m[2], -1) {
			one.labels[l[1]] = l[2]
		}
		all = append(all, one)
	}
	return all
}

// rare are metrics that a service exposes only after rare events; TestMetricsArePageRows holds them to the registry.
var rare = []string{"autosched_access_files_stale", "autosched_rollbacks_total", "autosched_quota_refusals_total",
	"autosched_store_damaged"}

// TestDeployedExpressionsAreExposed: a service exposes the metrics that alert rules and dashboard name, with the labels
// that they select and group by.
func TestDeployedExpressionsAreExposed(t *testing.T) {
	o := startObserved(t)
	o.events()
	o.do("scheduler", "config", "ack", "sim", "--revision", "1", "--outcome", "applied")
	o.do("scheduler", "config", "pin", "sim", "--set", "backfill=false", "--reason", "test")
	o.do("scheduler", "config", "rollback", "sim", "--revision", "1")
	labels := map[string][]string{} // by metric
	for _, s := range o.scrape() {
		for l := range s.labels {
			labels[s.name] = append(labels[s.name], l)
		}
	}
	checked := 0
	check := func(text string) {
		text = strings.ReplaceAll(text, `\"`, `"`)
		for _, line := range strings.Split(text, "\n") {
			var all []string
			for _, m := range selection.FindAllStringSubmatch(line, -1) {
				if slices.Contains(rare, m[1]) {
					continue
				}
				checked++
				got := labels[m[1]]
				if got == nil {
					t.Errorf("the service does not expose %s, which %s names", m[1], strings.TrimSpace(line))
				}
				for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
					if !slices.Contains(got, l[1]) {
						t.Errorf("%s is exposed without the label %s, which %s names", m[1], l[1],
							strings.TrimSpace(line))
					}
				}
				all = append(all, got...)
			}
			for _, g := range grouping.FindAllStringSubmatch(line, -1) {
				for _, l := range labelName.FindAllString(g[1], -1) {
					if len(all) > 0 && !slices.Contains(all, l) {
						t.Errorf("no metric of %s is exposed with the label %s", strings.TrimSpace(line), l)
					}
				}
			}
		}
	}
	check(deployed(t, "prometheus-rules.yaml"))
	check(deployed(t, "grafana-dashboard.json"))
	if checked < 40 {
		t.Errorf("only %d selections were checked", checked)
	}
}

// TestAlertsFire: promtool evaluates the alert rules on the metrics of a service. They fire for its faults and for
// nothing else.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool: no alert is evaluated")
	}
	o := startObserved(t)
	o.do("scheduler", "config", "ack", "sim", "--revision", "1", "--outcome", "applied")
	well := o.scrape()
	o.do("scheduler", "config", "ack", "sim", "--revision", "1", "--outcome", "failed", "--error", "no such queue")
	o.do("study", "create", "own/a", "--trial-budget", "2", "--sampler", "random")
	o.do("study", "trial", "add", "own/a", "--set", "x=7", "wait=3")
	o.do("study", "propose", "own/a")
	ill := o.scrape()

	rules, err := filepath.Abs(filepath.Join(deployDir, "prometheus-rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named := deployed(t, "prometheus-rules.yaml")
	const day = 24 * 60 // minutes
	type expected struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}
	type evaluation struct {
		At     string     `yaml:"eval_time"`
		Alert  string     `yaml:"alertname"`
		Alerts []expected `yaml:"exp_alerts"`
	}
	type input struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	type unit struct {
		Interval string       `yaml:"interval"`
		Input    []input      `yaml:"input_series"`
		Tests    []evaluation `yaml:"alert_rule_test"`
	}
	test := func(all []series, tests ...evaluation) unit {
		u := unit{Interval: "1m", Tests: tests}
		for _, s := range all {
			if strings.Contains(named, s.name) && !math.IsNaN(s.value) {
				u.Input = append(u.Input, input{s.String(), fmt.Sprintf("%v+0x%d", s.value, day+5)})
			}
		}
		return u
	}
	alert := func(severity, scheduler, summary string, more ...string) []expected {
		e := expected{Labels: map[string]string{"severity": severity, "scheduler": scheduler, "instance": "service",
			"job": "autosched"}, Annotations: map[string]string{"summary": summary}}
		for i := 0; i < len(more); i += 2 {
			e.Labels[more[i]] = more[i+1]
		}
		return []expected{e}
	}
	degraded := alert("warning", "sim", "sim does not run the configuration that it should")
	waits := alert("info", "own", "a proposal for own waits for approval or rejection", "state", "proposed")
	none := []expected{}
	file := struct {
		Rules    []string `yaml:"rule_files"`
		Interval string   `yaml:"evaluation_interval"`
		Tests    []unit   `yaml:"tests"`
	}{[]string{rules}, "1m", []unit{
		test(nil, evaluation{"6m", "AutoschedDown", []expected{{map[string]string{"severity": "critical"},
			map[string]string{"summary": "Prometheus gets no metrics of the service"}}}}),
		test(well, evaluation{"6m", "AutoschedDown", none}, evaluation{"16m", "AutoschedSchedulerDegraded", none},
			evaluation{"2m", "AutoschedWritesFail", none}, evaluation{"2m", "AutoschedStoreDamaged", none},
			evaluation{"2m", "AutoschedSchedulerQuarantined", none}, evaluation{"2m", "AutoschedRoundsFail", none},
			evaluation{"24h2m", "AutoschedProposalWaits", none}),
		test(ill, evaluation{"6m", "AutoschedDown", none}, evaluation{"14m", "AutoschedSchedulerDegraded", none},
			evaluation{"16m", "AutoschedSchedulerDegraded", degraded},
			evaluation{"23h", "AutoschedProposalWaits", none}, evaluation{"24h2m", "AutoschedProposalWaits", waits}),
	}}
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "alerts_test.yaml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

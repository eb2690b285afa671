package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// podsResult has the findings in recorded inference pods, by rule.
type podsResult struct {
	File     string              `json:"file"`
	Pods     int                 `json:"pods"`
	Samples  int                 `json:"samples"`
	Findings map[string][]string `json:"findings"`
}

// iterationsResult has the findings in recorded iteration times, by rule.
type iterationsResult struct {
	File     string              `json:"file"`
	Rows     int                 `json:"rows"`
	Findings map[string][]string `json:"findings"`
}

// eachRow calls do for every row of a CSV file with the columns named, in that order.
func eachRow(path string, columns []string, do func(row []string) error) error {
	in, err := atomicfile.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	r := csv.NewReader(in)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !slices.Equal(head, columns) {
		return fmt.Errorf("%s: line 1: has the columns %s, want %s", path, strings.Join(head, ","),
			strings.Join(columns, ","))
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(row)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s: line %d: %w", path, line, err)
		}
	}
}

// gather collects the entities of findings by rule.
func gather(into map[string][]string) func(*patterns.Finding) {
	return func(f *patterns.Finding) {
		if name := f.Entity.Name; !slices.Contains(into[f.Rule], name) {
			into[f.Rule] = append(into[f.Rule], name)
		}
	}
}

// scanPods scans pods as jobs with a GPU each.
func scanPods(path string, rules *patterns.RuleSet) (*podsResult, error) {
	out := &podsResult{File: path, Findings: map[string][]string{}}
	var samples []telemetry.GPUSample
	last := map[string]time.Duration{}
	first := map[string]time.Duration{}
	err := eachRow(path, []string{"unix", "pod", "gpu_util", "gpu_memory_used_mib"}, func(row []string) error {
		at, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil || at < 0 || at > 1<<33 {
			return fmt.Errorf("unix: %q is not a time in seconds", row[0])
		}
		s := telemetry.GPUSample{GPU: telemetry.GPU{Node: strings.Clone(row[1]), Instance: -1},
			Time: time.Duration(at) * time.Second}
		for i, to := range []*float64{&s.Utilization, &s.MemoryUsed} {
			field := []telemetry.Field{telemetry.Utilization, telemetry.MemoryUsed}[i]
			if row[2+i] == "" {
				continue
			}
			if *to, err = strconv.ParseFloat(row[2+i], 64); err != nil || !(*to >= 0 && *to < 1e9) {
				return fmt.Errorf("%q is not a number from 0 on", row[2+i])
			}
			s.Known |= field
		}
		s.Job = s.Node
		samples = append(samples, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("%s: has no samples", path)
	}
	slices.SortStableFunc(samples, func(a, b telemetry.GPUSample) int { return int(a.Time - b.Time) })
	var pods []string
	for i := range samples {
		s := &samples[i]
		if _, seen := first[s.Job]; !seen {
			first[s.Job] = s.Time
			pods = append(pods, s.Job)
		}
		last[s.Job] = s.Time
	}
	slices.Sort(pods)
	zero := time.Unix(int64(samples[0].Time/time.Second), 0).UTC()
	scan, err := patterns.New(patterns.Options{Zero: zero, Cluster: workload.Uniform(len(pods), 1), Nodes: pods,
		Rules: rules, Period: 57 * time.Second, OnFinding: gather(out.Findings)})
	if err != nil {
		return nil, err
	}
	f := feed.New(scan, patterns.Lateness(57*time.Second))
	for i := range samples {
		s := &samples[i]
		j := workload.Job{ID: s.Job, Tenant: "inference", GPUs: workload.GPUs(1)}
		at := s.Time - samples[0].Time
		send := func(kind workload.EventKind) error {
			return f.Put(patterns.Record{Event: &workload.Event{ID: s.Job + "/" + kind.String(), Kind: kind, Time: at,
				Job:       j,
				Placement: []workload.NodeShare{{Node: s.Node, GPUs: 1}}}})
		}
		if s.Time == first[s.Job] {
			if err := errors.Join(send(workload.Submitted), send(workload.Started)); err != nil {
				return nil, err
			}
		}
		if err := f.Put(patterns.Record{GPU: s}); err != nil {
			return nil, err
		}
		if s.Time == last[s.Job] {
			if err := send(workload.Finished); err != nil {
				return nil, err
			}
		}
	}
	out.Pods, out.Samples = len(pods), len(samples)
	return out, f.Close()
}

// scanIterations scans iteration times of workers in the order of their iterations.
func scanIterations(path string, rules *patterns.RuleSet) (*iterationsResult, error) {
	out := &iterationsResult{File: path, Findings: map[string][]string{}}
	var rows []telemetry.Iteration
	err := eachRow(path, []string{"job", "worker", "gpu_share_percent", "iteration", "batch_time"},
		func(row []string) error {
			worker, err1 := strconv.Atoi(row[1])
			step, err2 := strconv.Atoi(row[3])
			took, err3 := strconv.ParseFloat(row[4], 64)
			if err := errors.Join(err1, err2, err3); err != nil {
				return err
			}
			if worker < 0 || step < 0 || !(took > 0 && took < 1e9) {
				return fmt.Errorf("worker %d, iteration %d, batch_time %g: want 0 or more, the last above 0",
					worker, step, took)
			}
			rows = append(rows, telemetry.Iteration{Job: strings.Clone(row[0]), Worker: worker, Step: step,
				Took: time.Duration(took * float64(time.Millisecond))})
			return nil
		})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(rows, func(a, b telemetry.Iteration) int { return a.Step - b.Step })
	zero := time.Unix(0, 0).UTC()
	scan, err := patterns.New(patterns.Options{Zero: zero, Rules: rules, OnFinding: gather(out.Findings)})
	if err != nil {
		return nil, err
	}
	f := feed.New(scan, patterns.Lateness(0))
	for i := range rows {
		rows[i].Time = time.Duration(rows[i].Step+1) * time.Second
		if err := f.Put(patterns.Record{Iteration: &rows[i]}); err != nil {
			return nil, err
		}
	}
	out.Rows = len(rows)
	return out, f.Close()
}

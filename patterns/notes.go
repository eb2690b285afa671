package patterns

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/autosched/autosched/patterns/cluster"
	"github.com/autosched/autosched/telemetry"
)

// Inputs of rules, as notes name them.
const (
	inputGPUs       = "samples of GPUs"
	inputIterations = "times of iterations"
	inputGuardrails = "measurements of guardrails"
	inputMessages   = "lines of logs"
	inputStarts     = "starts of jobs"
	inputPlaces     = "nodes of all running jobs"
	inputStops      = "preemptions"
	inputSize       = "size of the cluster"
	inputQuotas     = "quotas"
)

// needs are the inputs without which a rule finds nothing.
func (r *compiled) needs() (out []string) {
	switch r.rule.Detect {
	case "straggler", "iteration_outlier", "cv_class":
		return []string{inputIterations}
	case "config_regression":
		return []string{inputGuardrails}
	case "preemption_thrash":
		return []string{inputStops}
	case "queue_spiral":
		return []string{inputStarts, inputSize}
	}
	switch r.kind {
	case "gpu":
		out = append(out, inputGPUs)
	case "tenant":
		out = append(out, inputQuotas)
	case "partition":
		out = append(out, inputSize, inputPlaces)
	}
	m := r.rule.match()
	for _, t := range m.terms() {
		switch t.Event {
		case "message":
			out = append(out, inputMessages)
		case "job.ended":
			out = append(out, inputStarts)
		case "gpu.xid":
			out = append(out, inputGPUs)
		case "job.preempted":
			out = append(out, inputStops)
		}
	}
	if r.rule.State == "pending" {
		out = append(out, inputStarts)
	}
	for i := range r.rule.Derive {
		if r.kind == "job" && r.rule.Derive[i].samples() {
			out = append(out, inputGPUs)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// samples reports whether a condition cannot hold without samples of GPUs.
func (c *Condition) samples() bool {
	if len(c.Any) > 0 {
		return !slices.ContainsFunc(c.Any, func(x Condition) bool { return !x.samples() })
	}
	if len(c.All) > 0 {
		return slices.ContainsFunc(c.All, func(x Condition) bool { return x.samples() })
	}
	return !c.Optional && (c.Each != "" || c.of("job").compute == nil || c.Signal == "used_share")
}

// inputs returns the inputs that have come.
func (s *Scanner) inputs() map[string]bool {
	c := s.cluster
	p := c.PoolOf(cluster.AllJobs)
	return map[string]bool{inputGPUs: c.Seen.GPUs, inputIterations: c.Seen.Iterations, inputGuardrails: s.sawGuardrails,
		inputMessages: s.sawMessages, inputStarts: c.Seen.Starts, inputStops: c.Seen.Stops,
		inputPlaces: p.Unplaced == 0 && !c.Seen.Unplaced, inputSize: p.Total > 0 || p.EverSample,
		inputQuotas: len(c.Tenants) > 0}
}

// Examined are the ids of the rules whose inputs were seen, in order.
func (s *Scanner) Examined() (out []string) {
	seen := s.inputs()
	for _, r := range s.rules {
		if !slices.ContainsFunc(r.needs(), func(input string) bool { return !seen[input] }) {
			out = append(out, r.rule.ID)
		}
	}
	return out
}

// lacking are the ids of the rules that need an input which was not seen, by input.
func (s *Scanner) lacking() map[string][]string {
	seen := s.inputs()
	out := map[string][]string{}
	for _, r := range s.rules {
		for _, input := range r.needs() {
			if !seen[input] {
				out[input] = append(out[input], r.rule.ID)
			}
		}
	}
	return out
}

// Lacking are the inputs that rules need and that were not seen, in order.
func (s *Scanner) Lacking() []string { return slices.Sorted(maps.Keys(s.lacking())) }

// Joins counts the samples of GPUs by how they were joined to jobs.
func (s *Scanner) Joins() telemetry.JoinCounts { return s.cluster.Joins }

// Notes lists the rules that could not be examined, and why.
func (s *Scanner) Notes() (out []string) {
	lacking := s.lacking()
	for _, input := range slices.Sorted(maps.Keys(lacking)) {
		out = append(out, fmt.Sprintf("no %s: %s", input, strings.Join(lacking[input], ", ")))
	}
	if r := s.cluster.Joins.Report(); r.Joined < r.Samples {
		out = append(out, fmt.Sprintf("%d samples of GPUs could not be joined to a running job", r.Samples-r.Joined))
	}
	for _, what := range slices.Sorted(maps.Keys(s.cluster.Dropped)) {
		out = append(out, fmt.Sprintf("%s: the cap was hit: %d records or entities beyond it were not examined", what,
			s.cluster.Dropped[what]))
	}
	return out
}

// Lint lists probable mistakes in a valid set of rules.
func (r *RuleSet) Lint() (out []string) {
	for i := range r.Rules {
		rule := &r.Rules[i]
		m := rule.match()
		if m == nil {
			continue
		}
		for k := range rule.Derive {
			d := &rule.Derive[k]
			used := slices.ContainsFunc(rule.Derive, func(x Derive) bool { return x.Needs == d.Name })
			for _, t := range slices.Concat(m.terms(), m.Negate, rule.Until) {
				used = used || t.Derived == d.Name
			}
			if !used {
				out = append(out, fmt.Sprintf("%s: derive %s: no term uses it", rule.ID, d.Name))
			}
			if d.Coverage == 0 && d.samples() && (rule.GroupBy[0] == "job" || rule.GroupBy[0] == "gpu") {
				out = append(out, fmt.Sprintf("%s: derive %s: coverage: is not set: one sample decides about a window",
					rule.ID, d.Name))
			}
		}
		if len(rule.Derive) == 0 && rule.Quiet == 0 && len(rule.Until) == 0 && !slices.Contains(rule.GroupBy, "job") {
			out = append(out, rule.ID+": quiet, until: are not set: a finding stays open until the end")
		}
	}
	return out
}

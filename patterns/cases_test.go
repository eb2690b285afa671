package patterns

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Case is a test of rules: records, and the findings that they must lead to.
type Case struct {
	Name string `yaml:"name"`
	// Rules are the ids of the rules to apply, all by default.
	Rules       []string       `yaml:"rules,flow,omitempty"`
	Nodes       int            `yaml:"nodes,omitempty"`
	GPUsPerNode int            `yaml:"gpus_per_node,omitempty"`
	Quotas      map[string]int `yaml:"quotas,omitempty"`
	Period      Span           `yaml:"period,omitempty"`
	Records     []CaseRecord   `yaml:"records"`
	// Find lists the findings that are expected, each once; none means that nothing is wrong.
	Find []Expected `yaml:"find"`
}

// Expected is a finding. It may be matched several times if Several.
type Expected struct {
	Rule   string `yaml:"rule"`
	Entity string `yaml:"entity"` // kind/name
	Action string `yaml:"action,omitempty"`
	Node   string `yaml:"node,omitempty"`
	// Affected are all that pay for it besides the entity, in order; not compared without it.
	Affected []string `yaml:"affected,flow,omitempty"`
	After    *Span    `yaml:"after,omitempty"`  // opened not before
	Before   *Span    `yaml:"before,omitempty"` // opened not after
	Open     *bool    `yaml:"open,omitempty"`   // at the end
	Several  bool     `yaml:"several,omitempty"`
}

// CaseRecord is an event of an instant, or samples of a span, by the fields that it has besides the time.
type CaseRecord struct {
	At Span `yaml:"at,omitempty"`
	To Span `yaml:"to,omitempty"` // of a span from At on
	// Every repeats the record until To; of samples it is the period by default.
	Every Span `yaml:"every,omitempty"`

	Submit  string `yaml:"submit,omitempty"` // jobs; # stands for the number of the repetition
	Start   string `yaml:"start,omitempty"`
	Preempt string `yaml:"preempt,omitempty"`
	End     string `yaml:"end,omitempty"`
	Tenant  string `yaml:"tenant,omitempty"`
	User    string `yaml:"user,omitempty"`
	Key     string `yaml:"key,omitempty"`
	Queue   string `yaml:"queue,omitempty"`
	Limit   Span   `yaml:"limit,omitempty"`
	Status  string `yaml:"status,omitempty"`
	Label   string `yaml:"label,omitempty"`
	GPUs    int    `yaml:"gpus,omitempty"`
	Node    string `yaml:"node,omitempty"` // of a start, with GPUs, and of samples; several with commas

	// Samples of the node's GPUs from 0 to GPUs-1.
	Busy      *float64 `yaml:"busy,omitempty"`
	IdleGPUs  int      `yaml:"idle_gpus,omitempty"` // the first of them are not used
	Power     *float64 `yaml:"power,omitempty"`
	Processes *int     `yaml:"processes,omitempty"`
	Memory    *float64 `yaml:"memory,omitempty"` // share
	Clock     *float64 `yaml:"clock,omitempty"`  // share of the application clock
	Throttle  *uint64  `yaml:"throttle,omitempty"`

	Iterations string    `yaml:"iterations,omitempty"` // job; one every Every
	Took       []float64 `yaml:"took,flow,omitempty"`  // ms of each worker
	Message    string    `yaml:"message,omitempty"`
	Job        string    `yaml:"job,omitempty"` // of a message, and of samples
	Config     string    `yaml:"config,omitempty"`
	Guardrail  string    `yaml:"guardrail,omitempty"`
	Value      float64   `yaml:"value,omitempty"`
	Low        float64   `yaml:"low,omitempty"`
	High       float64   `yaml:"high,omitempty"`
	Demand     bool      `yaml:"demand_outside,omitempty"`
}

//go:embed builtin_cases.yaml
var builtinCases []byte

// BuiltinCases returns the cases of the built-in rules.
func BuiltinCases() []Case {
	cases, err := ReadCases(bytes.NewReader(builtinCases), "builtin_cases.yaml")
	if err != nil {
		panic("patterns: built-in cases: " + err.Error())
	}
	return cases
}

// maxRecords bounds the records of a case, with the records of spans.
const maxRecords = 5_000_000

// ReadCases reads cases from YAML. Its errors name the file and the case.
func ReadCases(r io.Reader, name string) ([]Case, error) {
	var file struct {
		Version int    `yaml:"version"`
		Cases   []Case `yaml:"cases"`
	}
	text, err := io.ReadAll(io.LimitReader(r, maxRuleFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch err := d.Decode(&file); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty: give version: 1 and cases", name)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case file.Version != 1:
		return nil, fmt.Errorf("%s: version: %d is not 1", name, file.Version)
	case len(file.Cases) == 0:
		return nil, fmt.Errorf("%s: cases: has none", name)
	}
	for i := range file.Cases {
		c := &file.Cases[i]
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%s: case %d (%q): %w", name, i+1, c.Name, err)
		}
	}
	return file.Cases, nil
}

func (c *Case) check() error {
	if c.Name == "" || len(c.Records) == 0 {
		return errors.New("name, records: are missing")
	}
	total := 0
	for i := range c.Records {
		r := &c.Records[i]
		every := r.every(c)
		n := 1
		switch {
		case r.At < 0 || time.Duration(max(r.At, r.To)) > maxWindow:
			return fmt.Errorf("record %d: at, to: want 0 to 60d", i+1)
		case r.To != 0 && (r.To <= r.At || every <= 0):
			return fmt.Errorf("record %d: to: wants a later instant than at, and every", i+1)
		case r.To != 0:
			n = int((time.Duration(r.To-r.At) + every - 1) / every)
		}
		if kinds := r.kinds(); kinds != 1 {
			return fmt.Errorf("record %d: has %d of submit, start, preempt, end, samples, iterations, message, config "+
				"and guardrail, want one", i+1, kinds)
		}
		if r.GPUs < 0 || r.GPUs > workload.MaxGPUsPerNode || r.IdleGPUs < 0 {
			return fmt.Errorf("record %d: gpus: %d is not from 0 to %d", i+1, r.GPUs, workload.MaxGPUsPerNode)
		}
		if _, ok := statuses[r.Status]; !ok {
			return fmt.Errorf("record %d: status: %q is not known", i+1, r.Status)
		}
		if total += n * max(1, r.GPUs, len(r.Took)); total > maxRecords {
			return fmt.Errorf("records: are more than %d with those of spans", maxRecords)
		}
	}
	for _, f := range c.Find {
		if f.Rule == "" || !strings.Contains(f.Entity, "/") {
			return fmt.Errorf("find: rule %q, entity %q: want an id, and a kind and a name such as job/1", f.Rule,
				f.Entity)
		}
	}
	return nil
}

var statuses = map[string]workload.Status{"": workload.Completed, "completed": workload.Completed,
	"cancelled": workload.Cancelled, "failed": workload.Failed, "timed_out": workload.TimedOut,
	"out_of_memory": workload.OutOfMemory}

func (r *CaseRecord) sampled() bool {
	return r.Busy != nil || r.Power != nil || r.Processes != nil || r.Memory != nil || r.Clock != nil ||
		r.Throttle != nil
}

func (r *CaseRecord) kinds() (n int) {
	for _, has := range []bool{r.Submit != "", r.Start != "", r.Preempt != "", r.End != "", r.sampled(),
		r.Iterations != "", r.Message != "", r.Config != "", r.Guardrail != ""} {
		if has {
			n++
		}
	}
	return n
}

func (r *CaseRecord) every(c *Case) time.Duration {
	if r.Every == 0 && r.sampled() {
		return max(time.Duration(c.Period), defaultPeriod)
	}
	return time.Duration(r.Every)
}

// Run applies rules to a case. It returns the unexpected findings, and the expected ones that are missing; nothing if
// the case holds.
func (c *Case) Run(rules *RuleSet) (wrong []string, err error) {
	set := &RuleSet{Version: 1}
	for i := range rules.Rules {
		if len(c.Rules) == 0 || slices.Contains(c.Rules, rules.Rules[i].ID) {
			set.Rules = append(set.Rules, rules.Rules[i])
		}
	}
	for _, id := range c.Rules {
		if rules.Rule(id) == nil {
			return nil, fmt.Errorf("case %q: rules: %s is not one of the rules", c.Name, id)
		}
	}
	o := Options{Rules: set, Period: time.Duration(c.Period)}
	if c.Nodes > 0 {
		o.Cluster = workload.Uniform(c.Nodes, max(1, c.GPUsPerNode))
		for _, tenant := range slices.Sorted(maps.Keys(c.Quotas)) {
			o.Cluster.VCs = append(o.Cluster.VCs, workload.VC{Tenant: tenant, GPUs: c.Quotas[tenant]})
		}
	}
	labels := map[string][]string{}
	for i := range c.Records {
		if r := &c.Records[i]; r.Label != "" {
			labels[r.Submit] = append(labels[r.Submit], r.Label)
		}
	}
	o.Labels = func(j *workload.Job) []string { return labels[j.ID] }
	var found []*Finding
	o.OnFinding = func(f *Finding) {
		for i, g := range found {
			if g.Rule == f.Rule && g.Entity == f.Entity && g.Opened.Equal(f.Opened) {
				found[i] = f.Clone()
				return
			}
		}
		found = append(found, f.Clone())
	}
	s, err := New(o)
	if err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, err)
	}
	if err := c.feed(s); err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, err)
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return c.compare(found), nil
}

// compare lists the differences between the expected and the found findings.
func (c *Case) compare(found []*Finding) (wrong []string) {
	matched := make([]bool, len(found))
	for _, want := range c.Find {
		n := 0
		var near string
		for i, f := range found {
			if f.Rule != want.Rule || f.Entity.String() != want.Entity || matched[i] || n > 0 && !want.Several {
				continue
			}
			switch {
			case want.Action != "" && want.Action != f.Action:
				near = "; its action is " + f.Action
			case want.Node != "" && want.Node != f.Node:
				near = "; its node is " + f.Node
			case want.Affected != nil && !slices.Equal(want.Affected, f.Affected):
				near = "; affected are " + strings.Join(f.Affected, ", ")
			case want.After != nil && opened(f) < *want.After, want.Before != nil && opened(f) > *want.Before:
				near = fmt.Sprintf("; it opened at %v", opened(f))
			case want.Open != nil && *want.Open != f.Open:
				near = fmt.Sprintf("; open is %t", f.Open)
			default:
				matched[i] = true
				n++
			}
		}
		if n == 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s was not found as expected%s", want.Rule, want.Entity, near))
		}
	}
	for i, f := range found {
		if !matched[i] {
			wrong = append(wrong, fmt.Sprintf("%s %s was found at %v and is not expected: %s", f.Rule, f.Entity,
				opened(f), f.Words))
		}
	}
	return wrong
}

// opened is the time since the begin of a case, which is the zero time.
func opened(f *Finding) Span { return Span(f.Opened.Sub(time.Time{})) }

func isComma(r rune) bool { return r == ',' }

// feed gives the records to a scanner in order of time.
func (c *Case) feed(s *Scanner) error {
	type dated struct {
		at     time.Duration
		of     int
		record Record
	}
	var all []dated
	for i := range c.Records {
		r := &c.Records[i]
		for n, at := 0, time.Duration(r.At); n == 0 || at < time.Duration(r.To); n, at = n+1, at+r.every(c) {
			for _, x := range r.records(at, n) {
				at, err := s.Check(x)
				if err != nil {
					return fmt.Errorf("record %d: %w", i+1, err)
				}
				all = append(all, dated{at, i, x})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b dated) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.record.Rank(), b.record.Rank()))
	})
	for _, x := range all {
		if err := s.Apply(x.at, x.record); err != nil {
			return fmt.Errorf("record %d: %w", x.of+1, err)
		}
	}
	return nil
}

// records returns the records of the n-th repetition, at an instant.
func (r *CaseRecord) records(at time.Duration, n int) (out []Record) {
	name := func(text string) string { return strings.ReplaceAll(text, "#", strconv.Itoa(n)) }
	event := func(kind workload.EventKind, id string) []Record {
		e := &workload.Event{ID: "case", Kind: kind, Time: at, Job: workload.Job{ID: name(id), Tenant: r.Tenant,
			User: r.User, Key: r.Key, GPUs: workload.GPUs(r.GPUs), Status: statuses[r.Status],
			Requested: workload.Request{TimeLimit: time.Duration(r.Limit), Partition: r.Queue}.Shared()}}
		if kind == workload.Started && r.Node != "" {
			for _, node := range strings.FieldsFunc(name(r.Node), isComma) {
				e.Placement = append(e.Placement, workload.NodeShare{Node: node, GPUs: max(1, r.GPUs)})
			}
		}
		return []Record{{Event: e}}
	}
	switch {
	case r.Submit != "":
		return event(workload.Submitted, r.Submit)
	case r.Start != "":
		return event(workload.Started, r.Start)
	case r.Preempt != "":
		return event(workload.Preempted, r.Preempt)
	case r.End != "":
		return event(workload.Finished, r.End)
	case r.Config != "":
		return []Record{{Event: &workload.Event{ID: "case", Kind: workload.ConfigApplied, Time: at,
			Revision: r.Config}}}
	case r.Message != "":
		return []Record{{Message: &Message{Time: at, Job: name(r.Job), Node: r.Node, Text: name(r.Message)}}}
	case r.Guardrail != "":
		return []Record{{Guardrail: &Guardrail{Time: at, Revision: r.Job, Name: r.Guardrail, Value: r.Value, Low: r.Low,
			High: r.High, DemandOutside: r.Demand}}}
	case r.Iterations != "":
		for w, ms := range r.Took {
			out = append(out, Record{Iteration: &telemetry.Iteration{Job: r.Iterations, Worker: w,
				Step: int(at / time.Millisecond), Time: at + 1, Took: time.Duration(ms * float64(time.Millisecond))}})
		}
		return out
	}
	for _, node := range strings.FieldsFunc(r.Node, isComma) {
		for g := range max(1, r.GPUs) {
			out = append(out, Record{GPU: r.sample(at, node, g)})
		}
	}
	return out
}

func (r *CaseRecord) sample(at time.Duration, node string, index int) *telemetry.GPUSample {
	x := &telemetry.GPUSample{GPU: telemetry.GPU{Node: node, Index: index, Instance: -1}, Time: at, Job: r.Job}
	if r.Busy != nil {
		x.Known |= telemetry.Utilization
		if index >= r.IdleGPUs {
			x.Utilization = 100 * *r.Busy
		}
	}
	if r.Power != nil {
		x.Known, x.Power = x.Known|telemetry.Power, *r.Power
	}
	if r.Processes != nil {
		x.Known, x.Processes = x.Known|telemetry.Processes, *r.Processes
	}
	if r.Memory != nil {
		x.Known |= telemetry.MemoryUsed | telemetry.MemoryTotal
		x.MemoryUsed, x.MemoryTotal = 80_000**r.Memory, 80_000
	}
	if r.Clock != nil {
		x.Known |= telemetry.SMClock | telemetry.ApplicationClock
		x.SMClock, x.ApplicationClock = 1410**r.Clock, 1410
	}
	if r.Throttle != nil {
		x.Known, x.Throttle = x.Known|telemetry.Throttle, *r.Throttle
	}
	return x
}

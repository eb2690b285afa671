// Package cre converts rules from and to Common Reliability Enumerations.
package cre

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/patterns"
)

// Version is the version of the schema of Common Reliability Enumerations that Read and
// Write know.
const Version = "0.1.1"

// maxFile bounds the bytes of a file that are read.
const maxFile = 4 << 20

// file is a file of Common Reliability Enumerations.
type file struct {
	Rules []enumeration        `yaml:"rules"`
	Terms map[string]yaml.Node `yaml:"terms,omitempty"`
}

type enumeration struct {
	Metadata map[string]any `yaml:"metadata,omitempty"`
	CRE      head           `yaml:"cre"`
	Rule     struct {
		Sequence *match `yaml:"sequence,omitempty"`
		Set      *match `yaml:"set,omitempty"`
	} `yaml:"rule"`
}

type head struct {
	ID          string         `yaml:"id"`
	Severity    int            `yaml:"severity"`
	Title       string         `yaml:"title,omitempty"`
	Description string         `yaml:"description,omitempty"`
	Cause       string         `yaml:"cause,omitempty"`
	Mitigation  string         `yaml:"mitigation,omitempty"`
	Rest        map[string]any `yaml:",inline"`
}

type match struct {
	Window       string   `yaml:"window,omitempty"`
	Correlations []string `yaml:"correlations,omitempty"`
	Event        *event   `yaml:"event,omitempty"`
	Origin       bool     `yaml:"origin,omitempty"`
	Order        []term   `yaml:"order,omitempty"`
	Match        []term   `yaml:"match,omitempty"`
	Negate       []term   `yaml:"negate,omitempty"`
}

type event struct {
	Source string `yaml:"source"`
	Origin bool   `yaml:"origin,omitempty"`
}

type term struct {
	Value    string `yaml:"value,omitempty"`
	JQ       string `yaml:"jq,omitempty"`
	Regex    string `yaml:"regex,omitempty"`
	Count    int    `yaml:"count,omitempty"`
	Window   string `yaml:"window,omitempty"`
	Slide    string `yaml:"slide,omitempty"`
	Anchor   int    `yaml:"anchor,omitempty"`
	Absolute bool   `yaml:"absolute,omitempty"`
	// Rest has the unsupported keys: fields, nested matches, queries and scripts.
	Rest map[string]any `yaml:",inline"`
}

// UnmarshalYAML reads a term, or a text alone, which is its value.
func (t *term) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		t.Value = n.Value
		return nil
	}
	type plain term
	return n.Decode((*plain)(t))
}

// groups are the names to group by of correlations.
var groups = map[string]string{"hostname": "node", "node": "node", "job": "job", "user": "user", "tenant": "tenant"}

// Read makes rules of Common Reliability Enumerations and lists the losses: rules that cannot
// be expressed, and parts of the others. Their terms match lines of logs.
func Read(r io.Reader, name string) (set *patterns.RuleSet, lost []string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.Rules) == 0 {
		return nil, nil, fmt.Errorf("%s: rules: has none; want a file of Common Reliability Enumerations", name)
	}
	set = &patterns.RuleSet{Version: 1}
	for i := range f.Rules {
		x := &f.Rules[i]
		rule, parts, err := x.rule(f.Terms)
		if err == nil {
			err = rule.Check()
		}
		if err == nil && set.Rule(rule.ID) != nil {
			err = fmt.Errorf("id: is used twice")
		}
		if err != nil {
			lost = append(lost, fmt.Sprintf("rule %d (%s) is left out: %v", i+1, x.CRE.ID, err))
			continue
		}
		set.Rules = append(set.Rules, *rule)
		if len(parts) > 0 {
			lost = append(lost, fmt.Sprintf("%s: not kept: %s", rule.ID, strings.Join(parts, ", ")))
		}
	}
	if len(set.Rules) == 0 {
		return nil, lost, fmt.Errorf("%s: none of %d rules can be expressed: %s", name, len(f.Rules), lost[0])
	}
	return set, lost, nil
}

// quiet closes findings of rules that are events and not states.
const quiet = patterns.Span(5 * time.Minute)

func (x *enumeration) rule(terms map[string]yaml.Node) (*patterns.Rule, []string, error) {
	out := &patterns.Rule{ID: x.CRE.ID, Title: x.CRE.Title, GroupBy: []string{"cluster"}, Action: "mitigate",
		Quiet: quiet, Words: oneLine(x.CRE.Mitigation)}
	if out.Words == "" {
		out.Words = "See " + x.CRE.ID + "."
	}
	var lost []string
	lost = append(lost, slices.Sorted(maps.Keys(x.CRE.Rest))...)
	if x.CRE.Description != "" || x.CRE.Cause != "" {
		lost = append(lost, "description and cause")
	}
	if len(x.Metadata) > 0 {
		lost = append(lost, "metadata")
	}
	from := x.Rule.Sequence
	if from == nil {
		from = x.Rule.Set
	}
	if from == nil || x.Rule.Sequence != nil && x.Rule.Set != nil {
		return nil, nil, fmt.Errorf("rule: wants one of sequence and set")
	}
	m := &patterns.Match{}
	var err error
	if m.Window, err = span(from.Window); err != nil {
		return nil, nil, fmt.Errorf("window: %w", err)
	}
	if from.Event != nil {
		m.Source = from.Event.Source
		if from.Event.Origin {
			lost = append(lost, "origin")
		}
	}
	if len(from.Correlations) > 0 {
		out.GroupBy = nil
		for _, c := range from.Correlations {
			g, ok := groups[c]
			if !ok {
				return nil, nil, fmt.Errorf("correlations: %s is nothing to group by here", c)
			}
			out.GroupBy = append(out.GroupBy, g)
		}
	}
	for _, list := range []struct {
		from []term
		to   *[]patterns.Term
	}{{from.Order, &m.Order}, {from.Match, &m.Match}, {from.Negate, &m.Negate}} {
		for i := range list.from {
			t, err := list.from[i].term(terms)
			if err != nil {
				return nil, nil, fmt.Errorf("term %d: %w", i+1, err)
			}
			*list.to = append(*list.to, t)
		}
	}
	if x.Rule.Sequence != nil {
		out.Sequence = m
	} else {
		out.Set = m
	}
	return out, lost, nil
}

func span(text string) (patterns.Span, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	return patterns.Span(d), err
}

func (t *term) term(terms map[string]yaml.Node) (patterns.Term, error) {
	out := patterns.Term{Event: "message", Value: t.Value, Regex: t.Regex, Count: t.Count, Anchor: t.Anchor,
		Absolute: t.Absolute}
	for _, key := range slices.Sorted(maps.Keys(t.Rest)) {
		return out, fmt.Errorf("%s: matches no line of a log", key)
	}
	if t.JQ != "" {
		return out, fmt.Errorf("jq: matches no line of a log")
	}
	if _, named := terms[t.Value]; named {
		return out, fmt.Errorf("%s: matches nested in others are not supported", t.Value)
	}
	var err error
	if out.Window, err = span(t.Window); err != nil {
		return out, err
	}
	out.Slide, err = span(t.Slide)
	return out, err
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// eventLog is the source of terms that match events: the lines of this project's event log.
const eventLog = "cre.autosched.events"

// kinds are the kinds of events in an event log.
var kinds = map[string]string{"job.submitted": "SUBMITTED", "job.started": "STARTED", "job.preempted": "PREEMPTED",
	"job.resumed": "RESUMED", "job.resized": "RESIZED", "job.ended": "FINISHED", "node.up": "NODE_UP",
	"node.down": "NODE_DOWN", "node.drained": "NODE_DRAINED", "config.applied": "CONFIG_APPLIED"}

// Write writes the rules that Common Reliability Enumerations can express, and lists the losses.
// Terms on events become queries on the lines of an event log.
func Write(w io.Writer, set *patterns.RuleSet) (lost []string, err error) {
	var f file
	for i := range set.Rules {
		r := &set.Rules[i]
		x, parts, err := enumerate(r)
		if err != nil {
			lost = append(lost, fmt.Sprintf("%s is left out: %v", r.ID, err))
			continue
		}
		f.Rules = append(f.Rules, *x)
		if len(parts) > 0 {
			lost = append(lost, fmt.Sprintf("%s: not kept: %s", r.ID, strings.Join(parts, ", ")))
		}
	}
	if len(f.Rules) == 0 {
		return lost, fmt.Errorf("none of %d rules can be expressed: %s", len(set.Rules), lost[0])
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Common Reliability Enumerations, schema %s\n", Version)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&f); err != nil {
		return lost, err
	}
	if err := e.Close(); err != nil {
		return lost, err
	}
	_, err = w.Write(b.Bytes())
	return lost, err
}

func enumerate(r *patterns.Rule) (*enumeration, []string, error) {
	if r.Detect != "" {
		return nil, nil, fmt.Errorf("detect: %s is a detector, which they lack", r.Detect)
	}
	if len(r.Derive) > 0 {
		return nil, nil, fmt.Errorf("derive: they have no numeric windows")
	}
	x := &enumeration{CRE: head{ID: r.ID, Severity: 2, Title: r.Title, Mitigation: r.Words}}
	m := cmp.Or(r.Sequence, r.Set)
	to := &match{Event: &event{Source: m.Source}}
	if m.Window > 0 {
		to.Window = time.Duration(m.Window).String()
	}
	var lost []string
	for _, g := range r.GroupBy {
		found := g == "cluster"
		for _, name := range []string{"hostname", "job", "user", "tenant"} {
			if groups[name] == g && m.Source != "" {
				to.Correlations = append(to.Correlations, name)
				found = true
			}
		}
		if !found {
			lost = append(lost, "group_by "+g)
		}
	}
	for _, list := range []struct {
		from []patterns.Term
		to   *[]term
	}{{m.Order, &to.Order}, {m.Match, &to.Match}, {m.Negate, &to.Negate}} {
		for i := range list.from {
			t, parts, err := enumerateTerm(&list.from[i])
			if err != nil {
				return nil, nil, err
			}
			if t.JQ != "" {
				if m.Source != "" {
					return nil, nil, fmt.Errorf("its terms have two sources")
				}
				to.Event.Source = eventLog
			}
			lost = append(lost, parts...)
			*list.to = append(*list.to, t)
		}
	}
	if to.Event.Source == "" {
		to.Event.Source = "cre.log"
	}
	if len(r.Unless) > 0 {
		lost = append(lost, "unless")
	}
	if len(r.Until) > 0 || r.Quiet > 0 {
		lost = append(lost, "until and quiet")
	}
	if len(r.Confirm) > 0 {
		lost = append(lost, "confirm")
	}
	if r.Waste != "" {
		lost = append(lost, "waste")
	}
	if r.Sequence != nil {
		x.Rule.Sequence = to
	} else {
		x.Rule.Set = to
	}
	return x, lost, nil
}

func enumerateTerm(t *patterns.Term) (term, []string, error) {
	out := term{Value: t.Value, Regex: t.Regex, Count: t.Count, Anchor: t.Anchor, Absolute: t.Absolute}
	if t.Window != 0 {
		out.Window = time.Duration(t.Window).String()
	}
	if t.Slide != 0 {
		out.Slide = time.Duration(t.Slide).String()
	}
	if t.Event == "message" {
		return out, nil, nil
	}
	kind := kinds[t.Event]
	if kind == "" {
		return out, nil, fmt.Errorf("event: %s is in no event log", t.Event)
	}
	out.JQ = fmt.Sprintf(".kind == %q", kind)
	var states []string
	for _, s := range t.Status {
		states = append(states, fmt.Sprintf(".job.endStatus == %q", strings.ToUpper(s)))
		if s == "failed" && !slices.Contains(t.Status, "out_of_memory") {
			states = append(states, `.job.endStatus == "OUT_OF_MEMORY"`)
		}
	}
	if len(states) > 0 {
		out.JQ += " and (" + strings.Join(states, " or ") + ")"
	}
	if t.RanBelow > 0 {
		return out, []string{"ran_below"}, nil
	}
	return out, nil, nil
}

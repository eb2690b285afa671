package patterns

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// RuleSet is a list of rules.
type RuleSet struct {
	Version int    `yaml:"version"`
	Rules   []Rule `yaml:"rules"`
}

// Rule describes a pattern, the entities that may have it, and the remedy. It has one of
// Sequence, Set and Detect.
type Rule struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"`
	// GroupBy names the values that the terms of a match share. A finding is about the last.
	GroupBy []string `yaml:"group_by,flow"`
	// State is that of the jobs to examine, running (the default) or pending.
	State string `yaml:"state,omitempty"`
	// Every is the time between two examinations of derived conditions, a minute by default.
	Every  Span     `yaml:"every,omitempty"`
	Derive []Derive `yaml:"derive,omitempty"`
	// Unless lists the jobs that the rule leaves out.
	Unless   []Exemption `yaml:"unless,omitempty"`
	Sequence *Match      `yaml:"sequence,omitempty"`
	Set      *Match      `yaml:"set,omitempty"`
	// Detect names a detector, and Params are its numbers.
	Detect string             `yaml:"detect,omitempty"`
	Params map[string]float64 `yaml:"params,omitempty"`
	// Until lists the terms that close a finding, besides the end of its job; a finding also closes
	// when a condition of the match leaves, unless Until names another.
	Until []Term `yaml:"until,omitempty"`
	// Quiet closes a finding that was not matched again for so long.
	Quiet Span `yaml:"quiet,omitempty"`
	// Confirm lists the terms that raise the confidence of an open finding of the same job.
	Confirm []Term `yaml:"confirm,omitempty"`
	// Waste is how GPU-hours are counted while the finding is open: held (all of the job's GPUs),
	// unused (the GPUs that right-sizing would free), free (GPUs that no job holds), runs (all of the
	// matched jobs) or empty (none).
	Waste     string    `yaml:"waste,omitempty"`
	RightSize RightSize `yaml:"right_size,omitempty"`
	Action    string    `yaml:"action"`
	Words     string    `yaml:"words"`
	// Variants replace Action and Words where their condition holds as the finding opens.
	Variants []Variant `yaml:"variants,omitempty"`
}

// Derive turns numbers into a condition that enters and leaves.
type Derive struct {
	Name      string `yaml:"name"`
	Condition `yaml:",inline"`
	// Leave is when the condition ends; by default when it does not hold.
	Leave *Condition `yaml:"leave,omitempty"`
	// Needs is a condition without which this one is not examined.
	Needs string `yaml:"needs,omitempty"`
	// For is how long the condition has to hold before it enters.
	For Span `yaml:"for,omitempty"`
	// WarmUp is the time after a job's start whose samples are left out, Coverage the share of the
	// samples of a window that must have been measured.
	WarmUp   Span    `yaml:"warm_up,omitempty"`
	Coverage float64 `yaml:"coverage,omitempty"`
}

// Condition compares a number of a window, or combines conditions. Without measurements it is
// unknown, which is not true.
type Condition struct {
	Any []Condition `yaml:"any,omitempty"`
	All []Condition `yaml:"all,omitempty"`

	Signal string `yaml:"signal,omitempty"`
	// Fn is mean, max, min, quantile (Q), share (of values above Value), or slope (per hour); empty
	// for the value now.
	Fn    string  `yaml:"fn,omitempty"`
	Over  Span    `yaml:"over,omitempty"`
	Q     float64 `yaml:"q,omitempty"`
	Value float64 `yaml:"value,omitempty"`
	// Each says that the condition is one of each GPU of the job, and holds for at least Share
	// of them.
	Each  string  `yaml:"each,omitempty"`
	Share float64 `yaml:"share,omitempty"`

	Below   *float64 `yaml:"below,omitempty"`
	Above   *float64 `yaml:"above,omitempty"`
	AtLeast *float64 `yaml:"at_least,omitempty"`
	AtMost  *float64 `yaml:"at_most,omitempty"`
	// Optional says that the condition holds where the number is unknown; the finding's confidence
	// is then lower.
	Optional bool `yaml:"optional,omitempty"`

	sig *signal // once it is checked
}

// Exemption leaves out jobs that have the label and are younger than an age, if there is one.
type Exemption struct {
	Label   string `yaml:"label"`
	Younger Span   `yaml:"younger,omitempty"`
}

// Match is a sequence or a set of terms within a window.
type Match struct {
	Window Span   `yaml:"window,omitempty"`
	Source string `yaml:"source,omitempty"` // of messages
	Order  []Term `yaml:"order,omitempty"`  // of a sequence
	Match  []Term `yaml:"match,omitempty"`  // of a set
	Negate []Term `yaml:"negate,omitempty"`
}

func (m *Match) terms() []Term {
	if len(m.Order) > 0 {
		return m.Order
	}
	return m.Match
}

// Term is one kind of fact: an event, a line of a log, or a derived condition.
type Term struct {
	Event   string `yaml:"event,omitempty"`
	Derived string `yaml:"derived,omitempty"`
	// Status is how a job ended; failed is out_of_memory, too.
	Status []string `yaml:"status,omitempty,flow"`
	// RanBelow keeps ends of jobs that ran for less.
	RanBelow Span   `yaml:"ran_below,omitempty"`
	Value    string `yaml:"value,omitempty"` // part of a line
	Regex    string `yaml:"regex,omitempty"`
	Count    int    `yaml:"count,omitempty"`
	// Of negative terms: the span that they must not occur in. It begins Slide after the term with
	// the number Anchor, from 0, and is as long as Window, plus the span of the match unless Absolute.
	Window   Span `yaml:"window,omitempty"`
	Slide    Span `yaml:"slide,omitempty"`
	Anchor   int  `yaml:"anchor,omitempty"`
	Absolute bool `yaml:"absolute,omitempty"`

	re *regexp.Regexp
}

// Variant is the remedy where a condition holds.
type Variant struct {
	When   Condition `yaml:"when"`
	Action string    `yaml:"action"`
	Words  string    `yaml:"words"`
}

// RightSize is the use that the GPUs which a job keeps should have, by its use over a window.
type RightSize struct {
	Busy float64 `yaml:"busy"`
	Over Span    `yaml:"over"`
}

// Span is a duration in YAML, such as 90s, 30m, 2h or 7d.
type Span time.Duration

// UnmarshalYAML reads a span.
func (s *Span) UnmarshalYAML(n *yaml.Node) error {
	text := n.Value
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		if err == nil && d <= math.MaxInt64/24 {
			*s = Span(24 * d)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("line %d: %q is not a duration, such as 90s, 30m, 2h or 7d", n.Line, text)
	}
	*s = Span(d)
	return nil
}

// MarshalYAML writes a span as it is read.
func (s Span) MarshalYAML() (any, error) { return s.String(), nil }

func (s Span) String() string {
	d := time.Duration(s)
	switch {
	case d != 0 && d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d != 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d != 0 && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

//go:embed builtin.yaml
var builtin []byte

// Builtin are the rules that are built in. Each call makes a copy.
func Builtin() *RuleSet {
	set, err := ReadRules(bytes.NewReader(builtin), "builtin.yaml")
	if err != nil {
		panic("patterns: built-in rules: " + err.Error())
	}
	return set
}

// Rule returns the rule of an id, nil if there is none.
func (r *RuleSet) Rule(id string) *Rule {
	for i := range r.Rules {
		if r.Rules[i].ID == id {
			return &r.Rules[i]
		}
	}
	return nil
}

// reconfigures lists the actions that ask for another configuration, which a round looks for. The others concern single
// jobs, nodes and quotas, or stop changes.
var reconfigures = []string{"tune_queue", "defragment", "reserve", "roll_back"}

// Reconfigures reports whether an action of a rule asks for another configuration.
func Reconfigures(action string) bool { return slices.Contains(reconfigures, action) }

// Write writes rules as ReadRules reads them.
func (r *RuleSet) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(r); err != nil {
		return err
	}
	return e.Close()
}

// Limits of a file of rules.
const (
	maxRuleFile = 4 << 20
	maxRules    = 1000
	maxTerms    = 64
	maxDepth    = 8
	maxWindow   = 60 * 24 * time.Hour
)

// ReadRules reads rules from YAML. Its errors name the file, the line and the remedy.
func ReadRules(r io.Reader, name string) (*RuleSet, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxRuleFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > maxRuleFile:
		return nil, fmt.Errorf("%s: is larger than %d MiB: split it", name, maxRuleFile>>20)
	}
	set := &RuleSet{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch err := d.Decode(set); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty: give version: 1 and rules", name)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if set.Version != 1 {
		return nil, fmt.Errorf("%s: version: %d is not 1", name, set.Version)
	}
	lines := ruleLines(text)
	seen := map[string]bool{}
	for i := range set.Rules {
		rule := &set.Rules[i]
		err := rule.Check()
		if err == nil && seen[rule.ID] {
			err = errors.New("id: is used twice")
		}
		if err != nil {
			line := 0
			if i < len(lines) {
				line = lines[i]
			}
			return nil, fmt.Errorf("%s: line %d: rule %q: %w", name, line, rule.ID, err)
		}
		seen[rule.ID] = true
	}
	switch n := len(set.Rules); {
	case n == 0:
		return nil, fmt.Errorf("%s: rules: has none", name)
	case n > maxRules:
		return nil, fmt.Errorf("%s: rules: has %d, more than %d", name, n, maxRules)
	}
	return set, nil
}

// ruleLines are the lines on which the rules of a valid file begin.
func ruleLines(text []byte) (out []int) {
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	top := root.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value == "rules" {
			for _, n := range top[i+1].Content {
				out = append(out, n.Line)
			}
		}
	}
	return out
}

// groups are the values of group_by.
var groups = []string{"job", "tenant", "user", "key", "queue", "node", "partition", "gpu", "worker", "config_version",
	"cluster"}

// wastes are the ways to count GPU-hours.
var wastes = []string{"", "held", "unused", "free", "runs"}

func oneOf(what, value string, of []string) error {
	if slices.Contains(of, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not one of %s", what, value, strings.Join(slices.DeleteFunc(slices.Clone(of),
		func(s string) bool { return s == "" }), ", "))
}

// Check validates the rule.
func (r *Rule) Check() error {
	if r.ID == "" {
		return errors.New("id: is missing")
	}
	if len(r.GroupBy) == 0 || len(r.GroupBy) > 4 {
		return fmt.Errorf("group_by: has %d names, want 1 to 4 of %s", len(r.GroupBy), strings.Join(groups, ", "))
	}
	for _, g := range r.GroupBy {
		if err := oneOf("group_by", g, groups); err != nil {
			return err
		}
	}
	if err := oneOf("waste", r.Waste, wastes); err != nil {
		return err
	}
	if err := oneOf("state", r.State, []string{"", "running", "pending"}); err != nil {
		return err
	}
	if r.Action == "" || r.Words == "" {
		return errors.New("action, words: say what to do")
	}
	if z := r.RightSize; !(z.Busy >= 0 && z.Busy <= 1) || z.Over < 0 || time.Duration(z.Over) > maxWindow {
		return errors.New("right_size: want busy from 0 to 1 and over up to 60d")
	}
	if r.Waste == "unused" && (r.RightSize.Busy == 0 || r.RightSize.Over == 0) {
		return errors.New("waste: unused needs right_size")
	}
	if r.Every < 0 || r.Quiet < 0 {
		return errors.New("every, quiet: are negative")
	}
	kinds := 0
	for _, has := range []bool{r.Sequence != nil, r.Set != nil, r.Detect != ""} {
		if has {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("has %d of sequence, set and detect, want one", kinds)
	}
	if r.Detect != "" {
		return r.checkDetect()
	}
	if len(r.Params) > 0 {
		return errors.New("params: are a detector's, and there is no detect")
	}
	for _, u := range r.Unless {
		if u.Label == "" {
			return errors.New("unless: label: is missing")
		}
	}
	derived := map[string]bool{}
	for i := range r.Derive {
		d := &r.Derive[i]
		if d.Name == "" || derived[d.Name] {
			return fmt.Errorf("derive: name: %q is empty or used twice", d.Name)
		}
		if err := d.check(r.GroupBy[len(r.GroupBy)-1], derived); err != nil {
			return fmt.Errorf("derive %s: %w", d.Name, err)
		}
		derived[d.Name] = true
	}
	if len(derived) > 0 && len(r.GroupBy) != 1 {
		return errors.New("group_by: derived conditions are of one kind of entity: give one name")
	}
	if err := r.checkMatch(derived); err != nil {
		return err
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		if v.Action == "" || v.Words == "" {
			return errors.New("variants: action, words: say what to do")
		}
		if err := v.When.check(r.GroupBy[0], 0); err != nil {
			return fmt.Errorf("variants: %w", err)
		}
	}
	return nil
}

func (r *Rule) checkDetect() error {
	want, known := detectors[r.Detect]
	if !known {
		return fmt.Errorf("detect: %q is not one of %s", r.Detect,
			strings.Join(slices.Sorted(maps.Keys(detectors)), ", "))
	}
	if len(r.Derive)+len(r.Until)+len(r.Confirm)+len(r.Variants) > 0 {
		return errors.New("detect: derive, until, confirm and variants are for sequences and sets")
	}
	if !slices.Equal(r.GroupBy, want.groupBy) {
		return fmt.Errorf("group_by: %v is not that of %s, %v", r.GroupBy, r.Detect, want.groupBy)
	}
	for _, p := range want.params {
		if v, ok := r.Params[p]; !ok && !slices.Contains(optionalParams, p) || !(v >= 0 && v <= 1e12) {
			return fmt.Errorf("params: %s: want a number from 0 to 1e12", p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(r.Params)) {
		if !slices.Contains(want.params, p) {
			return fmt.Errorf("params: %s is not one of %s", p, strings.Join(want.params, ", "))
		}
	}
	return nil
}

func (r *Rule) match() *Match {
	if r.Sequence != nil {
		return r.Sequence
	}
	return r.Set
}

func (r *Rule) checkMatch(derived map[string]bool) error {
	m := r.match()
	if m == nil {
		return nil
	}
	if r.Sequence != nil && (len(m.Order) == 0 || len(m.Match) > 0) {
		return errors.New("sequence: order: wants terms, and match is for sets")
	}
	if r.Set != nil && (len(m.Match) == 0 || len(m.Order) > 0) {
		return errors.New("set: match: wants terms, and order is for sequences")
	}
	n := 0
	for _, list := range []struct {
		name  string
		terms []Term
	}{{"match", m.terms()}, {"negate", m.Negate}, {"until", r.Until}, {"confirm", r.Confirm}} {
		for i := range list.terms {
			t := &list.terms[i]
			if err := t.check(derived); err != nil {
				return fmt.Errorf("%s: term %d: %w", list.name, i+1, err)
			}
			if list.name != "negate" && (t.Window != 0 || t.Slide != 0 || t.Anchor != 0 || t.Absolute) {
				return fmt.Errorf("%s: term %d: window, slide, anchor, absolute: are of negative terms", list.name, i+1)
			}
			if t.Anchor < 0 || t.Anchor >= len(m.terms()) {
				return fmt.Errorf("%s: term %d: anchor: %d is not a term of the match", list.name, i+1, t.Anchor)
			}
			n += max(1, t.Count)
		}
	}
	if n > maxTerms {
		return fmt.Errorf("has %d terms by their counts, more than %d", n, maxTerms)
	}
	total := 0
	for _, t := range m.terms() {
		total += max(1, t.Count)
	}
	if total > 1 && m.Window <= 0 || time.Duration(m.Window) > maxWindow {
		return fmt.Errorf("window: %v is not between 0 and 60d", m.Window)
	}
	return nil
}

// facts are the events that terms can name.
var factNames = []string{"job.submitted", "job.started", "job.preempted", "job.resumed", "job.resized", "job.ended",
	"node.up", "node.down", "node.drained", "config.applied", "gpu.xid", "message"}

func (t *Term) check(derived map[string]bool) error {
	switch {
	case t.Derived != "" && t.Event != "":
		return errors.New("has both event and derived")
	case t.Derived != "" && !derived[t.Derived]:
		return fmt.Errorf("derived: %q is not one of this rule", t.Derived)
	case t.Derived == "" && t.Event == "":
		return errors.New("event: is missing")
	case t.Count < 0:
		return fmt.Errorf("count: %d is negative", t.Count)
	}
	if t.Event != "" {
		if err := oneOf("event", t.Event, factNames); err != nil {
			return err
		}
	}
	if t.Event != "message" && (t.Value != "" || t.Regex != "") {
		return errors.New("value, regex: are of messages")
	}
	if t.Event != "job.ended" && (len(t.Status) > 0 || t.RanBelow != 0) {
		return errors.New("status, ran_below: are of job.ended")
	}
	for _, s := range t.Status {
		if err := oneOf("status", s, []string{"unknown", "completed", "cancelled", "failed", "timed_out",
			"out_of_memory"}); err != nil {
			return err
		}
	}
	if t.Value != "" && t.Regex != "" {
		return errors.New("has both value and regex")
	}
	if t.Event == "message" && t.Value == "" && t.Regex == "" {
		return errors.New("value: or a regex is missing")
	}
	if t.Regex != "" {
		var err error
		if t.re, err = regexp.Compile(t.Regex); err != nil {
			return fmt.Errorf("regex: %w", err)
		}
	}
	return nil
}

func (d *Derive) check(group string, before map[string]bool) error {
	if err := d.Condition.check(group, 0); err != nil {
		return err
	}
	switch {
	case d.Needs != "" && !before[d.Needs]:
		return fmt.Errorf("needs: %q is not a condition before this one", d.Needs)
	case d.For < 0 || d.WarmUp < 0 || time.Duration(max(d.For, d.WarmUp)) > maxWindow:
		return errors.New("for, warm_up: want 0 to 60d")
	case !(d.Coverage >= 0 && d.Coverage <= 1):
		return fmt.Errorf("coverage: %g is not from 0 to 1", d.Coverage)
	}
	if d.Leave != nil {
		if err := d.Leave.check(group, 0); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}

func (c *Condition) check(group string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("any, all: are nested deeper than %d", maxDepth)
	}
	if len(c.Any) > 0 || len(c.All) > 0 {
		if len(c.Any) > 0 && len(c.All) > 0 || c.Signal != "" {
			return errors.New("has several of any, all and signal")
		}
		for _, list := range [][]Condition{c.Any, c.All} {
			for i := range list {
				if err := list[i].check(group, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	of := group
	if c.Each != "" {
		if c.Each != "gpu" || group != "job" || !(c.Share > 0 && c.Share <= 1) {
			return errors.New("each: want gpu for a rule of jobs, with a share above 0 and at most 1")
		}
		of = "gpu"
	}
	kind, known := signals[of+"."+c.Signal]
	if !known {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(signals)) {
			if rest, ok := strings.CutPrefix(name, of+"."); ok {
				names = append(names, rest)
			}
		}
		return fmt.Errorf("signal: %q is not one of a %s: %s", c.Signal, of, strings.Join(names, ", "))
	}
	c.sig = kind
	n := 0
	for _, p := range []*float64{c.Below, c.Above, c.AtLeast, c.AtMost} {
		if p != nil {
			n++
			if math.IsNaN(*p) || math.IsInf(*p, 0) {
				return errors.New("below, above, at_least, at_most: want a finite number")
			}
		}
	}
	switch {
	case n != 1:
		return fmt.Errorf("signal %s: has %d of below, above, at_least and at_most, want one", c.Signal, n)
	case kind.compute != nil && (c.Fn != "" || c.Over != 0):
		return fmt.Errorf("signal %s: is a value of an instant: fn and over do not apply", c.Signal)
	case kind.compute != nil:
		return nil
	case c.Over <= 0 || time.Duration(c.Over) > maxWindow || time.Duration(c.Over) < kind.step:
		return fmt.Errorf("signal %s: over: %v is not from %v to 60d", c.Signal, c.Over, Span(kind.step))
	case !(c.Q >= 0 && c.Q <= 1):
		return fmt.Errorf("signal %s: q: %g is not from 0 to 1", c.Signal, c.Q)
	case time.Duration(c.Over)/max(kind.step, time.Second) > 100_000:
		return fmt.Errorf("signal %s: over: %v is too long for its steps of %v", c.Signal, c.Over, Span(kind.step))
	}
	return oneOf("fn", c.Fn, []string{"mean", "max", "min", "quantile", "share", "slope"})
}

// holds compares a number with the condition's threshold.
func (c *Condition) holds(v float64) bool {
	switch {
	case c.Below != nil:
		return v < *c.Below
	case c.Above != nil:
		return v > *c.Above
	case c.AtLeast != nil:
		return v >= *c.AtLeast
	}
	return v <= *c.AtMost
}

// threshold returns the number that a condition compares with; upper asks for more.
func (c *Condition) threshold() (x float64, upper bool) {
	switch {
	case c.Below != nil:
		return *c.Below, false
	case c.Above != nil:
		return *c.Above, true
	case c.AtLeast != nil:
		return *c.AtLeast, true
	}
	return *c.AtMost, false
}

package causal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Tiers of the three-layer model. Context variables describe the workload of a run;
// the system does not affect them.
const (
	TierConfig    = "config"
	TierContext   = "context"
	TierMetric    = "metric"
	TierObjective = "objective"
)

// tierRank orders the tiers: no variable causes one of a lower rank.
var tierRank = map[string]int{TierConfig: 0, TierContext: 0, TierMetric: 1, TierObjective: 2}

// TierNames returns the tiers from causes to effects.
func TierNames() []string { return []string{TierContext, TierConfig, TierMetric, TierObjective} }

// A Mode selects the prohibitions of the tiers.
type Mode string

const (
	// ModeTiers, the default: config and context are exogenous, objectives have no
	// effects, metrics may cause each other, and config and context may affect an
	// objective directly.
	ModeTiers Mode = "tiers"
	// ModeStrict3 also forbids edges between metrics, and from config or context
	// directly to an objective.
	ModeStrict3 Mode = "strict3"
	// ModeNone uses the tiers only to lay out the rendered graph.
	ModeNone Mode = "none"
)

// Spec is prior knowledge of the variables, by name, as a tiers file states it.
type Spec struct {
	// Mode defaults to ModeTiers, or to ModeNone without tiers.
	Mode Mode `json:"mode,omitempty"`
	// Tiers maps every column to its tier.
	Tiers map[string]string `json:"tiers"`
	// Types overrides the types inferred from the data: cont, int or cat.
	Types map[string]Kind `json:"types,omitempty"`
	// Ignore names columns to leave out.
	Ignore []string `json:"ignore,omitempty"`
	// Forbidden pairs: the first does not cause the second.
	Forbidden [][2]string `json:"forbidden,omitempty"`
	// Required pairs: the first is a direct cause of the second.
	Required [][2]string `json:"required,omitempty"`
	// Order lists metrics from causes to effects. It directs edges that the data leave
	// undirected.
	Order []string `json:"order,omitempty"`
	// Start is the configuration in force, by column of the tier config: where questions
	// of intervention begin. Categories are by name.
	Start map[string]string `json:"start,omitempty"`
}

// maxSpec is the largest tiers file ReadSpec accepts, in bytes.
const maxSpec = 1 << 20

// ReadSpec reads and checks a tiers file. Unknown fields are errors.
func ReadSpec(r io.Reader) (*Spec, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSpec+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSpec {
		return nil, fmt.Errorf("the tiers file is larger than %d bytes", maxSpec)
	}
	s := &Spec{}
	if err := strictJSON(data, s); err != nil {
		return nil,
			fmt.Errorf(
				`%w (a tiers file looks like {"tiers": {"queues": "config", "load": "context", "frag": "metric", "avg_jct": "objective"}})`, err)
	}
	return s, s.check()
}

// strictJSON decodes exactly one value, without unknown fields.
func strictJSON(data []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line := 1 + strings.Count(string(data[:min(int(syntax.Offset), len(data))]), "\n")
			return fmt.Errorf("line %d: %w", line, err)
		}
		return err
	}
	if d.More() {
		return errors.New("there is text after the JSON value")
	}
	return nil
}

func (s *Spec) check() error {
	switch s.Mode {
	case "", ModeTiers, ModeStrict3, ModeNone:
	default:
		return fmt.Errorf("mode: %q is not %s, %s or %s", s.Mode, ModeTiers, ModeStrict3, ModeNone)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tiers)) {
		if _, ok := tierRank[s.Tiers[name]]; !ok {
			return fmt.Errorf("tiers: %q of %q is not one of %s", s.Tiers[name], name, strings.Join(TierNames(), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Start)) {
		if tier := s.Tiers[name]; tier != TierConfig {
			return fmt.Errorf("start: the tier of %q is %q, not %s", name, tier, TierConfig)
		}
	}
	return nil
}

// Knowledge is a [Spec] with columns by index.
//
// Forbidden, tiers and exogeneity concern ancestors: if i is forbidden to cause j,
// it does not cause j through other variables either.
type Knowledge struct {
	// Tier is the rank of every variable: none causes one of a lower rank. Nil without
	// tiers.
	Tier []int
	// WithinForbidden holds the tiers whose variables do not cause each other.
	WithinForbidden map[int]bool
	// Exogenous marks variables without causes among the others, hidden causes
	// included.
	Exogenous []bool
	// Forbidden and Required are pairs of cause and effect.
	Forbidden, Required [][2]int
}

func (k *Knowledge) exogenous(i int) bool { return k.Exogenous != nil && k.Exogenous[i] }

// Bind resolves the names of a spec to columns. It returns an error if a name is not
// a column, if a column has no tier (unless the mode is ModeNone), or if the
// knowledge contradicts itself.
func (s *Spec) Bind(names []string) (*Knowledge, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	find := func(what, name string) (int, error) {
		i, ok := index[name]
		if !ok {
			return 0, fmt.Errorf("%s: the data have no column %q; they have %s", what, name, strings.Join(names, ", "))
		}
		return i, nil
	}
	k := &Knowledge{}
	for _, name := range slices.Sorted(maps.Keys(s.Tiers)) {
		if _, err := find("tiers", name); err != nil {
			return nil, err
		}
	}
	if s.Mode != ModeNone && (s.Mode != "" || len(s.Tiers) > 0) {
		k.Tier = make([]int, len(names))
		k.Exogenous = make([]bool, len(names))
		k.WithinForbidden = map[int]bool{0: true, 2: true}
		for i, name := range names {
			tier, ok := s.Tiers[name]
			if !ok {
				return nil, fmt.Errorf("tiers: column %q has no tier: give it one of %s, or put it under \"ignore\"",
					name,
					strings.Join(TierNames(), ", "))
			}
			k.Tier[i] = tierRank[tier]
			k.Exogenous[i] = k.Tier[i] == 0
		}
		if s.Mode == ModeStrict3 {
			k.WithinForbidden[1] = true
			for i := range names {
				for j := range names {
					if k.Tier[i] == 0 && k.Tier[j] == 2 {
						k.Forbidden = append(k.Forbidden, [2]int{i, j})
					}
				}
			}
		}
	}
	for _, list := range []struct {
		what  string
		pairs [][2]string
		to    *[][2]int
	}{{"forbidden", s.Forbidden, &k.Forbidden}, {"required", s.Required, &k.Required}} {
		for _, pair := range list.pairs {
			i, err := find(list.what, pair[0])
			if err != nil {
				return nil, err
			}
			j, err := find(list.what, pair[1])
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, [2]int{i, j})
		}
	}
	for _, name := range s.Order {
		if _, err := find("order", name); err != nil {
			return nil, err
		}
	}
	return k, k.Check(names)
}

// Check returns an error if the knowledge contradicts itself or does not fit the
// variables.
func (k *Knowledge) Check(names []string) error {
	if k == nil {
		return nil
	}
	n := len(names)
	if k.Tier != nil && len(k.Tier) != n || k.Exogenous != nil && len(k.Exogenous) != n {
		return fmt.Errorf("causal: knowledge of %d tiers and %d exogenous flags does not fit %d variables", len(k.Tier),
			len(k.Exogenous), n)
	}
	for _, pairs := range [][][2]int{k.Forbidden, k.Required} {
		for _, p := range pairs {
			if p[0] < 0 || p[0] >= n || p[1] < 0 || p[1] >= n {
				return fmt.Errorf("causal: knowledge of the pair %v does not fit %d variables", p, n)
			}
			if p[0] == p[1] {
				return fmt.Errorf("knowledge: %q cannot be its own cause", names[p[0]])
			}
		}
	}
	r := k.rules(n)
	for _, p := range k.Required {
		if r.forbids(p[0], p[1]) {
			return fmt.Errorf("knowledge contradicts itself: %q is required to cause %q, but %s",
				names[p[0]], names[p[1]],
				k.why(p[0], p[1], names))
		}
	}
	return k.checkCycles(names)
}

// why names the rule that forbids i to cause j.
func (k *Knowledge) why(i, j int, names []string) string {
	switch {
	case slices.Contains(k.Forbidden, [2]int{i, j}):
		return "that pair is forbidden"
	case k.Exogenous != nil && k.Exogenous[j]:
		return fmt.Sprintf("nothing causes %q (config or context)", names[j])
	case k.Tier != nil && k.Tier[i] > k.Tier[j]:
		return fmt.Sprintf("%q stands in a higher tier", names[i])
	}
	return "variables of their tier do not cause each other"
}

// checkCycles returns an error for a cycle of required pairs, and for a forbidden
// pair that a path of required pairs connects.
func (k *Knowledge) checkCycles(names []string) error {
	n := len(names)
	r := k.rules(n)
	for from := range n {
		seen := make([]bool, n)
		stack := []int{from}
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, p := range k.Required {
				if p[0] != v || seen[p[1]] {
					continue
				}
				if p[1] == from {
					return fmt.Errorf("knowledge contradicts itself: the required pairs lead from %q back to it",
						names[from])
				}
				if r.forbids(from, p[1]) {
					return fmt.Errorf("knowledge contradicts itself: required pairs lead from %q to %q, but %s",
						names[from],
						names[p[1]], k.why(from, p[1], names))
				}
				seen[p[1]] = true
				stack = append(stack, p[1])
			}
		}
	}
	return nil
}

// rules is Knowledge as lookup tables.
type rules struct {
	n         int
	forbid    []bool // [i*n+j]: i is not an ancestor of j
	require   []bool
	exogenous []bool
	tier      []int
}

func (k *Knowledge) rules(n int) *rules {
	r := &rules{n: n, forbid: make([]bool, n*n), require: make([]bool, n*n), exogenous: make([]bool, n),
		tier: make([]int, n)}
	if k == nil {
		return r
	}
	copy(r.exogenous, k.Exogenous)
	copy(r.tier, k.Tier)
	for i := range n {
		for j := range n {
			r.forbid[i*n+j] = i != j && (r.exogenous[j] || r.tier[i] > r.tier[j] || k.Tier != nil &&
				r.tier[i] == r.tier[j] && k.WithinForbidden[r.tier[i]])
		}
	}
	for _, p := range k.Forbidden {
		r.forbid[p[0]*n+p[1]] = true
	}
	for _, p := range k.Required {
		r.require[p[0]*n+p[1]] = true
	}
	return r
}

// forbids reports whether i is known not to cause j.
func (r *rules) forbids(i, j int) bool { return r.forbid[i*r.n+j] }

func (r *rules) requires(i, j int) bool { return r.require[i*r.n+j] }

package causal

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Schema names the format of a Document.
const Schema = "causal-graph/v1"

// A Document is a learned graph as it is stored and shown: variables by name,
// with the evidence for every edge. Its JSON is canonical: the same result gives
// the same bytes.
type Document struct {
	Schema string `json:"schema"`
	Nodes  []Node `json:"nodes"`
	Edges  []Edge `json:"edges"`
	// Dropped are edges that too few of the bootstrap samples had.
	Dropped []Edge `json:"dropped,omitempty"`
	// Separations are the pairs found independent, and given what.
	Separations []Separation `json:"separations,omitempty"`
	// Conflicts are pairs that the knowledge forbids to be adjacent though no set
	// separates them: the data contradict the knowledge.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// DependentInputs are pairs of config and context variables that were not
	// independent of each other. That is no contradiction (a busy day has much of
	// everything), but their effects are harder to tell apart.
	DependentInputs []Dependence `json:"dependent_inputs,omitempty"`
	// DAG is the directed graph made of the edges.
	DAG *DAGDocument `json:"dag,omitempty"`
	// Knowledge is what was known beforehand.
	Knowledge *Spec `json:"knowledge,omitempty"`
	// Learning says how the graph was learned. Nil if it was not.
	Learning *Learning `json:"learning,omitempty"`
	// Warnings are what a reader must know before trusting the graph.
	Warnings []string `json:"warnings,omitempty"`
}

// A Node is a variable.
type Node struct {
	ID   string `json:"id"`
	Tier string `json:"tier,omitempty"`
	Type Kind   `json:"type"`
}

// An Edge joins two variables, the earlier one as source.
type Edge struct {
	Source     string `json:"source"`
	Target     string `json:"target"`
	MarkSource Mark   `json:"mark_source"`
	MarkTarget Mark   `json:"mark_target"`
	// P is the largest p-value that any conditioning set gave the pair, and Given
	// that set: the weakest evidence for the edge. Nil without a test.
	P     *float64 `json:"p,omitempty"`
	Given []string `json:"given,omitempty"`
	// Tests is how many conditioning sets were tried.
	Tests int `json:"tests,omitempty"`
	// Strength is the informational correlation sqrt(1 - exp(-2 I)) given the set
	// that leaves least of it, in 0..1: |partial correlation| if all is linear.
	Strength *float64 `json:"strength,omitempty"`
	// BootFreq is the share of bootstrap samples with an edge between the two, and
	// BootMarks the share with these very marks.
	BootFreq  *float64 `json:"boot_freq,omitempty"`
	BootMarks *float64 `json:"boot_marks,omitempty"`
	// Visible is set for directed edges that no hidden common cause can blur.
	Visible bool `json:"visible,omitempty"`
}

// A Separation says that two variables are independent given others.
type Separation struct {
	A     string   `json:"a"`
	B     string   `json:"b"`
	Given []string `json:"given"`
	P     float64  `json:"p"`
}

// A Conflict is a pair that knowledge says is not adjacent, but nothing
// separates.
type Conflict struct {
	A string `json:"a"`
	B string `json:"b"`
	// P is the largest p-value of the conditioning sets tried, and Given that set.
	P     float64  `json:"p"`
	Given []string `json:"given"`
	// Hint says what the conflict usually means.
	Hint string `json:"hint"`
}

// A Dependence is a pair of inputs that nothing separates.
type Dependence struct {
	A string `json:"a"`
	B string `json:"b"`
	// P is the largest p-value of the conditioning sets tried.
	P float64 `json:"p"`
}

// Learning says how a graph was learned.
type Learning struct {
	Test      string  `json:"test"`
	Alpha     float64 `json:"alpha"`
	MaxCond   int     `json:"max_cond"`
	PDSMax    int     `json:"pds_max"` // 0: that stage is left out
	Policy    string  `json:"policy"`  // which separating set counts: first or maxp
	Rows      int     `json:"rows"`
	DataHash  string  `json:"data_hash,omitempty"`
	Tests     int     `json:"tests"` // distinct tests done
	Bootstrap int     `json:"bootstrap,omitempty"`
	// Keep is the bootstrap frequency below which edges are dropped.
	Keep float64 `json:"keep,omitempty"`
	Seed uint64  `json:"seed,omitempty"`
	// Complete is false if time ran out: the graph is right as far as it goes, but
	// has edges too many and circles where more time gives marks.
	Complete bool `json:"complete"`
	// Stopped says where time ran out.
	Stopped string `json:"stopped,omitempty"`
}

// DAGDocument is a DAG by names.
type DAGDocument struct {
	Edges []DAGEdge `json:"edges"`
	// Correlated pairs share a hidden cause; neither is a parent of the other.
	Correlated [][2]string `json:"correlated,omitempty"`
	// Order lists the variables, causes first.
	Order []string `json:"order"`
	// Resolved says what was assumed where the graph leaves a question open.
	Resolved []Resolution `json:"resolved,omitempty"`
}

// A DAGEdge is a directed edge.
type DAGEdge struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// ConfoundingPossible: a hidden common cause may account for some of the
	// effect, or all of it.
	ConfoundingPossible bool `json:"confounding_possible,omitempty"`
}

// A Resolution is an assumption made about one edge.
type Resolution struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// From is the edge as learned, To as resolved ("-->", "<--", "<->", "dropped").
	From string `json:"from"`
	To   string `json:"to"`
	// Reason says why.
	Reason string `json:"reason"`
}

// Names returns the ids of the nodes.
func (d *Document) Names() []string {
	names := make([]string, len(d.Nodes))
	for i := range d.Nodes {
		names[i] = d.Nodes[i].ID
	}
	return names
}

// Graph returns the edges as a graph over the nodes in their order.
func (d *Document) Graph() *Graph {
	index := make(map[string]int, len(d.Nodes))
	for i := range d.Nodes {
		index[d.Nodes[i].ID] = i
	}
	g := NewGraph(len(d.Nodes))
	for _, e := range d.Edges {
		g.Set(index[e.Source], index[e.Target], e.MarkSource, e.MarkTarget)
	}
	return g
}

// maxDocument is the largest graph file ReadDocument takes.
const maxDocument = 64 << 20

// ReadDocument reads the JSON of a graph and checks it. Of a graph made by hand
// only schema, nodes and edges are needed.
func ReadDocument(r io.Reader) (*Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("the graph is larger than %d bytes", maxDocument)
	}
	d := &Document{}
	if err := strictJSON(data, d); err != nil {
		return nil, fmt.Errorf("%w (expected the JSON of a causal graph)", err)
	}
	return d, d.check()
}

func (d *Document) check() error {
	if d.Schema != Schema {
		return fmt.Errorf("schema: %q is not %q", d.Schema, Schema)
	}
	if len(d.Nodes) > maxColumns {
		return fmt.Errorf("nodes: there are %d, more than %d", len(d.Nodes), maxColumns)
	}
	index := make(map[string]int, len(d.Nodes))
	for i, n := range d.Nodes {
		if n.ID == "" {
			return fmt.Errorf("nodes[%d]: the id is empty", i)
		}
		if _, twice := index[n.ID]; twice {
			return fmt.Errorf("nodes[%d]: there are two nodes %q", i, n.ID)
		}
		if _, ok := tierRank[n.Tier]; !ok && n.Tier != "" {
			return fmt.Errorf("nodes[%d]: %q is not a tier", i, n.Tier)
		}
		index[n.ID] = i
	}
	known := func(where string, names ...string) error {
		for _, name := range names {
			if _, ok := index[name]; !ok {
				return fmt.Errorf("%s: there is no node %q", where, name)
			}
		}
		return nil
	}
	seen := map[[2]int]bool{}
	for list, edges := range [][]Edge{d.Edges, d.Dropped} {
		for i, e := range edges {
			where := fmt.Sprintf("%s[%d]", []string{"edges", "dropped"}[list], i)
			if err := known(where, append([]string{e.Source, e.Target}, e.Given...)...); err != nil {
				return err
			}
			a, b := index[e.Source], index[e.Target]
			pair := [2]int{min(a, b), max(a, b)}
			switch {
			case a == b:
				return fmt.Errorf("%s: %q is joined to itself", where, e.Source)
			case seen[pair]:
				return fmt.Errorf("%s: there are two edges between %q and %q", where, e.Source, e.Target)
			case e.MarkSource == None || e.MarkTarget == None:
				return fmt.Errorf("%s: mark_source or mark_target is missing", where)
			}
			for _, v := range []*float64{e.P, e.Strength, e.BootFreq, e.BootMarks} {
				if v != nil && !(*v >= 0 && *v <= 1) {
					return fmt.Errorf("%s: %v is not within 0 and 1", where, *v)
				}
			}
			seen[pair] = true
		}
	}
	for i, s := range d.Separations {
		if err := known(fmt.Sprintf("separations[%d]", i), append([]string{s.A, s.B}, s.Given...)...); err != nil {
			return err
		}
	}
	for i, c := range d.Conflicts {
		if err := known(fmt.Sprintf("conflicts[%d]", i), append([]string{c.A, c.B}, c.Given...)...); err != nil {
			return err
		}
	}
	for i, p := range d.DependentInputs {
		if err := known(fmt.Sprintf("dependent_inputs[%d]", i), p.A, p.B); err != nil {
			return err
		}
	}
	if d.Knowledge != nil {
		if err := d.Knowledge.check(); err != nil {
			return fmt.Errorf("knowledge: %w", err)
		}
	}
	if d.DAG != nil {
		return d.DAG.check(index)
	}
	return nil
}

// check makes sure that the order is one of the nodes and that edges follow it.
func (d *DAGDocument) check(index map[string]int) error {
	place := make(map[string]int, len(d.Order))
	for i, name := range d.Order {
		if _, ok := index[name]; !ok {
			return fmt.Errorf("dag: order[%d]: there is no node %q", i, name)
		}
		place[name] = i
	}
	if len(place) != len(index) || len(d.Order) != len(index) {
		return fmt.Errorf("dag: order has %d different names, there are %d nodes", len(place), len(index))
	}
	for i, e := range d.Edges {
		from, ok := place[e.Source]
		to, also := place[e.Target]
		if !ok || !also || from >= to {
			return fmt.Errorf("dag: edges[%d] from %q to %q goes against the order", i, e.Source, e.Target)
		}
	}
	for i, pair := range d.Correlated {
		_, ok := index[pair[0]]
		_, also := index[pair[1]]
		if !ok || !also || pair[0] == pair[1] {
			return fmt.Errorf("dag: correlated[%d]: %q and %q are not two nodes", i, pair[0], pair[1])
		}
	}
	for i, r := range d.Resolved {
		for _, name := range []string{r.Source, r.Target} {
			if _, ok := index[name]; !ok {
				return fmt.Errorf("dag: resolved[%d]: there is no node %q", i, name)
			}
		}
	}
	return nil
}

// Parents returns the direct causes of a variable, in the order of the edges.
func (d *DAGDocument) Parents(name string) []string {
	var out []string
	for _, e := range d.Edges {
		if e.Target == name {
			out = append(out, e.Source)
		}
	}
	return out
}

// Write writes the document as indented JSON.
func (d *Document) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// NewDocument describes a bare graph: names, tiers and edges without evidence.
// tiers may be nil.
func NewDocument(g *Graph, names []string, kinds []Kind, tiers map[string]string) *Document {
	d := &Document{Schema: Schema, Nodes: make([]Node, len(names)), Edges: []Edge{}}
	for i, name := range names {
		d.Nodes[i] = Node{ID: name, Tier: tiers[name]}
		if kinds != nil {
			d.Nodes[i].Type = kinds[i]
		}
	}
	for i := range g.Len() {
		for j := i + 1; j < g.Len(); j++ {
			if g.Adjacent(i, j) {
				d.Edges = append(d.Edges, Edge{Source: names[i], Target: names[j], MarkSource: g.At(j, i), MarkTarget: g.At(i, j)})
			}
		}
	}
	return d
}

// shown rounds a number to what is worth storing: six digits.
func shown(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	if math.IsInf(scale, 0) || scale == 0 {
		return 0 // below 1e-302: nothing
	}
	return math.Round(v*scale) / scale
}

func pick(names []string, set []int) []string {
	out := make([]string, len(set))
	for k, i := range set {
		out[k] = names[i]
	}
	return slices.Clip(out)
}

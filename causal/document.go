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

// A Document is a learned graph as it is stored and rendered: variables by name,
// with the evidence for every edge. Its JSON is canonical: equal results have equal
// bytes.
type Document struct {
	Schema string `json:"schema"`
	Nodes  []Node `json:"nodes"`
	Edges  []Edge `json:"edges"`
	// Dropped are the edges found in too few bootstrap samples.
	Dropped []Edge `json:"dropped,omitempty"`
	// Separations are the independent pairs with their separating sets.
	Separations []Separation `json:"separations,omitempty"`
	// Conflicts are pairs whose edge the knowledge forbids though no set separates
	// them: the data contradict the knowledge.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// DependentInputs are pairs of config and context variables that are not
	// independent of each other. That is no contradiction (a busy day has much of
	// everything), but their effects are harder to separate.
	DependentInputs []Dependence `json:"dependent_inputs,omitempty"`
	// DAG is the directed graph resolved from the edges.
	DAG *DAGDocument `json:"dag,omitempty"`
	// Knowledge is the prior knowledge used.
	Knowledge *Spec `json:"knowledge,omitempty"`
	// Learning describes how the graph was learned; nil for a graph that was not
	// learned.
	Learning *Learning `json:"learning,omitempty"`
	// Warnings limit how far the graph can be trusted.
	Warnings []string `json:"warnings,omitempty"`
}

// A Node is a variable.
type Node struct {
	ID   string `json:"id"`
	Tier string `json:"tier,omitempty"`
	Type Kind   `json:"type"`
}

// An Edge joins two variables; the earlier one is the source.
type Edge struct {
	Source     string `json:"source"`
	Target     string `json:"target"`
	MarkSource Mark   `json:"mark_source"`
	MarkTarget Mark   `json:"mark_target"`
	// P is the largest p-value of any conditioning set, and Given that set: the
	// weakest evidence for the edge. Nil if the pair was not tested.
	P     *float64 `json:"p,omitempty"`
	Given []string `json:"given,omitempty"`
	// Tests is the number of conditioning sets tried.
	Tests int `json:"tests,omitempty"`
	// Strength is the smallest informational correlation sqrt(1 - exp(-2 I)) given any
	// set, in 0..1: the absolute partial correlation for linear dependence.
	Strength *float64 `json:"strength,omitempty"`
	// BootFreq is the share of bootstrap samples in which the two are adjacent, and
	// BootMarks the share with the same marks.
	BootFreq  *float64 `json:"boot_freq,omitempty"`
	BootMarks *float64 `json:"boot_marks,omitempty"`
	// Visible is true for a directed edge that no hidden common cause can account for.
	Visible bool `json:"visible,omitempty"`
}

// A Separation is a pair of variables that are independent given others.
type Separation struct {
	A     string   `json:"a"`
	B     string   `json:"b"`
	Given []string `json:"given"`
	P     float64  `json:"p"`
}

// A Conflict is a pair whose edge the knowledge forbids though no set separates it.
type Conflict struct {
	A string `json:"a"`
	B string `json:"b"`
	// P is the largest p-value of any conditioning set, and Given that set.
	P     float64  `json:"p"`
	Given []string `json:"given"`
	// Hint is the usual cause of such a conflict.
	Hint string `json:"hint"`
}

// A Dependence is a pair of inputs that no set separates.
type Dependence struct {
	A string `json:"a"`
	B string `json:"b"`
	// P is the largest p-value of any conditioning set.
	P float64 `json:"p"`
}

// Learning describes how a graph was learned.
type Learning struct {
	Test      string  `json:"test"`
	Alpha     float64 `json:"alpha"`
	MaxCond   int     `json:"max_cond"`
	PDSMax    int     `json:"pds_max"` // 0 if the stage was skipped
	Policy    string  `json:"policy"`  // choice of the separating set: first or maxp
	Rows      int     `json:"rows"`
	DataHash  string  `json:"data_hash,omitempty"`
	Tests     int     `json:"tests"` // distinct tests run
	Bootstrap int     `json:"bootstrap,omitempty"`
	// Keep is the bootstrap frequency below which edges are dropped.
	Keep float64 `json:"keep,omitempty"`
	Seed uint64  `json:"seed,omitempty"`
	// Complete is false if the deadline passed: more time would remove edges and turn
	// circles into arrows or tails.
	Complete bool `json:"complete"`
	// Stopped names the stage in which the deadline passed.
	Stopped string `json:"stopped,omitempty"`
}

// DAGDocument is a [DAG] with variables by name.
type DAGDocument struct {
	Edges []DAGEdge `json:"edges"`
	// Correlated pairs share a hidden cause; neither is a parent of the other.
	Correlated [][2]string `json:"correlated,omitempty"`
	// Order lists the variables, causes first.
	Order []string `json:"order"`
	// Resolved lists the assumptions made where the learned graph leaves a direction
	// open.
	Resolved []Resolution `json:"resolved,omitempty"`
}

// A DAGEdge is a directed edge.
type DAGEdge struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// ConfoundingPossible is true if a hidden common cause may account for all or part
	// of the effect.
	ConfoundingPossible bool `json:"confounding_possible,omitempty"`
}

// A Resolution is an assumption about one edge.
type Resolution struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// From is the learned edge, To the resolved one ("-->", "<--", "<->", "dropped").
	From string `json:"from"`
	To   string `json:"to"`
	// Reason states why.
	Reason string `json:"reason"`
}

// Names returns the names of the nodes, in order.
func (d *Document) Names() []string {
	names := make([]string, len(d.Nodes))
	for i := range d.Nodes {
		names[i] = d.Nodes[i].ID
	}
	return names
}

// Graph returns the edges as a graph over the nodes, in order.
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

// maxDocument is the largest graph file ReadDocument accepts, in bytes.
const maxDocument = 64 << 20

// ReadDocument reads and checks the JSON of a graph. A hand-written graph needs only
// schema, nodes and edges.
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
	if err := d.checkEdges(index); err != nil {
		return err
	}
	if err := d.checkPairs(index); err != nil {
		return err
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

// checkEdges checks Edges and Dropped; index maps names to nodes.
func (d *Document) checkEdges(index map[string]int) error {
	seen := map[[2]int]bool{}
	for list, edges := range [][]Edge{d.Edges, d.Dropped} {
		for i, e := range edges {
			where := fmt.Sprintf("%s[%d]", []string{"edges", "dropped"}[list], i)
			if err := checkNames(index, where, append([]string{e.Source, e.Target}, e.Given...)...); err != nil {
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
	return nil
}

// checkPairs checks the names of separations, conflicts and dependent inputs.
func (d *Document) checkPairs(index map[string]int) error {
	for i, s := range d.Separations {
		if err := checkNames(index, fmt.Sprintf("separations[%d]", i),
			append([]string{s.A, s.B}, s.Given...)...); err != nil {
			return err
		}
	}
	for i, c := range d.Conflicts {
		if err := checkNames(index, fmt.Sprintf("conflicts[%d]", i),
			append([]string{c.A, c.B}, c.Given...)...); err != nil {
			return err
		}
	}
	for i, p := range d.DependentInputs {
		if err := checkNames(index, fmt.Sprintf("dependent_inputs[%d]", i), p.A, p.B); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(index map[string]int, where string, names ...string) error {
	for _, name := range names {
		if _, ok := index[name]; !ok {
			return fmt.Errorf("%s: there is no node %q", where, name)
		}
	}
	return nil
}

// check requires that the order is a permutation of the nodes and every edge follows
// it.
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

// Write writes the document as indented JSON.
func (d *Document) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// NewDocument returns a document of names, tiers and edges without evidence. kinds
// and tiers may be nil.
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
				d.Edges = append(d.Edges,
					Edge{Source: names[i], Target: names[j], MarkSource: g.At(j, i), MarkTarget: g.At(i, j)})
			}
		}
	}
	return d
}

// roundStored rounds a number to six significant digits.
func roundStored(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	if math.IsInf(scale, 0) || scale == 0 {
		return 0 // below 1e-302
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

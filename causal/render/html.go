package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/chart"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageNode and pageEdge are the page script's data.
type pageNode struct {
	ID    string   `json:"id"`
	Tier  string   `json:"tier"`
	Type  string   `json:"type"`
	Apart []string `json:"apart"` // independent variables with their separating sets
}

type pageEdge struct {
	Source   int      `json:"s"`
	Target   int      `json:"t"`
	Arrow    string   `json:"arrow"`
	Left     string   `json:"left"`
	Right    string   `json:"right"`
	Meaning  string   `json:"meaning"`
	Evidence []string `json:"evidence"`
}

type pageData struct {
	Nodes []pageNode            `json:"nodes"`
	Edges map[string][]pageEdge `json:"edges"` // by view: pag, dag
}

// HTML writes a self-contained page with a graph as learned and as a DAG, the
// evidence of every edge and the paths from a parameter to the objectives.
func HTML(out io.Writer, d *causal.Document) error {
	p, err := newPicture(d)
	if err != nil {
		return err
	}
	data := pageData{Edges: map[string][]pageEdge{"pag": p.pageEdges(d)}}
	for _, n := range d.Nodes {
		data.Nodes = append(data.Nodes, pageNode{n.ID, n.Tier, n.Type.String(), p.separations(n.ID)})
	}
	var svg strings.Builder
	p.open(&svg)
	p.bands(&svg)
	p.edges(&svg, "pag", d.Edges)
	if d.DAG != nil {
		dag, err := AsDAG(d)
		if err != nil {
			return err
		}
		for i := range dag.Edges {
			if _, ok := p.route[p.pair(dag.Edges[i])]; !ok {
				return fmt.Errorf("the DAG joins %q and %q, which the graph does not",
					dag.Edges[i].Source, dag.Edges[i].Target)
			}
		}
		p.edges(&svg, "dag", dag.Edges)
		data.Edges["dag"] = p.pageEdges(dag)
	}
	p.nodes(&svg)
	svg.WriteString("</svg>\n")
	encoded, err := json.Marshal(data) // escapes characters that would end the script
	if err != nil {
		return err
	}
	return pageTemplate.Execute(out, map[string]any{
		"Doc": d, "SVG": template.HTML(svg.String()), "Data": template.JS(encoded),
		"Graph": template.CSS(svgStyle), "Style": chart.Style(),
		"Least": math.Round(.9 * p.layout.width), "Summary": summary(d), "HasDAG": d.DAG != nil,
		"Inputs": dependentInputs(d),
	})
}

// summary returns a line on how the graph was learned.
func summary(d *causal.Document) string {
	l := d.Learning
	if l == nil {
		return fmt.Sprintf("%d variables, %d edges.", len(d.Nodes), len(d.Edges))
	}
	s := fmt.Sprintf("%d variables, %d edges, learned from %d measured rows (test %s, alpha %g", len(d.Nodes),
		len(d.Edges), l.Rows, l.Test, l.Alpha)
	if l.Bootstrap > 0 {
		s += fmt.Sprintf(", %d bootstrap samples; numbers on edges: share of samples that have it", l.Bootstrap)
	}
	return s + ")."
}

func (p *picture) pageEdges(d *causal.Document) []pageEdge {
	out := []pageEdge{}
	for _, e := range d.Edges {
		out = append(out, pageEdge{
			Source: p.index[e.Source], Target: p.index[e.Target], Arrow: causal.Arrows(e.MarkSource, e.MarkTarget),
			Left: e.MarkSource.String(), Right: e.MarkTarget.String(), Meaning: meaning(e), Evidence: evidence(e),
		})
	}
	return out
}

// separations returns the separations of a node as text.
func (p *picture) separations(id string) []string {
	out := []string{}
	for _, s := range p.d.Separations {
		other := s.B
		if s.B == id {
			other = s.A
		} else if s.A != id {
			continue
		}
		text := other
		if len(s.Given) > 0 {
			text += " given " + strings.Join(s.Given, ", ")
		}
		out = append(out, fmt.Sprintf("%s (p %.2g)", text, s.P))
	}
	return slices.Clip(out)
}

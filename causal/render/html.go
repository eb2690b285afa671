package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/autosched/autosched/causal"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// PageOptions add to a page.
type PageOptions struct {
	// Title is the page's, "Causal graph" if empty.
	Title string
	// Panels stand below the graph: what a performance model knows of effects, say.
	Panels []Panel
}

// A Panel is a part of a page that its caller brings along. When the reader
// selects a node or an edge the page sends the document an event "causal:select"
// with {node: "id"} or {source: "id", target: "id"} as its detail, and null when
// nothing is selected any more.
type Panel struct {
	Title string
	HTML  template.HTML
	// Data is handed to Script as JSON.
	Data any
	// Script is the body of a function of (element, data), called once.
	Script template.JS
}

// pageNode and pageEdge are what the page's script knows.
type pageNode struct {
	ID    string   `json:"id"`
	Tier  string   `json:"tier"`
	Type  string   `json:"type"`
	Apart []string `json:"apart"` // what it is independent of, and given what
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
	Nodes  []pageNode            `json:"nodes"`
	Edges  map[string][]pageEdge `json:"edges"` // by view: pag, dag
	Panels []pagePanel           `json:"panels"`
}

type pagePanel struct {
	Data any `json:"data"`
}

// HTML writes a page that shows a graph: as learned and as a DAG, with the
// evidence of every edge and the ways from a parameter to the objectives. It
// loads nothing from elsewhere.
func HTML(out io.Writer, d *causal.Document, o PageOptions) error {
	p, err := newPicture(d)
	if err != nil {
		return err
	}
	data := pageData{Edges: map[string][]pageEdge{"pag": p.pageEdges(d)}, Panels: []pagePanel{}}
	for _, n := range d.Nodes {
		data.Nodes = append(data.Nodes, pageNode{n.ID, n.Tier, n.Type.String(), p.apart(n.ID)})
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
				return fmt.Errorf("the DAG joins %q and %q, which the graph does not", dag.Edges[i].Source, dag.Edges[i].Target)
			}
		}
		p.edges(&svg, "dag", dag.Edges)
		data.Edges["dag"] = p.pageEdges(dag)
	}
	p.nodes(&svg)
	svg.WriteString("</svg>\n")
	for _, panel := range o.Panels {
		data.Panels = append(data.Panels, pagePanel{panel.Data})
	}
	encoded, err := json.Marshal(data) // escapes what would end the script
	if err != nil {
		return err
	}
	title := o.Title
	if title == "" {
		title = "Causal graph"
	}
	return pageTemplate.Execute(out, map[string]any{
		"Title": title, "Doc": d, "SVG": template.HTML(svg.String()), "Data": template.JS(encoded),
		"Style": template.CSS(svgStyle), "Panels": o.Panels, "Summary": summary(d), "HasDAG": d.DAG != nil,
		"Inputs": dependentInputs(d),
	})
}

// summary says in a line how the graph was learned.
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

// apart lists what a node was found independent of, the first few.
func (p *picture) apart(id string) []string {
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

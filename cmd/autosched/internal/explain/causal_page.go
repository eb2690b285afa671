package explain

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/causal/render"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
)

// evaluatorScript predicts in a browser as the model does; panelScript has the controls.
var (
	//go:embed causal_page.js
	evaluatorScript string
	//go:embed causal_panel.js
	panelScript string
)

var panelTemplate = template.Must(template.New("panel").Funcs(template.FuncMap{"percent": func(v float64) float64 {
	return 100 * v
}}).Parse(
	`<p>Move what is set: everything after is predicted, nothing was measured. Before is {{.At}}. Hold a metric to see what follows from it alone.</p>
<p>On rows left out the model is off by {{range $i, $e := .Errors}}{{if $i}}; {{end}}{{printf "%.1f" (percent $e.Blend)}} % for <code>{{$e.Objective}}</code> (always predicting the mean: {{printf "%.1f" (percent $e.Mean)}} %, rank correlation {{printf "%.2f" $e.Rank}}){{end}}.</p>
<div class="whatif"><div class="scroll">
<table class="inputs"><tr><th>set</th><th></th><th></th><th></th></tr></table><p><button>as before</button></p></div><div>
<div class="scroll"><table class="objectives"><tr><th>objective</th><th>before</th><th>after</th><th>change</th><th>90 % interval</th><th></th></tr></table>
</div><div class="scroll"><table class="metrics"><tr><th>metric</th><th>before</th><th>after</th><th>hold</th><th></th></tr></table></div>
<h3>Effects</h3><p>From the lowest to the highest mean, with all else as in the data; 90 % intervals.</p>
{{range .Effects}}<div class="scroll"><table><tr><th>on {{.Objective}}</th><th>effect</th><th>interval</th><th>of mean</th><th></th></tr>
{{range .Effects}}<tr><td>{{.Parameter}}</td><td>{{printf "%.4g" .ACE}}</td><td>{{printf "%.4g" .Low}} to {{printf "%.4g" .High}}</td><td>{{printf "%.1f" .Percent}} %</td><td>{{if .Inert}}inert{{end}}</td></tr>
{{end}}</table></div>{{end}}</div></div>
<noscript><p>The sliders need scripts.</p></noscript>`))

// pageOptions are the flags of causal page.
type pageOptions struct {
	model      modelFlags
	out, title string
	at         int
	given      func(flag string) bool
}

func newCausalPageCmd() *cobra.Command {
	var o pageOptions
	cmd := &cobra.Command{
		Use:   "page --data FILE.csv --tiers FILE.json --out FILE.html",
		Short: "Write a page to explore graph and model, with sliders that act as do()",
		Long: `Writes one file of HTML that loads nothing from elsewhere: the graph as 'causal
show --as html' draws it, with the equation of a metric and the effect of a
parameter where the mouse rests, and a slider for every parameter and every
context variable. Moving one predicts metrics and objectives before and after, as
'explain whatif' does, with the same numbers; a metric can be held at a value.

The model is of linear and quadratic regressions, which a page can evaluate: it may
be farther off than that of 'explain whatif', which tries trees too. The page says
how far. --json prints what the page is made of instead: the graph, the regressions
written out, the effects and the point before.`,
		Example: `  autosched explain page --data runs.csv --tiers tiers.json --out model.html
  autosched explain page --data runs.csv --tiers tiers.json --graph graph.json --at-row 17 --out model.html`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := o.run(cmd)
			if err != nil {
				return err
			}
			return writeOut(cmd, o.out, page)
		},
	}
	o.model.addModel(cmd)
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.BoolVar(&o.model.json, "json", false, "")
	fl.StringVarP(&o.out, "out", "o", "", "file to write (default: standard output)")
	fl.StringVar(&o.title, "title", "Causal model", "title of the page")
	fl.IntVar(&o.at, "at-row", 0, "row of the data to start from, the first is 1 (default: a typical workload under the configuration in force)")
	return cmd
}

// run makes the page, or its parts as JSON.
func (o *pageOptions) run(cmd *cobra.Command) (*bytes.Buffer, error) {
	l, err := o.model.learn(cmd)
	if err != nil {
		return nil, err
	}
	base, where := l.start()
	if o.given("at-row") {
		if base, err = l.row("at-row", o.at); err != nil {
			return nil, err
		}
		where = fmt.Sprintf("row %d of the data, as predicted", o.at)
	}
	panel, err := l.panel(base, where)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if o.model.json {
		err = schema.Write(&b, "causal-page/v1", struct {
			Model modelJSON        `json:"model"`
			At    string           `json:"at"`
			Graph *causal.Document `json:"graph"`
			Panel any              `json:"panel"`
		}{l.head("predicted"), where, l.document, panel.Data})
	} else {
		err = render.HTML(&b, l.document, render.PageOptions{Title: o.title, Panels: []render.Panel{*panel}})
	}
	return &b, err
}

// panel is the part of the page about the model.
func (l *learnt) panel(base model.Point, where string) (*render.Panel, error) {
	formula, err := l.Formula()
	if err != nil {
		return nil, err
	}
	kept := formula.Objectives[:0]
	for k, name := range l.Objectives() {
		for _, o := range l.objectives {
			if o == name {
				kept = append(kept, formula.Objectives[k])
			}
		}
	}
	formula.Objectives = kept
	var effects []objectiveEffects
	for _, o := range l.objectives {
		e, err := l.Effects(o)
		if err != nil {
			return nil, err
		}
		effects = append(effects, objectiveEffects{Objective: o, Effects: e, Paths: []model.Path{}})
	}
	var b bytes.Buffer
	if err := panelTemplate.Execute(&b,
		map[string]any{"At": where, "Errors": l.judged(), "Effects": effects}); err != nil {
		return nil, err
	}
	return &render.Panel{
		Title: "What if", HTML: template.HTML(b.String()), // names are escaped by the template
		Data:   map[string]any{"formula": formula, "base": base, "effects": effects},
		Script: template.JS(evaluatorScript + panelScript),
	}, nil
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// ModelsFlag is --models and --interconnect.
type ModelsFlag struct{ Path, interconnect string }

// Add adds the flags of the performance models.
func (f *ModelsFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.interconnect, "interconnect", "",
		"the cluster's interconnect, which decides how much slower jobs run when spread: "+
			strings.Join(simulator.DefaultModelSpec().Classes.Interconnects(),
				", ")+", or one that --models has (default: what the models say)")
	cmd.Flags().StringVar(&f.Path, "models", "",
		"performance models: "+strings.Join(simulator.ModelSets, " or ")+", which are built in, or a JSON file, as 'autosched "+
			"forecast models show --json' prints, whose missing sections are as built in (default: by the GPU model of the cluster)")
}

// Spec is the file's models, the built-in ones without a file.
func (f *ModelsFlag) Spec() (*simulator.ModelSpec, error) {
	spec, err := f.Read()
	if err != nil || f.interconnect == "" {
		return spec, err
	}
	spec = spec.Complete()
	classes := *spec.Classes
	classes.Interconnect = f.interconnect
	spec.Classes = &classes
	if err := spec.Validate(); err != nil {
		return nil, UsageError{fmt.Errorf("--interconnect: %w", err)}
	}
	return spec, nil
}

// Read reads the models of the flag, the built-in ones without it.
func (f *ModelsFlag) Read() (*simulator.ModelSpec, error) {
	if f.Path == "" {
		return simulator.DefaultModelSpec(), nil
	}
	if spec, ok := simulator.ModelSet(f.Path); ok {
		return spec, nil
	}
	spec, err := ReadFile(f.Path, simulator.ReadModels)
	if err != nil {
		return nil, fmt.Errorf("--models: %w", err)
	}
	return spec, nil
}

// apply sets the models of a simulation of a cluster. Those of its GPUs' model are taken if all have the same.
func (f *ModelsFlag) apply(o *simulator.Options, c *workload.Cluster) error {
	use := *f
	if f.Path == "" && len(c.Groups) > 0 {
		use.Path = simulator.ModelSetOf(c.Groups[0].GPUModel)
		for i := range c.Groups {
			if simulator.ModelSetOf(c.Groups[i].GPUModel) != use.Path {
				use.Path = ""
			}
		}
	}
	if (use.Path == "" || use.Path == simulator.ModelSets[0]) && f.interconnect == "" {
		return nil
	}
	spec, err := use.Spec()
	if err == nil {
		o.Models = spec.Models()
	}
	return err
}

// shownGPUs are the numbers of GPUs that tables have a column or row for.
var shownGPUs = []int{1, 2, 4, 8, 16, 32, 64}

// modelsTable prints models, one table per section.
type modelsTable struct {
	w io.Writer
	t *tabwriter.Writer
}

// PrintModels prints performance models as tables with their sources.
func PrintModels(w io.Writer, m *simulator.ModelSpec) error {
	p := modelsTable{w, tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
	p.restart(m)
	p.classes(m)
	p.scaling(m)
	p.sharing(m)
	return p.t.Flush()
}

// title begins a section.
func (p *modelsTable) title(name, source string) {
	p.t.Flush()
	if source == "" {
		source = "not named"
	}
	fmt.Fprintf(p.w, "%s\n  source: %s\n", name, source)
}

// gpus is the header of a table by number of GPUs.
func (p *modelsTable) gpus(name string) {
	fmt.Fprintf(p.t, "  %s\t", name)
	for _, g := range shownGPUs {
		fmt.Fprintf(p.t, "%d GPU\t", g)
	}
	fmt.Fprintln(p.t)
}

func (p *modelsTable) restart(m *simulator.ModelSpec) {
	p.title("Restart: GPUs held without progress when a stopped job resumes", m.Restart.Source)
	p.gpus("")
	fmt.Fprint(p.t, "  seconds\t")
	for _, g := range shownGPUs {
		fmt.Fprintf(p.t, "%.4g\t", m.Restart.Cost(g).Seconds())
	}
	fmt.Fprint(p.t, "\n\n")
}

func (p *modelsTable) classes(m *simulator.ModelSpec) {
	p.title("Model classes: run time when spread over more nodes than needed", m.Classes.Source)
	total := 0
	for _, c := range m.Classes.List {
		total += c.Weight
	}
	fmt.Fprint(p.t, "  class\tskew\tspread slowdown\t")
	interconnects := m.Classes.Interconnects()
	for _, name := range interconnects {
		if name == m.Classes.Interconnect {
			name += " *"
		}
		fmt.Fprintf(p.t, "on %s\t", name)
	}
	fmt.Fprintln(p.t, "utilisation\tdrawn for\tscaling\t")
	for i := range m.Classes.List {
		c := &m.Classes.List[i]
		fmt.Fprintf(p.t, "  %s\t%.3g\t%.3g\t", c.Name, c.Skew, c.Slowdown)
		for _, name := range interconnects {
			fmt.Fprintf(p.t, "%.3g\t", c.SlowdownOn(name))
		}
		fmt.Fprintf(p.t, "%.3g\t%.1f %%\t%s\t\n", c.Util, 100*float64(c.Weight)/float64(total), m.CurveOf(c).Name)
	}
	fmt.Fprintln(p.t)
}

func (p *modelsTable) scaling(m *simulator.ModelSpec) {
	p.title("Scaling: throughput relative to one GPU", m.Scaling.Source)
	p.gpus("curve")
	for i := range m.Scaling.Curves {
		c := &m.Scaling.Curves[i]
		fmt.Fprintf(p.t, "  %s\t", c.Name)
		for _, g := range shownGPUs {
			fmt.Fprintf(p.t, "%.4g\t", c.At(g))
		}
		fmt.Fprintln(p.t)
	}
	fmt.Fprintln(p.t)
}

func (p *modelsTable) sharing(m *simulator.ModelSpec) {
	if len(m.Pairs.Speeds) == 0 {
		if r := m.Pairs.Rule; r != nil {
			p.title(fmt.Sprintf("Sharing: speed by SM use, %.3g - %.3g x SM - %.3g x SM x the other's", r.Base, r.Own,
				r.Both),
				m.Pairs.Source)
		} else {
			p.title("Sharing: speed by utilisation, 0.985 - 0.368 x (sum - 1) above full use", m.Pairs.Source)
		}
		fmt.Fprintln(p.t, "  load\tutilisation\tmemory MB\tshare score\tweight\t")
		for _, l := range m.Pairs.Loads {
			fmt.Fprintf(p.t, "  %s\t%.3g\t%.0f\t%d\t%d\t\n", l.Name, l.Util, l.Mem, l.Score, l.Weight)
		}
		return
	}
	p.title("Sharing: % of the speed alone of a row's load beside a column's, . if they do not fit", m.Pairs.Source)
	fmt.Fprint(p.t, "  load\tscore\t")
	for i := range m.Pairs.Loads {
		fmt.Fprintf(p.t, "%d\t", i+1)
	}
	fmt.Fprintln(p.t)
	for i, l := range m.Pairs.Loads {
		fmt.Fprintf(p.t, "  %d %s\t%d\t", i+1, l.Name, l.Score)
		for _, v := range m.Pairs.Speeds[i] {
			if v == 0 {
				fmt.Fprint(p.t, ".\t")
			} else {
				fmt.Fprintf(p.t, "%.0f\t", 100*v)
			}
		}
		fmt.Fprintln(p.t)
	}
}

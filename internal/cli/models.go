package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// ModelsFlag is --models and --interconnect.
type ModelsFlag struct{ Path, interconnect string }

// Add adds the flags of the performance models.
func (f *ModelsFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.interconnect, "interconnect", "",
		"the cluster's interconnect, which decides how much slower jobs run when spread: "+
			strings.Join(simulator.DefaultModelSpec().Classes.Interconnects(),
				", ")+", or one that --models has (default: what the models say)")
	cmd.Flags().StringVar(&f.Path, "models", "", "")
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

// TariffFlags name the constants and series by which power becomes energy, cost and carbon.
type TariffFlags struct {
	power, prices, carbon, grid, Zone, by string
	deferrable                            []string

	marks energy.Marks // of deferrable, after check
}

// Add adds the flags of the power model, of prices and of carbon intensities.
func (f *TariffFlags) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.power, "power", "", "YAML file of power, cost and carbon constants; what it omits keeps its built-in value")
	fl.StringVar(&f.prices, "prices", "",
		"CSV file of ts,price_per_mwh: electricity prices in $/MWh, each from an instant on (default: a constant)")
	fl.StringVar(&f.carbon, "carbon", "",
		"CSV file of ts,zone,g_per_kwh: carbon intensities, each from an instant on (default: a constant)")
	fl.StringVar(&f.grid, "carbon-zone", "", "zone of --carbon, if the file has several")
	fl.StringVar(&f.Zone, "tariff-timezone", "UTC",
		"zone of instants without an offset in --prices and --carbon, such as Europe/Berlin")
}

// AddDeferrable adds the flags of jobs that wait for cheap hours.
func (f *TariffFlags) AddDeferrable(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.deferrable, "deferrable", nil,
		"jobs that may wait for cheap hours, repeatable: user=, tenant=, model=, key= or partition= and a value, or a "+
			"share of the jobs such as 0.3; for schedulers with "+schedulers.DeferSuffix)
	fl.StringVar(&f.by, "defer-by", "", "what deferrable jobs wait for: price or carbon (default: price with --prices)")
	_ = cmd.RegisterFlagCompletionFunc("defer-by", OneOf("price", "carbon"))
}

// Check checks all that needs no file, for the scheduler of a name.
func (f *TariffFlags) Check(scheduler string) error {
	f.marks = nil
	for _, text := range f.deferrable {
		m, err := energy.ParseMark(text)
		if err != nil {
			return UsageError{fmt.Errorf("--deferrable: %w", err)}
		}
		f.marks = append(f.marks, m)
	}
	defers := schedulers.Defers(scheduler)
	switch {
	case defers && len(f.marks) == 0:
		return UsageError{fmt.Errorf("--deferrable is missing: %s defers jobs, so name those that may wait, such as 0.3 or "+
			"tenant=batch", scheduler)}
	case !defers && (len(f.marks) > 0 || f.by != ""):
		return UsageError{fmt.Errorf("--deferrable and --defer-by are for schedulers that defer jobs: --scheduler %s%s",
			scheduler, schedulers.DeferSuffix)}
	case f.by != "" && f.by != "price" && f.by != "carbon":
		return UsageError{fmt.Errorf("--defer-by: %q is neither price nor carbon", f.by)}
	case f.by == "price" && f.prices == "", f.by == "carbon" && f.carbon == "":
		return UsageError{fmt.Errorf("--defer-by %s: --%s is missing", f.by,
			map[string]string{"price": "prices", "carbon": "carbon"}[f.by])}
	}
	return nil
}

// Given reports whether any of the flags is.
func (f *TariffFlags) Given() bool { return f.power != "" || f.prices != "" || f.carbon != "" }

// Read reads the files of the flags.
func (f *TariffFlags) Read() (*energy.Tariff, error) {
	zone, err := trace.ParseZone(f.Zone)
	if err != nil {
		return nil, UsageError{fmt.Errorf("--tariff-timezone: %w", err)}
	}
	if f.grid != "" && f.carbon == "" {
		return nil, UsageError{errors.New("--carbon-zone: is a zone of --carbon, which is missing")}
	}
	files := energy.Files{Power: f.power, Prices: f.prices, Carbon: f.carbon, CarbonZone: f.grid}
	t, err := files.Read(zone)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return t, nil
}

// Measure makes runs count the energy of jobs; a nil tariff leaves them as they are.
func (f *TariffFlags) Measure(t *energy.Tariff, in *ReplayInput, c workload.Cluster, notes io.Writer) error {
	if t == nil {
		return nil
	}
	meter, err := t.Meter(c, in.Trace.Zero())
	if err != nil {
		return err
	}
	in.Options.Meter = meter
	return f.Operate(t, in, notes)
}

// Operate sets the options of sleeping nodes and deferred jobs.
func (f *TariffFlags) Operate(t *energy.Tariff, in *ReplayInput, notes io.Writer) error {
	constant, err := t.Operate(&in.Options, f.marks, f.by, in.Trace.Zero())
	if constant {
		fmt.Fprintln(notes, "note: prices and carbon intensities are constant: no job is deferred")
	}
	return err
}

// SleepText describes the cost of sleep to jobs.
func SleepText(s *simulator.Sleep) string {
	return fmt.Sprintf("%d wake-ups, %d jobs wait for nodes to wake, %.0f s on average and %.0f s at most", s.Wakes,
		s.Delayed, s.MeanDelay, s.MaxDelay)
}

// DeferredText says how long jobs wait for cheap hours.
func DeferredText(d *simulator.Deferred) string {
	return fmt.Sprintf("%d jobs, %.0f s on average and %.0f s at most", d.Jobs, d.MeanDelay, d.MaxDelay)
}

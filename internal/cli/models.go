package cli

import (
	"fmt"
	"strings"

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
			"forecast models show' prints, whose missing sections are as built in (default: by the GPU model of the cluster)")
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

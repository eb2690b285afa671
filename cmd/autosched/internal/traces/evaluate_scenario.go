package traces

import (
	"fmt"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/workload/synth"
)

// readRecipe finds the recipe that FILE:NAME names.
func readRecipe(arg string) (*synth.Recipe, string, error) {
	path, name, err := cli.SplitFileName("recipe", arg)
	if err != nil {
		return nil, "", err
	}
	file, err := scenario.Read(path)
	if err != nil {
		return nil, "", fmt.Errorf("--recipe: %w", err)
	}
	r, err := file.Recipe(name)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--recipe: %w", err))
	}
	return r, name, nil
}

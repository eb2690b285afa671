package decide

import (
	"fmt"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay/scenario"
)

// readScenario finds the scenario that FILE:NAME names.
func readScenario(arg string) (*scenario.Scenario, error) {
	path, name, err := cli.SplitFileName("scenario", arg)
	if err != nil {
		return nil, err
	}
	file, err := scenario.Read(path)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	s, err := file.Find(name)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--scenario: %w", err))
	}
	if err := s.Check(path); err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	return s, nil
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/autosched/autosched/simulator/calibrate"
)

// ReadRuns reads the directory of a service, or a CSV of jobs.
func ReadRuns(path string, perNode int) ([]calibrate.Run, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return runsOfService(path, perNode)
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	runs, err := calibrate.ReadCSV(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return runs, nil
}

// runsOfService reads the events of all schedulers.
func runsOfService(dir string, perNode int) (_ []calibrate.Run, err error) {
	found, _ := filepath.Glob(filepath.Join(dir, "events-*.db"))
	if checkpoints, _ := filepath.Glob(filepath.Join(dir, "checkpoint-*.db")); len(found)+len(checkpoints) == 0 {
		return nil, fmt.Errorf("%s has no events of a service", dir)
	}
	r, err := OpenRecords(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var c calibrate.Collectors
	c.PerNode = perNode
	damage, err := r.ReplayEvents("", c.Add)
	for _, d := range damage {
		err = errors.Join(err, d.Err)
	}
	return c.Runs(), err
}

package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/controller/store"
	"github.com/autosched/autosched/simulator/calibrate"
	"github.com/autosched/autosched/workload"
)

func newModelsLearnCmd() *cobra.Command {
	var events, out string
	var perNode int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "learn --events FILE|DIR --out FILE",
		Short: "Learn restart costs and spread slowdowns from recorded jobs",
		Long: `Estimates performance models from recurring jobs of a history and writes a
models file. Runs of one key and width should take equally long, so

  restart cost       what a run stopped once held its GPUs beyond the median
                     of the key's undisturbed runs; median by width
  spread slowdown    a run over more nodes than needed, over that median;
                     median by model, for jobs that name one

A key needs 3 undisturbed runs and an estimate 8 disturbed ones; below that the
built-in number stays. Left out, and counted, also where nothing is learnt, are runs
without a key, runs stopped more than once (the next stop may have cut a restart
short), runs both stopped and spread (nobody knows for how much of its time such a
run was spread), spread ones without a model, and what is too few. Of a service's
events only jobs that completed, whose beginning is told and that were never resized
are runs.

The history is the directory of 'autosched serve' (while no service runs on it), or
the CSV that 'autosched simulate --jobs-out' writes.`,
		Example: `  autosched models learn --events data --gpus-per-node 8 --out models.json
  autosched models learn --events jobs-done.csv --out models.json
  autosched models show --models models.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case events == "":
				return usageError{errors.New("--events is missing: name a service's directory, or a CSV of jobs")}
			case out == "":
				return usageError{errors.New("--out is missing: name the models file to write")}
			case perNode < 1:
				return usageError{fmt.Errorf("--gpus-per-node: %d is not positive", perNode)}
			}
			runs, err := readRuns(events, perNode)
			if err != nil {
				return fmt.Errorf("--events: %w", err)
			}
			spec, learned, left, err := calibrate.Models(runs)
			if err != nil {
				return err
			}
			if err := writeFile(out, "--out", spec.Write); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"runs": len(runs), "learned": learned, "left_out": left})
			}
			for _, l := range learned {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %.3g, from %d of %d runs\n", l.What, l.Value, l.Runs, len(runs))
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), left)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&events, "events", "", "directory of the service, or CSV written by simulate --jobs-out (required)")
	fl.StringVarP(&out, "out", "o", "", "models file to write (required)")
	fl.IntVar(&perNode, "gpus-per-node", 8, "GPUs of a node, which tells what is spread in a service's events")
	fl.BoolVar(&asJSON, "json", false, "print JSON for programs")
	return cmd
}

func readRuns(path string, perNode int) ([]calibrate.Run, error) {
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
	runs, err := runsOfCSV(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return runs, nil
}

// runsOfService reads the events of all schedulers.
func runsOfService(dir string, perNode int) (runs []calibrate.Run, err error) {
	if found, _ := filepath.Glob(filepath.Join(dir, "events-*.db")); len(found) == 0 {
		return nil, fmt.Errorf("%s has no events of a service", dir)
	}
	r, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	by := map[string]*calibrate.Collector{}
	err = r.ReplayEvents(func(scheduler string, e workload.Event) error {
		if by[scheduler] == nil {
			by[scheduler] = &calibrate.Collector{PerNode: perNode}
		}
		by[scheduler].Add(e)
		return nil
	})
	for _, name := range sortedKeys(by) {
		runs = append(runs, by[name].Runs...)
	}
	return runs, err
}

// runsOfCSV reads what writeOutcomes writes; columns may be in any order, and
// others are ignored.
func runsOfCSV(in io.Reader) ([]calibrate.Run, error) {
	r := csv.NewReader(in)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[name] = i
	}
	for _, name := range []string{"key", "model", "gpus", "held_s", "preemptions", "strayed"} {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("column %s is missing", name)
		}
	}
	var runs []calibrate.Run
	for {
		row, err := r.Read()
		if err == io.EOF {
			return runs, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		bad := func(column string) error {
			return fmt.Errorf("line %d: %s: %q is not what belongs here", line, column, row[at[column]])
		}
		run := calibrate.Run{Key: row[at["key"]], Model: row[at["model"]]}
		if run.GPUs, err = strconv.Atoi(row[at["gpus"]]); err != nil || run.GPUs < 1 || run.GPUs > workload.MaxGPUs {
			return nil, bad("gpus")
		}
		if run.Stops, err = strconv.Atoi(row[at["preemptions"]]); err != nil || run.Stops < 0 {
			return nil, bad("preemptions")
		}
		if run.Spread, err = strconv.ParseBool(row[at["strayed"]]); err != nil {
			return nil, bad("strayed")
		}
		held, err := strconv.ParseFloat(row[at["held_s"]], 64)
		if err != nil || !(held >= 0 && held <= workload.MaxDuration.Seconds()*10) {
			return nil, bad("held_s")
		}
		run.Held = time.Duration(held * 1e9)
		runs = append(runs, run)
	}
}

package calibrate

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// Collectors collect the runs of several schedulers. The zero value is empty.
type Collectors struct {
	PerNode int // GPUs of a node

	by map[string]*Collector
}

// Add takes an event of a scheduler in. It returns no error: it is the visitor of a replay.
func (c *Collectors) Add(scheduler string, e workload.Event) error {
	if c.by == nil {
		c.by = map[string]*Collector{}
	}
	if c.by[scheduler] == nil {
		c.by[scheduler] = &Collector{PerNode: c.PerNode}
	}
	c.by[scheduler].Add(e)
	return nil
}

// Runs returns the completed runs, in order of scheduler.
func (c *Collectors) Runs() (runs []Run) {
	for _, name := range slices.Sorted(maps.Keys(c.by)) {
		runs = append(runs, c.by[name].Runs...)
	}
	return runs
}

// ReadCSV reads the runs of a CSV of simulated jobs, as 'autosched simulate --jobs-out' writes it.
// Columns may be in any order, and others are ignored.
func ReadCSV(in io.Reader) ([]Run, error) {
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
	var runs []Run
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
		run := Run{Key: row[at["key"]], Model: row[at["model"]]}
		run.GPUs, err = strconv.Atoi(row[at["gpus"]])
		if err != nil || run.GPUs < 1 || run.GPUs > workload.MaxGPUs {
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
		if c, ok := at["end_s"]; ok {
			end, err := strconv.ParseFloat(row[c], 64)
			if err != nil || !(math.Abs(end) <= workload.MaxSubmit.Seconds()) {
				return nil, bad("end_s")
			}
			run.End = time.Duration(end * 1e9)
		}
		runs = append(runs, run)
	}
}

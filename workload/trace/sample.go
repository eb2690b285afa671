package trace

import (
	"bytes"
	"context"
	_ "embed"
	"slices"

	"github.com/autosched/autosched/workload"
)

// The paths under which Open finds the built-in traces. Both are synthetic: good for a
// first look and for tests, not for conclusions.
const (
	// SampleName is three contended days (offered load about 1.4) from Monday 2017-10-09,
	// made by synth.Generate after the Philly profile.
	SampleName = "sample"
	// ShiftsName is a calm week from Monday 2017-10-09 and four days of another shape, by
	// the recipe of that name in examples/scenarios.json.
	ShiftsName = "sample-shifts"
)

// BuiltIn is a trace that is part of the program.
type BuiltIn struct {
	Name, About string
	file        []byte // compressed CSV
	nodes       workload.NodeGroup
}

var (
	//go:embed sample/philly-like.csv.gz
	sampleFile []byte
	//go:embed sample/shifts.csv.gz
	shiftsFile []byte

	builtIn = []BuiltIn{
		{SampleName, "three days whose shape stays", sampleFile, workload.NodeGroup{Nodes: 20, GPUsPerNode: 8}},
		{ShiftsName, "eleven days whose shape changes after a week", shiftsFile,
			workload.NodeGroup{Nodes: 20, GPUsPerNode: 8}},
	}
)

// BuiltIns returns the built-in traces.
func BuiltIns() []BuiltIn { return slices.Clone(builtIn) }

// IsBuiltIn reports whether a path names a built-in trace.
func IsBuiltIn(path string) bool { return findBuiltIn(path) != nil }

func findBuiltIn(path string) *BuiltIn {
	if i := slices.IndexFunc(builtIn, func(b BuiltIn) bool { return b.Name == path }); i >= 0 {
		return &builtIn[i]
	}
	return nil
}

func (b *BuiltIn) read(ctx context.Context, opts Options) (*workload.Workload, *Report, error) {
	w, r, err := read(ctx, oneFile(bytes.NewReader(b.file), b.Name, int64(len(b.file))), opts)
	r.Machines, r.Declared = []workload.NodeGroup{b.nodes}, true
	return w, r, err
}

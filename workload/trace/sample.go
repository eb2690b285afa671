package trace

import (
	"bytes"
	_ "embed"

	"github.com/autosched/autosched/workload"
)

// SampleName is the path under which Open finds the built-in sample.
const SampleName = "sample"

//go:embed sample/philly-like.csv.gz
var sampleFile []byte

// readSample reads the trace built into the program: three contended days (offered load
// about 1.4 on 20 nodes of 8 GPUs) from Monday 2017-10-09, made by synth.Generate
// after the Philly profile and labelled synthetic. It is good for a first look
// and for tests, not for conclusions.
func readSample(opts Options) (*workload.Workload, *Report, error) {
	w, r, err := read(oneFile(bytes.NewReader(sampleFile), SampleName, int64(len(sampleFile))), opts)
	r.Machines, r.Declared = []workload.NodeGroup{{Nodes: 20, GPUsPerNode: 8}}, true
	return w, r, err
}

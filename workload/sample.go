package workload

import (
	"bytes"
	_ "embed"
	"sync"
	"time"
)

// SampleName is the path under which Open finds the built-in sample.
const SampleName = "sample"

//go:embed sample/philly-like.csv.gz
var sampleFile []byte

// sampleOptions made the built-in sample: the tests make it again and compare.
var sampleOptions = SynthOptions{
	Profile: "philly", Days: 3, Load: 1.4, Cluster: Cluster{Nodes: 20, GPUsPerNode: 8},
	MaxDuration: 4 * 24 * time.Hour, Seed: 42,
}

// Sample is the trace built into the program: three contended days (offered load
// about 1.4 on 20 nodes of 8 GPUs) from Monday 2017-10-09, made by Synthesize
// after the Philly profile and labelled synthetic. It is good for a first look
// and for tests, not for conclusions.
func Sample() *Workload { return sample() }

var sample = sync.OnceValue(func() *Workload {
	w, _, err := readSample(ReadOptions{})
	if err != nil {
		panic("workload: the built-in sample cannot be read: " + err.Error())
	}
	return w
})

func readSample(opts ReadOptions) (*Workload, *ImportReport, error) {
	return read(oneFile(bytes.NewReader(sampleFile), SampleName, int64(len(sampleFile))), opts)
}

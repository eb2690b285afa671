package simulator

import (
	"bytes"
	_ "embed"
	"strings"
)

// h100 is the restarts and pairs of a model set, measured for this project on one H100 80GB HBM3:
// six training loops in pairs, and restarts of a process by the size of its checkpoint.
//
//go:embed h100.json
var h100 []byte

// ModelSets are the names of the built-in sets of models, the default first.
var ModelSets = []string{"v100", "h100"}

// ModelSet is a built-in set of models by its name: they differ in the speeds of jobs that share a GPU
// and in the cost of restarts of jobs whose memory is known.
func ModelSet(name string) (*ModelSpec, bool) {
	switch name {
	case "v100":
		return DefaultModelSpec(), true
	case "h100":
		spec, err := ReadModels(bytes.NewReader(h100))
		if err != nil {
			panic("simulator: h100.json: " + err.Error())
		}
		return spec.Complete(), true
	}
	return nil, false
}

// ModelSetOf is the name of the built-in set for a model of GPU: the H100's for Hopper and later, else the default.
func ModelSetOf(gpu string) string {
	gpu = strings.ToLower(gpu)
	for _, later := range []string{"h100", "h200", "h800", "h20", "gh200", "b100", "b200", "b300", "gb200", "gb300"} {
		if strings.Contains(gpu, later) {
			return "h100"
		}
	}
	return ModelSets[0]
}

package trace

import (
	"bytes"
	"fmt"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// resources are the resources of a job, summed over its nodes.
type resources struct {
	gpus              workload.MilliGPU
	milliCPUs, memory int64
}

// tres reads the GPUs, CPUs and memory of a row: AllocTRES, and if that has no GPU AllocGRES, ReqTRES or ReqGRES, of
// which the last counts for each node. In slurmdbd's table resources have numbers, and a GRES column that names GPUs
// comes first.
func (r *csvRow) tres() resources {
	s := r.in.state.(*sacctJobs)
	alloc := r.value(sacctAllocTRES)
	if known, ok := s.allocated[string(alloc)]; ok {
		return known
	}
	if plainTRES(alloc) && plainTRES(r.value(sacctReqTRES)) && len(r.value(sacctAllocGRES)) == 0 &&
		len(r.value(sacctReqGRES)) == 0 && bytes.IndexByte(r.value(sacctJobID), '+') < 0 {
		return resources{} // most jobs of most clusters
	}
	t, column, err := slurmtext.JobTRES(string(alloc), string(r.value(sacctReqTRES)))
	at := sacctAllocTRES
	if column == "ReqTRES" {
		at = sacctReqTRES
	}
	numbered := t.Numbered
	if err == nil && (numbered || at == sacctReqTRES || !t.HasGPUs()) {
		for _, c := range [...]int{sacctAllocGRES, sacctReqGRES} {
			if v := r.value(c); !absent(v) && (c == sacctAllocGRES || !t.HasGPUs()) {
				g, failed := slurmtext.ParseGresGPUs(string(v), c == sacctReqGRES, max(1, int64(r.slurmNodes())))
				if failed != nil {
					at, err = c, failed
				} else if g.HasGPUs() {
					if numbered && t.HasGPUs() && t.GPUs != g.GPUs {
						r.in.note(otherTRES)
					}
					t.GPUs, t.Shards, numbered, at = g.GPUs, g.Shards, false, c
					break
				}
			}
		}
	}
	if numbered && t.HasGPUs() {
		r.in.note(numberedTRES)
	}
	var gpus slurmtext.Share
	if err == nil {
		gpus, err = t.Share(r.in.opts.Shards)
	}
	if err != nil {
		r.fault(at, err.Error())
		return resources{}
	}
	if t.Unsure != "" {
		slices, of, _ := slurmtext.MIGSlices(t.Unsure)
		r.in.note(fmt.Sprintf("gres/gpu:%s counts as %d/%d of a GPU: GPUs of other numbers of slices have this profile, too",
			t.Unsure, slices, of))
	}
	out := resources{workload.MilliGPU(gpus.NearestMilli()), t.MilliCPUs, t.Memory}
	if at == sacctAllocTRES && out.gpus > 0 && !t.Numbered {
		if s.allocated == nil {
			s.allocated = map[string]resources{}
		}
		s.allocated[string(alloc)] = out
	}
	return out
}

// plainTRES reports that resources have names, none of which is of a generic resource.
func plainTRES(b []byte) bool {
	return len(b) == 0 || (b[0] < '0' || b[0] > '9') && bytes.IndexByte(b, '/') < 0
}

// Notes on resources that have numbers.
const (
	numberedTRES = "resource 1001 is taken for gres/gpu: slurmdbd gives this number to the first of AccountingStorageTRES " +
		"(sacctmgr show tres lists the numbers)"
	otherTRES = "resource 1001 has another number than the column of GRES has GPUs, and the latter counts"
)

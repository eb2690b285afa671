// Package workload serves workloads: generated, uploaded and downloaded lists of jobs.
package workload

import (
	"hash"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// downloadPart is the size of one message of a download, in bytes.
const downloadPart = 64 << 10

// download sends the bytes written to it.
type download struct {
	stream pb.WorkloadService_DownloadWorkloadServer
	sum    hash.Hash
	err    error
}

func (d *download) Write(p []byte) (int, error) {
	d.sum.Write(p)
	if d.err = d.stream.Send(&pb.DownloadWorkloadResponse{Data: p}); d.err != nil {
		return 0, d.err
	}
	return len(p), nil
}

package trace

import (
	"strconv"

	"github.com/autosched/autosched/workload"
)

// phillyFormat is the public CSV derivative of the Microsoft Philly trace (Jeon
// et al., USENIX ATC 2019; data CC-BY-4.0 from msr-fiddle/philly-traces): wall
// clock times, a virtual cluster per job, no user and no status. It goes around
// in two shapes: with ids and named columns, and as siasosp23/artifacts has it,
// without ids: there a job's id is its row.
var phillyFormat = Format{
	Name:   "philly",
	About:  "Microsoft Philly jobs as CSV: local submit times, one virtual cluster per job",
	Header: phillyTables[0].title(),
	detect: phillyTables.matches,
	read:   phillyTables.read,
}

var phillyTables = tables{
	{
		required: []string{"job_id", "submit_time", "duration_s", "num_gpus"},
		optional: []string{"vc"},
		begin:    beginWallClock,
		row: func(r *csvRow) workload.Job {
			return workload.Job{ID: r.id(0), Submit: r.submitClock(1), Duration: r.duration(2), GPUs: r.gpus(3),
				Tenant: r.text(4)}
		},
	},
	{
		required: []string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster"},
		begin:    beginWallClock,
		row: func(r *csvRow) workload.Job {
			var id [20]byte
			return workload.Job{ID: r.in.own(strconv.AppendInt(id[:0], int64(r.in.report.Rows), 10)),
				Submit: r.submitClock(0), Duration: r.duration(1), GPUs: r.gpus(2), Tenant: r.text(4)}
		},
	},
}

package trace

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// secondsFormat is the exchange format of research simulators: submissions in seconds
// from an unnamed zero, taken to be the Unix epoch.
var secondsFormat = formatOf("seconds", "submit times in seconds from the workload's zero, which is 1970-01-01", &table{
	required: []string{"job_id", "submit_time_s", "duration_s", "num_gpus"},
	optional: []string{"vc"},
	begin: func(in *input, _ func(string) bool) {
		if !in.hasZero {
			in.zero = time.Unix(0, 0).UTC()
		}
	},
	row: func(r *csvRow) workload.Job {
		return workload.Job{ID: r.id(0), Submit: r.instant(1), Duration: r.duration(2), GPUs: r.gpus(3),
			Tenant: r.text(4)}
	},
})

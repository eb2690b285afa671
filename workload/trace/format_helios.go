package trace

import (
	"github.com/autosched/autosched/workload"
)

// heliosFormat is SenseTime's Helios trace (Hu et al., SC 2021; data CC-BY-4.0
// from S-Lab-System-Group/HeliosData), a cluster_log.csv per cluster. Times are
// local and name no zone. Jobs that ask for no GPU are left out.
var heliosFormat = formatOf("helios",
	"SenseTime Helios, cluster_log.csv: local times, users and virtual clusters, CPU jobs left out", &table{
		required: []string{"job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time",
			"duration"},
		optional: []string{"queue", "jobname/job_name", "cpu_num"},
		begin:    beginWallClock,
		row: func(r *csvRow) workload.Job {
			j := workload.Job{ID: r.id(0), User: r.text(1), Tenant: r.text(2), GPUs: r.gpusOrNone(3)}
			r.datedRun(&j, 4, 5, 6, 7, 8, 9)
			j.Requested = workload.Request{MilliCPUs: r.atMost(11, 3, workload.MaxMilliCPUs)}.Shared()
			if name := r.value(10); len(name) > 0 { // the published logs have none
				hex := workload.NameKey(r.value(1), name)
				j.Key = r.in.text(hex[:])
			}
			return j
		},
	})

// acmeFormat is the Shanghai AI Laboratory's Acme trace (Hu et al., NSDI 2024;
// data CC-BY-4.0 from InternLM/AcmeTrace), trace_seren.csv and trace_kalos.csv.
// Times name their zone. The type of a job stands for its model class.
var acmeFormat = formatOf("acme",
	"Shanghai AI Laboratory Acme, trace_seren.csv and trace_kalos.csv: times with zone, users and job types, CPU "+
		"jobs left out", &table{
		required: []string{"job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time",
			"duration", "gpu_time"},
		optional: []string{"queue", "cpu_num"},
		begin:    beginWallClock,
		row: func(r *csvRow) workload.Job {
			j := workload.Job{ID: r.id(0), User: r.text(1), GPUs: r.gpusOrNone(2)}
			if v := r.value(3); !absent(v) && string(v) != "Other" {
				j.Model = r.text(3)
			}
			r.datedRun(&j, 4, 5, 6, 7, 8, 10)
			j.Requested = workload.Request{MilliCPUs: r.atMost(11, 3, workload.MaxMilliCPUs)}.Shared()
			return j
		},
	})

func beginWallClock(in *input, _ func(string) bool) { in.wallClock = !in.hasZero }

// datedRun reads when a job was submitted and ran, in the columns given: state,
// submission, start, end, run time in seconds, queueing delay in seconds.
func (r *csvRow) datedRun(j *workload.Job, state, submit, start, end, duration, queue int) {
	var ended bool
	j.Submit = r.submitClock(submit)
	j.Status, ended = r.slurmState(state)
	from, started := r.wallClock(start)
	_, hasEnd := r.wallClock(end)
	switch {
	case !started:
		r.leaveOut(neverRan)
	case !ended || !hasEnd:
		r.leaveOut(notEnded)
	default:
		j.Duration = r.runTime(duration)
		setWait(j, r.wait(queue, from-j.Submit))
	}
}

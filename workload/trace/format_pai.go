package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// pai2023Format is Alibaba's GPU-sharing trace (Weng et al., ATC 2023; clusterdata
// cluster-trace-gpu-v2023): pods with shares of GPUs, some of which are services
// that run for months. Times are seconds from an unknown zero. The list of nodes
// beside it is read for its machines.
var pai2023Format = formatOf("pai2023",
	"Alibaba PAI 2023, openb_pod_list: seconds from an unknown zero, shares of GPUs, CPU pods left out", &table{
		required: []string{"name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time",
			"scheduled_time"},
		optional: []string{"cpu_milli", "memory_mib"},
		begin: func(in *input, _ func(string) bool) {
			if !in.hasZero {
				in.zero = time.Unix(0, 0).UTC()
			}
		},
		row: func(r *csvRow) workload.Job {
			j := workload.Job{ID: r.id(0), GPUs: r.gpusOrNone(1), Submit: r.instant(4)}
			share, reason := parseDecimal(r.value(2), 0)
			switch {
			case r.out != "": // no GPU, and no share of one
			case reason != "":
				r.fault(2, reason)
			case share <= 0 || share > 1000:
				r.fault(2, "is not between 1 and 1000")
			default:
				j.GPUs = j.GPUs / 1000 * workload.MilliGPU(share)
			}
			j.Requested = workload.Request{MilliCPUs: r.atMost(7, 0, workload.MaxMilliCPUs),
				Memory: r.atMost(8, 0, workload.MaxMemory>>20) << 20}.Shared()
			switch string(r.value(3)) {
			case "Succeeded":
				j.Status = workload.Completed
			case "Failed":
				j.Status = workload.Failed
			}
			start, started := r.instantOr(6)
			end, ended := r.instantOr(5)
			switch {
			case !started:
				r.leaveOut(neverRan)
			case !ended:
				r.leaveOut(notEnded)
			default:
				j.Duration = r.ran(5, end-start)
				j.Wait, j.HasWait = max(0, start-j.Submit), start >= j.Submit
			}
			return j
		},
	})

// pai2020Format is Alibaba's MLaaS trace (Weng et al., NSDI 2022; data CC-BY-4.0
// from clusterdata cluster-trace-gpu-v2020): a job has tasks, a task equal
// instances. The job table has user and times, the task table the GPUs; the
// instance table makes starts exact, and group tags say which jobs recur and
// the models of some. The public tables have no header.
//
// A job's GPUs are the GPUs of all instances of all its tasks. It ran from its first
// instance's start, or its first task's, until its end.
var pai2020Format = Format{
	Name: "pai2020",
	About: "Alibaba PAI 2020, pai_job_table, pai_task_table, pai_instance_table, pai_group_tag_table, with " +
		"header or without: name them with commas between, or their folder",
	Header: paiTables[0].title(),
	detect: paiTables.matches,
	read: func(in *input) error {
		if in.state == nil {
			in.state = &paiJobs{tags: map[string]*paiTag{}}
			if !in.hasZero {
				// Read as Unix time in China (UTC+8), the seconds have the right hour and
				// day of the week; the wall clock is labelled UTC, as everywhere.
				in.zero = time.Unix(8*3600, 0).UTC()
			}
		}
		return paiTables.read(in)
	},
	finish: finishPAI,
}

var paiTables = tables{
	{ // job
		required: []string{"job_name", "inst_id", "user", "status", "start_time", "end_time"},
		bare:     func(f [][]byte) bool { return len(f) == 6 && isPAIStatus(f[3]) },
		fold: func(r *csvRow) {
			status, ended := r.paiStatus(3)
			submit, _ := r.paiTime(4)
			end, hasEnd := r.paiTime(5)
			if j := r.paiJob(); j != nil {
				j.inst, j.User, j.submit, j.Status = r.in.own(r.value(1)), r.text(2), submit, status
				j.listed = true
				if ended && hasEnd {
					j.end = end
				}
				j.running = j.running || !ended
			}
		},
	},
	{ // task
		required: []string{"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu",
			"plan_mem", "plan_gpu", "gpu_type"},
		bare: func(f [][]byte) bool { return len(f) == 10 && isPAIStatus(f[3]) },
		fold: func(r *csvRow) {
			gpus := r.paiGPUs(2, 8)
			status, ended := r.paiStatus(3)
			start, started := r.paiTime(4)
			end, hasEnd := r.paiTime(5)
			if j := r.paiJob(); j != nil {
				j.hasTask = true
				j.task.add(start, started, end, hasEnd)
				j.taskRunning = j.taskRunning || !ended
				j.failed = j.failed || status == workload.Failed
				if j.GPUs += gpus; j.GPUs > workload.GPUs(workload.MaxGPUs) {
					j.GPUs = workload.GPUs(workload.MaxGPUs) + 1
				}
			}
		},
	},
	{ // instance
		required: []string{"job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time",
			"end_time", "machine"},
		bare: func(f [][]byte) bool { return len(f) == 9 && isPAIStatus(f[5]) },
		fold: func(r *csvRow) {
			r.paiStatus(5)
			start, started := r.paiTime(6)
			end, hasEnd := r.paiTime(7)
			if j := r.paiJob(); j != nil {
				j.instance.add(start, started, end, hasEnd)
			}
		},
	},
	{ // group tag
		required: []string{"inst_id", "user", "gpu_type_spec", "group", "workload"},
		bare:     func(f [][]byte) bool { return len(f) == 5 && isHex(f[0], 16) && isHex(f[1], 10) && isHex(f[3], 0) },
		fold: func(r *csvRow) {
			if len(r.value(0)) == 0 {
				r.fault(0, isEmpty)
				return
			}
			s := r.in.state.(*paiJobs)
			if t := s.tags[string(r.value(0))]; t != nil {
				t.rows++
				return
			}
			s.tags[r.in.own(r.value(0))] = &paiTag{group: r.in.own(r.value(3)), model: r.text(4), rows: 1}
		},
	},
}

type paiJobs struct {
	jobs list[paiJob]
	at   names
	tags map[string]*paiTag // by inst_id
}

type paiTag struct {
	group, model string
	rows         int32
	used         bool
}

type paiJob struct {
	workload.Job
	inst           string
	submit, end    time.Duration // as the job table has them; 0 is none
	task, instance paiSpan
	file           string
	line, rows     int32
	listed         bool // in the job table
	hasTask        bool
	running        bool // by the job table
	taskRunning    bool
	failed         bool // a task has
}

// paiSpan is from the first start to the last end; 0 is none.
type paiSpan struct{ start, end time.Duration }

func (s *paiSpan) add(start time.Duration, started bool, end time.Duration, ended bool) {
	if started && (s.start == 0 || start < s.start) {
		s.start = start
	}
	if ended {
		s.end = max(s.end, end)
	}
}

// paiJob is the job of a row without fault, nil for other rows.
func (r *csvRow) paiJob() *paiJob {
	name := r.value(0)
	if len(name) == 0 {
		r.fault(0, isEmpty)
	}
	if !r.ok() {
		return nil
	}
	s := r.in.state.(*paiJobs)
	k, hash := s.at.find(string(name))
	if k < 0 {
		j := paiJob{file: r.in.file, line: int32(r.in.line)}
		j.ID = r.in.own(name)
		k = s.at.add(j.ID, hash)
		s.jobs.append(j)
	}
	j := s.jobs.at(int(k))
	j.rows++
	return j
}

func isPAIStatus(b []byte) bool {
	return slices.Contains([]string{"Running", "Terminated", "Failed", "Waiting"}, string(b))
}

func (r *csvRow) paiStatus(i int) (status workload.Status, ended bool) {
	switch string(r.value(i)) {
	case "Terminated":
		return workload.Completed, true
	case "Failed":
		return workload.Failed, true
	case "Running", "Waiting":
		return workload.Unknown, false
	case "":
		return workload.Unknown, true
	}
	r.fault(i, "is not Running, Terminated, Failed or Waiting")
	return workload.Unknown, false
}

// paiTime reads seconds; 0 stands for none, as the trace's own analysis has it.
func (r *csvRow) paiTime(i int) (at time.Duration, known bool) {
	at, known = r.instantOr(i)
	if known && at < 0 {
		r.fault(i, isNegative)
	}
	return at, known && at > 0
}

// paiGPUs multiplies instances by the GPU percentage of each.
func (r *csvRow) paiGPUs(instances, percent int) workload.MilliGPU {
	n := int64(1)
	if !absent(r.value(instances)) {
		number, reason := parseDecimal(r.value(instances), 0)
		n = r.within(instances, number, reason, workload.MaxGPUs, "is more than a million instances")
	}
	p := r.atMost(percent, 1, maxMilliGPUs)
	if n > 0 && p > maxMilliGPUs/n {
		r.fault(percent, tooWide)
	}
	return workload.MilliGPU(n * p)
}

func finishPAI(in *input) error {
	s := in.state.(*paiJobs)
	s.at = names{}
	tasks := false
	for i := range s.jobs.len() {
		tasks = tasks || s.jobs.at(i).hasTask
	}
	if !tasks && s.jobs.len()+len(s.tags) > 0 {
		return fmt.Errorf(
			"%w: no task of PAI 2020 was read, and only tasks tell how many GPUs a job has: name the tables with "+
				"commas between them, pai_job_table.csv,pai_task_table.csv", ErrNoJobs)
	}
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
		in.report.Merged += int(j.rows) - 1
		in.file, in.line = j.file, int(j.line)
		if t := s.tags[j.inst]; t != nil && j.inst != "" {
			t.used = true
			j.Model = t.model
			if t.group != "" {
				j.Key = workload.KeyOf(t.group)
			}
		}
		j.emit(in)
	}
	for _, t := range s.tags {
		if t.used {
			in.report.Merged += int(t.rows)
			continue
		}
		for range t.rows {
			in.report.leaveOut("it tags a job that is not in the job table")
		}
	}
	in.state = nil
	return nil
}

// emit adds the job or says why not.
func (j *paiJob) emit(in *input) {
	start, end := j.task.start, j.task.end
	if j.instance.start > 0 {
		start = j.instance.start
	}
	if j.instance.end > 0 {
		end = j.instance.end
	}
	ended := !j.taskRunning
	if j.listed {
		ended = !j.running
	} else if j.Status = workload.Completed; j.failed {
		j.Status = workload.Failed
	}
	if j.end > 0 {
		end = j.end
	}
	j.Submit = j.submit
	if j.Submit == 0 {
		j.Submit = start
	}
	j.Duration = end - start
	switch {
	case !j.hasTask:
		in.report.leaveOut("it has no task in the task table")
	case j.GPUs == 0:
		in.report.leaveOut(noGPU)
	case j.GPUs > workload.GPUs(workload.MaxGPUs):
		in.reject("plan_gpu", "adds up to more than a million GPUs", []byte(j.ID))
	case start == 0:
		in.report.leaveOut(neverRan)
	case !ended || end == 0:
		in.report.leaveOut(notEnded)
	case j.Duration < 0:
		in.reject("end_time", "is before the start", []byte(end.String()))
	case j.Duration == 0:
		in.report.leaveOut(tooShort)
	case j.Duration > workload.MaxDuration:
		in.reject("end_time", "is more than ten years after the start", []byte(end.String()))
	default:
		setWait(&j.Job, start-j.Submit)
		in.addOnce(&j.Job)
	}
}

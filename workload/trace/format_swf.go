package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// swfFormat is the Standard Workload Format of the Parallel Workloads Archive, version 2.2: comments after semicolons,
// and lines of 18 numbers, of which -1 is unknown. It has no GPUs: a job has those that go with its processors, by
// Options.GPUsPerProc, one each by default. Times count from the start of the trace. Partial executions (status 2 to 4)
// follow the line of the whole job, which counts.
var swfFormat = Format{
	Name:   "swf",
	About:  "Standard Workload Format of the Parallel Workloads Archive: processors in place of GPUs (--gpus-per-proc)",
	Header: "1 0 13 60 4 -1 -1 4 600 -1 1 7 2 -1 1 -1 -1 -1",
	detect: func(head []byte) bool {
		for line := range bytes.Lines(head) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != ';' {
				return isSWF(bytes.Fields(line))
			}
		}
		return false
	},
	read: readSWF,
}

// Columns of the format.
const (
	swfID = iota
	swfSubmit
	swfWait
	swfRun
	swfAllocated
	_
	_
	swfRequested
	swfLimit
	swfMemory
	swfStatus
	swfUser
	swfGroup
	swfProgram
	swfQueue
	swfPartition
	swfColumns = 18
)

var swfNames = [swfColumns]string{"job number", "submit time", "wait time", "run time", "allocated processors",
	"average CPU time", "used memory", "requested processors", "requested time", "requested memory", "status", "user",
	"group", "executable", "queue", "partition", "preceding job", "think time"}

func isSWF(fields [][]byte) bool {
	return len(fields) == swfColumns && !slices.ContainsFunc(fields, func(f []byte) bool { return !isNumber(f) })
}

func readSWF(in *input) error {
	r := &csvRow{in: in, names: swfNames[:]}
	for i := range r.names {
		r.column = append(r.column, i)
	}
	header := map[string]int64{}
	for {
		line, err := in.next()
		if err != nil || line == nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] == ';' {
			key, value, _ := strings.Cut(string(line[1:]), ":")
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if key = strings.TrimSpace(key); err == nil && n > 0 {
				header[key] = n
			}
			continue
		}
		if len(line) == 0 {
			continue
		}
		if in.report.Rows == 0 {
			in.swfHeader(header)
		}
		if err := in.row(); err != nil {
			return err
		}
		r.fields = append(r.fields[:0], bytes.Fields(line)...)
		if len(r.fields) != swfColumns {
			in.reject("line", "has not 18 numbers", line)
			continue
		}
		r.badReason, r.out = "", ""
		switch j := r.swf(); {
		case r.badReason != "":
			in.reject(r.name(r.bad), r.badReason, r.value(r.bad))
		case r.out == swfPart:
			in.report.Merged++
		case r.out != "":
			in.report.leaveOut(r.out)
		default:
			in.add(&j, swfNames[swfID])
		}
	}
}

const swfPart = "it is a part of a job"

// swfHeader takes the start of the trace and its cluster from the comments.
func (in *input) swfHeader(header map[string]int64) {
	if start := header["UnixStartTime"]; start > firstSecond && start < lastSecond {
		in.zero = time.Unix(start, 0).UTC()
	} else {
		in.zero = time.Unix(0, 0).UTC()
		in.note("the trace names no time of its start (UnixStartTime): times count from 1970")
	}
	in.hasZero = true
	per := in.opts.GPUsPerProc
	if per == 0 {
		per = 1
		in.note("the trace has no GPUs: each processor counts as one (--gpus-per-proc)")
	}
	procs, nodes := header["MaxProcs"], max(1, header["MaxNodes"])
	if each := float64(procs) / float64(nodes) * per; each >= 1 && each <= workload.MaxGPUsPerNode &&
		each == float64(int(each)) && nodes <= workload.MaxPlaces && in.report.Machines == nil {
		in.report.Machines = []workload.NodeGroup{{Nodes: int(nodes), GPUsPerNode: int(each)}}
		in.report.Declared = true
	}
}

// swf makes a job of a row.
func (r *csvRow) swf() (j workload.Job) {
	number := func(i int) float64 {
		f, err := strconv.ParseFloat(string(r.value(i)), 64)
		if err != nil || !(f >= -1e15 && f <= 1e15) {
			r.fault(i, notNumber)
		}
		return f
	}
	text := func(prefix string, i int) string {
		if v := r.value(i); v[0] != '-' {
			return r.in.text([]byte(prefix + string(v)))
		}
		return ""
	}
	j.ID, j.User, j.Tenant = r.id(swfID), text("u", swfUser), text("g", swfGroup)
	j.Submit = r.instant(swfSubmit)
	switch status := number(swfStatus); status {
	case 0:
		j.Status = workload.Failed
	case 1:
		j.Status = workload.Completed
	case 5:
		j.Status = workload.Cancelled
	case 2, 3, 4:
		r.leaveOut(swfPart)
	}
	procs := number(swfAllocated)
	if procs <= 0 {
		procs = number(swfRequested)
	}
	switch gpus := procs * cmp.Or(r.in.opts.GPUsPerProc, 1); {
	case gpus > workload.MaxGPUs:
		r.fault(swfAllocated, tooWide)
	case procs <= 0:
		r.leaveOut("its processors are unknown")
	default:
		j.GPUs = workload.MilliGPU(max(1, gpus*1000+.5))
	}
	if wait := number(swfWait); wait >= 0 && wait <= workload.MaxDuration.Seconds() {
		j.Wait, j.HasWait = time.Duration(wait*1e9), true
	}
	switch run := number(swfRun); {
	case run < 0 && j.Status == workload.Cancelled:
		r.leaveOut(neverRan)
	case run < 0:
		r.leaveOut("its run time is unknown")
	case run > workload.MaxDuration.Seconds():
		r.fault(swfRun, tooLong)
	case r.ok():
		j.Duration = r.ran(swfRun, time.Duration(run*1e9))
	}
	asks := workload.Request{Partition: text("p", swfPartition)}
	if limit := number(swfLimit); limit > 0 && limit <= workload.MaxDuration.Seconds() {
		asks.TimeLimit = time.Duration(limit * 1e9)
	}
	if kib := number(swfMemory); kib > 0 && procs > 0 && kib*1024*procs <= workload.MaxMemory {
		asks.Memory = int64(kib * 1024 * procs)
	}
	asks.QOS = text("q", swfQueue)
	if v := r.value(swfProgram); v[0] != '-' {
		hex := workload.NameKey([]byte(j.User), v)
		j.Key = r.in.text(hex[:])
	}
	j.Requested = asks.Shared()
	return j
}

// CheckGPUsPerProc is an error for a number of GPUs per processor that no cluster has.
func CheckGPUsPerProc(n float64) error {
	if !(n > 0 && n <= workload.MaxGPUsPerNode) {
		return fmt.Errorf("%g is not from above 0 to %d", n, workload.MaxGPUsPerNode)
	}
	return nil
}

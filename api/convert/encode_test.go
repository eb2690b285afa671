package convert

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

// drawJob draws a job as its submission describes it.
func drawJob(t *rapid.T) workload.Job {
	text := rapid.StringMatching(`[a-z]{0,5}`)
	span := rapid.Int64Range(0, 1e15)
	j := workload.Job{ID: rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "id"), User: text.Draw(t, "user"),
		Tenant: text.Draw(t, "tenant"), Key: text.Draw(t, "key"), Model: text.Draw(t, "model"),
		GPUs: workload.GPUs(rapid.IntRange(1, 8).Draw(t, "gpus") * 8)}
	if at := span.Draw(t, "deadline"); at > 0 {
		j.Deadline = workload.DeadlineAt(time.Duration(at))
	}
	j.Requested = workload.Request{GPUModel: text.Draw(t, "gpu"), Partition: text.Draw(t, "partition"),
		MilliCPUs: rapid.Int64Range(0, 1e9).Draw(t, "cpus"), Memory: rapid.Int64Range(0, 1e9).Draw(t, "memory"),
		TimeLimit: time.Duration(span.Draw(t, "limit")),
		NodeCount: rapid.SampledFrom([]int32{0, 1, 8}).Draw(t, "nodes"),
		Nice:      rapid.Int32Range(-1000, 1000).Draw(t, "nice"), Priority: rapid.Int64Range(-1<<40, 1<<40).Draw(t, "priority"),
		QOS: text.Draw(t, "qos"), Account: text.Draw(t, "account"),
		Requeue: workload.RequeueMode(rapid.IntRange(0, 2).Draw(t, "requeue")),
		HoldOff: time.Duration(span.Draw(t, "hold"))}.Shared()
	return j
}

// drawPlace draws where a job runs, and since when it has done so.
func drawPlace(t *rapid.T, e *workload.Event) {
	e.Pool, e.SharesWith = rapid.IntRange(0, 9).Draw(t, "pool"), rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "shares")
	for i := range rapid.IntRange(0, 2).Draw(t, "places") {
		n := workload.NodeShare{Node: string(rune('a' + i)), GPUs: rapid.IntRange(1, 4).Draw(t, "at")}
		if rapid.Bool().Draw(t, "indexed") {
			n.Indexes = workload.Indexes([]int32{3, 2, 1, 0}[:n.GPUs])
		}
		e.Placement = append(e.Placement, n)
	}
	span := rapid.Int64Range(0, 1e15)
	if e.HasAttained = rapid.Bool().Draw(t, "attained"); e.HasAttained {
		e.Attained = time.Duration(span.Draw(t, "attained"))
	}
	if e.HasLevel = rapid.Bool().Draw(t, "level"); e.HasLevel {
		e.LevelAttained = time.Duration(span.Draw(t, "level"))
	}
	e.LeaseUntil, e.HoldUntil = time.Duration(span.Draw(t, "lease")), time.Duration(span.Draw(t, "hold until"))
}

// TestEventsRoundTrip: a valid event is the same after its message.
func TestEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SampledFrom([]workload.EventKind{workload.Submitted, workload.Started, workload.Preempted,
			workload.Resumed, workload.Resized, workload.Finished, workload.NodeUp, workload.NodeDown,
			workload.ConfigApplied, workload.NodeDrained, workload.TakenSnapshot, workload.Heartbeat})
		e := workload.Event{ID: "e", Kind: kinds.Draw(t, "kind"),
			Time: time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "time"))}
		switch {
		case e.Kind == workload.Submitted:
			e.Job, e.Labels = drawJob(t), rapid.SampledFrom([]string{"", "debug", "debug,interactive"}).Draw(t, "labels")
		case e.Kind.OfJob():
			e.Job = workload.Job{ID: "j", GPUs: workload.MilliGPU(rapid.IntRange(1, 9000).Draw(t, "gpus"))}
			if e.Kind == workload.Finished {
				e.Job.Status = rapid.SampledFrom([]workload.Status{workload.Unknown, workload.Completed,
					workload.Cancelled, workload.Failed, workload.TimedOut, workload.OutOfMemory}).Draw(t, "status")
			}
			drawPlace(t, &e)
			e.Lost = rapid.Bool().Draw(t, "lost")
			e.StartUp = time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "start-up"))
		case e.Kind.OfNode():
			e.Node, e.NodeGPUs = "n", rapid.IntRange(1, 8).Draw(t, "gpus")
		case e.Kind == workload.ConfigApplied:
			e.Revision, e.Instance, e.Hash = "7", "i", "h"
			e.Epoch = workload.Epoch{ID: "x", Counter: 3}
		case e.Kind == workload.TakenSnapshot:
			for i := range rapid.IntRange(0, 3).Draw(t, "jobs") {
				one := workload.Event{Kind: workload.Submitted, Job: drawJob(t), Labels: "debug"}
				one.Job.ID = string(rune('a' + i))
				one.Job.Submit = time.Duration(rapid.Int64Range(0, int64(e.Time)).Draw(t, "submit"))
				if rapid.Bool().Draw(t, "running") {
					one.Kind = workload.Started
				}
				drawPlace(t, &one)
				e.Active = append(e.Active, one)
			}
			for i, kind := range []workload.EventKind{workload.NodeUp, workload.NodeDrained} {
				e.Active = append(e.Active, workload.Event{Kind: kind, Node: string(rune('a' + i)), NodeGPUs: 8})
			}
		}
		got, fault := EventFromProto(EventToProto(&e, time.Unix(0, 0)))
		if fault != nil {
			t.Fatal(*fault)
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		for i := range got.Active {
			got.Active[i].ID = ""
		}
		if !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v\nis then\n%+v", e, got)
		}
	})
}

// TestEnds: every way to end of the API is that of the status of its name.
func TestEnds(t *testing.T) {
	if len(statuses) != len(pb.JobDetails_EndStatus_name) {
		t.Errorf("%v are of %v", statuses, pb.JobDetails_EndStatus_name)
	}
	for end, status := range statuses {
		if end != pb.JobDetails_END_STATUS_UNSPECIFIED && strings.ToUpper(status.String()) != end.String() {
			t.Errorf("%v is %v", end, status)
		}
	}
}

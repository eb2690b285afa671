package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// The published rows of each format, read as the papers explain them.
func TestFormatsPublishedRows(t *testing.T) {
	in := func(names ...string) string {
		for i, n := range names {
			names[i] = filepath.Join("testdata", n)
		}
		return strings.Join(names, ",")
	}
	for _, c := range []struct {
		path, format, zero string
		jobs, leftOut      int
		first              workload.Job
	}{
		{in("philly_cluster_job_log.json"), "philly-json", "2017-10-07T00:00:00Z",
			1, 0, workload.Job{ID: "application_1506638472019_14199", User: "ce2f4c", Tenant: "ee9e8c",
				// Two attempts, 01:12:09..01:13:23 and 01:13:30..53:39:42 later; submitted 30 s before the first.
				Submit: 71*time.Minute + 39*time.Second, Duration: 74*time.Second + (53*3600+39*60+42)*time.Second,
				GPUs: workload.GPUs(8), Status: workload.Completed, Wait: 30 * time.Second, HasWait: true,
				Nodes: "m47"}},
		{in("helios_cluster_log.csv"), "helios", "2020-06-09T00:00:00Z",
			3, 0, workload.Job{ID: "1425511", User: "uXBbc", Tenant: "vcJkd",
				Submit: 18*time.Hour + 41*time.Minute + time.Second, Duration: 36848 * time.Second,
				GPUs: workload.GPUs(1), Status: workload.Completed, HasWait: true,
				Requested: workload.Request{MilliCPUs: 1000}.Shared()}},
		// 00:18:22+08:00 is 16:18:22 UTC of the day before.
		{in("acme_trace_seren.csv"), "acme", "2023-02-28T00:00:00Z", 2, 0, workload.Job{ID: "5778432", User: "u5907",
			Submit: 16*time.Hour + 18*time.Minute + 22*time.Second, Duration: 117 * time.Second, GPUs: workload.GPUs(8),
			Status: workload.Failed, Wait: 32 * time.Second, HasWait: true,
			Requested: workload.Request{MilliCPUs: 128_000}.Shared()}},
		{in("acme_trace_kalos.csv"), "acme", "2023-05-17T00:00:00Z",
			2, 0, workload.Job{ID: "dlctk696s0jbvitv", User: "uf794",
				Submit: 11*time.Hour + 58*time.Second, Duration: 18 * time.Second, GPUs: workload.GPUs(64),
				Status: workload.Failed, Wait: 10 * time.Second, HasWait: true,
				Requested: workload.Request{MilliCPUs: 960_000}.Shared()}},
		// The rows belong to different jobs: only the task says how many GPUs it has.
		{in("pai_job_table.csv", "pai_task_table.csv", "pai_instance_table.csv"), "pai2020", "1970-01-01T08:00:00Z",
			1, 2, workload.Job{ID: "4f057009a5d481acec67b088",
				Submit: 1739162 * time.Second, Duration: 38 * time.Second, GPUs: 500, Status: workload.Completed,
				HasWait: true}},
		{in("pai2023_pods.csv"), "pai2023", "1970-01-01T00:00:00Z", 7, 1,
			workload.Job{ID: "openb-pod-0000", Duration: 12537496 * time.Second, GPUs: workload.GPUs(1), HasWait: true,
				Requested: workload.Request{MilliCPUs: 12_000, Memory: 16 << 30}.Shared()}},
		{in("pai2023_pods.csv", "pai2023_nodes.csv"), "pai2023", "1970-01-01T00:00:00Z", 7, 1,
			workload.Job{ID: "openb-pod-0000", Duration: 12537496 * time.Second, GPUs: workload.GPUs(1), HasWait: true,
				Requested: workload.Request{MilliCPUs: 12_000, Memory: 16 << 30}.Shared()}},
		// 46 completed jobs; 13 were requeued and wait.
		{in("sacct.psv"), "sacct", "2026-11-21T00:00:00Z", 59, 0, workload.Job{ID: "1", User: "root", Tenant: "teama",
			Submit: 68*time.Minute + 18*time.Second, Duration: 44 * time.Second, GPUs: workload.GPUs(1),
			Status: workload.Completed, HasWait: true, Nodes: "g27",
			Requested: workload.Request{Partition: "train", QOS: "normal", NodeCount: 1, TimeLimit: 10 * time.Minute,
				MilliCPUs: 2000,
				Memory:    1 << 30}.Shared()}},
	} {
		t.Run(c.format+" "+filepath.Base(c.path), func(t *testing.T) {
			w, r, err := Open(t.Context(), c.path, Options{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if r.Format != c.format || r.Jobs != c.jobs || w.Len() != c.jobs || r.LeftOut != c.leftOut ||
				r.Rejected != 0 || r.Rows+r.Expanded != r.Jobs+r.LeftOut+r.Merged {
				t.Errorf("%+v", r)
			}
			if got := w.Zero().Format(time.RFC3339); got != c.zero {
				t.Errorf("zero %s", got)
			}
			got := w.Jobs()[0]
			if len(got.Key) != 16 {
				t.Errorf("key %q", got.Key)
			}
			got.Key = ""
			if got != c.first {
				t.Errorf("first job\n%+v, want\n%+v", got, c.first)
			}
		})
	}
}

func TestFormatsSharedTraces(t *testing.T) {
	w, r, err := Open(t.Context(), testshared.Path(t, "traces", "pai2023"), Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	// The folder: pods, and two lists of the machines, of which the first counts.
	machines, gpus := 0, 0
	for _, m := range r.Machines {
		machines += m.Nodes
		gpus += m.Nodes * m.GPUsPerNode
	}
	if r.Jobs != 4132 || r.LeftOut != 1221 || machines != 1213 || gpus != 6212 || len(r.Files) != 2 ||
		w.Name() != "pai2023" {
		t.Errorf("%d jobs, %d left out, %d machines, %d GPUs, files %v", r.Jobs, r.LeftOut, machines, gpus, r.Files)
	}
	shares := 0
	for i := range w.Jobs() {
		if w.Jobs()[i].GPUs < 1000 {
			shares++
		}
	}
	if shares == 0 {
		t.Error("no job has a share of a GPU")
	}
}

// One row of each format at a time, and how it is read.
func TestFormatsRows(t *testing.T) {
	const (
		helios = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
		acme   = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
		pods   = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
		sacct  = "JobID|User|Account|JobName|State|Submit|Eligible|Start|End|Elapsed|AllocTRES|ReqTRES\n"
		task   = "j,worker,2,Terminated,100,200,600,29.3,50,V100\n"
	)
	philly := func(status, submitted, attempts string) string {
		return `[{"status":"` + status + `","vc":"v","jobid":"a","submitted_time":` + submitted +
			`,"user":"u","attempts":[` + attempts + `]}]`
	}
	attempt := func(start, end, gpus string) string {
		return `{"start_time":` + start + `,"end_time":` + end + `,"detail":[{"ip":"m1","gpus":[` + gpus + `]}]}`
	}
	const t1, t2, t3 = `"2017-10-07 01:00:10"`, `"2017-10-07 01:01:10"`, `"2017-10-07 01:02:10"`
	for name, c := range map[string]struct {
		text          string
		out           string       // why it is left out
		field, reason string       // or rejected
		want          workload.Job // or the job, without id, user, tenant, key and submission
	}{
		"helios": {text: helios +
			"1,u,v,8,1,1,TIMEOUT,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-10 18:41:11,86400,10\n",
			want: workload.Job{Duration: 24 * time.Hour, GPUs: workload.GPUs(8), Status: workload.TimedOut,
				Wait: 10 * time.Second, HasWait: true, Requested: workload.Request{MilliCPUs: 1000}.Shared()}},
		"helios, no GPU": {text: helios +
			"1,u,v,0,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n", out: noGPU},
		"helios, never started": {text: helios +
			"1,u,v,1,1,1,CANCELLED,2020-06-09 18:41:01,,2020-06-10 04:55:09,0,0\n", out: neverRan},
		"helios, running": {text: helios +
			"1,u,v,1,1,1,RUNNING,2020-06-09 18:41:01,2020-06-09 18:41:01,None,5,0\n", out: notEnded},
		"helios, no second": {text: helios +
			"1,u,v,1,1,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:01,0,0\n", out: tooShort},
		"helios, no day": {text: helios +
			"1,u,v,1,1,1,FAILED,2020-02-30 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:01,1,0\n",
			field: "submit_time", reason: notClock},
		"helios, negative": {text: helios +
			"1,u,v,1,1,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:01,-1,0\n", field: "duration",
			reason: isNegative},
		"helios, odd GPUs": {text: helios +
			"1,u,v,many,1,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:01,1,0\n", field: "gpu_num",
			reason: notNumber},
		"philly, raw": {text: "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-07 " +
			"01:00:10,60,8,480,7f04ca\n",
			want: workload.Job{Submit: 10 * time.Second, Duration: time.Minute, GPUs: workload.GPUs(8)}},
		"philly, no time of day": {text: "job_id,submit_time,duration_s,num_gpus,vc\na,2017-10-07,60,8,7f04ca\n",
			field: "submit_time", reason: notClock},
		"acme, a type": {text: acme +
			"1,u,1,8,1,Pretrain,NODE_FAIL,2023-03-01 00:00:00+08:00,2023-03-01 00:00:09+08:00,2023-03-01 " +
			"00:01:09+08:00,60.0,,1\n",
			want: workload.Job{Model: "Pretrain",
				Duration: time.Minute, GPUs: workload.GPUs(8), Status: workload.Failed, Wait: 9 * time.Second,
				HasWait: true, Requested: workload.Request{MilliCPUs: 1000}.Shared()}},
		"acme, unknown state": {text: acme +
			"1,u,1,8,1,Other,ODD,2023-03-01 00:00:00+08:00,2023-03-01 00:00:09+08:00,2023-03-01 " +
			"00:01:09+08:00,60.0,-3,1\n", want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(8),
			Requested: workload.Request{MilliCPUs: 1000}.Shared()}},
		"pods, a share": {text: pods + "p,1,1,1,460,,LS,Succeeded,100,300,130\n",
			want: workload.Job{Duration: 170 * time.Second, GPUs: 460, Status: workload.Completed,
				Wait: 30 * time.Second, HasWait: true,
				Requested: workload.Request{MilliCPUs: 1, Memory: 1 << 20}.Shared()}},
		"pods, never scheduled": {text: pods + "p,1,1,2,1000,,LS,Pending,100,300,\n", out: neverRan},
		"pods, running":         {text: pods + "p,1,1,2,1000,,LS,Running,100,,100\n", out: notEnded},
		"pods, no GPU":          {text: pods + "p,1,1,0,0,,LS,Running,100,200,100\n", out: noGPU},
		"pods, odd share": {text: pods + "p,1,1,1,1001,,LS,Running,100,200,100\n", field: "gpu_milli",
			reason: "is not between 1 and 1000"},
		"pods, backwards": {text: pods + "p,1,1,1,1000,,LS,Running,100,90,100\n", field: "deletion_time",
			reason: isNegative},

		"pai, bare": {text: task, want: workload.Job{Duration: 100 * time.Second, GPUs: workload.GPUs(1),
			Status: workload.Completed, HasWait: true}},
		"pai, header": {text: "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n" + task, want: workload.Job{Duration: 100 * time.Second, GPUs: workload.GPUs(1), Status: workload.Completed, HasWait: true}},
		"pai, two tasks": {text: task + "j,ps,1,Failed,90,250,600,,12.5,\n",
			want: workload.Job{Duration: 160 * time.Second, GPUs: 1125, Status: workload.Failed, HasWait: true}},
		"pai, no GPU":  {text: strings.Replace(task, ",50,", ",,", 1), out: noGPU},
		"pai, waiting": {text: "j,worker,2,Waiting,,,600,29.3,50,V100\n", out: neverRan},
		"pai, running": {text: "j,worker,2,Running,100,,600,29.3,50,V100\n", out: notEnded},
		"pai, odd status": {text: task + "k,worker,2,Odd,100,200,600,29.3,50,V100\n", field: "status",
			reason: "is not Running, Terminated, Failed or Waiting"},
		"pai, half instance": {text: task + "k,worker,0.5,Failed,100,200,600,29.3,50,V100\n", field: "inst_num",
			reason: tooFine},
		"pai, too wide": {text: task + "k,worker,1000000,Failed,100,200,600,29.3,1000,V100\n", field: "plan_gpu",
			reason: tooWide},

		"sacct, typed GPUs": {text: sacct +
			"7|u|a|n|CANCELLED by " +
			"1000|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-22T01:00:05|1-00:00:00|cpu=2,gres/gpu:a100=3,gres/gpu:h100=1,gres/gpumem=9|\n", want: workload.Job{Duration: 24 * time.Hour, GPUs: workload.GPUs(4), Status: workload.Cancelled, Wait: 5 * time.Second, HasWait: true, Requested: workload.Request{MilliCPUs: 2000}.Shared()}},
		"sacct, total wins": {text: sacct +
			"7|u|a|n|OUT_OF_MEMORY|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|00:01:00|gres/gpu=4,gres/gpu:a100=4|\n", want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(4), Status: workload.OutOfMemory, Wait: 5 * time.Second, HasWait: true}},
		"sacct, held": {text: sacct +
			"7|u|a|n|COMPLETED|2026-11-21T01:00:00|2026-11-21T02:00:00|2026-11-21T02:00:05|2026-11-21T02:01:05|00:01:00|gres/gpu=1|\n", want: workload.Job{Submit: time.Hour, Duration: time.Minute, GPUs: workload.GPUs(1), Status: workload.Completed, Wait: 5 * time.Second, HasWait: true}},
		"sacct, requested": {text: sacct +
			"7|u|a|n|COMPLETED|2026-11-21T01:00:00|Unknown|2026-11-21T01:00:05|2026-11-21T01:01:05||billing=1|gres/gpu=2\n", want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(2), Status: workload.Completed, Wait: 5 * time.Second, HasWait: true}},
		"sacct, epoch": {text: sacct +
			"7|u|a|n|COMPLETED|1700000000|Unknown|1700000005|1700000065||gres/gpu=2|\n",
			want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(2), Status: workload.Completed,
				Wait: 5 * time.Second, HasWait: true}},
		"sacct, odd state": {text: sacct +
			"7|u|a|n|VANISHED+|2026-11-21T01:00:00|Unknown|2026-11-21T01:00:05|2026-11-21T01:01:05||gres/gpu=2|\n",
			want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(2), Wait: 5 * time.Second, HasWait: true}},
		"sacct, requeued twice": {text: sacct +
			"7|u|a|n|PREEMPTED|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|00:01:00|gres/gpu=4|\n7|u|a|n|NODE_FAIL|2026-11-21T01:01:05|2026-11-21T01:03:05|2026-11-21T02:00:00|2026-11-21T03:00:00|01:00:00|gres/gpu=4|\n7|u|a|n|COMPLETED|2026-11-21T03:00:00|2026-11-21T03:00:00|2026-11-21T04:00:00|2026-11-21T05:00:00|01:00:00|gres/gpu=4|\n", want: workload.Job{Duration: 2*time.Hour + time.Minute, GPUs: workload.GPUs(4), Status: workload.Completed, Wait: 5 * time.Second, HasWait: true}},
		"sacct, requeued": {text: sacct +
			"7|u|a|n|REQUEUED|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|00:01:00|gres/gpu=4|\n7|u|a|n|PENDING|2026-11-21T01:01:05|2026-11-21T01:03:05|Unknown|Unknown|00:00:00||gres/gpu=4\n", want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(4), Status: workload.Running, Wait: 5 * time.Second, HasWait: true}},
		"sacct, running": {text: sacct +
			"7|u|a|n|RUNNING|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|Unknown|00:01:00|gres/gpu=4|\n",
			want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(4), Status: workload.Running,
				Wait: 5 * time.Second, HasWait: true}},
		"sacct, pending": {text: sacct +
			"7|u|a|n|PENDING|2026-11-21T01:00:00|2026-11-21T01:00:00|Unknown|Unknown|00:00:00||gres/gpu=4\n",
			out: "it has not started, and no job has ended that says how long it would run"},
		"sacct, never started": {text: sacct +
			"7|u|a|n|CANCELLED by " +
			"0|2026-11-21T01:00:00|2026-11-21T01:00:00|None|2026-11-21T01:00:05|00:00:00||gres/gpu=4\n", out: neverRan},
		"sacct, no GPU": {text: sacct +
			"7|u|a|n|COMPLETED|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|00:01:00|cpu=4|\n", out: noGPU},
		"sacct, a step": {text: sacct +
			"7.batch|u|a|n|COMPLETED|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|00:01:00|cpu=4|\n", out: "it is a step of a job (sacct -X lists none)"},
		"sacct, odd GPUs": {text: sacct +
			"7|u|a|n|COMPLETED|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|00:01:00|gres/gpu=1.5|\n", field: "AllocTRES", reason: "has a number of GPUs that is no whole number"},
		"sacct, odd span": {text: sacct +
			"7|u|a|n|COMPLETED|2026-11-21T01:00:00|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|1:1|gres/gpu=1|\n", field: "Elapsed", reason: "is not a span such as 1-02:03:04"},
		"sacct, no node": {text: "JobID|State|Submit|Start|End|AllocTRES|NodeList\n" +
			"7|FAILED|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|gres/gpu=1|None assigned\n",
			want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(1), Status: workload.Failed,
				Wait: 5 * time.Second, HasWait: true}},
		"sacct, odd node": {text: "JobID|State|Submit|Start|End|AllocTRES|NodeList\n" +
			"7|FAILED|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|gres/gpu=1|gpu[1-\n",
			field: "NodeList", reason: "is not a host list such as gpu[01-03],login1"},
		"sacct, odd time": {text: sacct +
			"7|u|a|n|COMPLETED|yesterday|2026-11-21T01:00:00|2026-11-21T01:00:05|2026-11-21T01:01:05|1:1|gres/gpu=1|\n",
			field: "Submit", reason: notClock},

		"philly, killed": {text: philly("Killed", t1, attempt(t2, t3, `"gpu0","gpu1"`)),
			want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(2), Status: workload.Cancelled,
				Wait: time.Minute, HasWait: true, Nodes: "m1"}},
		"philly, half attempts": {text: philly("Failed",
			t1, attempt("null", t2, ``)+","+attempt(t1, `"None"`, `"g"`)+","+attempt(t2, t3, `"g"`)),
			want: workload.Job{Duration: time.Minute, GPUs: workload.GPUs(1), Status: workload.Failed, HasWait: true,
				Nodes: "m1"}},
		"philly, no attempt": {text: philly("Killed", t1, ``), out: neverRan},
		"philly, running": {text: philly("Pass", t1, attempt(t1, t2, `"g"`)+","+attempt(t2, "null", `"g"`)),
			out: notEnded},
		"philly, no GPU": {text: philly("Pass", t1, attempt(t1, t2, ``)), out: noGPU},
		"philly, no time": {text: philly("Pass", `null`, attempt(t1, t2, `"g"`)), field: "submitted_time",
			reason: isEmpty},
		"philly, a number": {text: philly("Pass", `7`, attempt(t1, t2, `"g"`)), field: "submitted_time",
			reason: "is not what the format has there"},
		"philly, backwards": {text: philly("Pass", t1, attempt(t2, t1, `"g"`)), field: "attempts.end_time",
			reason: "is before the attempt's start"},
		"philly, odd status": {text: philly("Fine", t1, attempt(t1, t2, `"g"`)), field: "status",
			reason: "is not Pass, Killed or Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			w, r, err := Read(t.Context(), strings.NewReader(c.text), "t", Options{})
			if r.Rows+r.Expanded != r.Jobs+r.Rejected+r.LeftOut+r.Merged {
				t.Errorf("rows do not add up: %+v", r)
			}
			switch {
			case c.out != "":
				if !errors.Is(err, ErrNoJobs) || !strings.Contains(err.Error(), c.out) ||
					!reflect.DeepEqual(r.LeftOutReasons, []ReasonCount{{c.out, 1}}) {
					t.Errorf("%v, %+v", err, r)
				}
			case c.field != "":
				if r.Rejected != 1 || r.First[0].Field != c.field || r.First[0].Reason != c.reason ||
					r.First[0].Value == "" {
					t.Errorf("%v, %+v", err, r)
				}
				if _, _, err := Read(t.Context(), strings.NewReader(c.text), "t",
					Options{Strict: true}); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("strict: %v", err)
				}
			default:
				if err != nil || w.Len() != 1 {
					t.Fatal(err)
				}
				got := w.Jobs()[0]
				if err := got.Validate(); err != nil {
					t.Error(err)
				}
				got.ID, got.User, got.Tenant, got.Key = "", "", "", ""
				if c.want.Submit == 0 {
					got.Submit = 0
				} else {
					got.Submit %= 24 * time.Hour
					c.want.Submit += time.Hour // the rows are of one in the morning
				}
				if got != c.want {
					t.Errorf("got\n%+v, want\n%+v", got, c.want)
				}
			}
		})
	}
}

// The tables of PAI 2020 tell of one job together, in whatever order they come.
func TestPAITablesJoin(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pai_job_table.csv":           "j1,i1,u1,Terminated,1000,2000\nj2,i2,u1,Failed,1000,1500\nj3,i3,u2,Running,1000,\n",
		"pai_task_table.csv":          "j1,ps,1,Terminated,1100,1990,600,1,,\nj1,worker,4,Terminated,1100,1990,600,1,100,V100\nj2,w,1,Failed,1001,1400,1,1,25,T4\nj3,w,1,Running,1001,,1,1,25,T4\n",
		"pai_instance_table.csv":      "j1,worker,a,b,i1,Terminated,1150,1980,m1\nj1,worker,a2,b2,i1,Terminated,1140,1985,m1\nj2,w,a,b,i2,Failed,,,m\n",
		"pai_group_tag_table.csv":     "aaaaaaaaaaaaaaaaaaaa,d2d3b77d342e,,fbeb14d671c629b6e82bee889fe4bb4c,nmt\n",
		"pai_job_table.header":        "job_name,inst_id,user,status,start_time,end_time\n",
		"pai_sensor_table.csv":        "j1,worker,b,i1,m1,/dev/nvidia0,1,2,3,4,5,6,7,8,9,10\n",
		"pai_machine_spec.csv":        "82e5af3cd5c4af3f56c62c54,T4,96,512,2\n92e5af3cd5c4af3f56c62c54,CPU,96,512,0\n",
		"README.md":                   "# nothing\n",
		".hidden":                     "x",
		"pai_group_tag_table_two.csv": "inst_id,user,gpu_type_spec,group,workload\ni1,u1,V100,fbeb,bert\ni9,u1,,fbeb,\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(w *workload.Workload, r *Report, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		// j1 waited for its first instance; j2 has no instance that started.
		want := []workload.Job{
			{ID: "j1", User: "u1", Key: workload.KeyOf("fbeb"), Model: "bert",
				Submit: 1000 * time.Second, Duration: 860 * time.Second, GPUs: workload.GPUs(4),
				Status: workload.Completed, Wait: 140 * time.Second, HasWait: true},
			{ID: "j2", User: "u1", Submit: 1000 * time.Second, Duration: 499 * time.Second, GPUs: 250,
				Status: workload.Failed, Wait: time.Second, HasWait: true},
		}
		want[1].Key = w.Jobs()[1].Key
		if !reflect.DeepEqual(w.Jobs(), want) {
			t.Errorf("jobs\n%+v, want\n%+v", w.Jobs(), want)
		}
		if r.Rows+r.Expanded != r.Jobs+r.LeftOut+r.Merged || r.Jobs != 2 || r.Rejected != 0 {
			t.Errorf("%+v", r)
		}
	}
	w, r, err := Open(t.Context(), dir, Options{Strict: true})
	check(w, r, err)
	if !reflect.DeepEqual(r.Ignored, []string{"README.md", "pai_sensor_table.csv"}) || len(r.Files) != 6 ||
		!reflect.DeepEqual(r.Machines, []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 2, GPUModel: "T4"}}) {
		t.Errorf("files %v, ignored %v, machines %v", r.Files, r.Ignored, r.Machines)
	}
	if !reflect.DeepEqual(r.LeftOutReasons,
		[]ReasonCount{{notEnded, 1}, {"it tags a job that is not in the job table", 2}}) {
		t.Errorf("%+v", r.LeftOutReasons)
	}
	var paths []string
	for _, name := range []string{"pai_group_tag_table_two.csv", "pai_instance_table.csv", "pai_task_table.csv",
		"pai_job_table.csv"} {
		paths = append(paths, filepath.Join(dir, name))
	}
	w, r, err = Open(t.Context(), strings.Join(paths, ", "), Options{})
	// The instance table came first: its jobs are in another order until sorted.
	check(w, r, err)
	if w.Name() != "pai_group_tag_table_two.csv+3" {
		t.Errorf("name %s", w.Name())
	}
	if _, _, err := Open(t.Context(), strings.Join(paths[:2], ","), Options{}); !errors.Is(err, ErrNoJobs) ||
		!strings.Contains(err.Error(), "pai_task_table.csv") {
		t.Errorf("no task table: %v", err)
	}
}

func TestOpenSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "job_id,submit_time,duration_s,gpus\n"
	one := write("1.csv", "# autosched trace v1 zero=2020-01-01T00:00:00Z\n"+head+"a,2020-01-02T00:00:00Z,1,1\n")
	two := write("2.csv",
		"# autosched trace v1 zero=2020-02-01T00:00:00Z\n"+head+"b,2020-02-02T00:00:00Z,1,1\nc,2020-02-02T00:00:00Z,0,1\n")
	other := write("3.csv", "job_id,submit_time_s,duration_s,num_gpus\na,0,1,1\n")
	w, r, err := Open(t.Context(), one+","+two, Options{})
	if err != nil || w.Len() != 2 || w.Jobs()[1].Submit != 32*24*time.Hour || r.First[0].File != "2.csv" ||
		r.First[0].Line != 4 {
		t.Errorf("%v, %+v", err, r)
	}
	for path, says := range map[string]string{
		one + "," +
			other: "3.csv: not a trace in a known format: it is seconds, but a file before it is autosched",
		dir:                                    "name the files to be read",
		one + ",,":                             "missing between commas",
		one + "," + dir:                        "is a folder",
		one + "," + filepath.Join(dir, "none"): "no such file",
		"no-such-trace":                        "no such file or directory; traces that need no file: sample, sample-shifts",
		one + "," + write("note.txt", "hello\nyou"): `note.txt: not a trace in a known format: it begins with "hello"`,
	} {
		if _, _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	comma := write("a,b.csv", head+"a,2020-01-02T00:00:00Z,1,1\n")
	if _, _, err := Open(t.Context(), comma, Options{}); err != nil {
		t.Errorf("a name with a comma: %v", err)
	}
}

// Sacct rows of one id but another name are another job, and rows may come in
// any order.
// TestSacctLimitsOfRequeuedJobs: a time limit counts from each start, so that it does not end a job that ran for
// longer in several.
func TestSacctLimitsOfRequeuedJobs(t *testing.T) {
	const text = "JobIDRaw|JobName|User|Account|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES\n" +
		"7|n|u|a|PREEMPTED|1700000000|1700000000|1700000000|1700000500|500|10|gres/gpu=4\n" +
		"7|n|u|a|COMPLETED|1700000500|1700000500|1700000700|1700001200|500|10|gres/gpu=4\n"
	for restarts, want := range map[bool]time.Duration{false: 1000 * time.Second, true: 10 * time.Minute} {
		w, _, err := Read(t.Context(), strings.NewReader(text), "sacct.psv", Options{RequeueRestarts: restarts})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Jobs()[0].Request().TimeLimit; w.Len() != 1 || got != want {
			t.Errorf("restarts %v: %v, want %v", restarts, got, want)
		}
	}
}

func TestSacctIDs(t *testing.T) {
	const head = "JobIDRaw|User|JobName|State|Submit|Start|End|ElapsedRaw|AllocTRES\n"
	rows := []string{
		"7|u|old|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|60|gres/gpu=1\n",
		"7|u|new|PREEMPTED|2026-02-01T00:00:00|2026-02-01T00:00:20|2026-02-01T00:01:20|60|gres/gpu=2\n",
		"7|u|new|FAILED|2026-02-01T00:01:20|2026-02-01T01:00:00|2026-02-01T01:00:30|30|gres/gpu=4\n",
	}
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		w, r := mustRead(t, head+rows[order[0]]+rows[order[1]]+rows[order[2]], Options{Strict: true})
		if w.Len() != 2 || r.Merged != 1 {
			t.Fatalf("%v: %+v", order, r)
		}
		a, b := w.Jobs()[0], w.Jobs()[1]
		if a.Duration != time.Minute || a.Status != workload.Completed || a.ID == b.ID || a.Key == b.Key {
			t.Errorf("%v: %+v", order, a)
		}
		if b.Duration != 90*time.Second || b.Status != workload.Failed || b.GPUs != workload.GPUs(4) ||
			b.Wait != 20*time.Second || w.Clock(b.Submit).Format(time.RFC3339) != "2026-02-01T00:00:00Z" {
			t.Errorf("%v: %+v", order, b)
		}
	}
}

func TestReadPhillyJSONShapes(t *testing.T) {
	const job = `{"status":"Pass","vc":null,"jobid":"a%","submitted_time":"2017-10-07 01:00:00","user":"u","attempts":[{"start_time":"2017-10-07 01:00:10","end_time":"2017-10-07 01:00:20","detail":[{"ip":"m","gpus":["gpu0"]}]}],"more":{"x":["}",{"y":"\"]"}]}}`
	n := func(i string) string { return strings.Replace(job, "%", i, 1) }
	for name, c := range map[string]struct {
		text string
		jobs int
		says string
	}{
		"array":           {"[" + n("1") + "," + n("2") + "]\n", 2, ""},
		"lines":           {n("1") + "\n" + n("2") + "\n", 2, ""},
		"bad one between": {"[" + n("1") + ",\n{\"jobid\":5},\n" + n("2") + "]", 2, ""},
		"odd elements":    {"[" + n("1") + ",[1,{}]]", 1, ""},
		"repeated":        {"[" + n("1") + "," + n("1") + "]", 1, ""},
		"not closed":      {"[" + n("1") + ",", 0, "not closed"},
		"cut inside":      {"[" + n("1") + "," + n("2")[:100], 0, "inside a job"},
		"no comma":        {"[" + n("1") + n("2") + "]", 0, "comma"},
		"a number":        {"[" + n("1") + ",5]", 0, `"5"`},
		"after the end":   {"[" + n("1") + "]{}", 0, "after the end"},
		"deep":            {"[" + n("1") + "," + strings.Repeat("[", 100), 0, "deeper than 32"},
		"long":            {"[" + n("1") + ",\n{\"jobid\":\"" + strings.Repeat("x", 100_000) + "\"}]", 1, ""},
	} {
		w, r, err := Read(t.Context(), strings.NewReader(c.text), "t", Options{MaxLine: 1000})
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || w.Len() != c.jobs || r.Rows+r.Expanded != r.Jobs+r.Rejected {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
		if name == "bad one between" && (r.First[0].Line != 2 || r.First[0].Row != 2 || r.First[0].Field != "jobid" ||
			!strings.HasPrefix(r.First[0].String(), "t:2: job 2: jobid: ")) {
			t.Errorf("%s", r.First[0])
		}
	}
}

// Formats that gather the rows of a job make the same of them in any order, of
// rows and of files.
func TestRowOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(label string, low, high int) int { return rapid.IntRange(low, high).Draw(t, label) }
		var files [][]string // rows
		var heads []string
		if rapid.Bool().Draw(t, "sacct") {
			var rows []string
			at := 1_700_000_000 // every time is another, so that one row is the latest
			for j := range n("jobs", 1, 5) {
				for k := range n("starts", 1, 4) {
					submit := at + n("after", 1, 50)
					start := submit + n("wait", 1, 50)
					at = start + n("run", 1, 50)
					state := []string{"COMPLETED", "NODE_FAIL", "CANCELLED by 7", "REQUEUED",
						"RUNNING"}[n("state", 0, 4)]
					text := fmt.Sprint(start)
					if n("started", 0, 3) == 0 {
						text, state = "Unknown", "PENDING"
					}
					rows = append(rows, fmt.Sprintf("%d|u|n%d|%s|%d|%d|%s|%d|%d|gres/gpu=%d\n",
						j, j, state, submit, submit, text, at, at-start, 1+k))
				}
			}
			heads, files = []string{"JobIDRaw|User|JobName|State|Submit|Eligible|Start|End|ElapsedRaw|AllocTRES\n"},
				[][]string{rows}
		} else {
			files = make([][]string, 3)
			heads = make([]string, 3)
			state := func() string {
				return []string{"Terminated", "Failed", "Running", "Waiting"}[n("state", 0, 3)]
			}
			for j := range n("jobs", 1, 5) {
				if n("listed", 0, 4) > 0 {
					files[0] = append(files[0],
						fmt.Sprintf("j%d,i%d,u,%s,%d,%d\n", j, j, state(), n("submit", 1, 99), n("end", 100, 300)))
				}
				for range n("tasks", 0, 3) {
					files[1] = append(files[1],
						fmt.Sprintf("j%d,w,%d,%s,%d,%d,1,1,%d,T4\n", j, n("instances", 0, 3), state(),
							n("start", 1, 120), n("end", 100, 300), 25*n("quarters", 0, 8)))
				}
				for range n("instances", 0, 3) {
					files[2] = append(files[2],
						fmt.Sprintf("j%d,w,a,b,i%d,%s,%d,%d,m\n", j, j, state(), n("start", 0, 150), n("end", 0, 300)))
				}
			}
		}
		result := func(order []int) string {
			var texts [][]byte
			for _, i := range order {
				if len(files[i]) > 0 {
					texts = append(texts, []byte(heads[i]+strings.Join(files[i], "")))
				}
			}
			if len(texts) == 0 {
				return "nothing"
			}
			w, r, err := read(t.Context(), filesOf(texts), Options{})
			if (r.Rows+r.Expanded != r.Jobs+r.Rejected+r.LeftOut+r.Merged) && err == nil {
				t.Fatalf("rows do not add up: %+v", r)
			}
			var jobs []string
			if w != nil {
				for _, j := range w.Jobs() {
					jobs = append(jobs, fmt.Sprintf("%+v at %v", j, w.Clock(j.Submit)))
				}
			}
			slices.Sort(jobs)
			return fmt.Sprintf("%d rows, %d jobs, %d rejected, %d left out, error %v\n%s",
				r.Rows, r.Jobs, r.Rejected, r.LeftOut, err != nil, strings.Join(jobs, "\n"))
		}
		order := []int{0, 1, 2}[:len(files)]
		want := result(order)
		for i := range files {
			files[i] = rapid.Permutation(files[i]).Draw(t, "rows")
		}
		if got := result(rapid.Permutation(order).Draw(t, "files")); got != want {
			t.Fatalf("in another order:\n%s\nwant:\n%s", got, want)
		}
	})
}

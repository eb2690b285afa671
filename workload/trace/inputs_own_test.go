package trace

import (
	"fmt"
	"strings"
)

const (
	psv  = "JobID|User|State|Submit|Start|End|Elapsed|AllocTRES|NNodes|JobName\n"
	psv2 = "JobIDRaw|JobName|Comment|User|State|Submit|Start|End|ElapsedRaw|ReqTRES|AllocTRES|WorkDir|NNodes\n"
	at8  = "2026-03-02T08:00:00|2026-03-02T08:10:00|2026-03-02T09:10:00"
)

var ownInputs = []struct {
	kind    int // by the README of shared/inputs
	name    string
	files   []string // texts; a name and a tab may come before one
	opts    Options
	columns string
	want    string // jobs
	other   string // rejected and left out
	note    string // part of the notes
	err     string // part of the error
}{
	// Shares.
	{kind: 2, name: "MIG by model", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=2,gres/gpu:a30_1g.6gb=2|1|x\n" +
		"2|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:nvidia_h200_1g.18gb=3|1|x\n" +
		"3|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:rtx_pro_6000_2g.48gb=1|1|x\n"},
		want: "1 500 3600 completed, 2 429 3600 completed, 3 500 3600 completed"},
	{kind: 2, name: "MIG whose model is not certain", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:1g.24gb=1|1|x\n"}, want: "1 143 3600 completed",
		note: "gres/gpu:1g.24gb counts as 1/7 of a GPU"},
	{kind: 1, name: "shards and MPS", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/shard=2|1|x\n" +
		"2|u|COMPLETED|" + at8 + "|01:00:00|gres/mps=50|1|x\n"}, opts: Options{Shards: 8},
		want: "1 250 3600 completed, 2 500 3600 completed"},
	// Free text.
	{kind: 7, name: "name last, over lines", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=1|1|a|b\nc\n\nd|gres/gpu=9\n" +
		"2|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=2|1|x\n"},
		want: "1 1000 3600 completed, 2 2000 3600 completed"},
	{kind: 7, name: "several columns of text", files: []string{psv2 +
		"1|a|b|c|u|COMPLETED|" + at8 + "|3600||gres/gpu=1|/home/a|b|1\n" +
		"2|n|for x;\ndo y|u|COMPLETED|" + at8 + "|3600||gres/gpu=2|/w|1\n" +
		"3|n||u|COMPLETED|" + at8 + "|3600||gres/gpu=4|/w|1\n"},
		want: "1 1000 3600 completed, 2 2000 3600 completed, 3 4000 3600 completed"},
	{kind: 7, name: "a row forged by a name", files: []string{"JobIDRaw|JobName|User|State|Submit|Start|End|AllocTRES\n" +
		"1|a\n9|b|v|COMPLETED|" + at8 + "|gres/gpu=64\n|u|COMPLETED|" + at8 + "|gres/gpu=1\n" +
		"2|c|u|COMPLETED|" + at8 + "|gres/gpu=2\n"}, want: "1 1000 3600 completed, 2 2000 3600 completed"},
	{kind: 7, name: "a row that is cut off", files: []string{
		"JobIDRaw|JobName|User|State|Submit|Start|End|AllocTRES\n" +
			"1|a|u|COMPL\n2|c|u|COMPLETED|" + at8 + "|gres/gpu=2\n3|d\ne|u|COMPLETED|" + at8 + "|gres/gpu=3\n"},
		want: "2 2000 3600 completed, 3 3000 3600 completed", other: "1 rejected"},
	{kind: 7, name: "exports one after the other", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=1|1|x\n" + psv +
		"2|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=1|1|x\n"}, want: "1 1000 3600 completed, 2 1000 3600 completed"},
	// One start is one start.
	{kind: 5, name: "an ended row and one that runs and another start", files: []string{psv +
		"1|u|NODE_FAIL|" + at8 + "|01:00:00|gres/gpu=2|1|x\n", psv +
		"1|u|RUNNING|2026-03-02T08:00:00|2026-03-02T08:10:00|Unknown|00:20:00|gres/gpu=2|1|x\n" +
		"1|u|COMPLETED|2026-03-02T09:10:00|2026-03-02T09:20:00|2026-03-02T09:30:00|00:10:00|gres/gpu=2|1|x\n"},
		want: "1 2000 4200 completed"},
	{kind: 5, name: "a name that changed while the job ran", files: []string{psv +
		"1|u|RUNNING|2026-03-02T08:00:00|2026-03-02T08:10:00|Unknown|00:20:00|gres/gpu=2|1|old\n", psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=2|1|new\n"}, want: "1 2000 3600 completed"},
	{kind: 5, name: "an id that began anew", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=2|1|x\n" +
		"1|u|COMPLETED|2027-03-02T08:00:00|2027-03-02T08:00:00|2027-03-02T08:30:00|00:30:00|gres/gpu=1|1|x\n"},
		want: "1 2000 3600 completed, 1.1 1000 1800 completed"},
	{kind: 5, name: "two clusters", files: []string{"Cluster|JobID|JobName|State|Submit|Start|End|AllocTRES\n" +
		"a|1|x|COMPLETED|" + at8 + "|gres/gpu=1\nb|1|x|COMPLETED|" + at8 + "|gres/gpu=2\n"},
		want: "1 1000 3600 completed, 1.1 2000 3600 completed"},
	// One start of several parts.
	{kind: 5, name: "resized", files: []string{psv +
		"1|u|RESIZING|2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T09:00:00|01:00:00|gres/gpu=8|2|x\n" +
		"1|u|RESIZING|2026-03-02T08:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|01:00:00|gres/gpu=4|1|x\n" +
		"1|u|COMPLETED|2026-03-02T08:00:00|2026-03-02T10:00:00|2026-03-02T12:00:00|02:00:00|gres/gpu=2|1|x\n"},
		opts: Options{RequeueRestarts: true}, want: "1 4000 14400 completed", note: "jobs that were resized count with the mean"},
	{kind: 5, name: "requeued, then resized and still running, rows in any order", files: []string{
		"JobID|State|Submit|Start|End|AllocTRES\n" +
			"1|RUNNING|2026-03-02T08:00:00|2026-03-02T10:00:00|Unknown|gres/gpu=3\n" +
			"1|RESIZING|2026-03-02T08:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|gres/gpu=1\n" +
			"1|NODE_FAIL|2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T08:30:00|gres/gpu=1\n" +
			"2|COMPLETED|2026-03-02T08:00:00|2026-03-02T10:00:00|2026-03-02T11:00:00|gres/gpu=2\n"},
		opts: Options{RequeueRestarts: true}, want: "1 2000 7200 running, 2 2000 3600 completed"},
	{kind: 5, name: "resized without another number of GPUs", files: []string{`{"jobs":[
{"job_id":5,"state":{"current":["PENDING","RESIZING"]},"time":{"elapsed":60,"submission":1772438400,"start":1772439000,
"end":1772439060},"tres":{"allocated":[{"type":"gres","name":"gpu","count":2}]}},
{"job_id":5,"state":{"current":["COMPLETED"]},"time":{"elapsed":30,"submission":1772438400,"start":1772439060,
"end":1772439090},"tres":{"allocated":[{"type":"gres","name":"gpu","count":2}]}}]}`},
		opts: Options{RequeueRestarts: true}, want: "5 2000 90 completed", note: "~resized"},
	{kind: 5, name: "Elapsed beyond End", files: []string{psv + "1|u|COMPLETED|" + at8 + "|02:00:00|gres/gpu=1|1|x\n"},
		want: "1 1000 7200 completed", note: "Elapsed that is longer than End less Start"},
	// What ended, and when.
	{kind: 6, name: "no End", files: []string{"JobID|State|Submit|Start|Elapsed|AllocTRES\n" +
		"1|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:10:00|01:00:00|gres/gpu=1\n" +
		"2|RUNNING|2026-03-02T08:00:00|2026-03-02T08:20:00|00:30:00|gres/gpu=2\n"},
		want: "1 1000 3600 completed, 2 2000 1800 running"},
	{kind: 6, name: "no Elapsed", files: []string{"JobID|State|Submit|Start|End|AllocTRES\n" +
		"1|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:10:00|2026-03-02T10:10:00|gres/gpu=1\n" +
		"2|RUNNING|2026-03-02T08:00:00|2026-03-02T08:20:00|2026-03-09T08:20:00|gres/gpu=2\n" +
		"3|RUNNING|2026-03-02T08:00:00|2026-03-02T08:30:00|Unknown|gres/gpu=4\n"},
		want: "1 1000 7200 completed, 2 2000 6600 running, 3 4000 6000 running", note: "last instant of the trace"},
	{kind: 6, name: "neither", files: []string{"JobID|State|Submit|Start|AllocTRES\n" +
		"1|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:10:00|gres/gpu=1\n" +
		"2|RUNNING|2026-03-02T09:00:00|2026-03-02T09:10:00|gres/gpu=1\n" +
		"3|PENDING|2026-03-02T10:00:00|Unknown|gres/gpu=1\n"},
		want: "2 1000 3000 running", other: "1 rejected, 1 it has not started, and no job has ended that says how long " +
			"it would run"},
	// Old columns of GPUs.
	{kind: 8, name: "ReqGRES of each node", files: []string{"JobID|State|Submit|Start|End|NNodes|ReqGRES\n" +
		"1|COMPLETED|" + at8 + "|2|gpu:a100:8\n2|COMPLETED|" + at8 + "|1|PER_NODE:gpu:2\n" +
		"3|COMPLETED|" + at8 + "|4|7696487:1\n4|COMPLETED|" + at8 + "|1|craynetwork:1\n"},
		want: "1 16000 3600 completed, 2 2000 3600 completed, 3 4000 3600 completed", other: "1 it asks for no GPU"},
	{kind: 8, name: "AllocGRES with indexes", files: []string{
		"JobID|State|Submit|Start|End|NNodes|ReqGRES|AllocGRES\n" +
			"1|COMPLETED|" + at8 + "|2|gpu:4|gpu:a100:8(IDX:0-3)\n"}, want: "1 8000 3600 completed"},
	{kind: 8, name: "MIG in AllocGRES", files: []string{"JobID|State|Submit|Start|End|AllocGRES\n" +
		"1|COMPLETED|" + at8 + "|gpu:1g.5gb:7\n2|COMPLETED|" + at8 + "|mps:25\n"},
		want: "1 1000 3600 completed, 2 250 3600 completed"},
	// Other separators, quotes and cases.
	{kind: 8, name: "semicolons", files: []string{"JobID;State;Submit;Start;End;AllocTRES\n" +
		"1;COMPLETED;2026-03-02T08:00:00;2026-03-02T08:10:00;2026-03-02T09:10:00;\"cpu=1,gres/gpu=2\"\n"},
		want: "1 2000 3600 completed"},
	{kind: 8, name: "tabs", files: []string{"JobID\tState\tSubmit\tStart\tEnd\tAllocTRES\n" +
		"1\tTIMEOUT\t2026-03-02T08:00:00\t2026-03-02T08:10:00\t2026-03-02T09:10:00\tcpu=1,gres/gpu=2\n"},
		want: "1 2000 3600 timed_out"},
	{kind: 8, name: "pandas", files: []string{",jobid,jobname,state,submit,start,end,elapsed,alloctres\n" +
		"0,1,\"two\nlines, \"\"q\"\"\",FAILED,2026-03-02 08:00:00,2026-03-02 08:10:00,2026-03-02 09:10:00,01:00:00," +
		"\"cpu=1,gres/gpu=2\"\n"}, want: "1 2000 3600 failed"},
	// No header.
	{kind: 8, name: "bare, as the command prints it", files: []string{
		"1|1|a|b|u|lab|gpu|normal|COMPLETED|2026-03-02T08:00:00|" + at8 + "|3600|60|gres/gpu=1|gres/gpu=2|1|g1\n" +
			"2|2|x|u|lab|gpu|normal|FAILED|2026-03-02T08:00:00|" + at8 + "|3600|60|gres/gpu=1|gres/gpu=1|1|g1\n"},
		want: "1 2000 3600 completed, 2 1000 3600 failed", note: "there is no header"},
	{kind: 8, name: "bare, with text over lines", files: []string{
		"1|1|a\nb|u|lab|gpu|normal|COMPLETED|2026-03-02T08:00:00|" + at8 + "|3600|60||gres/gpu=2|1|g1\n" +
			"2|2|x|y|u|lab|gpu|normal|FAILED|2026-03-02T08:00:00|" + at8 + "|3600|60||gres/gpu=1|1|g1\n"},
		want: "1 2000 3600 completed, 2 1000 3600 failed", note: "there is no header"},
	{kind: 8, name: "bare, of several widths", files: []string{
		"1|x|COMPLETED|" + at8 + "|cpu=1,gres/gpu=2\n2|y|z|COMPLETED|" + at8 + "|cpu=1,gres/gpu=2\n"},
		err: "put the names of its --format before it"},
	{kind: 8, name: "bare, by content", files: []string{
		"u|1_3|COMPLETED|" + at8 + "|01:00:00|cpu=1,gres/gpu=2\nv|7|FAILED|" + at8 + "|01:00:00|cpu=2,gres/gpu=1\n"},
		err: "it looks like sacct without its header: put the names of its --format before it, in a first line such as " +
			"?|?|State|"},
	{kind: 8, name: "bare, certain", files: []string{
		"1_3|u|COMPLETED|" + at8 + "|01:00:00|cpu=1,gres/gpu=2\n7|v|FAILED|" + at8 + "|01:00:00|cpu=2,gres/gpu=1\n"},
		want: "1_3 2000 3600 completed, 7 1000 3600 failed", note: "JobID|?|State|Submit|Start|End|?|AllocTRES"},
	// slurmdbd's table.
	{kind: 8, name: "slurmdbd, several states", files: []string{"id_job,state,time_submit,time_start,time_end,tres_alloc,tres_req,gres_used\n" +
		"1,6,1772438400,1772439000,1772442600,\"1=8,1001=2\",,gpu:volta:2\n" +
		"2,11,1772438400,1772439000,1772442600,\"1=8,1001=1\",,\n" +
		"3,1,1772438400,1772442000,0,\"1=8,1001=4\",,\n4,4,1772438400,0,1772439000,,1001=4,\n"},
		want: "1 2000 3600 timed_out, 2 1000 3600 out_of_memory, 3 4000 600 running", other: "1 it never ran",
		note: "resource 1001 is taken for gres/gpu"},
	{kind: 8, name: "slurmdbd, another first resource", files: []string{"id_job,state,time_submit,time_start,time_end,tres_alloc,gres_alloc\n" +
		"1,3,1772438400,1772439000,1772442600,\"1=8,1001=50,1002=2\",gpu:2\n"}, want: "1 2000 3600 completed",
		note: "has another number than the column of GRES"},
	{kind: 8, name: "slurmdbd, arrays", files: []string{
		"id_job,id_array_job,id_array_task,array_task_str,state,time_submit,time_start,time_end,gres_alloc\n" +
			"11,10,1,,3,1772438400,1772439000,1772442600,gpu:1\n10,10,4294967294,2-4,0,1772438400,0,0,gpu:1\n"},
		want: "11 1000 3600 completed, 10_2 1000 3600 pending, 10_3 1000 3600 pending, 10_4 1000 3600 pending"},
	// JSON.
	{kind: 8, name: "squeue --json", files: []string{`{"jobs":[{"job_id":1,"name":"a","user_name":"u","account":"x",
"job_state":["RUNNING"],"submit_time":{"set":true,"infinite":false,"number":1772438400},
"start_time":{"set":true,"infinite":false,"number":1772439000},"end_time":{"set":true,"infinite":false,"number":1779999999},
"time_limit":{"set":true,"infinite":false,"number":60},"tres_alloc_str":"cpu=1,gres\/gpu=2","nodes":"g1",
"node_count":{"set":true,"infinite":false,"number":1},"array_job_id":{"set":true,"number":0},"array_task_id":{"set":false}},
{"job_id":2,"name":"a","user_name":"u","account":"x","job_state":["PENDING"],"submit_time":1772438400,"eligible_time":1772438400,
"start_time":0,"end_time":0,"tres_req_str":"gres\/gpu=8"}],
"last_update":{"set":true,"infinite":false,"number":1772440800},"meta":{},"errors":[]}`}, want: "1 2000 1800 running",
		other: "1 it has not started, and no job has ended that says how long it would run"},
	{kind: 8, name: "old sacct --json", files: []string{`{"meta":{"plugin":{"type":"openapi\/dbv0.0.37"}},"jobs":[{"job_id":5,
"state":{"current":"FAILED"},"time":{"elapsed":60,"submission":1772438400,"start":1772439000,"end":1772439060,"limit":10},
"array":{"job_id":3,"task_id":7},"tres":{"allocated":[{"type":"gres","name":"gpu:1g.5gb","count":2}]},"steps":[{"tres":{}}]}]}`},
		want: "5 286 60 failed"},
	{kind: 8, name: "sacct --json of a gang", files: []string{`{"jobs":[
{"job_id":5,"het":{"job_id":5,"job_offset":{"set":true,"number":0}},"state":{"current":["COMPLETED"]},"time":{"elapsed":60,
"submission":1772438400,"start":1772439000,"end":1772439060},"tres":{"allocated":[{"type":"gres","name":"gpu","count":2}]}},
{"job_id":6,"het":{"job_id":5,"job_offset":{"set":true,"number":1}},"state":{"current":["COMPLETED"]},"time":{"elapsed":90,
"submission":1772438400,"start":1772439000,"end":1772439090},"tres":{"allocated":[{"type":"gres","name":"gpu","count":1}]}}]}`},
		want: "5 3000 90 completed"},
	{kind: 8, name: "JSON that is cut short", files: []string{`{"meta":{"plugin":{"data_parser":"data_parser/v0.0.41"}},"jobs":[{"job_id":5}`},
		err: "the file is cut short"},
	// Standard Workload Format.
	{kind: 8, name: "SWF", files: []string{"; Version: 2.2\n; UnixStartTime: 1772438400\n" +
		" 1 0 13 60 4 -1 -1 4 600 -1 1 7 2 -1 1 -1 -1 -1\n2 10 0 -1 -1 -1 -1 8 600 1024 5 7 2 3 1 -1 -1 -1\n" +
		"3 20 5 7200 8 -1 -1 8 600 1024 0 7 2 3 1 2 -1 -1\n"}, want: "1 4000 60 completed, 3 8000 7200 failed",
		other: "1 it never ran", note: "each processor counts as one"},
	{kind: 8, name: "SWF, GPUs by processors, parts of jobs", files: []string{
		"1 0 13 60 6 -1 -1 4 600 -1 1 7 2 -1 1 -1 -1 -1\n1 0 13 30 6 -1 -1 4 600 -1 2 7 2 -1 1 -1 -1 -1\n" +
			"1 40 3 30 6 -1 -1 4 600 -1 3 7 2 -1 1 -1 -1 -1\n"}, opts: Options{GPUsPerProc: .25}, want: "1 1500 60 completed"},
	{kind: 8, name: "SWF that lacks a number", files: []string{"1 0 13 60 6 -1 -1 4 600 -1 1 7 2 -1 1 -1 -1 -1\n2 0 13\n"},
		want: "1 6000 60 completed", other: "1 rejected"},
	// Named columns.
	{kind: 9, name: "a product and a constant", files: []string{"t,run,pods,each,mem\n0,60,3,2,64\n10,60,1,0.5,1.5\n"},
		columns: "submit=t,duration=run,gpus=pods*each*2,memory=mem:GB", want: "row-1 12000 60 , row-2 1000 60 "},
	{kind: 9, name: "GPUs as Slurm writes them", files: []string{"t;run;g\n1772438400;60;gpu:a100:2\n" +
		"1772438400;60;gres/gpu=3\n1772438400;60;1001=4\n1772438400;60;8\n1772438400;60;gpu:1g.5gb:1\n"},
		columns: "submit=t,duration=run,gpus=g",
		want:    "row-1 2000 60 , row-2 3000 60 , row-3 4000 60 , row-4 8000 60 , row-5 143 60 "},
	{kind: 9, name: "numbers of states", files: []string{
		"t,s,e,g,state,code\n1772438400,1772438400,1772438460,1,3,0\n" +
			"1772438400,1772438400,1772438460,1,5,1\n1772438400,0,0,1,4,1\n1772438400,-1,-1,1,4,1\n"},
		columns: "submit=t,start=s,end=e,gpus=g,status=state", want: "row-1 1000 60 completed, row-2 1000 60 failed",
		other: "2 it never ran"},
	{kind: 9, name: "exit codes", files: []string{"t,r,g,code\n0,60,1,0\n0,60,1,137\n"},
		columns: "submit=t,duration=r,gpus=g,status=code:exit", want: "row-1 1000 60 completed, row-2 1000 60 failed"},
	{kind: 9, name: "a status that is not known", files: []string{"t,r,g,how\n0,60,1,7\n"},
		columns: "submit=t,duration=r,gpus=g,status=how", want: "row-1 1000 60 ", note: `"7" of column how is no status`},
	{kind: 9, name: "an instant for a wait", files: []string{"t,r,g,w\n1772438400,60,1,1772438460\n"},
		columns: "submit=t,duration=r,gpus=g,wait=w", err: "a wait is a time span"},
	{kind: 9, name: "memory in a small unit", files: []string{"t,r,g,m\n1772438400,60,1,64\n"},
		columns: "submit=t,duration=r,gpus=g,memory=m", want: "row-1 1000 60 ", note: "memory=m:GiB"},
	{kind: 9, name: "blanks", files: []string{"submit   run gpus\n0   60  1\n\n10 120   2\n"},
		columns: "submit=submit,duration=run,gpus=gpus", want: "row-1 1000 60 , row-2 2000 120 "},
	{kind: 9, name: "no zone", files: []string{psv + "1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=1|1|x\n"},
		want: "1 1000 3600 completed", note: "taken for UTC"},
	// Hints.
	{kind: 9, name: "GPUs of each worker", files: []string{"submit_time,duration,gpu_request,worker_num\n0,60,1,4\n5,60,2,1\n"},
		err: "(gpu_request is taken to be of each of worker_num: if it is of the whole job, say gpus=gpu_request) (of the " +
			"first 2 rows it makes 2 jobs of 2 to 4 GPUs that ran for 1m0s to 1m0s): try --columns " +
			"'submit=submit_time,duration=duration,gpus=gpu_request*worker_num'"},
	{kind: 9, name: "CPUs of each worker", files: []string{"submit_time,duration,gpu_request,cpu_request,worker_num\n0,60,1,8,4\n"},
		err: "gpus=gpu_request*worker_num,cpus=cpu_request*worker_num"},
	{kind: 9, name: "memory without a unit", files: []string{"submit_time,duration,gpus,memory\n0,60,1,4\n"},
		err: "(of the first 1 rows it makes 1 jobs of 1 to 1 GPUs that ran for 1m0s to 1m0s) without memory=memory, whose " +
			"unit is not known (memory=memory:GiB): try --columns submit=submit_time,duration=duration,gpus=gpus"},
	{kind: 9, name: "values for names", files: []string{"0,60,1,completed\n1,60,1,failed\n"},
		err: "its first line holds values"},
	{kind: 9, name: "a hint that reads nothing", files: []string{"submit_time,duration,gpus\nsoon,60,1\n"},
		err: "which does not read its first rows yet: no usable job: all 1 rows were rejected"},
	{kind: 1, name: "shares beside whole GPUs", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:a100=2,gres/gpu:a100_1g.5gb=3,gres/gpu=5|1|x\n" +
		"2|u|COMPLETED|" + at8 + "|01:00:00|gres/mps:a100=25|1|x\n"}, want: "1 2429 3600 completed, 2 250 3600 completed"},
	{kind: 1, name: "typed shards", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/shard:a100=2,gres/shard=2|1|x\n"}, opts: Options{Shards: 4},
		want: "1 500 3600 completed"},
	{kind: 2, name: "MIG by long names", files: []string{psv +
		"1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:nvidia_h100_80gb_hbm3_1g.10gb=1|1|x\n" +
		"2|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:1g.10gb.me=1,gres/gpu=1|1|x\n" +
		"3|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:nvidia_a100_80gb_pcie_7g.80gb=1|1|x\n" +
		"4|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu:nvidia_rtx_pro_5000_1g.12gb=1|1|x\n"},
		want: "1 143 3600 completed, 2 143 3600 completed, 3 1000 3600 completed, 4 500 3600 completed"},
	{kind: 8, name: "a ruler below each header", files: []string{
		"JobID|State|Submit|Start|End|AllocTRES|JobName\n-----|-----|------|---|---|---------|-------\n" +
			"1|COMPLETED|" + at8 + "|gres/gpu=2|x\nJobID|State|Submit|Start|End|AllocTRES|JobName\n" +
			"-----|-----|------|---|---|---------|-------\n2|COMPLETED|" + at8 + "|gres/gpu=1|x\n"},
		want: "1 2000 3600 completed, 2 1000 3600 completed"},
	{kind: 8, name: "another delimiter", files: []string{strings.ReplaceAll(psv+
		"1|u|COMPLETED|"+at8+"|01:00:00|gres/gpu=2|1|x\n", "|", "^")}, want: "1 2000 3600 completed"},
	{kind: 8, name: "BOM, carriage returns and a last bar", files: []string{"\xef\xbb\xbf" + strings.ReplaceAll(psv+
		"1|u|COMPLETED|"+at8+"|01:00:00|gres/gpu=2|1|x\n", "\n", "|\r\n")}, want: "1 2000 3600 completed"},
	// Lists of machines.
	{kind: 12, name: "jobs together hold more than the list says", files: []string{machines, phillyJobs(
		attemptOf("a", "14:00", "16:00", "m51 2"), attemptOf("b", "14:30", "16:00", "m51 2"))},
		want: "a 2000 7200 completed, b 2000 5400 completed",
		note: `jobs together held 4 GPUs of machine "m51", more than the list of machines has of it: it counts with 4`},
	{kind: 12, name: "a gang's part", files: []string{machines, phillyJobs(attemptOf("a", "14:00", "16:00", "m2 1,m51 7"))},
		want: "a 8000 7200 completed", note: `a job held 7 GPUs of machine "m51"`},
	{kind: 12, name: "a machine that is not in the list", files: []string{machines,
		phillyJobs(attemptOf("a", "14:00", "16:00", "m99 4"))}, want: "a 4000 7200 completed",
		note: `jobs held 4 GPUs of machine "m99", which is not in the list of machines`},
	{kind: 12, name: "an end that is written late", files: []string{machines, phillyJobs(
		attemptOf("a", "14:00", "16:00", "m51 2"), attemptOf("b", "15:30", "17:00", "m51 2"))},
		want: "a 2000 7200 completed, b 2000 5400 completed", note: "~more than the list"},
	// Archives without header.
	{kind: 13, name: "PAI 2020 job and task tables", files: []string{"pai_job_table.csv\tj1,i1,u1,Terminated,1000,2000\n",
		"pai_task_table.csv\tj1,ps,1,Terminated,1100,1990,600,1,,\nj1,worker,4,Terminated,1100,1990,600,1,50,V100\n"},
		want: "j1 2000 900 completed"},
	{kind: 13, name: "PAI 2020 with the file of the header", files: []string{
		"pai_job_table.csv\tj1,i1,u1,Failed,1000,2000\n",
		"pai_job_table.header\tjob_name,inst_id,user,status,start_time,end_time\n",
		"pai_task_table.csv\tj1,worker,1,Failed,1100,1990,600,1,25,T4\n"}, want: "j1 250 900 failed"},
	{kind: 13, name: "PAI 2020 instances and tags", files: []string{
		"pai_job_table.csv\tj1,i1,u1,Terminated,1000,2000\n",
		"pai_task_table.csv\tj1,worker,2,Terminated,1100,1990,600,1,100,V100\n",
		"pai_instance_table.csv\tj1,worker,a,b,i1,Terminated,1150,1980,m1\n"}, want: "j1 2000 850 completed"},
}

// machines is a list of Philly's form, phillyJobs a log, and attemptOf a job of one attempt on parts such as "m51 2".
const machines = "machineId,number of GPUs,single GPU mem\nm51,2, 12GB\nm2,8, 24GB\n"

func phillyJobs(jobs ...string) string { return "[" + strings.Join(jobs, ",") + "]" }

func attemptOf(id, start, end, parts string) string {
	var detail []string
	for part := range strings.SplitSeq(parts, ",") {
		node, n, _ := strings.Cut(part, " ")
		detail = append(detail, fmt.Sprintf(`{"ip":%q,"gpus":["g"%s]}`, node, strings.Repeat(`,"g"`, int(n[0]-'1'))))
	}
	return fmt.Sprintf(`{"status":"Pass","vc":"v","jobid":%q,"user":"u","submitted_time":"2017-10-06 13:00:00",`+
		`"attempts":[{"start_time":"2017-10-06 %s:00","end_time":"2017-10-06 %s:00","detail":[%s]}]}`, id, start, end,
		strings.Join(detail, ","))
}

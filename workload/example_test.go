package workload_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// Rows that cannot be used are counted and named.
func ExampleRead() {
	const trace = `job_id,submit_time_s,duration_s,num_gpus,vc
a,0,60,1,research
b,30,0,4,research
`
	w, report, err := workload.Read(strings.NewReader(trace), "trace.csv", workload.ReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Len(), "job, format", report.Format)
	fmt.Println(report.First[0])
	// Output:
	// 1 job, format seconds
	// trace.csv:3: duration_s: "0": is not positive
}

// A seed decides the whole trace.
func ExampleSynthesize() {
	w, err := workload.Synthesize(workload.SynthOptions{Days: 1, Jobs: 2, Seed: 4, MaxDuration: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := workload.WriteCSV(os.Stdout, w); err != nil {
		fmt.Println(err)
	}
	// Output:
	// # autosched trace v1 zero=2017-10-09T00:00:00Z synthetic
	// job_id,user,tenant,key,model,submit_time,duration_s,gpus,status
	// philly-000001,vc-j-u05,vc-j,e8f9217693884c31,,2017-10-09T06:57:19Z,2147,4,completed
	// philly-000002,vc-a-u01,vc-a,3176834026d8fd84,,2017-10-09T21:51:43Z,331,1,completed
}

// The state of a cluster follows from its events, in whatever order they come.
func ExampleLedger() {
	l := workload.NewLedger(workload.Cluster{Nodes: 2, GPUsPerNode: 8})
	for _, e := range []workload.Event{
		{ID: "2", Kind: workload.Started, Time: 90 * time.Second, Job: workload.Job{ID: "a"}},
		{ID: "1", Kind: workload.Submitted, Time: 60 * time.Second, Job: workload.Job{ID: "a", GPUs: workload.GPUs(4)}},
	} {
		if _, err := l.Apply(e); err != nil {
			fmt.Println(err)
		}
	}
	a := l.State(100 * time.Second).Jobs[0]
	fmt.Println(a.ID, a.Running, "waited", a.WaitTime, "received", a.Attained, "of GPU-time")
	// Output: a true waited 30s received 40s of GPU-time
}

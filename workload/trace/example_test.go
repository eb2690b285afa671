package trace_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/autosched/autosched/workload/trace"
)

// Rows that cannot be used are counted and named.
func ExampleRead() {
	const rows = `job_id,submit_time_s,duration_s,num_gpus,vc
a,0,60,1,research
b,30,0,4,research
`
	w, report, err := trace.Read(context.Background(), strings.NewReader(rows), "trace.csv", trace.Options{})
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

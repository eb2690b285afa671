package synth_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// A seed decides the whole trace.
func ExampleGenerate() {
	w, err := synth.Generate(context.Background(), synth.Options{Days: 1, Jobs: 2, Seed: 4, MaxDuration: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := trace.WriteCSV(os.Stdout, w); err != nil {
		fmt.Println(err)
	}
	// Output:
	// # autosched trace v1 zero=2017-10-09T00:00:00Z synthetic
	// job_id,user,tenant,key,model,submit_time,duration_s,gpus,status
	// philly-000001,vc-j-u05,vc-j,e8f9217693884c31,,2017-10-09T06:57:19Z,2147,4,completed
	// philly-000002,vc-a-u01,vc-a,3176834026d8fd84,,2017-10-09T21:51:43Z,331,1,completed
}

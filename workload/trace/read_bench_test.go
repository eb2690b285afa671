package trace

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// formatText writes n jobs in a format, shaped as its public trace is: users,
// tenants, sizes and times recur as they do there.
func formatText(format string, n int) [][]byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	zero := time.Date(2020, 6, 1, 0, 0, 0, 0, time.UTC)
	var files []*bytes.Buffer
	file := func(i int) *bytes.Buffer {
		for len(files) <= i {
			files = append(files, &bytes.Buffer{})
		}
		return files[i]
	}
	b := file(0)
	switch format {
	case "acme":
		b.WriteString(
			"job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n")
	case "autosched":
		b.WriteString(
			"# autosched trace v1 " +
				"zero=2020-06-01T00:00:00Z\njob_id,user,tenant,key,model,submit_time,duration_s,gpus,status\n")
	case "helios":
		b.WriteString("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n")
	case "pai2023":
		b.WriteString(
			"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n")
	case "philly":
		b.WriteString("job_id,submit_time,submit_unix,duration_s,num_gpus,vc,gpu_time_s,source_row\n")
	case "philly-json":
		b.WriteString("[")
	case "sacct":
		b.WriteString(
			"JobIDRaw|JobName|User|Account|Partition|QOS|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|ReqTRES|AllocTRES|NNodes|NodeList|Priority|Reason|Flags|DBIndex\n")
	case "slurm-json":
		b.WriteString(`{"jobs":[`)
	case "kueue", "volcano":
		b.WriteString(`{"apiVersion":"v1","items":[`)
	case "seconds":
		b.WriteString("job_id,submit_time_s,duration_s,num_gpus,vc\n")
	}
	at := 0
	for i := range n {
		at += r.IntN(60)
		wait, run, gpus := r.IntN(1000), 1+r.IntN(100_000), 1<<r.IntN(5)
		user, vc := fmt.Sprintf("u%05d", r.IntN(300)), fmt.Sprintf("vc%03d", r.IntN(15))
		clock := func(s int, layout string) string { return zero.Add(time.Duration(s) * time.Second).Format(layout) }
		const blank, tee, sec = "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z"
		switch format {
		case "acme":
			fmt.Fprintf(b, "%d,%s,1,%d,128,Other,COMPLETED,%s+08:00,%s+08:00,%s+08:00,%d,%d,%d\n", 5778432+i, user,
				gpus, clock(at, blank), clock(at+wait, blank), clock(at+wait+run, blank), run, wait, run*gpus)
		case "autosched":
			fmt.Fprintf(b, "j%d,%s,%s,%016x,,%s,%d,%d,completed\n", i, user, vc, r.IntN(n), clock(at, sec), run, gpus)
		case "events":
			line := func(kind string, at int, job string) {
				fmt.Fprintf(b, `{"eventId":"%s-%d","kind":"%s","schedulerTime":"%s","job":{"jobId":"j%d"%s}}`+"\n", kind, i,
					kind, clock(at, sec), i, job)
			}
			line("SUBMITTED", at, fmt.Sprintf(`,"user":%q,"tenant":%q,"milliGpus":%d000`, user, vc, gpus))
			line("STARTED", at+wait, "")
			line("FINISHED", at+wait+run, `,"endStatus":"COMPLETED"`)
		case "helios":
			fmt.Fprintf(b, "%d,%s,%s,%d,4,1,COMPLETED,%s,%s,%s,%d,%d\n", 1425511+i, user, vc, gpus, clock(at, blank),
				clock(at+wait, blank), clock(at+wait+run, blank), run, wait)
		case "pai2020":
			fmt.Fprintf(file(0), "%024x,%060x,%012x,Terminated,%d.0,%d.0\n", i, i, r.IntN(1000), at+1, at+wait+run+1)
			fmt.Fprintf(file(1), "%024x,tensorflow,1.0,Terminated,%d.0,%d.0,600.0,29.296875,50.0,MISC\n",
				i, at+wait+1, at+wait+run+1)
			fmt.Fprintf(file(2), "%024x,tensorflow,%060x,%060x,%060x,Terminated,%d.0,%d.0,%024x\n",
				i, i, i, i, at+wait+1, at+wait+run+1, r.IntN(1800))
		case "pai2023":
			fmt.Fprintf(b, "openb-pod-%04d,6000,12288,1,460,,LS,Running,%d,%d,%d\n", i, at, at+wait+run, at+wait)
		case "philly":
			fmt.Fprintf(b, "philly-%06d,%s,%d,%d,%d,%s,%d,%d\n",
				i, clock(at, sec), zero.Unix()+int64(at), run, gpus, vc, run*gpus, i)
		case "philly-json":
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(b,
				`{"status": "Pass", "vc": %q, "jobid": "application_1506638472019_%d", "attempts": [{"start_time": %q, "end_time": %q, "detail": [{"ip": "m412", "gpus": ["gpu0", "gpu1"]}]}], "submitted_time": %q, "user": %q}`,
				vc, i, clock(at+wait, blank), clock(at+wait+run, blank), clock(at, blank), user)
		case "sacct":
			fmt.Fprintf(b,
				"%d|job%d|%s|%s|train|normal|COMPLETED|0:0|%s|%s|%s|%s|%d|10|billing=2,cpu=2,gres/gpu=%d,mem=1G,node=1|billing=2,cpu=2,gres/gpu=%d,mem=1G,node=1|1|g27|11020|None|SchedBackfill,StartRecieved|%d\n",
				i, r.IntN(5000), user, vc, clock(at, tee), clock(at, tee), clock(at+wait, tee), clock(at+wait+run, tee),
				run, gpus, gpus, i)
		case "slurm-json":
			if i > 0 {
				b.WriteString(",\n")
			}
			fmt.Fprintf(b, `{"account":%q,"job_id":%d,"name":"job%d","user":%q,"nodes":"g27","allocation_nodes":1,`+
				`"state":{"current":["COMPLETED"]},"time":{"elapsed":%d,"eligible":%d,"submission":%d,"start":%d,"end":%d,`+
				`"limit":{"set":true,"number":10}},"tres":{"allocated":[{"type":"gres","name":"gpu","count":%d}]}}`,
				vc, i+1, r.IntN(5000), user, run, zero.Unix()+int64(at), zero.Unix()+int64(at),
				zero.Unix()+int64(at+wait), zero.Unix()+int64(at+wait+run), gpus)
		case "kueue":
			if i > 0 {
				b.WriteString(",\n")
			}
			condition := func(kind string, s int) string {
				return fmt.Sprintf(`{"type":%q,"status":"True","reason":"Succeeded","lastTransitionTime":%q}`, kind,
					clock(s, sec))
			}
			fmt.Fprintf(b, `{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w%d","namespace":`+
				`"a","uid":"%d","creationTimestamp":%q},"spec":{"queueName":"q","podSets":[{"count":1,"template":{"spec":`+
				`{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"%d"}}}]}}}]},"status":{"admission":`+
				`{"clusterQueue":%q},"conditions":[%s,%s]}}`, i, i, clock(at, sec), gpus, vc,
				condition("Admitted", at+wait), condition("Finished", at+wait+run))
		case "volcano":
			if i > 0 {
				b.WriteString(",\n")
			}
			fmt.Fprintf(b, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":"j%d",`+
				`"namespace":"a","uid":"%d","creationTimestamp":%q},"spec":{"minMember":1,"queue":%q}},`+"\n"+
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j%d-0","namespace":"a","uid":"p%d","annotations":`+
				`{"scheduling.k8s.io/group-name":"j%d"}},"spec":{"nodeName":"g27","containers":[{"resources":{"requests":`+
				`{"nvidia.com/gpu":"%d"}}}]},"status":{"phase":"Succeeded","startTime":%q,"containerStatuses":[{"state":`+
				`{"terminated":{"finishedAt":%q}}}]}}`, i, i, clock(at, sec), vc, i, i, i, gpus, clock(at+wait, sec),
				clock(at+wait+run, sec))
		case "swf":
			fmt.Fprintf(b, "%d %d %d %d %d -1 -1 %d 600 -1 1 %d 2 %d 1 -1 -1 -1\n", i+1, at, wait, run, gpus, gpus,
				r.IntN(300), r.IntN(5000))
		case "seconds":
			fmt.Fprintf(b, "%d,%d,%d,%d,%s\n", i, at, run, gpus, vc)
		}
	}
	switch format {
	case "philly-json":
		b.WriteString("]")
	case "slurm-json":
		b.WriteString(`],"errors":[]}`)
	case "kueue", "volcano":
		b.WriteString(`],"kind":"List"}`)
	}
	out := make([][]byte, len(files))
	for i, f := range files {
		out[i] = f.Bytes()
	}
	return out
}

func filesOf(texts [][]byte) traceFiles {
	t := traceFiles{name: "b"}
	for i, b := range texts {
		t.files = append(t.files, traceFile{name: strconv.Itoa(i), size: int64(len(b)),
			open: func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(b)), nil
			}})
	}
	return t
}

// The generators of the benchmark and the readers agree.
func TestFormatTexts(t *testing.T) {
	for _, f := range Formats {
		w, r, err := read(t.Context(), filesOf(formatText(f.Name, 300)), Options{Strict: true})
		if err != nil || w.Len() != 300 || r.Format != f.Name || r.LeftOut != 0 ||
			f.Name == "pai2020" && r.Merged != 600 {
			t.Errorf("%s: %v, %+v", f.Name, err, r)
		}
	}
}

// BenchmarkRead reports rows a second for every format, from a day's jobs to
// more than Philly's.
func BenchmarkRead(b *testing.B) {
	for _, f := range Formats {
		for _, n := range []int{1000, 20_000, 200_000} {
			b.Run(fmt.Sprintf("%s/%d", f.Name, n), func(b *testing.B) {
				texts := formatText(f.Name, n)
				rows, size := 0, 0
				for _, t := range texts {
					size += len(t)
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					_, r, err := read(b.Context(), filesOf(texts), Options{}.withDefaults())
					if err != nil {
						b.Fatal(err)
					}
					rows += r.Rows
				}
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

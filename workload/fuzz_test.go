package workload

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// fuzzRead checks what holds for any input: no panic, every row accounted for,
// only valid jobs, and a round trip.
func fuzzRead(f *testing.F, format string) {
	for _, name := range []string{"philly.csv", "w200.csv"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("# autosched trace v1 zero=2017-10-09T00:00:00.5Z synthetic\njob_id,user,tenant,key,model,submit_time,duration_s,gpus,status\n\"a,\"\"b\",u,t,k,m,2017-10-09T01:00:00Z,1.5,0.25,failed\n"))
	f.Add([]byte("job_id,submit_time,duration_s,gpus,deadline\na,2020-01-01T00:00:00Z,9,1,2020-01-01T00:00:10Z\nb,2020-01-01T00:00:01Z,9,1,\nc,2020-01-02T00:00:00Z,9,1,2020-01-01T00:00:00Z\n"))
	f.Add([]byte("job_id,submit_time_s,duration_s,num_gpus,vc\na,1e3,.5,1,x\nb,-1,2,3,\"y\"\n,,,,\n"))
	f.Add(sampleFile)
	f.Fuzz(func(t *testing.T, in []byte) {
		opts := ReadOptions{Format: format, MaxBytes: 1 << 20, MaxLine: 1000}
		w, r, err := Read(bytes.NewReader(in), "f", opts)
		if (err == nil) != (w != nil) || r == nil {
			t.Fatalf("workload %v, report %v, error %v", w, r, err)
		}
		if r.Rows != r.Jobs+r.Rejected || len(r.First) > DefaultKeep {
			t.Fatalf("%+v", r)
		}
		if err != nil {
			return
		}
		for i := range w.Jobs() {
			if err := w.Jobs()[i].Validate(); err != nil {
				t.Fatal(err)
			}
		}
		var csv bytes.Buffer
		if err := WriteCSV(&csv, w); err != nil {
			return // years before 0, or a carriage return within a line
		}
		again, _, err := Read(&csv, "f", ReadOptions{Strict: true})
		if err != nil || again.Digest() != w.Digest() {
			t.Fatalf("round trip: %v", err)
		}
	})
}

func FuzzRead(f *testing.F)          { fuzzRead(f, "") }
func FuzzReadAutosched(f *testing.F) { fuzzRead(f, "autosched") }
func FuzzReadPhilly(f *testing.F)    { fuzzRead(f, "philly") }
func FuzzReadSeconds(f *testing.F)   { fuzzRead(f, "seconds") }

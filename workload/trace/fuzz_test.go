package trace

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/workload"
)

// fileBreak separates the files of a trace of several in the fuzzer's input.
var fileBreak = []byte("\x00file\x00")

// FuzzRead checks, for every format and for any input, the invariants: no panic,
// every row accounted for, only valid jobs, the same jobs again from the
// project's own CSV. which chooses the format; 0 stands for finding it out.
func FuzzRead(f *testing.F) {
	names, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	var all [][]byte
	for _, n := range names {
		if n.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join("testdata", n.Name()))
		if err != nil {
			f.Fatal(err)
		}
		b = b[:min(len(b), 2000)]
		f.Add(byte(0), b)
		if bytes.HasPrefix([]byte(n.Name()), []byte("pai_")) {
			all = append(all, b)
		}
	}
	f.Add(byte(0), bytes.Join(all, fileBreak))
	f.Add(byte(0),
		[]byte(
			"j1,i1,u1,Terminated,1000,2000\n\x00file\x00j1,ps,1,Terminated,1100,1990,600,1,50,\n\x00file\x00j1,worker,a,b,i1,Failed,1150,1980,m1\n\x00file\x00i1,u1,V100,fbeb,bert\n"))
	f.Add(byte(0),
		[]byte(
			"# autosched trace v1 zero=2017-10-09T00:00:00.5Z "+
				"synthetic\njob_id,user,tenant,key,model,submit_time,duration_s,gpus,status,wait_s\n\"a,\"\"b\",u,t,k,m,2017-10-09T01:00:00Z,1.5,0.25,failed,7.5\n"))
	f.Add(byte(0),
		[]byte(
			"job_id,submit_time,duration_s,gpus,deadline\na,2020-01-01T00:00:00Z,9,1,2020-01-01T00:00:10Z\nb,2020-01-01T00:00:01Z,9,1,\nc,2020-01-02T00:00:00Z,9,1,2020-01-01T00:00:00Z\n"))
	f.Add(byte(0), []byte("job_id,submit_time_s,duration_s,num_gpus,vc\na,1e3,.5,1,x\nb,-1,2,3,\"y\"\n,,,,\n"))
	f.Add(byte(0),
		[]byte(
			"JobID|State|Submit|Start|End|Elapsed|AllocTRES\n7|NODE_FAIL|1700000000|1700000001|1700000009|1-00:00:08|gres/gpu:a=1,gres/gpu=2\n7|CANCELLED by 0|2026-01-01T00:00:00|None|Unknown|00:00:00|\n"))
	f.Add(byte(0),
		[]byte(
			"machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm,T4,1,1,8\n\x00file\x00{\"jobid\":\"x\",\"submitted_time\":\"2017-10-07 01:11:39\"}"))
	for _, c := range ownInputs { // one of each kind of table and of Slurm's JSON
		f.Add(byte(0), []byte(strings.Join(c.files, string(fileBreak))))
	}
	small := []byte("job_id,submit_time_s,duration_s,num_gpus\na,0,1,1\nb,1,1,1\n")
	f.Add(byte(0), zip(f, small))
	f.Add(byte(0), squeeze(f, small))
	f.Fuzz(func(t *testing.T, which byte, in []byte) {
		opts := Options{MaxBytes: 1 << 20, MaxLine: 1000}
		if k := int(which) % (len(Formats) + 1); k > 0 {
			opts.Format = Formats[k-1].Name
		}
		files := traceFiles{name: "f", folder: which > 127}
		for _, b := range bytes.Split(in, fileBreak) {
			files.files = append(files.files,
				traceFile{name: "f", size: int64(len(b)), open: func() (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(b)), nil
				}})
		}
		checkRead(t, files, opts)
	})
}

// FuzzColumns is FuzzRead for tables whose columns are named, and for the names.
func FuzzColumns(f *testing.F) {
	for _, c := range [][2]string{
		{"submit=created,start=admitted,end=finished,gpus=n_gpu,id=job,user=owner,name=title,status=state," +
			"memory=mem_gb:GiB,time_limit=limit_min:min", "foreign.csv"},
		{"submit=ts,duration=runtime_ms:ms,gpus=gpu/share:percent", "foreign_ms.tsv"},
		{"tenant=QOS", "sacct_kinds.psv"},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", c[1]))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c[0], b)
	}
	for _, c := range ownInputs {
		if c.columns != "" {
			f.Add(c.columns, []byte(c.files[0]))
		}
	}
	zone, err := ParseZone("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, columns string, in []byte) {
		newInput(traceFiles{}, Options{}.withDefaults()).suggest(in)
		cs, err := ParseColumns(columns)
		if err != nil {
			return
		}
		if again, err := ParseColumns(cs.String()); err != nil || !slices.Equal(again, cs) {
			t.Fatalf("%q is %v, then %v: %v", columns, cs, again, err)
		}
		checkRead(t, oneFile(bytes.NewReader(in), "f", int64(len(in))),
			Options{MaxBytes: 1 << 20, MaxLine: 1000, Columns: cs, Zone: zone, Shards: 7})
	})
}

func checkRead(t *testing.T, files traceFiles, opts Options) {
	w, r, err := read(t.Context(), files, opts)
	if (err == nil) != (w != nil) || r == nil {
		t.Fatalf("workload %v, report %v, error %v", w, r, err)
	}
	if len(r.First) > DefaultKeep {
		t.Fatalf("%+v", r)
	}
	if err != nil {
		return
	}
	if r.Rows+r.Expanded != r.Jobs+r.Rejected+r.LeftOut+r.Merged || r.Jobs != w.Len() {
		t.Fatalf("rows do not add up: %+v", r)
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
	again, _, err := Read(t.Context(), &csv, "f", Options{Strict: true})
	if err != nil || again.Digest() != w.Digest() {
		t.Fatalf("round trip: %v", err)
	}
	for i := range w.Jobs() {
		if a, b := &w.Jobs()[i], &again.Jobs()[i]; a.Wait != b.Wait || a.HasWait != b.HasWait {
			t.Fatalf("round trip: waits of %q", a.ID)
		}
	}
}

// FuzzInstant: an instant that passes the check is one of every workload within its bounds.
func FuzzInstant(f *testing.F) {
	for _, text := range []string{"2017-10-09T12:00:00Z", "2017-10-09", "86400", "36h", "-1e300",
		"9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = ParseZone(text)
		var w workload.Workload
		at, err := ParseInstant(&w, text)
		if err == nil && (CheckInstant(text) != nil || at > workload.MaxSubmit || at < -workload.MaxSubmit) {
			t.Fatalf("%q is %v", text, at)
		}
	})
}

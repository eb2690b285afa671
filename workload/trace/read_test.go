package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
)

func mustRead(t testing.TB, text string, opts Options) (*workload.Workload, *Report) {
	t.Helper()
	w, r, err := Read(t.Context(), strings.NewReader(text), "t.csv", opts)
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func squeeze(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(b, nil)
}

// The fixtures are the first rows of public files; testdata/README names them.
func TestReadRealRows(t *testing.T) {
	for _, c := range []struct {
		file, format string
		jobs         int
		zero         string
		first        workload.Job
		keys         int
	}{
		{"philly.csv", "philly", 8, "2017-09-04T00:00:00Z",
			workload.Job{ID: "philly-000001", Tenant: "7f04ca",
				Submit: 37841 * time.Second, Duration: 2240194 * time.Second, GPUs: 8000}, 8},
		{"w200.csv", "seconds", 8, "1970-01-01T00:00:00Z",
			workload.Job{ID: "0", Tenant: "11cb48", Duration: 74 * time.Second, GPUs: 1000}, 6},
	} {
		w, r, err := Open(t.Context(), filepath.Join("testdata", c.file), Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if r.Format != c.format || w.Len() != c.jobs || r.Rows != c.jobs || r.Jobs != c.jobs || r.Unsorted != 0 {
			t.Errorf("%s: %+v", c.file, r)
		}
		if got := w.Zero().Format(time.RFC3339); got != c.zero {
			t.Errorf("%s: zero %s, want %s", c.file, got, c.zero)
		}
		got := w.Jobs()[0]
		keys := map[string]bool{}
		for _, j := range w.Jobs() {
			keys[j.Key] = true
		}
		if len(got.Key) != 16 || len(keys) != c.keys {
			t.Errorf("%s: key %q, %d keys, want %d", c.file, got.Key, len(keys), c.keys)
		}
		got.Key = ""
		if got != c.first {
			t.Errorf("%s: first job %+v, want %+v", c.file, got, c.first)
		}
	}
}

func TestReadSharedTraces(t *testing.T) {
	w, r, err := Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if w.Len() != 55803 || r.Unsorted != 0 || !r.Compressed {
		t.Errorf("philly: %+v", r)
	}
	for name, want := range map[string]struct {
		jobs int
		load float64
		c    workload.Cluster
	}{
		"w200.csv":        {200, 1.3, workload.Uniform(8, 8)},
		"w1000.csv":       {1000, 1.2, workload.Uniform(16, 8)},
		"philly2w.csv.gz": {13085, .8, workload.Uniform(100, 8)},
	} {
		w, r, err := Open(t.Context(), testshared.Path(t, "golden", "simulator", "workloads", name),
			Options{Strict: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.Len() != want.jobs || r.Format != "seconds" {
			t.Errorf("%s: %+v", name, r)
		}
		testshared.Near(t, name+": load", stats.Describe(w, &want.c).Load.Offered, want.load, .02)
	}
	for _, name := range []string{"gittins_sample.csv", "w200.lucid_models.csv", "philly2w.lucid_models.csv.gz"} {
		_, _, err := Open(t.Context(), testshared.Path(t, "golden", "simulator", "workloads", name), Options{})
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadRejectsRows(t *testing.T) {
	const head = "job_id,submit_time_s,duration_s,num_gpus,vc\n"
	for _, c := range []struct{ row, field, reason string }{
		{",0,1,1,a", "job_id", "is empty"},
		{"ok,0,1,1,a", "job_id", "repeats the id of an earlier row"},
		{"x,,1,1,a", "submit_time_s", "is empty"},
		{"x,soon,1,1,a", "submit_time_s", "is not a number"},
		{"x,NaN,1,1,a", "submit_time_s", "is not a number"},
		{"x,1e300,1,1,a", "submit_time_s", "is out of range"},
		{"x,4000000000,1,1,a", "submit_time_s", "is more than a hundred years from the zero"},
		{"x,99999999999999999999,1,1,a", "submit_time_s", "is out of range"},
		{"x,0x10,1,1,a", "submit_time_s", "is not a number"},
		{"x,1_0,1,1,a", "submit_time_s", "is not a number"},
		{"x,0,0,1,a", "duration_s", "is not positive"},
		{"x,0,-5,1,a", "duration_s", "is not positive"},
		{"x,0,inf,1,a", "duration_s", "is out of range"},
		{"x,0,.,1,a", "duration_s", "is not a number"},
		{"x,0,400000000,1,a", "duration_s", "is more than ten years"},
		{"x,0,1,0,a", "num_gpus", "is not positive"},
		{"x,0,1,-1,a", "num_gpus", "is not positive"},
		{"x,0,1,1e9,a", "num_gpus", "is more than a million GPUs"},
		{"x,0,1,NaN,a", "num_gpus", "is not a number"},
		{"x,0,1,0.0001,a", "num_gpus", "has more decimals than are kept"},
		{"x,0,300000000,1000000,a", "duration_s", "is more GPU-time than can be counted"},
		{"x,0,1,1", "line", "has another number of fields than the header"},
		{"x,0,1,1,a,b", "line", "has another number of fields than the header"},
		{`x,0,1,1,"a`, "line", "has a quote that is not closed"},
		{`x,0,1,1,"a"b`, "line", "has text after a closing quote"},
		{"x,0,1,1," + strings.Repeat("a", 300), "line", "is longer than the limit"},
	} {
		text := head + "ok,0,1,1,a\n" + c.row + "\r\nok2,3,1,1,a\n"
		w, r := mustRead(t, text, Options{MaxLine: 256})
		if w.Len() != 2 || r.Rows != 3 || r.Rejected != 1 || len(r.First) != 1 {
			t.Errorf("%q: %d jobs, %+v", c.row, w.Len(), r)
			continue
		}
		f := r.First[0]
		if f.File != "t.csv" || f.Line != 3 || f.Field != c.field || f.Reason != c.reason || f.Value == "" {
			t.Errorf("%q: %+v, want %s: %s", c.row, f, c.field, c.reason)
		}
		if !reflect.DeepEqual(r.Reasons, []RejectionCount{{Field: c.field, Reason: c.reason, Rows: 1}}) {
			t.Errorf("%q: %+v", c.row, r.Reasons)
		}
		if _, _, err := Read(t.Context(), strings.NewReader(text), "t.csv", Options{MaxLine: 256,
			Strict: true}); !errors.Is(err,
			ErrRejected) || !strings.Contains(err.Error(), "t.csv:3: "+c.field) {
			t.Errorf("%q: strict: %v", c.row, err)
		}
	}
}

func TestReadRejectsClocks(t *testing.T) {
	const head = "job_id,submit_time,duration_s,gpus,status\n"
	w, r := mustRead(t,
		head+"a,2017-01-02T03:00:00.25+02:00,1,0.25,failed\nb,9999-01-01T00:00:00Z,1,1,\nc,2017-01-02 "+
			"03:00:00,1,1,\nd,2017-01-02T03:00:00Z,1,1,odd\n", Options{})
	if w.Len() != 1 || r.Rejected != 3 || len(r.Reasons) != 3 {
		t.Fatalf("%+v", r)
	}
	if j := w.Jobs()[0]; j.Submit != time.Hour+250*time.Millisecond || j.GPUs != 250 || j.Status != workload.Failed ||
		j.Key != workload.KeyOf("", 250, w.Zero().Unix()+3600, 250e6) {
		t.Errorf("%+v", j)
	}
	if r.First[0].Reason != "is not in the years 1970 to 2068" || r.First[2].Field != "status" {
		t.Errorf("%+v", r.First)
	}
}

func TestReadKeepsFirstRejections(t *testing.T) {
	var b strings.Builder
	b.WriteString("vc,num_gpus,duration_s,submit_time_s,job_id,extra\n") // any order of columns
	for i := range 100 {
		fmt.Fprintf(&b, "v,%d,%d,0,%d,\n", i%2, 1+i, i)
	}
	w, r := mustRead(t, b.String(), Options{KeepRejected: 7})
	if w.Len() != 50 || r.Rejected != 50 || len(r.First) != 7 || r.Reasons[0].Rows != 50 {
		t.Errorf("%d jobs, %+v", w.Len(), r)
	}
}

func TestReadSortsAndKeepsTies(t *testing.T) {
	w, r := mustRead(t, "job_id,submit_time_s,duration_s,num_gpus\na,5,1,1\nb,3,1,1\nc,5,1,1\n\nd,3,1,1\n", Options{})
	var ids string
	for _, j := range w.Jobs() {
		ids += j.ID
	}
	if ids != "bdac" || r.Unsorted != 2 || r.Rows != 4 {
		t.Errorf("order %s, %+v", ids, r)
	}
}

func TestReadKeysByBatch(t *testing.T) {
	const rows = "job_id,submit_time_s,duration_s,num_gpus,vc\na,0,1,1,x\nb,10,1,2,x\nc,60,1,1,x\nd,121,1,1,x\ne,121,1,1,y\n"
	w, _ := mustRead(t, rows, Options{})
	k := func(i int) string { return w.Jobs()[i].Key }
	if k(0) != k(2) || k(0) == k(1) || k(0) == k(3) || k(3) == k(4) {
		t.Errorf("keys %v %v %v %v %v", k(0), k(1), k(2), k(3), k(4))
	}
}

func TestReadErrors(t *testing.T) {
	const head = "job_id,submit_time_s,duration_s,num_gpus,vc\n"
	bomb := zip(t, append([]byte(head+"a,0,1,1,x\n"), bytes.Repeat([]byte{'\n'}, 40<<20)...))
	many := zip(t, []byte(head+strings.Repeat("a,0,1,1,x\n", 1000)))
	for name, c := range map[string]struct {
		in   []byte
		opts Options
		want error
		says string
	}{
		"empty":       {nil, Options{}, ErrFormat, "empty"},
		"two columns": {[]byte("job_id,model\n0,ResNet\n"), Options{}, ErrFormat, `"job_id,model"`},
		"json":        {[]byte(`[{"jobid": 1}]`), Options{}, ErrFormat, "autosched: job_id,"},
		"cut zstd": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0}, Options{}, io.ErrUnexpectedEOF,
			"zstd: the input is cut short"},
		"bad zstd": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 0xff}, Options{}, nil, "zstd"},
		"zstd bomb": {squeeze(t, append([]byte(head+"a,0,1,1,x\n"), bytes.Repeat([]byte{'\n'}, 40<<20)...)),
			Options{}, ErrLimit, "200 times"},
		"no rows": {[]byte(head), Options{}, ErrNoJobs, "no row"},
		"only bad rows": {[]byte(head + "a,0,0,1,x\n"), Options{}, ErrNoJobs,
			`t.csv:2: duration_s: "0": is not positive`},
		"column twice": {[]byte("job_id,submit_time_s,duration_s,num_gpus,job_id\n"), Options{}, ErrFormat,
			"job_id twice"},
		"wrong format": {[]byte(head), Options{Format: "philly"}, ErrFormat, "job_id,submit_time,"},
		"wrong header": {[]byte(head), Options{Format: "autosched"}, ErrFormat, "lacks submit_time"},
		"sacct in columns": {[]byte("JobID  JobName  Partition  State\n------ -------- ------ ------\n"), Options{},
			ErrFormat, "fixed width, which cut values off; run sacct -X"},
		"sacct, few columns": {[]byte("JobID|State|Elapsed\n1|RUNNING|1\n"), Options{}, ErrFormat,
			"other columns; run sacct -X"},
		"no such format": {[]byte(head), Options{Format: "moon"}, ErrFormat, "philly, philly-json, sacct, seconds"},
		"later version": {[]byte(
			"# autosched trace v2 zero=2017-01-01T00:00:00Z\njob_id,submit_time,duration_s,gpus\n"), Options{},
			ErrFormat, "v2"},
		"bad zero": {[]byte("# autosched trace v1 zero=noon\njob_id,submit_time,duration_s,gpus\n"), Options{},
			ErrFormat, "zero"},
		"too many rows": {[]byte(head + "a,0,1,1,x\nb,0,1,1,x\n"), Options{MaxRows: 1}, ErrLimit, "line 3"},
		"too many jobs": {[]byte(head + "a,0,1,1,x\nb,0,1,1,x\nnot read\n"), Options{MaxJobs: 1, Strict: true},
			ErrLimit, "line 4: limit exceeded: more than 1 jobs"},
		"too many jobs at the end": {[]byte(head + "a,0,1,1,x\nb,0,1,1,x\n"), Options{MaxJobs: 1}, ErrLimit,
			"more than 1 jobs"},
		"too many bytes":  {many, Options{MaxBytes: 5000}, ErrLimit, "5000"},
		"bomb":            {bomb, Options{}, ErrLimit, "200 times"},
		"cut gzip":        {many[:len(many)-20], Options{}, nil, "cut short"},
		"bad gzip header": {[]byte{0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, Options{}, gzip.ErrHeader, "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			w, r, err := Read(t.Context(), bytes.NewReader(c.in), "t.csv", c.opts)
			if err == nil || w != nil || r == nil {
				t.Fatalf("workload %v, report %v, error %v", w, r, err)
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "t.csv") {
				t.Errorf("error %v; want %v, %q", err, c.want, c.says)
			}
		})
	}
	if _, _, err := Open(t.Context(), filepath.Join(t.TempDir(), "none.csv"), Options{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, _, err := Open(t.Context(), t.TempDir(), Options{}); err == nil ||
		!strings.Contains(err.Error(), "the folder holds no file") {
		t.Errorf("folder: %v", err)
	}
}

func TestReadProgressAndCancel(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("\xef\xbb\xbfjob_id,submit_time_s,duration_s,num_gpus,vc\n")
	for i := range 200_000 {
		fmt.Fprintf(&b, "%d,%d,1,1,x\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "odd.name")
	if err := os.WriteFile(path, zip(t, b.Bytes()), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []Progress
	if _, _, err := Open(t.Context(), path, Options{Progress: func(p Progress) {
		seen = append(seen,
			p)
	}}); err != nil {
		t.Fatal(err)
	}
	if last := seen[len(seen)-1]; len(seen) < 3 || last.Rows != 200_000 || last.Bytes != last.Total || last.Total == 0 {
		t.Errorf("progress %+v", seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, r, err := Open(ctx, path, Options{Progress: func(Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) || r.Rows == 0 || r.Rows == 200_000 {
		t.Errorf("cancelled: %v after %d rows", err, r.Rows)
	}
}

func TestParseInstant(t *testing.T) {
	w := sample(t)
	for s, want := range map[string]time.Duration{
		"2017-10-10T00:00:00Z": 24 * time.Hour, "2017-10-10T02:00:00+02:00": 24 * time.Hour,
		"2017-10-08": -24 * time.Hour,
		"90":         90 * time.Second, "1.5": 1500 * time.Millisecond, "-3": -3 * time.Second, "36h": 36 * time.Hour,
	} {
		if got, err := ParseInstant(w, s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "noon", "2017", "NaN", "1e300", "2417-10-10"} {
		if got, err := ParseInstant(w, s); err == nil && s != "2017" {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// Check reports the same as Open.
func TestCheck(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, "testdata", SampleName, filepath.Join("testdata", "pai_job_table.csv")+","+
		filepath.Join("testdata", "pai_task_table.csv")) {
		_, want, wantErr := Open(t.Context(), path, Options{Shards: 4})
		got, err := Check(t.Context(), path, nil, Options{Shards: 4})
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v\n%+v, want\n%+v", path, err, wantErr, got, want)
		}
	}
}

// A trace of more jobs than say how long its rows are is the same in one piece of memory
// as in several, and an id used twice is found.
func TestReadMany(t *testing.T) {
	var text strings.Builder
	text.WriteString("job_id,submit_time_s,duration_s,num_gpus\n")
	for i := range manyJobs + manyJobs/2 {
		fmt.Fprintf(&text, "j%d,%d,1,1\n", i, i)
	}
	text.WriteString("j7,1,1,1\n" + fmt.Sprintf("j%d,1,1,1\n", manyJobs+9))
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a, ra, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Read(t.Context(), strings.NewReader(text.String()), "t.csv", Options{}) // of unknown size
	if err != nil || a.Digest() != b.Digest() || ra.Rejected != 2 ||
		ra.First[1].Reason != "repeats the id of an earlier row" {
		t.Errorf("%v, %+v", err, ra)
	}
	if r, err := Check(t.Context(), path, nil, Options{}); err != nil || !reflect.DeepEqual(r, ra) {
		t.Errorf("%v, %+v, want %+v", err, r, ra)
	}
}

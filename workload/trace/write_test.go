package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

func genWorkload(t *rapid.T) *workload.Workload {
	text := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != '\n' && r != '\r' }))
	// Times of any precision; ties are common.
	submit := rapid.OneOf(rapid.Int64Range(-5, 5),
		rapid.Int64Range(-int64(workload.MaxSubmit), int64(workload.MaxSubmit)))
	n := rapid.IntRange(1, 20).Draw(t, "n")
	jobs := make([]workload.Job, n)
	for i := range jobs {
		jobs[i] = workload.Job{
			ID: fmt.Sprintf("%s#%d", text.Draw(t, "id"), i), User: text.Draw(t, "user"), Tenant: text.Draw(t, "tenant"),
			Key: text.Draw(t, "key"), Model: text.Draw(t, "model"),
			Submit:   time.Duration(submit.Draw(t, "submit")),
			Duration: time.Duration(rapid.Int64Range(1, int64(workload.MaxDuration)).Draw(t, "duration")),
			GPUs:     workload.MilliGPU(rapid.Int64Range(1, 7000).Draw(t, "gpus")),
			Status:   workload.Status(rapid.SampledFrom([]int{0, 1, 2, 3, 5}).Draw(t, "status")),
		}
		if rapid.Bool().Draw(t, "has a deadline") {
			jobs[i].Deadline = time.Duration(submit.Draw(t, "deadline"))
		}
		jobs[i].Nodes = rapid.SampledFrom([]string{"", "gpu1", "gpu[001-003,7],login1"}).Draw(t, "nodes")
		if rapid.Bool().Draw(t, "has a request") {
			jobs[i].Requested = workload.Request{GPUModel: text.Draw(t, "gpu model"),
				Partition: text.Draw(t, "partition"),
				MilliCPUs: rapid.Int64Range(0, workload.MaxMilliCPUs).Draw(t, "cpus"),
				Memory:    rapid.Int64Range(0, workload.MaxMemory).Draw(t, "memory"),
				TimeLimit: time.Duration(rapid.Int64Range(0, int64(workload.MaxDuration)).Draw(t, "limit"))}.Shared()
		}
		if rapid.Bool().Draw(t, "asks for more") {
			q := jobs[i].Request()
			if jobs[i].GPUs >= 1000 && rapid.Bool().Draw(t, "has a node count") {
				q.NodeCount = int32(jobs[i].GPUs / 1000)
				jobs[i].GPUs = workload.GPUs(int(q.NodeCount))
			}
			q.QOS, q.Account = text.Draw(t, "qos"), text.Draw(t, "account")
			q.Nice, q.Priority = rapid.Int32().Draw(t, "nice"), rapid.Int64Range(-workload.MaxPriority, workload.MaxPriority).Draw(t, "priority")
			q.Requeue = workload.RequeueMode(rapid.IntRange(0, 2).Draw(t, "requeue"))
			q.HoldOff = time.Duration(rapid.Int64Range(0, int64(workload.MaxDuration)).Draw(t, "hold-off"))
			jobs[i].Requested = q.Shared()
		}
	}
	// Between the years 1000 and 9000.
	zero := time.Unix(rapid.Int64Range(-30610224000, 221845392000).Draw(t, "zero"),
		rapid.Int64Range(0, 999999999).Draw(t, "zero ns"))
	w, err := workload.New("rapid", zero, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "synthetic") {
		w = w.AsSynthetic()
	}
	return w
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorkload(t)
		var csv bytes.Buffer
		if err := WriteCSV(&csv, w); err != nil {
			t.Fatal(err)
		}
		got, r, err := Read(t.Context(), bytes.NewReader(csv.Bytes()), "t.csv", Options{Strict: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, csv.String())
		}
		if got.Digest() != w.Digest() || got.Synthetic() != w.Synthetic() || r.Rejected != 0 || r.Unsorted != 0 {
			t.Fatalf("digest %s, was %s; %+v\n%s", got.Digest(), w.Digest(), r, csv.String())
		}
		for i := range got.Jobs() {
			if got.Jobs()[i].Nodes != w.Jobs()[i].Nodes {
				t.Fatalf("nodes %q, were %q", got.Jobs()[i].Nodes, w.Jobs()[i].Nodes)
			}
		}
		var again bytes.Buffer
		if err := WriteCSV(&again, got); err != nil || !bytes.Equal(again.Bytes(), csv.Bytes()) {
			t.Fatalf("written again it differs (%v)", err)
		}
	})
}

func TestWriteRefusesWhatItCannotHold(t *testing.T) {
	job := workload.Job{ID: "a", Duration: 1, GPUs: 1}
	for name, c := range map[string]struct {
		zero time.Time
		edit func(*workload.Job)
		says string
	}{
		"line break": {time.Unix(0, 0), func(j *workload.Job) { j.User = "a\nb" }, `job "a": user`},
		"deadline": {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), func(j *workload.Job) {
			j.Deadline = 24 * time.Hour
		}, "deadline: year 10000"},
		"year": {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), func(j *workload.Job) {
			j.Submit = 24 * time.Hour
		}, "year 10000"},
		"zero": {time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC), func(*workload.Job) {}, "zero"},
		"long": {time.Unix(0, 0), func(j *workload.Job) { j.Model = strings.Repeat("m", DefaultMaxLine) }, "longer"},
	} {
		j := job
		c.edit(&j)
		w, err := workload.New("t", c.zero, []workload.Job{j})
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteCSV(&bytes.Buffer{}, w); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, err := workload.New("t", time.Unix(0, 0), []workload.Job{job})
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteCSV(failingWriter{}, w); !errors.Is(err, errDisk) {
		t.Errorf("write error: %v", err)
	}
}

var errDisk = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		in       string
		decimals int
		want     int64
		reason   string
	}{
		{"0", 3, 0, ""}, {"1", 3, 1000, ""}, {"-1.5", 3, -1500, ""}, {"+.25", 3, 250, ""}, {"2.", 3, 2000, ""},
		{"0.1250000", 3, 125, ""},
		{"1e3", 3, 1000000, ""}, {"1.5E-1", 3, 150, ""}, {"0.0001", 3, 0, tooFine}, {"1e-4", 3, 0, tooFine},
		{"1.0001x", 3, 0, notNumber},
		{"9223372036854775807", 0, math.MaxInt64, outOfRange}, {"9223372036.854775", 9, 9223372036854775000, ""},
		{"9223372037", 9, 0, outOfRange},
		{"", 3, 0, isEmpty}, {"-", 3, 0, notNumber}, {"1.2.3", 3, 0, notNumber}, {"1 ", 3, 0, notNumber},
		{"Infinity", 3, 0, outOfRange},
	} {
		got, reason := parseDecimal([]byte(c.in), c.decimals)
		if reason != c.reason || reason == "" && got != c.want {
			t.Errorf("%q: %d %q, want %d %q", c.in, got, reason, c.want, c.reason)
		}
	}
	if d, reason := parseSeconds([]byte("1.23456789012")); reason != "" || d != 1234567890 {
		t.Errorf("a float in full: %v %q", d, reason)
	}
}

func TestFormatsAreDistinct(t *testing.T) {
	for _, f := range Formats {
		n := 0
		for _, g := range Formats {
			if g.detect([]byte(f.Header + "\n")) {
				n++
			}
		}
		if n != 1 || f.About == "" || !strings.Contains(formatNames(), f.Name) {
			t.Errorf("format %s: recognised by %d formats", f.Name, n)
		}
	}
}

// The nodes of the cluster are part of the file where they are known, and change nothing else.
func TestWriteClusterBesideJobs(t *testing.T) {
	w, _, err := Open(t.Context(), SampleName, Options{})
	if err != nil {
		t.Fatal(err)
	}
	machines := []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 8, GPUModel: "A100 80GB"},
		{Name: "small", Nodes: 3, GPUsPerNode: 4, CPUs: 64, Memory: 1 << 38, Partition: "debug,long",
			Labels: map[string]string{"zone": " a cluster=b"}}}
	var with, without bytes.Buffer
	if err := errors.Join(WriteCSV(&with, w, machines...), WriteCSV(&without, w)); err != nil {
		t.Fatal(err)
	}
	got, r, err := Read(t.Context(), bytes.NewReader(with.Bytes()), "a", Options{Strict: true})
	if err != nil || got.Digest() != w.Digest() || !r.Declared || !reflect.DeepEqual(r.Machines, machines) {
		t.Fatalf("%v, %+v", err, r)
	}
	_, below, _ := bytes.Cut(with.Bytes(), []byte("\n"))
	_, want, _ := bytes.Cut(without.Bytes(), []byte("\n"))
	if !bytes.Equal(below, want) {
		t.Error("the rows differ")
	}
	for cluster, says := range map[string]string{
		`[{"nodes":-1,"gpus_per_node":8}]`: "cluster=",
		`[{"nodes":1,"gpus_per_node":8}`:   "cluster=",
		`[]`:                               "cluster=",
		`20x8`:                             "cluster=\"20x8\"",
	} {
		text := "# autosched trace v1 synthetic cluster=" + cluster + "\njob_id,submit_time,duration_s,gpus\n" +
			"a,2017-10-09T00:00:00Z,5,1\n"
		if _, _, err := Read(t.Context(), strings.NewReader(text), "a", Options{}); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", cluster, err)
		}
	}
}

package trace

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
	"github.com/autosched/autosched/workload/synth"
)

var update = flag.Bool("update", false, "write the built-in traces anew")

// sampleOptions made the built-in sample: the tests make it again and compare.
var sampleOptions = synth.Options{
	Profile: "philly", Days: 3, Load: 1.4, Cluster: workload.Uniform(20, 8),
	MaxDuration: 4 * 24 * time.Hour, Seed: 42,
}

var sampleZero = time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC)

const sampleDigest = "dd1c3723d5dc2584fbab35b1400d4aa3621b67b7c8509a930aaff44a5268b109"

// The built-in traces are part of every binary.
const (
	sampleLimit = 60 << 10
	shiftsLimit = 150 << 10
)

func TestSampleIsWhatTheGeneratorMakes(t *testing.T) {
	w, err := synth.Generate(t.Context(), sampleOptions)
	if err != nil {
		t.Fatal(err)
	}
	checkBuiltIn(t, SampleName, "sample/philly-like.csv.gz", w, sampleLimit)
}

// TestSampleShiftsIsWhatItsRecipeDraws: trace synth --recipe draws the same jobs.
func TestSampleShiftsIsWhatItsRecipeDraws(t *testing.T) {
	text, err := os.ReadFile("../../examples/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Recipes map[string]*synth.Recipe `json:"recipes"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	w, err := file.Recipes[ShiftsName].Generate(t.Context(), ShiftsName, sampleZero, sampleOptions.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	checkBuiltIn(t, ShiftsName, "sample/shifts.csv.gz", w, shiftsLimit)
}

// checkBuiltIn checks that a built-in trace is w, byte for byte. With -update it writes the
// file anew.
func checkBuiltIn(t *testing.T, name, path string, w *workload.Workload, limit int) {
	t.Helper()
	var csv bytes.Buffer
	if err := WriteCSV(&csv, w); err != nil {
		t.Fatal(err)
	}
	b := findBuiltIn(name)
	if *update {
		var zipped bytes.Buffer
		z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(csv.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, zipped.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		b.file = zipped.Bytes()
	}
	if len(b.file) > limit {
		t.Errorf("%s has %d bytes, more than %d", name, len(b.file), limit)
	}
	z, err := gzip.NewReader(bytes.NewReader(b.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, csv.Bytes()) {
		t.Errorf("%s differs from what the generator makes: run go test ./workload/trace -run Sample -update", name)
	}
	got, report, err := Open(t.Context(), name, Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Synthetic() || !report.Synthetic || got.Name() != name || got.Digest() != w.Digest() {
		t.Errorf("%s: synthetic %v, report %v, name %q", name, got.Synthetic(), report.Synthetic, got.Name())
	}
	if want := sampleOptions.Cluster.Groups; !reflect.DeepEqual(report.Machines, want) || !report.Declared {
		t.Errorf("%s states the cluster %v, want %v", name, report.Machines, want)
	}
}

// TestSampleKeeps: a measurement on the sample can be repeated with any build.
func TestSampleKeeps(t *testing.T) {
	if got := fmt.Sprintf("%x", sha256.Sum256(sampleFile)); got != sampleDigest {
		t.Errorf("the file of the sample has the digest %s, want %s", got, sampleDigest)
	}
}

func sample(t *testing.T) *workload.Workload {
	t.Helper()
	w, _, err := Open(t.Context(), SampleName, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSampleIsContended(t *testing.T) {
	w := sample(t)
	s := stats.Describe(w, &sampleOptions.Cluster)
	t.Logf("%d jobs, load %.2f, durations %+v, arrivals %+v, batches %+v",
		s.Jobs, s.Load.Offered, s.Durations, s.Arrivals, s.Batches)
	if s.Jobs < 1500 || s.Jobs > 2500 {
		t.Errorf("%d jobs", s.Jobs)
	}
	if s.Load.Offered < 1.35 || s.Load.Offered > 1.5 {
		t.Errorf("offered load %.3f", s.Load.Offered)
	}
	if s.Load.Wider != 0 {
		t.Errorf("%d jobs are wider than the cluster", s.Load.Wider)
	}
	if s.Durations.Max > 4*86400 {
		t.Errorf("longest job %g s", s.Durations.Max)
	}
	if s.Batches.JobsIn10 < .4 {
		t.Errorf("%.2f of the jobs are in sweeps", s.Batches.JobsIn10)
	}
	if !w.Zero().Equal(sampleZero) || w.Zero().Weekday() != time.Monday {
		t.Errorf("zero %v", w.Zero())
	}
	// Every day brings its share of GPU-time, so that all of it is contended.
	for day := range 3 {
		d := w.Window(time.Duration(day)*24*time.Hour, time.Duration(day+1)*24*time.Hour)
		if share := stats.Describe(d, nil).GPUHours / s.GPUHours; share < .2 || share > .5 {
			t.Errorf("day %d has %.2f of the GPU-time", day, share)
		}
	}
}

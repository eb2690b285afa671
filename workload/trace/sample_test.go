package trace

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
	"github.com/autosched/autosched/workload/synth"
)

var update = flag.Bool("update", false, "write the built-in sample anew")

// sampleOptions made the built-in sample: the tests make it again and compare.
var sampleOptions = synth.Options{
	Profile: "philly", Days: 3, Load: 1.4, Cluster: workload.Uniform(20, 8),
	MaxDuration: 4 * 24 * time.Hour, Seed: 42,
}

const sampleLimit = 60 << 10 // it is part of every binary

func TestSampleIsWhatTheGeneratorMakes(t *testing.T) {
	w, err := synth.Generate(sampleOptions)
	if err != nil {
		t.Fatal(err)
	}
	var csv bytes.Buffer
	if err := WriteCSV(&csv, w); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile("sample/philly-like.csv.gz", zipped.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		sampleFile = zipped.Bytes()
	}
	if len(sampleFile) > sampleLimit {
		t.Errorf("the sample has %d bytes, more than %d", len(sampleFile), sampleLimit)
	}
	got, report, err := Open(SampleName, Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest() != w.Digest() {
		t.Errorf("the sample differs from what the generator makes: run go test ./workload/trace -run Sample -update")
	}
	if !got.Synthetic() || !report.Synthetic || got.Name() != SampleName {
		t.Errorf("sample: synthetic %v, report %v, name %q", got.Synthetic(), report.Synthetic, got.Name())
	}
}

func sample(t *testing.T) *workload.Workload {
	t.Helper()
	w, _, err := Open(SampleName, Options{})
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
	if !w.Zero().Equal(time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC)) || w.Zero().Weekday() != time.Monday {
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

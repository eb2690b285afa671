package patterns

import (
	"encoding/csv"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// TestRecordedPhases: the labelled phases of the recording of an H100, each second of which becomes five minutes, are
// found as they are labelled, with SM activity and without.
func TestRecordedPhases(t *testing.T) {
	table := func(name string) ([][]string, map[string]int) {
		rows, err := csv.NewReader(testshared.Open(t, "traces", "telemetry", "h100", name)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		column := map[string]int{}
		for i, name := range rows[0] {
			column[name] = i
		}
		return rows[1:], column
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	counters, counter := table("gpm_1s.csv.gz")
	phases, phase := table("phases.csv")
	begin := math.Floor(number(phases[0][phase["start"]]))
	stretched := func(at float64) time.Duration { return time.Duration((at - begin) * 300 * float64(time.Second)) }
	for _, activity := range []bool{false, true} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1), Nodes: []string{"gpu1"}, Period: 5 * time.Minute})
		for _, row := range phases {
			id := row[phase["job"]]
			if id == "" {
				continue
			}
			status := workload.Completed
			if id == "j-leak" {
				status = workload.OutOfMemory
			}
			from, to := stretched(number(row[phase["start"]])), stretched(number(row[phase["end"]]))
			s.submit(from, id, "t"+id, 1)
			s.start(from, id, "gpu1", 1)
			s.end(to, id, status)
		}
		_, err := telemetry.Read(t.Context(), testshared.Open(t, "traces", "telemetry", "h100", "samples_1s.csv.gz"), "s",
			telemetry.Options{}, func(x *telemetry.GPUSample) error {
				now := x.Time.Seconds()
				for _, row := range counters {
					if activity && math.Abs(number(row[counter["time"]])-now) < .6 {
						x.SMActive, x.Known = number(row[counter["sm_util"]])/100, x.Known|telemetry.SMActive
						break
					}
				}
				x.Time = stretched(now)
				return s.GPU(x)
			})
		if err != nil {
			t.Fatal(err)
		}
		s.close()
		found := map[string]string{}
		for _, f := range s.found {
			found[f.Job] += f.Rule + " "
			switch busy := f.Evidence[1]; {
			case f.Rule == "memory_pressure" && f.Confidence < .95:
				t.Errorf("SM activity %v: the end of %s does not confirm it", activity, f.Job)
			case f.Rule == "idle_allocation" && (busy.Unit == "share of SMs") != activity:
				t.Errorf("SM activity %v: idle by %+v", activity, busy)
			}
		}
		want := map[string]string{"j-hold": "idle_allocation ", "j-leak": "memory_pressure "}
		if !maps.Equal(found, want) {
			t.Errorf("SM activity %v: found %v, want %v", activity, found, want)
		}
		classes := map[string]string{}
		for _, r := range s.jobs {
			if r.Bottleneck != "cannot_tell" {
				classes[r.Job] = r.Bottleneck
			}
		}
		want = map[string]string{"j-input": "compute_underused", "j-host": "compute_underused"}
		if activity {
			want["j-input"] = "data_pipeline"
		}
		if !maps.Equal(classes, want) {
			t.Errorf("SM activity %v: classes %v, want %v", activity, classes, want)
		}
	}
}

package energy

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// TestGPUMeter: counters are differences, with a reset; power is a trapezoid; time between samples of different
// jobs, of a lost GPU, or far apart was not measured.
func TestGPUMeter(t *testing.T) {
	var m GPUMeter
	add := func(gpu, second int, job string, known telemetry.Field, joules, watts float64) {
		m.Add(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: gpu, Instance: -1}, Job: job, Known: known,
			Time: time.Duration(second) * time.Second, Energy: joules, Power: watts})
	}
	const counter, power = telemetry.Energy, telemetry.Power
	add(0, 0, "c", counter|power, 1e6, 9999)
	add(0, 60, "c", counter|power, 4.6e6, 9999)
	add(0, 120, "c", counter, 3.6e6, 0)
	add(1, 0, "p", power, 0, 100)
	add(1, 60, "p", power, 0, 300)
	add(1, 30, "p", power, 0, 1e6) // late
	add(1, 120, "q", power, 0, 300)
	add(1, 180, "q", power, 0, 500)
	add(1, 180+601, "q", power, 0, 500)
	add(2, 0, "", power, 0, 100)
	add(2, 60, "", power, 0, 100)
	m.Add(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: 1, Instance: -1}, Job: "q", Time: 800 * time.Second,
		Lost: true})
	m.Add(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: 1, Instance: 3}, Job: "q", Known: power, Power: 7,
		Time: 810 * time.Second})
	for id, want := range map[string]GPUEnergy{"c": {2. / 60, 2}, "p": {1. / 60, 200. / 60 / 1000},
		"q": {1. / 60, 400. / 60 / 1000}} {
		near(t, id+" hours", m.Jobs()[id].Hours, want.Hours, 1e-12)
		near(t, id+" kWh", m.Jobs()[id].KWh, want.KWh, 1e-12)
	}
	if len(m.Jobs()) != 3 {
		t.Errorf("%v", m.Jobs())
	}
}

// TestMeasuredGPUs: the power that GPUs of a job were measured to draw takes the place of the model's in the part of
// its GPU-hours that was measured; node parts and other jobs stay, and jobs with idle nodes add up to the cluster.
func TestMeasuredGPUs(t *testing.T) {
	as := Default()
	in := &Input{Assumptions: as, Cluster: workload.Uniform(2, 4), Zero: zero, To: 4 * time.Hour,
		Jobs: []Job{{ID: "a", End: 2 * time.Hour, Ended: true}, {ID: "b", End: 3 * time.Hour, Ended: true}},
		Spells: []Spell{{Job: 0, GPUs: workload.GPUs(4), To: 2 * time.Hour},
			{Job: 1, GPUs: workload.GPUs(2), From: time.Hour, To: 3 * time.Hour}}}
	model, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	w, err := as.wattsOf(&in.Cluster.Groups[0])
	if err != nil {
		t.Fatal(err)
	}
	in.GPUs = map[string]GPUEnergy{"a": {Hours: 6, KWh: 6 * .25}, "unknown": {Hours: 1, KWh: 1}}
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "GPU-hours", r.MeasuredGPUHours, 6, 1e-12)
	for k := range bands {
		pue := as.constant("pue", k)
		near(t, "the job", *r.ByJob[0].Energy.at(k)-*model.ByJob[0].Energy.at(k), pue*6*(250-w.gpu[k])/1000, 1e-9)
		near(t, "the other job", *r.ByJob[1].Energy.at(k), *model.ByJob[1].Energy.at(k), 0)
		near(t, "idle", *r.Idle.Energy.at(k), *model.Idle.Energy.at(k), 1e-12)
		hours := 0.
		for i := range r.Hourly {
			hours += *r.Hourly[i].Power.at(k)
		}
		near(t, "the hours", hours, *r.Cluster.Energy.at(k), 1e-9)
	}
	if before, after := model.ByJob[0].Energy, r.ByJob[0].Energy; after.High-after.Low >= before.High-before.Low {
		t.Errorf("the band is %+v, and was %+v", after, before)
	}
}

// TestPublishedServerPower: a server of eight A100 as the model has it draws the measured power of Seren's, within the
// error of calibrated estimates.
func TestPublishedServerPower(t *testing.T) {
	f, err := os.Open(testshared.Path(t, "traces/telemetry/distributions.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]float64{}
	for _, row := range rows {
		if row[0] == "seren" && row[1] == "gpu_server_power" {
			if measured[row[3]], err = strconv.ParseFloat(row[4], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	w, err := Default().wattsOf(&workload.NodeGroup{GPUModel: "A100", GPUsPerNode: 8})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a server in use", 8*(w.base[1]+w.alone[1]), measured["50"], .11)
	if low, high := 8*w.base[0], 8*(w.base[2]+w.alone[2]); !(low < measured["10"] && measured["95"] < high) {
		t.Errorf("%.0f to %.0f W, measured %g to %g", low, high, measured["10"], measured["95"])
	}
	if math.IsNaN(measured["50"]) || measured["50"] == 0 {
		t.Error("no power was measured")
	}
}

// phase is a labelled part of a recording: its samples, with SM activity, and its mean power by the energy counter.
type phase struct {
	samples []telemetry.GPUSample
	watts   float64
}

// recorded reads the phases of the recording of an H100.
func recorded(t *testing.T) map[string]*phase {
	table := func(name string) ([][]string, map[string]int) {
		rows, err := csv.NewReader(testshared.Open(t, "traces", "telemetry", "h100", name)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, column := range rows[0] {
			at[column] = i
		}
		return rows[1:], at
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	counters, column := table("gpm_1s.csv.gz")
	phases, at := table("phases.csv")
	all := map[string]*phase{}
	for _, row := range phases {
		p := &phase{}
		all[row[at["phase"]]] = p
		from, to := number(row[at["start"]]), number(row[at["end"]])
		var first, last telemetry.GPUSample
		_, err := telemetry.Read(t.Context(), testshared.Open(t, "traces", "telemetry", "h100", "samples_1s.csv.gz"), "s",
			telemetry.Options{}, func(s *telemetry.GPUSample) error {
				now := s.Time.Seconds()
				if now < from || now > to || s.Lost {
					return nil
				}
				for _, c := range counters {
					if math.Abs(number(c[column["time"]])-now) < .6 {
						s.SMActive, s.Known = number(c[column["sm_util"]])/100, s.Known|telemetry.SMActive
						break
					}
				}
				if first.Time == 0 {
					first = *s
				}
				last = *s
				p.samples = append(p.samples, *s)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		p.watts = (last.Energy - first.Energy) / (last.Time - first.Time).Seconds()
	}
	return all
}

// TestRecordedPhases: the energy of an H100's phases by the model, with the constants of the others of them or with the
// built-in ones, is near the one measured.
func TestRecordedPhases(t *testing.T) {
	all := recorded(t)
	model := func(p *phase, watts func(*telemetry.GPUSample) (float64, bool)) float64 {
		m := GPUMeter{Watts: watts}
		for _, s := range p.samples {
			s.Job = "j"
			s.Forget(telemetry.Power | telemetry.Energy)
			m.Add(&s)
		}
		j := m.Jobs()["j"]
		return 1000 * j.KWh / j.Hours
	}
	fitted := Default()
	idle, context := all["nobody"].watts, all["hold"].watts
	busy := 0.
	for _, s := range all["train"].samples {
		busy += s.SMActive / float64(len(all["train"].samples))
	}
	fitted.GPUs["h100"] = GPU{Idle: idle, Max: context + (all["train"].watts-context)/busy, Source: "the recording"}
	fitted.Constants["context"] = Constant{Band: Band{context - idle, context - idle, context - idle}}
	for what, as := range map[string]*Assumptions{"fitted": fitted, "built in": Default()} {
		watts, err := as.GPUWatts("NVIDIA H100 80GB HBM3")
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range all {
			got := model(p, watts)
			if off := got/p.watts - 1; math.Abs(off) > .15 {
				t.Errorf("%s: %s: %.0f W, measured %.0f W", what, name, got, p.watts)
			} else {
				t.Logf("%s: %s: %.0f W, measured %.0f W: %+.1f %%", what, name, got, p.watts, 100*off)
			}
		}
	}
}

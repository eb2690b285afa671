package simulator

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// measured returns the rows of a table of measurements: values by column, NaN for text and empty fields, and texts.
func measured(t *testing.T, name string) (rows []map[string]float64, texts []map[string]string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, fields := range all[1:] {
		row, text := map[string]float64{}, map[string]string{}
		for i, column := range all[0] {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				v = math.NaN()
			}
			row[column], text[column] = v, fields[i]
		}
		rows, texts = append(rows, row), append(texts, text)
	}
	return rows, texts
}

// TestH100Pairs: the built-in set has the measured loads and speeds of pairs. A load is at most as fast beside
// another as alone, and has the mean of its two speeds beside itself.
func TestH100Pairs(t *testing.T) {
	spec, ok := ModelSet("h100")
	if !ok || spec.Validate() != nil {
		t.Fatal(spec.Validate())
	}
	var loads []ModelLoad
	at := map[string]int{}
	rows, texts := measured(t, "h100_single.csv")
	for i, row := range rows {
		at[texts[i]["model"]] = i
		loads = append(loads, ModelLoad{Name: texts[i]["model"], Util: row["sm_util"] / 100, Mem: row["memory_mib"],
			Weight: 1})
	}
	speeds := make([][]float64, len(loads))
	for i := range speeds {
		speeds[i] = make([]float64, len(loads))
	}
	rows, texts = measured(t, "h100_pairs.csv")
	for i, row := range rows {
		a, b := at[texts[i]["model1"]], at[texts[i]["model2"]]
		x, y := row["speed1"], row["speed2"]
		if a == b {
			x = (x + y) / 2
			y = x
		}
		speeds[a][b], speeds[b][a] = min(1, x), min(1, y)
	}
	scoreLoads(loads, speeds)
	if got := spec.Pairs; !reflect.DeepEqual(got.Loads, loads) || !reflect.DeepEqual(got.Speeds, speeds) {
		t.Errorf("%+v\nmeasured %+v\n%v", got, loads, speeds)
	}
	m := spec.Models()
	of := func(name string) int {
		return slices.IndexFunc(m.Loads, func(l Load) bool { return l.Name == name })
	}
	if a, b := m.PairSpeeds(of("resnet50"), of("gpt")); a != .533 || b != .468 {
		t.Errorf("resnet50 beside gpt: %v, %v", a, b)
	}
}

// TestH100Restarts: a restart costs the times of loading a checkpoint and of saving one, by its size.
func TestH100Restarts(t *testing.T) {
	spec, _ := ModelSet("h100")
	rows, _ := measured(t, "h100_restart.csv")
	seconds, perGB := 0., 0.
	for _, saves := range []bool{false, true} {
		column := map[bool]string{false: "first_step_s", true: "save_s"}[saves]
		var sizes, spans []float64
		for _, row := range rows {
			if saves == !math.IsNaN(row["save_s"]) {
				sizes, spans = append(sizes, row["checkpoint_bytes"]/1e9), append(spans, row[column])
			}
		}
		base, slope := stat.LinearRegression(sizes, spans, nil, false)
		seconds, perGB = seconds+base, perGB+slope
	}
	if s := spec.Restart.State; math.Abs(s.Seconds-seconds) > 1e-9 || math.Abs(s.PerGB-perGB) > 1e-9 {
		t.Errorf("%+v, measured %v s and %v s for each GB", s, seconds, perGB)
	}
}

func TestModelSetOf(t *testing.T) {
	for gpu, want := range map[string]string{"NVIDIA H100 80GB HBM3": "h100", "gb200": "h100", "A100-SXM4": "v100",
		"": "v100"} {
		if got := ModelSetOf(gpu); got != want {
			t.Errorf("%s: %s", gpu, got)
		}
	}
}

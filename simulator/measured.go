package simulator

import (
	"bufio"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// PairRule is the speed of a load beside another, relative to alone, by the shares of the SMs that the two use alone:
// Base - Own x SM - Both x SM x the other's SM, from 0.05 to 1. A load that uses few SMs waits for something else.
type PairRule struct {
	Base float64 `json:"base"`
	Own  float64 `json:"own_sm"`
	Both float64 `json:"both_sm"`
}

// Speed is the speed of a load of an SM use beside another.
func (r *PairRule) Speed(sm, other float64) float64 {
	return min(1, max(.05, r.Base-r.Own*sm-r.Both*sm*other))
}

// pairSample is a measured speed of a load beside another.
type pairSample struct{ sm, other, speed float64 }

// worstPairs is the condition number above which measured pairs do not determine a rule.
const worstPairs = 1e9

// fitPairs fits a rule by least squares.
func fitPairs(all []pairSample) (*PairRule, error) {
	var rule mat.VecDense
	a, speeds := mat.NewDense(max(1, len(all)), 3, nil), mat.NewVecDense(max(1, len(all)), nil)
	for i, x := range all {
		a.SetRow(i, []float64{1, -x.sm, -x.sm * x.other})
		speeds.SetVec(i, x.speed)
	}
	if len(all) < 3 || mat.Cond(a, 2) > worstPairs || rule.SolveVec(a, speeds) != nil {
		return nil, errors.New("the pairs are too few or too alike to fit a rule for others")
	}
	return &PairRule{rule.AtVec(0), rule.AtVec(1), rule.AtVec(2)}, nil
}

// ReadPairs reads measured speeds of loads in pairs on one GPU: a table of the loads alone, with the columns model,
// memory_mib and sm_util (percent of the SMs), and one of pairs, with model1, model2, speed1 and speed2, relative to
// alone. Speeds of pairs that were not measured are by a rule that is fitted to the measured ones.
func ReadPairs(single, pairs io.Reader, source string) (*PairSpec, error) {
	p := &PairSpec{Source: source}
	at := map[string]int{}
	err := eachRow(single, []string{"model", "memory_mib", "sm_util"}, func(text []string, v []float64) error {
		if _, ok := at[text[0]]; ok {
			return fmt.Errorf("model: %q is there twice", text[0])
		}
		at[text[0]] = len(p.Loads)
		sm := v[2] / 100
		p.Loads = append(p.Loads, ModelLoad{Name: text[0], Util: sm, SM: sm, Mem: v[1], Weight: 1})
		return within("sm_util", v[2], 0, 100)
	})
	if err != nil {
		return nil, fmt.Errorf("loads: %w", err)
	}
	p.Speeds = make([][]float64, len(p.Loads))
	for i := range p.Speeds {
		p.Speeds[i] = slices.Repeat([]float64{-1}, len(p.Loads))
	}
	var measured []pairSample
	columns := []string{"model1", "model2", "speed1", "speed2"}
	err = eachRow(pairs, columns, func(text []string, v []float64) error {
		a, ok1 := at[text[0]]
		b, ok2 := at[text[1]]
		if !ok1 || !ok2 {
			return fmt.Errorf("%s beside %s: is not among the loads alone", text[0], text[1])
		}
		for k, x := range []struct{ i, j int }{{a, b}, {b, a}} {
			speed := v[2+k]
			if err := within(columns[2+k], speed, .001, 2); err != nil {
				return err
			}
			measured = append(measured, pairSample{p.Loads[x.i].SM, p.Loads[x.j].SM, speed})
			if had := p.Speeds[x.i][x.j]; a == b && k == 1 { // the two of one load
				speed = (speed + v[2]) / 2
			} else if had >= 0 {
				return fmt.Errorf("%s beside %s: is there twice", text[0], text[1])
			}
			p.Speeds[x.i][x.j] = min(1, speed) // alone varies, too
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	if p.Rule, err = fitPairs(measured); err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	for i, row := range p.Speeds {
		for k := range row {
			if row[k] < 0 {
				row[k] = p.Rule.Speed(p.Loads[i].SM, p.Loads[k].SM)
			}
		}
	}
	scoreLoads(p.Loads, p.Speeds)
	return p, p.validate()
}

// stateShare is the share of a job's requested memory that is its state: assumed, between a tenth, of sites that give
// 128 GB beside a GPU, and all, of jobs that load their checkpoint at once.
const stateShare = .25

// ReadRestarts reads measured restarts of a process on one GPU: a table with the columns
// checkpoint_bytes, first_step_s (seconds from the start to the first step, of processes that loaded a checkpoint) and
// save_s (of those that wrote one).
func ReadRestarts(in io.Reader) (*RestartState, error) {
	var sizes, spans [2][]float64 // of loads, and of saves
	columns := []string{"checkpoint_bytes", "first_step_s", "save_s"}
	err := eachRow(in, columns, func(text []string, v []float64) error {
		kind, column := 0, 1
		if text[2] != "" {
			kind, column = 1, 2
		}
		sizes[kind], spans[kind] = append(sizes[kind], v[0]/1e9), append(spans[kind], v[column])
		return errors.Join(within("checkpoint_bytes", v[0], 1, 1e15), within(columns[column], v[column], 0, 1e6))
	})
	if err != nil {
		return nil, err
	}
	out := &RestartState{Share: stateShare}
	for i := range sizes {
		if len(sizes[i]) == 0 || slices.Min(sizes[i]) == slices.Max(sizes[i]) {
			return nil, errors.New("it takes two sizes of checkpoint, loaded and saved")
		}
		base, slope := stat.LinearRegression(sizes[i], spans[i], nil, false)
		out.Seconds, out.PerGB = out.Seconds+base, out.PerGB+slope
	}
	out.Seconds = max(0, out.Seconds)
	return out, (&RestartSpec{Steps: []RestartStep{{GPUs: 1}}, State: out}).validate()
}

// eachRow reads the named columns of a CSV with a header; the values of those that are numbers are given beside the
// texts.
func eachRow(r io.Reader, columns []string, each func(text []string, v []float64) error) error {
	in := csv.NewReader(bufio.NewReader(io.LimitReader(r, maxModels)))
	header, err := in.Read()
	if err != nil {
		return err
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		if at[i] = slices.Index(header, name); at[i] < 0 {
			return fmt.Errorf("the header lacks %s", name)
		}
	}
	for {
		row, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text, v := make([]string, len(columns)), make([]float64, len(columns))
		for i := range columns {
			text[i] = row[at[i]]
			if v[i] = math.NaN(); text[i] == "" || strings.HasPrefix(columns[i], "model") {
				continue
			}
			if v[i], err = strconv.ParseFloat(text[i], 64); err != nil {
				line, _ := in.FieldPos(at[i])
				return fmt.Errorf("line %d: %s: %q is not a number", line, columns[i], text[i])
			}
		}
		if err := each(text, v); err != nil {
			line, _ := in.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// The loads of a model set, alone and in pairs on one H100 80GB HBM3: measured for this project.
//
//go:embed h100_single.csv
var h100Single string

//go:embed h100_pairs.csv
var h100Pairs string

// Restarts of a process on it by size of checkpoint.
//
//go:embed h100_restart.csv
var h100Restart string

// ModelSets are the names of the built-in sets of models, the default first.
var ModelSets = []string{"v100", "h100"}

// ModelSet is a built-in set of models by its name: they differ in the speeds of jobs that share a GPU
// and in the cost of restarts of jobs whose memory is known.
func ModelSet(name string) (*ModelSpec, bool) {
	spec := DefaultModelSpec()
	switch name {
	case "v100":
	case "h100":
		pairs, err := ReadPairs(strings.NewReader(h100Single), strings.NewReader(h100Pairs),
			"six training loops on one H100 80GB HBM3, measured for this project; pairs beyond them by SM use")
		if err != nil {
			panic("simulator: h100_pairs.csv: " + err.Error())
		}
		state, err := ReadRestarts(strings.NewReader(h100Restart))
		if err != nil {
			panic("simulator: h100_restart.csv: " + err.Error())
		}
		state.Most = 80
		spec.Pairs, spec.Restart.State = pairs, state
		spec.Restart.Source = "by state: processes on one H100 80GB HBM3 with a local disk, measured for this project, and a " +
			"quarter of the memory assumed to be state; by width: TitanSched"
	default:
		return nil, false
	}
	return spec, true
}

// ModelSetOf is the name of the built-in set for a model of GPU: the H100's for Hopper and later, else the default.
func ModelSetOf(gpu string) string {
	gpu = strings.ToLower(gpu)
	for _, later := range []string{"h100", "h200", "h800", "h20", "gh200", "b100", "b200", "b300", "gb200", "gb300"} {
		if strings.Contains(gpu, later) {
			return "h100"
		}
	}
	return ModelSets[0]
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/schema"
)

func newStudyExportCmd(f *clientFlags) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export SCHEDULER/STUDY",
		Short: "Write a study with its trials as JSON lines",
		Long: `Writes a line for the study and one for each trial, with the fields of autosched.v1's Study and
Trial, to standard output or a file. 'autosched study import' reads it.`,
		Example: "  autosched study export mine/first --out first.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.aboutStudy(cmd, args, func(ctx context.Context, c *client, name string) error {
				study, err := c.studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
				if err != nil {
					return err
				}
				all, err := c.trials(ctx, name, listFlags{})
				if err != nil {
					return err
				}
				write := func(w io.Writer) error {
					if err := printProto(w, study, true); err != nil {
						return err
					}
					for _, t := range all.GetTrials() {
						if err := printProto(w, t, true); err != nil {
							return err
						}
					}
					return nil
				}
				if out == "" {
					return write(cmd.OutOrStdout())
				}
				if err := atomicfile.Write(out, write); err != nil {
					return err
				}
				n := len(all.GetTrials())
				if f.json {
					return schema.Write(cmd.OutOrStdout(), "study-export/v1", map[string]any{"study": name, "trials": n,
						"file": out})
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s written to %s\n", plural(n, "trial"), out)
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default: standard output)")
	return cmd
}

func newStudyImportCmd(f *clientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import SCHEDULER/STUDY FILE",
		Short: "Add the measured trials of a file to a study",
		Long: `Adds the trials that succeeded, failed or were infeasible in FILE (- for standard input) to a study,
outside its budget: the sampler learns from them. FILE is what 'autosched study export' wrote, or
a journal of Optuna with one study, of one objective; its metric becomes that of the study.
Trials that have yet to end, were skipped or pruned are left out, and so are configurations
that the study has already.`,
		Example: "  autosched study import mine/second first.jsonl\n  autosched study import mine/second optuna_journal.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{errors.New("want a study and a FILE")}
			}
			text, err := readText(cmd.InOrStdin(), args[1])
			if err != nil {
				return err
			}
			return f.aboutStudy(cmd, args[:1], func(ctx context.Context, c *client, name string) error {
				study, err := c.studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
				if err != nil {
					return err
				}
				trials, err := readTrials(text, study.GetSpec().GetMetricId())
				if err != nil {
					return fmt.Errorf("%s:%w", args[1], err)
				}
				n, err := c.addTrials(ctx, name, trials)
				if err != nil {
					return fmt.Errorf("%s: after %s: %w", args[1], plural(n, "trial"), err)
				}
				if f.json {
					return schema.Write(cmd.OutOrStdout(), "study-import/v1",
						map[string]any{"study": name, "trials": n, "left_out": len(trials) - n})
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s added to %s, %d left out\n", plural(n, "trial"), shortStudy(name),
					len(trials)-n)
				return nil
			})
		},
	}
	f.addReason(cmd)
	return cmd
}

// addTrials adds those trials to a study that it does not have, and returns their number.
func (c *client) addTrials(ctx context.Context, study string, trials []*pb.Trial) (n int, err error) {
	have, err := c.trials(ctx, study, listFlags{})
	if err != nil {
		return 0, err
	}
	known := map[string]bool{}
	for _, t := range have.GetTrials() {
		known[parametersLine(t)] = true
	}
	var add []*pb.Trial
	for _, t := range trials {
		if known[parametersLine(t)] {
			continue
		}
		known[parametersLine(t)] = true
		one := &pb.Trial{Parameters: t.GetParameters(), State: t.GetState(), Reason: t.GetReason()}
		if t.GetState() == pb.Trial_SUCCEEDED {
			one.FinalMeasurement, one.Reason = t.GetFinalMeasurement(), ""
		}
		add = append(add, one)
	}
	for some := range slices.Chunk(add, trialBatch) {
		req := &pb.BatchCreateTrialsRequest{Parent: study, Trials: some}
		if _, err := c.studies.BatchCreateTrials(ctx, req); err != nil {
			return n, err
		}
		n += len(some)
	}
	return n, nil
}

// trialBatch is how many trials one request adds.
const trialBatch = 1000

// readTrials reads the trials that ended of an export or of Optuna's journal. Errors begin with the line.
func readTrials(text []byte, metric string) ([]*pb.Trial, error) {
	journal := &optunaJournal{metric: metric, trials: map[int]*optunaTrial{}}
	var out []*pb.Trial
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxSpec)
	n := 0
	for n = 1; lines.Scan(); n++ {
		var head struct {
			Schema string `json:"schema"`
			Op     *int   `json:"op_code"`
		}
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		var err error
		switch {
		case head.Op != nil:
			err = journal.read(*head.Op, lines.Bytes())
		case head.Schema == "autosched.study/v1":
		case head.Schema == "autosched.trial/v1":
			t := &pb.Trial{}
			var fields map[string]json.RawMessage
			if err = json.Unmarshal(lines.Bytes(), &fields); err == nil {
				delete(fields, schema.Key)
				plain, _ := json.Marshal(fields)
				err = protojson.Unmarshal(plain, t)
			}
			switch t.GetState() {
			case pb.Trial_SUCCEEDED, pb.Trial_FAILED, pb.Trial_INFEASIBLE:
				out = append(out, t)
			}
		default:
			err = errors.New(`this is neither an export of a study ("schema") nor a journal of Optuna ("op_code")`)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%d: %w", n, err)
	}
	return append(out, journal.ended()...), nil
}

// optunaJournal is what a journal of Optuna (optuna.storages.journal, version 4) has of one study.
type optunaJournal struct {
	metric  string
	studies int
	next    int // the number of the next trial
	trials  map[int]*optunaTrial
}

type optunaTrial struct {
	state  int
	value  *float64
	params map[string]*structpb.Value
}

// The operations and states of Optuna that matter.
const (
	optunaCreateStudy = 0
	optunaCreateTrial = 4
	optunaSetParam    = 5
	optunaSetState    = 6

	optunaComplete = 1
	optunaFail     = 3
)

func (j *optunaJournal) read(op int, line []byte) error {
	var x struct {
		Directions    []int              `json:"directions"`
		Trial         int                `json:"trial_id"`
		State         *int               `json:"state"`
		Value         *float64           `json:"value"`
		Values        []float64          `json:"values"`
		Param         string             `json:"param_name"`
		Internal      float64            `json:"param_value_internal"`
		Distribution  string             `json:"distribution"`
		Params        map[string]float64 `json:"params"`
		Distributions map[string]string  `json:"distributions"`
	}
	if err := json.Unmarshal(line, &x); err != nil {
		return err
	}
	if len(x.Values) == 1 {
		x.Value = &x.Values[0]
	}
	switch op {
	case optunaCreateStudy:
		if j.studies++; j.studies > 1 || len(x.Directions) > 1 {
			return errors.New("the journal has several studies or objectives; only one of one objective can be read")
		}
		return nil
	case optunaCreateTrial:
		t := &optunaTrial{params: map[string]*structpb.Value{}, value: x.Value}
		j.trials[j.next] = t
		j.next++
		if x.State != nil {
			t.state = *x.State
		}
		for id, v := range x.Params {
			if err := t.set(id, v, x.Distributions[id]); err != nil {
				return err
			}
		}
		return nil
	case optunaSetParam, optunaSetState:
	default:
		return nil
	}
	t := j.trials[x.Trial]
	if t == nil {
		return fmt.Errorf("trial %d was not created", x.Trial)
	}
	if op == optunaSetParam {
		return t.set(x.Param, x.Internal, x.Distribution)
	}
	if x.State != nil {
		t.state = *x.State
	}
	if x.Value != nil {
		t.value = x.Value
	}
	return nil
}

// set notes a parameter, of which the journal has the place among the choices of a categorical one.
func (t *optunaTrial) set(id string, v float64, distribution string) error {
	var d struct {
		Name       string `json:"name"`
		Attributes struct {
			Choices []any `json:"choices"`
		} `json:"attributes"`
	}
	if err := json.Unmarshal([]byte(distribution), &d); err != nil {
		return fmt.Errorf("distribution of %s: %w", id, err)
	}
	if !strings.HasPrefix(d.Name, "Categorical") {
		t.params[id] = structpb.NewNumberValue(v)
		return nil
	}
	at := int(v)
	if at < 0 || at >= len(d.Attributes.Choices) {
		return fmt.Errorf("%s: there is no choice %d of %d", id, at, len(d.Attributes.Choices))
	}
	value, err := structpb.NewValue(d.Attributes.Choices[at])
	t.params[id] = value
	return err
}

// ended are the trials that were completed or failed.
func (j *optunaJournal) ended() (out []*pb.Trial) {
	for _, k := range slices.Sorted(maps.Keys(j.trials)) {
		t := j.trials[k]
		one := &pb.Trial{Parameters: t.params}
		switch {
		case t.state == optunaComplete && t.value != nil:
			one.State = pb.Trial_SUCCEEDED
			one.FinalMeasurement = &pb.Measurement{Metrics: map[string]float64{j.metric: *t.value}}
		case t.state == optunaFail:
			one.State, one.Reason = pb.Trial_FAILED, fmt.Sprintf("trial %d failed in Optuna", k)
		default:
			continue
		}
		out = append(out, one)
	}
	return out
}

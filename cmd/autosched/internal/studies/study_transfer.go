package studies

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/study/optuna"
)

func newStudyExportCmd(f *cli.ClientFlags) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export SCHEDULER/STUDY",
		Short: "Write a study with its trials as JSON lines",
		Long: `Writes a line for the study and one for each trial, with the fields of autosched.v1's Study and
Trial, to standard output or a file. 'autosched study import' reads it.`,
		Example: "  autosched study export mine/first --out first.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				study, err := c.Studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
				if err != nil {
					return err
				}
				all, err := cli.ListTrials(ctx, c, name, cli.ListFlags{})
				if err != nil {
					return err
				}
				write := func(w io.Writer) error {
					if err := cli.PrintProto(w, study, true); err != nil {
						return err
					}
					for _, t := range all.GetTrials() {
						if err := cli.PrintProto(w, t, true); err != nil {
							return err
						}
					}
					return nil
				}
				if out == "" || out == "-" {
					return write(cmd.OutOrStdout())
				}
				if err := atomicfile.Write(out, write); err != nil {
					return err
				}
				n := len(all.GetTrials())
				if f.JSON {
					return schema.Write(cmd.OutOrStdout(), "study-export/v1", map[string]any{"study": name, "trials": n,
						"file": out})
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s written to %s\n", units.Plural(n, "trial"), out)
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, - for standard output (default)")
	return cmd
}

func newStudyImportCmd(f *cli.ClientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import SCHEDULER/STUDY FILE",
		Short: "Add the measured trials of a file to a study",
		Long: `Adds the trials that succeeded, failed or were infeasible in FILE (- for standard input) to a study,
outside its budget: the sampler learns from them. FILE is what 'autosched study export' wrote, or
a journal of Optuna with one study, of one objective; its metric becomes that of the study, which has
to minimise or maximise as FILE does.
Trials that have yet to end, were skipped or pruned are left out, and so are configurations
that the study has already.`,
		Example: "  autosched study import mine/second first.jsonl\n  autosched study import mine/second optuna_journal.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usage(errors.New("want a study and a FILE"))
			}
			in := cmd.InOrStdin()
			if args[1] != "-" {
				file, err := os.Open(filepath.Clean(args[1]))
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			return f.Named(cmd, args[:1], studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				study, err := c.Studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
				if err != nil {
					return err
				}
				trials, err := readTrials(in, study)
				if err != nil {
					return fmt.Errorf("%s:%w", args[1], err)
				}
				n, err := addTrials(ctx, c, study, trials)
				if bad := (*lineError)(nil); errors.As(err, &bad) {
					return fmt.Errorf("%s:%w; %s added before", args[1], err, units.Plural(n, "trial"))
				} else if err != nil {
					return err
				}
				if f.JSON {
					return schema.Write(cmd.OutOrStdout(), "study-import/v1",
						map[string]any{"study": name, "trials": n, "left_out": len(trials) - n})
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s added to %s, %d left out\n", units.Plural(n, "trial"),
					cli.ShortStudy(name),
					len(trials)-n)
				return nil
			})
		},
	}
	f.AddReason(cmd)
	return cmd
}

// fileTrial is a trial of a file, with the line that it begins on.
type fileTrial struct {
	*pb.Trial
	line int
}

// addTrials adds the trials that a study lacks and returns their number.
func addTrials(ctx context.Context, c *cli.Client, study *pb.Study, trials []fileTrial) (n int, err error) {
	have, err := cli.ListTrials(ctx, c, study.GetName(), cli.ListFlags{})
	if err != nil {
		return 0, err
	}
	// Missing parameters are at their defaults, as the service adds them.
	key := func(t *pb.Trial) string {
		whole := &pb.Trial{Parameters: map[string]*structpb.Value{}}
		for _, p := range study.GetSpec().GetParameters() {
			whole.Parameters[p.GetParameterId()] = p.GetDefaultValue()
		}
		maps.Copy(whole.GetParameters(), t.GetParameters())
		return cli.ParametersLine(whole)
	}
	known := map[string]bool{}
	for _, t := range have.GetTrials() {
		known[key(t)] = true
	}
	var add []fileTrial
	for _, t := range trials {
		if known[key(t.Trial)] {
			continue
		}
		known[key(t.Trial)] = true
		one := &pb.Trial{Parameters: t.GetParameters(), State: t.GetState(), Reason: t.GetReason()}
		if t.GetState() == pb.Trial_SUCCEEDED {
			one.FinalMeasurement, one.Reason = t.GetFinalMeasurement(), ""
		}
		add = append(add, fileTrial{one, t.line})
	}
	for some := range slices.Chunk(add, trialBatch) {
		req := &pb.BatchCreateTrialsRequest{Parent: study.GetName()}
		for _, t := range some {
			req.Trials = append(req.Trials, t.Trial)
		}
		if _, err := c.Studies.BatchCreateTrials(ctx, req); err != nil {
			if m := trialField.FindStringSubmatch(status.Convert(err).Message()); m != nil {
				if i, bad := strconv.Atoi(m[1]); bad == nil && i < len(some) {
					err = &lineError{some[i].line, m[2]}
				}
			}
			return n, err
		}
		n += len(some)
	}
	return n, nil
}

// trialField matches a violation in a trial of a request.
var trialField = regexp.MustCompile(`^trials\[(\d+)\]\.(.*)`)

// lineError is the error of a line.
type lineError struct {
	line int
	why  string
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %s", e.line, e.why) }

// trialBatch is how many trials one request adds.
const trialBatch = 1000

// readTrials reads the trials that ended of an export or of Optuna's journal, for a study. Errors begin with the line.
func readTrials(in io.Reader, study *pb.Study) ([]fileTrial, error) {
	maximize := study.GetSpec().GetGoal() == pb.StudySpec_MAXIMIZE
	var journal optuna.Journal
	var out []fileTrial
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, cli.MaxSpecBytes)
	n := 0
	for n = 1; lines.Scan(); n++ {
		line := optuna.JSON(lines.Bytes())
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var head struct {
			Schema string `json:"schema"`
			Op     *int   `json:"op_code"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		var err error
		switch {
		case head.Op != nil:
			err = journal.Add(line, n)
			if max, ok := journal.Maximize(); err == nil && ok {
				err = sameGoal(max, maximize)
			}
		case head.Schema == "autosched.study/v1":
			s := &pb.Study{}
			if err = unmarshalLine(line, s); err == nil {
				err = sameGoal(s.GetSpec().GetGoal() == pb.StudySpec_MAXIMIZE, maximize)
			}
		case head.Schema == "autosched.trial/v1":
			t := &pb.Trial{}
			err = unmarshalLine(line, t)
			switch t.GetState() {
			case pb.Trial_SUCCEEDED, pb.Trial_FAILED, pb.Trial_INFEASIBLE:
				out = append(out, fileTrial{t, n})
			}
		default:
			err = errors.New(`this is neither an export of a study ("schema") nor a journal of Optuna ("op_code")`)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%d: the line has more than %d MiB", n, cli.MaxSpecBytes>>20)
	} else if err != nil {
		return nil, fmt.Errorf("%d: %w", n, err)
	}
	ended, err := endedTrials(&journal, study.GetSpec().GetMetricId())
	return append(out, ended...), err
}

// unmarshalLine reads a line that cli.PrintProto wrote.
func unmarshalLine(line []byte, m proto.Message) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return err
	}
	delete(fields, schema.Key)
	plain, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(plain, m)
}

// sameGoal refuses measurements that are better the other way round.
func sameGoal(file, study bool) error {
	verbs := map[bool]string{false: "minimised", true: "maximised"}
	if file != study {
		return fmt.Errorf("the metric of the file is %s, that of the study is %s: create a study that is alike",
			verbs[file], verbs[study])
	}
	return nil
}

// endedTrials converts the trials of a journal of Optuna, whose objective is a metric of a study.
func endedTrials(j *optuna.Journal, metric string) ([]fileTrial, error) {
	var out []fileTrial
	for _, t := range j.Ended() {
		one := &pb.Trial{Parameters: map[string]*structpb.Value{}, State: pb.Trial_FAILED, Reason: t.Failed}
		for id, v := range t.Params {
			value, err := structpb.NewValue(v)
			if err != nil {
				return nil, fmt.Errorf("%d: %s: %w", t.Line, id, err)
			}
			one.Parameters[id] = value
		}
		if t.Failed == "" {
			one.State = pb.Trial_SUCCEEDED
			one.FinalMeasurement = &pb.Measurement{Metrics: map[string]float64{metric: t.Value}}
		}
		out = append(out, fileTrial{one, t.Line})
	}
	return out, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func newSchedulerCmd() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Register schedulers with the service and look at them",
	}
	f.add(cmd)
	cmd.AddCommand(newSchedulerRegisterCmd(&f), newSchedulerGetCmd(&f), newSchedulerListCmd(&f), newSchedulerUpdateCmd(&f),
		newSchedulerPauseCmd(&f), newSchedulerResumeCmd(&f), newSchedulerSpacesCmd(&f),
		newSchedulerValidateCmd(&f), newSchedulerDiffCmd(&f))
	return cmd
}

type registerFlags struct {
	builtin      string
	id           string
	nodes        int32
	gpusPerNode  int32
	mode         string
	objective    string
	interval     time.Duration
	validateOnly bool
	requestID    string
}

func newSchedulerRegisterCmd(f *clientFlags) *cobra.Command {
	var r registerFlags
	cmd := &cobra.Command{
		Use:   "register [FILE]",
		Short: "Register a scheduler: what may be tuned, on which cluster, and what for",
		Long: `Registers a scheduler with the service and publishes its default values as
revision 1. Either name a built-in kind of scheduler with --builtin, or give a
FILE (YAML or JSON, - for standard input) with the fields of autosched.v1's
Scheduler; flags override it. What is left out is as built in:

  name: schedulers/prod
  spec:
    scheduler_type: tiresias
    mode: AUTO                    # or RECOMMEND, the default
    cluster: {nodes: 100, gpus_per_node: 8}
    objective: {metric_id: avg_jct}
    rollout: {update_interval: 3600s, min_controllable_ratio: 1.05}
    parameters:                   # narrower than the built-in
      - parameter_id: queues
        integer_value_spec: {min_value: 3, max_value: 5}
        default_value: 3

The answer of 'autosched scheduler get NAME --json' is such a file. All bad
fields are named at once; --validate-only stores nothing.

Modes: recommend records better configurations as proposals, auto offers them
to the scheduler.`,
		Example: `  autosched scheduler register --builtin tiresias --nodes 100 --gpus-per-node 8
  autosched scheduler register prod.yaml --validate-only
  autosched scheduler get prod --json | autosched scheduler register - --id prod-2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("want one file, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := r.request(cmd, args)
			if err != nil {
				return err
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.CreateScheduler(ctx, req)
				if err != nil {
					return err
				}
				if r.validateOnly && !f.json {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid; nothing was stored\n", got.GetName())
					return err
				}
				return f.showScheduler(cmd, got)
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&r.builtin, "builtin", "", "built-in kind of scheduler, such as tiresias")
	fl.StringVar(&r.id, "id", "", "id of the scheduler (default: the file's name field, or the kind)")
	fl.Int32Var(&r.nodes, "nodes", 0, "nodes of the cluster")
	fl.Int32Var(&r.gpusPerNode, "gpus-per-node", 0, "GPUs of a node")
	fl.StringVar(&r.mode, "mode", "", "recommend or auto")
	fl.StringVar(&r.objective, "objective", "", "metric to improve, such as avg_jct, or a goal, such as 'avg_jct subject to p99_jct<=1.1*incumbent' (docs/tune.md)")
	fl.DurationVar(&r.interval, "interval", 0, "event time between tuning rounds, such as 1h")
	fl.BoolVar(&r.validateOnly, "validate-only", false, "check only, store nothing")
	fl.StringVar(&r.requestID, "request-id", "", "makes it safe to send the same registration again")
	return cmd
}

// request builds the registration from file and flags.
func (r *registerFlags) request(cmd *cobra.Command, args []string) (*pb.CreateSchedulerRequest, error) {
	s := &pb.Scheduler{}
	switch {
	case len(args) == 0 && r.builtin == "":
		return nil, usageError{errors.New("name a FILE, or a built-in kind of scheduler with --builtin")}
	case len(args) == 1:
		var err error
		if s, err = readScheduler(cmd.InOrStdin(), args[0]); err != nil {
			return nil, err
		}
	}
	if s.Spec == nil {
		s.Spec = &pb.SchedulerSpec{}
	}
	spec := s.Spec
	if r.builtin != "" {
		spec.SchedulerType = r.builtin
	}
	if spec.Cluster == nil {
		spec.Cluster = &pb.Cluster{}
	}
	if r.nodes != 0 {
		spec.Cluster.Nodes = r.nodes
	}
	if r.gpusPerNode != 0 {
		spec.Cluster.GpusPerNode = r.gpusPerNode
	}
	if len(args) == 0 && (r.nodes == 0 || r.gpusPerNode == 0) {
		return nil, usageError{errors.New("--builtin needs the cluster: --nodes and --gpus-per-node")}
	}
	if mode, err := modeOf(r.mode); err != nil {
		return nil, err
	} else if r.mode != "" {
		spec.Mode = mode
	}
	if r.objective != "" {
		spec.Objective = objectiveSpec(r.objective)
	}
	if r.interval != 0 {
		if spec.Rollout == nil {
			spec.Rollout = &pb.RolloutPolicy{}
		}
		spec.Rollout.UpdateInterval = durationpb.New(r.interval)
	}
	id := r.id
	if id == "" {
		id = shortName(s.GetName())
	}
	if id == "" {
		id = spec.SchedulerType
	}
	return &pb.CreateSchedulerRequest{Scheduler: s, SchedulerId: id, ValidateOnly: r.validateOnly, RequestId: r.requestID}, nil
}

// maxSpec bounds a specification file.
const maxSpec = 4 << 20

// readScheduler reads a YAML or JSON file; JSON is YAML.
func readScheduler(stdin io.Reader, path string) (*pb.Scheduler, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(filepath.Clean(path))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(text) > maxSpec {
		return nil, fmt.Errorf("%s: is larger than %d MiB", path, maxSpec>>20)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tree, ok := document.(map[string]any)
	switch {
	case document == nil:
		return nil, fmt.Errorf("%s: is empty: it needs the fields of a Scheduler, such as name and spec", path)
	case !ok:
		return nil, fmt.Errorf("%s: is not a document with fields, such as name and spec", path)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &pb.Scheduler{}
	if err := protojson.Unmarshal(asJSON, s); err != nil {
		// protojson varies a space in its texts on purpose.
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return s, nil
}

func newSchedulerGetCmd(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a scheduler: its space, its cluster and what the last round decided",
		Long: `Shows what is registered of a scheduler (parameters, rules, cluster, when rounds
run and what they ask for), the latest event's time, and what the last tuning
round decided.`,
		Example:           "  autosched scheduler get tiresias\n  autosched scheduler get tiresias --json",
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
				if err != nil {
					return err
				}
				return f.showScheduler(cmd, got)
			})
		},
	}
}

func newSchedulerListCmd(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the registered schedulers",
		Long: `Lists the schedulers that are registered with the service, with their mode,
their cluster and how many events have come in.`,
		Example: "  autosched scheduler list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				all := &pb.ListSchedulersResponse{}
				for page := ""; ; {
					got, err := c.tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{PageSize: 1000, PageToken: page})
					if err != nil {
						return err
					}
					all.Schedulers = append(all.Schedulers, got.GetSchedulers()...)
					if page = got.GetNextPageToken(); page == "" {
						break
					}
				}
				if f.json {
					return printProto(cmd.OutOrStdout(), all, false)
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "NAME\tKIND\tMODE\tCLUSTER\tREVISION\tEVENTS\tEVENT TIME")
				for _, s := range all.GetSchedulers() {
					spec := s.GetSpec()
					fmt.Fprintf(w, "%s\t%s\t%s\t%dx%d\t%s\t%d\t%s\n", shortName(s.GetName()), spec.GetSchedulerType(), modeWord(s),
						spec.GetCluster().GetNodes(), spec.GetCluster().GetGpusPerNode(), orDash(shortName(s.GetCurrentConfiguration())),
						s.GetStatus().GetEventCount(), eventTime(s))
				}
				return w.Flush()
			})
		},
	}
}

// modeWord is a scheduler's mode, and whether its tuning is paused.
func modeWord(s *pb.Scheduler) string {
	word := enumWord(s.GetSpec().GetMode())
	if s.GetState() == pb.Scheduler_PAUSED {
		word += ", paused"
	}
	return word
}

func eventTime(s *pb.Scheduler) string {
	if t := s.GetStatus().GetEventTime(); t != nil {
		return t.AsTime().Format(time.RFC3339)
	}
	return "-"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// objectiveSpec is what the service is told to improve: a metric, or a goal.
func objectiveSpec(text string) *pb.ObjectiveSpec {
	if strings.ContainsAny(text, " *+<") {
		return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: text}}
	}
	return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: text}}
}

func printScheduler(out io.Writer, s *pb.Scheduler) error {
	spec, st := s.GetSpec(), s.GetStatus()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "scheduler\t%s (%s, %s)\n", shortName(s.GetName()), spec.GetSchedulerType(), modeWord(s))
	fmt.Fprintf(w, "cluster\t%d nodes x %d GPUs\n", spec.GetCluster().GetNodes(), spec.GetCluster().GetGpusPerNode())
	r := spec.GetRollout()
	fmt.Fprintf(w, "objective\t%s, every %v, from a controllable ratio of %v\n", spec.GetObjective().GetMetricId()+spec.GetObjective().GetGoal(), r.GetUpdateInterval().AsDuration(), r.GetMinControllableRatio())
	fmt.Fprintf(w, "current\trevision %s\n", orDash(shortName(s.GetCurrentConfiguration())))
	fmt.Fprintf(w, "events\t%d, until %s\n", st.GetEventCount(), eventTime(s))
	if st.GetLastDecision() != "" {
		fmt.Fprintf(w, "last round\t%s\n", st.GetLastDecision())
	}
	if st.GetLastError() != "" {
		fmt.Fprintf(w, "last error\t%s\n", st.GetLastError())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "PARAMETER\tDEFAULT\tUNIT\tDESCRIPTION")
	for _, p := range spec.GetParameters() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.GetParameterId(), valueText(p.GetDefaultValue()), orDash(p.GetUnit()), p.GetDescription())
	}
	return w.Flush()
}

// valueText is a value as people write it.
func valueText(v *structpb.Value) string {
	if v == nil {
		return "-"
	}
	if n, ok := v.GetKind().(*structpb.Value_NumberValue); ok {
		return strconv.FormatFloat(n.NumberValue, 'f', -1, 64)
	}
	if l := v.GetListValue(); l != nil {
		if len(l.GetValues()) == 0 {
			return "none"
		}
		parts := make([]string, len(l.GetValues()))
		for i, one := range l.GetValues() {
			parts[i] = valueText(one)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v.AsInterface())
}

// sortedKeys are a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

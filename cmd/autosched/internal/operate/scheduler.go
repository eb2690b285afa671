// Package operate has the commands that operate schedulers of the service.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func newSchedulerCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Register, operate and connect schedulers of the service",
	}
	for _, sub := range []*cobra.Command{newSchedulerRegisterCmd(&f), newSchedulerGetCmd(&f), newSchedulerListCmd(&f),
		newSchedulerUpdateCmd(&f), newSchedulerRevisionsCmd(&f),
		newSchedulerPauseCmd(&f), newSchedulerResumeCmd(&f), newSchedulerDeleteCmd(&f),
		newSchedulerUndeleteCmd(&f), newSchedulerSpacesCmd(&f),
		newSchedulerValidateCmd(&f), newSchedulerEffectsCmd(&f), newForecastQualityCmd(&f), newSchedulerGainCmd(&f),
		newSchedulerEnergyCmd(&f), newLoadCmd(&f), newTenantsCmd(&f), newTimelineCmd(&f)} {
		f.Add(sub)
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(newConfigCmd(), newRoundsCmd(), newWorkloadCmd(), newOperationsCmd(), newWhatIfCmd(), newFreezeCmd(),
		newUnfreezeCmd(), newMetricsCmd(), newJobCmd())
	return cmd
}

// registerFlags are the flags of scheduler register.
type registerFlags struct {
	builtin      string
	space        string
	current      cli.ConfigFlags
	id           string
	nodes        int32
	cluster      string // file of its description
	gpusPerNode  int32
	mode         string
	objective    string
	interval     time.Duration
	validateOnly bool
}

func newSchedulerRegisterCmd(f *cli.ClientFlags) *cobra.Command {
	var r registerFlags
	cmd := &cobra.Command{
		Use:   "register [FILE]",
		Short: "Register a scheduler: its parameters, cluster and objective",
		Long: `Registers a scheduler with the service, and publishes the configuration that it runs
now as revision 1, with which rounds begin: the defaults, or what --set, --preset or
--config name. Either name a built-in kind of scheduler with --builtin, or give a FILE
(YAML or JSON, - for standard input) with the fields of autosched.v1's Scheduler; flags
override it. Missing fields are those of the built-in kind:

  name: schedulers/prod
  spec:
    scheduler_type: tiresias
    mode: AUTO                    # or RECOMMEND, the default
    cluster: {nodes: 100, gpus_per_node: 8}
    objective: {metric_id: avg_jct}
    rollout:
      update_interval: 3600s
      guard: 0.1
      max_changes_per_day: 6
      quiet_hours:                # in which tuning changes nothing
        - {start: "22:00", end: "06:00", time_zone: Europe/Berlin}
    parameters:                   # narrower than the built-in
      - parameter_id: queues
        integer_value_spec: {min_value: 3, max_value: 5}
        default_value: 3

The output of 'autosched scheduler get NAME --json' is such a file. All invalid
fields are reported at once; --validate-only stores nothing.

A scheduler that is not simulated has the type external, its own parameters, and the
metric that its studies measure as its objective: --space names a file with parameters
and rules, as 'autosched scheduler validate' describes it. No rounds are decided for it;
studies tune it (docs/studies.md).

Modes: recommend records better configurations as proposals, auto offers them
to the scheduler.`,
		Example: `  autosched scheduler register --builtin tiresias --nodes 100 --gpus-per-node 8
  autosched scheduler register --builtin tiresias --nodes 100 --gpus-per-node 8 --set starve_limit=8h --mode auto
  autosched scheduler register prod.yaml --validate-only
  autosched scheduler register --builtin slurm --cluster site/cluster.json --config site/current.yaml
  autosched scheduler register --space space.yaml --id mine --objective p95_wait --nodes 10 --gpus-per-node 8
  autosched scheduler get prod --json | autosched scheduler register - --id prod-2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(fmt.Errorf("want one file, not %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := r.request(cmd, args)
			if err != nil {
				return err
			}
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Tuning.CreateScheduler(ctx, req)
				if err != nil {
					return err
				}
				if r.validateOnly {
					return f.Say(cmd, got, "%s is valid; nothing was stored", got.GetName())
				}
				return showScheduler(f, cmd, got)
			})
		},
	}
	r.add(cmd)
	f.AddReason(cmd)
	return cmd
}

func (r *registerFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&r.builtin, "builtin", "", "built-in kind of scheduler, such as tiresias")
	fl.StringVar(&r.space, "space", "", "")
	cmd.MarkFlagsMutuallyExclusive("builtin", "space")
	r.current.Add(cmd)
	fl.StringVar(&r.id, "id", "", "")
	fl.StringVar(&r.cluster, "cluster", "", "")
	fl.Int32Var(&r.nodes, "nodes", 0, "")
	fl.Int32Var(&r.gpusPerNode, "gpus-per-node", 0, "")
	fl.StringVar(&r.mode, "mode", "", "")
	fl.StringVar(&r.objective, "objective", "", "")
	fl.DurationVar(&r.interval, "interval", 0, "")
	fl.BoolVar(&r.validateOnly, "validate-only", false, "")
}

// request builds the registration from file and flags.
func (r *registerFlags) request(cmd *cobra.Command, args []string) (*pb.CreateSchedulerRequest, error) {
	s := &pb.Scheduler{}
	switch {
	case len(args) == 0 && r.builtin == "" && r.space == "":
		return nil,
			cli.Usage(errors.New("name a FILE, a built-in kind of scheduler with --builtin, or the parameters " +
				"of one that is not simulated with --space"))
	case r.space != "" && (len(args) > 0 || r.id == "" || r.objective == ""):
		return nil, cli.Usage(errors.New("--space takes no FILE, and needs --id and --objective"))
	case len(args) == 1:
		var err error
		if s, err = cli.ReadScheduler(cmd.InOrStdin(), args[0]); err != nil {
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
	if r.space != "" {
		text, err := cli.ReadText(cmd.InOrStdin(), r.space)
		if err != nil {
			return nil, err
		}
		sp, err := space.Load(text)
		if err != nil {
			return nil, cli.ListViolations(r.space, err)
		}
		spec.SchedulerType = controller.External
		spec.Parameters, spec.Constraints = convert.Parameters(sp.Default()), convert.Constraints(sp)
	}
	if r.current.Given() {
		if len(spec.Parameters) > 0 {
			return nil,
				cli.Usage(fmt.Errorf("--set, --preset and --config: %s has parameters; change their default_value "+
					"there", append(args, r.space)[0]))
		}
		s, err := schedulers.Find(spec.SchedulerType)
		if err != nil {
			return nil, cli.Usage(err)
		}
		c, err := r.current.Config(s)
		if err != nil {
			return nil, err
		}
		spec.Parameters = convert.Parameters(c)
	}
	if spec.Cluster == nil {
		spec.Cluster = &pb.Cluster{}
	}
	if r.cluster != "" {
		text, err := os.ReadFile(r.cluster)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--cluster: %w", err))
		}
		c, err := workload.ParseCluster(text)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--cluster: %s: %w", r.cluster, err))
		}
		spec.Cluster = convert.ClusterToProto(c)
	}
	if r.nodes != 0 {
		spec.Cluster.Nodes = r.nodes
	}
	if r.gpusPerNode != 0 {
		spec.Cluster.GpusPerNode = r.gpusPerNode
	}
	if len(args) == 0 && r.cluster == "" && (r.nodes == 0 || r.gpusPerNode == 0) {
		return nil,
			cli.Usage(errors.New("--builtin and --space need the cluster: --nodes and --gpus-per-node, or --cluster"))
	}
	if mode, err := cli.ParseMode(r.mode); err != nil {
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
		id = cli.ShortName(s.GetName())
	}
	if id == "" {
		id = spec.SchedulerType
	}
	return &pb.CreateSchedulerRequest{Scheduler: s, SchedulerId: id, ValidateOnly: r.validateOnly}, nil
}

func newSchedulerGetCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a scheduler: its space, its cluster and its last decision",
		Long: `Shows a scheduler's registration (parameters, rules, cluster, rounds), the time
of its latest event, the decision of the last tuning round, and the values of parameters that run.`,
		Example:           "  autosched scheduler get tiresias\n  autosched scheduler get tiresias --json",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
				if err != nil {
					return err
				}
				var runs map[string]*structpb.Value
				if got.GetCurrentConfiguration() != "" && !f.JSON {
					current, err := getConfiguration(ctx, c, name, 0)
					if err != nil {
						return err
					}
					runs = current.GetParameters()
				}
				return f.Show(cmd, got, func(w io.Writer) error { return printScheduler(w, got, runs) })
			})
		},
	}
}

func newSchedulerListCmd(f *cli.ClientFlags) *cobra.Command {
	var withDeleted bool
	var l cli.ListFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the registered schedulers",
		Long: `Lists the schedulers that are registered with the service, with their mode,
their cluster and the number of ingested events.`,
		Example: "  autosched scheduler list\n  autosched scheduler list --filter 'spec.mode = AUTO AND labels.team = research'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				all, err := cli.Pages(func(page string) (*pb.ListSchedulersResponse, error) {
					return c.Tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{PageSize: 1000, PageToken: page,
						ShowDeleted: withDeleted, Filter: l.Filter, OrderBy: l.OrderBy})
				})
				return f.Answer(cmd, all, err, func(w io.Writer) error { return printSchedulers(w, all) })
			})
		},
	}
	l.Add(cmd, true)
	cmd.Flags().BoolVar(&withDeleted, "deleted", false, "list deleted schedulers that are not purged yet, too")
	return cmd
}

// objectiveSpec is the objective of rounds: a metric, or a goal.
func objectiveSpec(text string) *pb.ObjectiveSpec {
	if strings.ContainsAny(text, " *+<") {
		return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: text}}
	}
	return &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: text}}
}

func newFreezeCmd() *cobra.Command {
	var f cli.ClientFlags
	var all bool
	var reason, until string
	cmd := &cobra.Command{
		Use:   "freeze [SCHEDULER]",
		Short: "Keep the service from changing what a scheduler, or all of them, run",
		Long: `Freezes the configuration of a scheduler, or with --all of every scheduler that is
registered now, until 'autosched scheduler unfreeze' or --until, an event time. The service
changes nothing by itself: rounds are decided and their decision says that it was
frozen, in mode recommend they propose, and what did worse than promised is named in
log and status, with the way back as a proposal. 'autosched scheduler config approve' and
'scheduler config rollback' work as before, and so do acknowledgements.`,
		Example: `  autosched scheduler freeze tiresias --reason 'benchmark of the new nodes' --until 2026-11-24T08:00:00Z
  autosched scheduler freeze --all --reason 'end of the quarter'
  autosched scheduler unfreeze --all`,
		Args:              oneOrAll(&all),
		ValidArgsFunction: cli.CompleteSchedulers(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.FreezeTuningRequest{Name: oneName(args), Reason: reason, Etag: f.Etag,
				ValidateOnly: f.ValidateOnly}
			if reason == "" {
				return cli.Usage(errors.New("--reason is required: say why, for those who find it frozen"))
			}
			var err error
			if req.ExpireTime, err = cli.ParseInstant("--until", until); err != nil {
				return err
			}
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Tuning.FreezeTuning(ctx, req)
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					return printFrozen(&f, w, "frozen", got.GetSchedulers())
				})
			})
		},
	}
	f.Add(cmd)
	f.AddEtag(cmd)
	f.AddValidateOnly(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "")
	cmd.Flags().StringVar(&reason, "reason", "", "")
	cmd.Flags().StringVar(&until, "until", "", "")
	return cmd
}

func newUnfreezeCmd() *cobra.Command {
	var f cli.ClientFlags
	var all bool
	cmd := &cobra.Command{
		Use:               "unfreeze [SCHEDULER]",
		Short:             "End a freeze of a scheduler, or of all of them",
		Long:              `Ends what 'autosched scheduler freeze' began. The next round may change the configuration again.`,
		Example:           "  autosched scheduler unfreeze tiresias\n  autosched scheduler unfreeze --all",
		Args:              oneOrAll(&all),
		ValidArgsFunction: cli.CompleteSchedulers(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Tuning.UnfreezeTuning(ctx, &pb.UnfreezeTuningRequest{Name: oneName(args), Etag: f.Etag,
					ValidateOnly: f.ValidateOnly})
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					return printFrozen(&f, w, "not frozen", got.GetSchedulers())
				})
			})
		},
	}
	f.Add(cmd)
	f.AddEtag(cmd)
	f.AddValidateOnly(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "")
	return cmd
}

// oneOrAll takes a scheduler, or none with --all.
func oneOrAll(all *bool) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || *all == (len(args) == 1) {
			return cli.Usage(errors.New("want one SCHEDULER, or --all"))
		}
		return nil
	}
}

// oneName is the name of the scheduler, or of all of them if none is given.
func oneName(args []string) string {
	if len(args) == 0 {
		return "schedulers/-"
	}
	return "schedulers/" + cli.ShortName(args[0])
}

func printFrozen(f *cli.ClientFlags, w io.Writer, what string, all []*pb.Scheduler) error {
	for _, s := range all {
		if f.ValidateOnly {
			_, err := fmt.Fprintf(w, "%s would be %s; nothing was stored\n", cli.ShortName(s.GetName()), what)
			if err != nil {
				return err
			}
			continue
		}
		_, err := fmt.Fprintf(w, "%s is %s; it keeps revision %s\n", cli.ShortName(s.GetName()), what,
			cmp.Or(cli.ShortName(s.GetCurrentConfiguration()), "-"))
		if err != nil {
			return err
		}
	}
	return nil
}

func newSchedulerRevisionsCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revisions NAME",
		Short: "List the revisions of a scheduler: its spaces, clusters and objectives",
		Long: `Lists the revisions of a scheduler, newest first: every change of its parameters,
constraints, cluster or objective is one. With --json they are whole. 'autosched admin audit
list NAME' shows who changed what.`,
		Example:           "  autosched scheduler revisions tiresias",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, cli.SchedulerArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.ListSchedulerRevisionsResponse, error) {
				return cli.Pages(func(page string) (*pb.ListSchedulerRevisionsResponse, error) {
					return c.Tuning.ListSchedulerRevisions(ctx,
						&pb.ListSchedulerRevisionsRequest{Parent: name, PageSize: 1000, PageToken: page})
				})
			}, printSchedulerRevisions),
	}
}

func printSchedulerRevisions(out io.Writer, all *pb.ListSchedulerRevisionsResponse) error {
	w := table.New(out, "REVISION\tSINCE\tCLUSTER\tOBJECTIVE\tSPACE")
	for _, r := range all.GetSchedulerRevisions() {
		if r.GetError() != "" {
			fmt.Fprintf(w, "%d\t-\t-\t-\t%s\n", r.GetRevision(), r.GetError())
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%dx%d\t%s\t%s, %s\n", r.GetRevision(), cli.Instant(r.GetCreateTime()),
			r.GetCluster().GetNodes(), r.GetCluster().GetGpusPerNode(),
			r.GetObjective().GetMetricId()+r.GetObjective().GetGoal(),
			units.Plural(len(r.GetParameters()), "parameter"), units.Plural(len(r.GetConstraints()), "rule"))
	}
	return w.Flush()
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSchedulerCmd()}
}

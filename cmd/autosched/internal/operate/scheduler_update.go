package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// updateFlags are the flags of scheduler update.
type updateFlags struct {
	displayName  string
	labels       map[string]string
	spec         string
	nodes        int32
	gpusPerNode  int32
	mode         string
	objective    string
	interval     time.Duration
	horizon      time.Duration
	rule         string
	adoption     round.Settings // set by cli.AddGuard
	limits       rollout.Limits
	canary       bool
	waveShare    float64
	soak         time.Duration
	deadline     time.Duration
	futures      int32
	budget       int32
	weight       float64
	protect      cli.ProtectFlags
	models       string
	validateOnly bool
}

func newSchedulerUpdateCmd(f *cli.ClientFlags) *cobra.Command {
	var u updateFlags
	cmd := &cobra.Command{
		Use:   "update NAME",
		Short: "Change a scheduler: its parameters, cluster, mode, objective, rounds, or how they simulate it",
		Long: `Changes what is named by a flag and leaves the rest as it is; it counts from the
next round on. --spec takes parameters and constraints from a file with the fields of
a Scheduler, as 'autosched scheduler register' does, in place of those registered:
parameters that are not named are as built in. If the values on offer are then
outside of the space, the nearest ones in it are offered as a new revision, and
proposals are withdrawn. Another space, cluster or objective is a new revision of the
scheduler: 'autosched scheduler revisions NAME' lists them. --label
replaces all labels.`,
		Example: `  autosched scheduler update tiresias --mode auto
  autosched scheduler update tiresias --interval 30m --adoption paper
  autosched scheduler update tiresias --guard off
  autosched scheduler update tiresias --max-changes 2 --quiet-hours '22:00-06:00 Europe/Berlin'
  autosched scheduler update tiresias --canary --wave-share 0.5 --soak-time 2h
  autosched scheduler update tiresias --objective p95_jct --validate-only
  autosched scheduler update tiresias --min-run 10m --models measured.json
  autosched scheduler update tiresias --spec prod.yaml --nodes 120 --validate-only
  autosched scheduler update tiresias --label team=research
  autosched scheduler update tiresias --objective 'avg_jct subject to p99_jct<=1.1*incumbent'`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := u.request(cmd.InOrStdin(), cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				req.Scheduler.Name, req.Scheduler.Etag = name, f.Etag
				got, err := c.Tuning.UpdateScheduler(ctx, req)
				if err != nil {
					return err
				}
				if u.validateOnly {
					return f.Say(cmd, got, "%s would be updated; nothing was stored", got.GetName())
				}
				return showScheduler(f, cmd, got)
			})
		},
	}
	u.add(cmd)
	f.AddReason(cmd)
	f.AddEtag(cmd)
	return cmd
}

func (u *updateFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&u.displayName, "display-name", "", "name for people")
	fl.StringToStringVar(&u.labels, "label", nil, "")
	fl.StringVar(&u.spec, "spec", "", "take parameters and constraints from a YAML or JSON file, - for standard input")
	fl.Int32Var(&u.nodes, "nodes", 0, "")
	fl.Int32Var(&u.gpusPerNode, "gpus-per-node", 0, "")
	fl.StringVar(&u.mode, "mode", "", "")
	fl.StringVar(&u.objective, "objective", "", "")
	fl.DurationVar(&u.interval, "interval", 0, "")
	fl.StringVar(&u.rule, "adoption", "", "how configurations are adopted: daily or paper")
	cli.AddGuard(cmd, &u.adoption.Guard)
	cli.AddLimits(cmd, &u.limits)
	fl.Var(cli.LimitFlag{To: &u.limits.RollbackHold}, "rollback-hold",
		"how long tuning changes nothing after an operator's rollback, or off")
	fl.BoolVar(&u.canary, "canary", false, "offer what a round found to one instance first")
	fl.Float64Var(&u.waveShare, "wave-share", 0,
		"then to this share of the instances, such as 0.5, before all; 0: no such wave")
	fl.Var(cli.DwellFlag{To: &u.soak}, "soak-time",
		"event time between the last acknowledgement of a wave and the next wave, or 'off'")
	fl.Var(cli.DwellFlag{To: &u.deadline}, "acknowledge-deadline",
		"how long an instance may take to acknowledge what it is offered, before it is degraded, or 'off'")
	fl.DurationVar(&u.horizon, "horizon", 0, "how far ahead arrivals are forecast")
	fl.Int32Var(&u.futures, "futures", 0, "")
	fl.Int32Var(&u.budget, "budget", 0, "")
	fl.Float64Var(&u.weight, "weight", 0, "share of the time of rounds, beside those of other schedulers: 0.1 to 10")
	u.protect.Add(cmd)
	fl.StringVar(&u.models, "models", "", "")
	fl.BoolVar(&u.validateOnly, "validate-only", false, "")
}

// request is the update of the fields whose flags are given, without the name of
// the scheduler.
func (u *updateFlags) request(stdin io.Reader, given func(flag string) bool) (*pb.UpdateSchedulerRequest, error) {
	mode, err := cli.ParseMode(u.mode)
	if err != nil {
		return nil, err
	}
	mask := &fieldmaskpb.FieldMask{}
	for _, one := range []struct{ flag, path string }{
		{"display-name", "display_name"}, {"label", "labels"},
		{"spec", "spec.parameters"}, {"spec", "spec.constraints"},
		{"nodes", "spec.cluster.nodes"}, {"gpus-per-node", "spec.cluster.gpus_per_node"},
		{"mode", "spec.mode"}, {"objective", "spec.objective"},
		{"interval", "spec.rollout.update_interval"}, {"adoption", "spec.rollout.adoption"},
		{"guard", "spec.rollout.guard"},
		{"max-changes", "spec.rollout.max_changes_per_day"}, {"flap-window", "spec.rollout.flap_window"},
		{"rollback-hold", "spec.rollout.rollback_hold"}, {"quiet-hours", "spec.rollout.quiet_hours"},
		{"canary", "spec.rollout.canary"}, {"wave-share", "spec.rollout.wave_share"},
		{"soak-time", "spec.rollout.soak_time"},
		{"acknowledge-deadline", "spec.rollout.acknowledge_deadline"},
		{"horizon", "spec.rollout.horizon"}, {"futures", "spec.rollout.futures"},
		{"budget", "spec.rollout.trial_budget"}, {"weight", "spec.rollout.weight"},
		{"max-preemptions", "spec.simulation.max_preemptions"},
		{"min-run", "spec.simulation.min_run"}, {"models", "spec.simulation.models"},
	} {
		if given(one.flag) {
			mask.Paths = append(mask.Paths, one.path)
		}
	}
	if len(mask.Paths) == 0 {
		return nil, cli.Usage(errors.New("nothing to change: name it by a flag, such as --mode auto"))
	}
	simulation, err := u.simulation()
	if err != nil {
		return nil, err
	}
	spec := &pb.SchedulerSpec{Mode: mode, Objective: objectiveSpec(u.objective), Simulation: simulation}
	spec.Rollout = &pb.RolloutPolicy{
		UpdateInterval: durationpb.New(u.interval), Horizon: durationpb.New(u.horizon),
		Adoption: u.rule, Guard: u.adoption.Guard,
		Futures: u.futures, TrialBudget: u.budget, Weight: u.weight,
		AcknowledgeDeadline: durationpb.New(u.deadline),
		Canary:              u.canary, WaveShare: u.waveShare, SoakTime: durationpb.New(u.soak),
	}
	convert.LimitsToProto(&u.limits, spec.Rollout)
	spec.Cluster = &pb.Cluster{Nodes: u.nodes, GpusPerNode: u.gpusPerNode}
	if u.spec != "" {
		s, err := cli.ReadScheduler(stdin, u.spec)
		if err != nil {
			return nil, err
		}
		spec.Parameters, spec.Constraints = s.GetSpec().GetParameters(), s.GetSpec().GetConstraints()
	}
	return &pb.UpdateSchedulerRequest{
		Scheduler:    &pb.Scheduler{DisplayName: u.displayName, Labels: u.labels, Spec: spec},
		UpdateMask:   mask,
		ValidateOnly: u.validateOnly,
	}, nil
}

func (u *updateFlags) simulation() (*pb.Simulation, error) {
	protect, err := u.protect.Protection()
	if err != nil {
		return nil, err
	}
	out := &pb.Simulation{
		MaxPreemptions: int32(min(protect.MaxPreemptions, math.MaxInt32)), MinRun: durationpb.New(protect.MinRun),
	}
	if u.models == "" {
		return out, nil
	}
	models, err := (&cli.ModelsFlag{Path: u.models}).Read()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(models)
	if err != nil {
		return nil, err
	}
	out.Models = &structpb.Struct{}
	return out, protojson.Unmarshal(text, out.Models)
}

func showScheduler(f *cli.ClientFlags, cmd *cobra.Command, s *pb.Scheduler) error {
	return f.Show(cmd, s, func(w io.Writer) error { return printScheduler(w, s, nil) })
}

// schedulerVerb is a command that changes the state of a scheduler.
type schedulerVerb struct {
	verb, short, long string
	call              func(ctx context.Context, c *cli.Client, name string) (*pb.Scheduler, error)
	would             string // outcome of a dry run behind the scheduler's id, "" for a command without one
	done              func(id string, got *pb.Scheduler) string
}

func (v *schedulerVerb) command(f *cli.ClientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: v.verb + " NAME", Short: v.short, Long: v.long, Example: "  autosched scheduler " + v.verb + " tiresias",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := v.call(ctx, c, name)
				id := cli.ShortName(name)
				return f.Outcome(cmd, got, err, fmt.Sprintf(v.would, id), v.done(id, got))
			})
		},
	}
	f.AddReason(cmd)
	f.AddEtag(cmd)
	if v.would != "" {
		f.AddValidateOnly(cmd)
	}
	return cmd
}

func newSchedulerPauseCmd(f *cli.ClientFlags) *cobra.Command {
	return (&schedulerVerb{"pause", "Stop tuning rounds of a scheduler until it is resumed",
		`Stops tuning rounds. Events are ingested and configurations are served as before,
and may be approved and rolled back. A round under way is dropped.`,
		func(ctx context.Context, c *cli.Client, name string) (*pb.Scheduler, error) {
			return c.Tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: name, Etag: f.Etag,
				ValidateOnly: f.ValidateOnly})
		}, "tuning of %s would be paused", func(id string, got *pb.Scheduler) string {
			return fmt.Sprintf("tuning of %s is paused; it keeps revision %s", id,
				cmp.Or(cli.ShortName(got.GetCurrentConfiguration()), "-"))
		}}).command(f)
}

func newSchedulerResumeCmd(f *cli.ClientFlags) *cobra.Command {
	return (&schedulerVerb{"resume", "Resume tuning rounds of a paused scheduler",
		`Ends a pause. If rounds were due meanwhile, the latest of them is decided at
once.`,
		func(ctx context.Context, c *cli.Client, name string) (*pb.Scheduler, error) {
			return c.Tuning.ResumeTuning(ctx, &pb.ResumeTuningRequest{Name: name, Etag: f.Etag,
				ValidateOnly: f.ValidateOnly})
		}, "tuning of %s would be resumed", func(id string, _ *pb.Scheduler) string {
			return fmt.Sprintf("tuning of %s is resumed", id)
		}}).command(f)
}

func newSchedulerDeleteCmd(f *cli.ClientFlags) *cobra.Command {
	return (&schedulerVerb{"delete", "Delete a scheduler, which can be undeleted for 30 days",
		`Ends a scheduler's rounds, watches and event streams; the scheduler itself keeps what
it runs. For 30 days 'autosched scheduler undelete' takes that back. Then the service
purges the scheduler with its configurations and events, and its id is free.`,
		func(ctx context.Context, c *cli.Client, name string) (*pb.Scheduler, error) {
			return c.Tuning.DeleteScheduler(ctx, &pb.DeleteSchedulerRequest{Name: name, Etag: f.Etag})
		}, "", func(id string, got *pb.Scheduler) string {
			return fmt.Sprintf("%s is deleted; it is purged at %s", id, cli.Instant(got.GetExpireTime()))
		}}).command(f)
}

func newSchedulerUndeleteCmd(f *cli.ClientFlags) *cobra.Command {
	return (&schedulerVerb{"undelete", "Take back that a scheduler was deleted",
		`Takes back that a scheduler was deleted: its events are ingested, its configuration is
served and rounds run again. 'autosched scheduler list --deleted' has those that can be
undeleted.`,
		func(ctx context.Context, c *cli.Client, name string) (*pb.Scheduler, error) {
			return c.Tuning.UndeleteScheduler(ctx, &pb.UndeleteSchedulerRequest{Name: name, Etag: f.Etag})
		}, "", func(id string, _ *pb.Scheduler) string { return id + " is undeleted" }}).command(f)
}

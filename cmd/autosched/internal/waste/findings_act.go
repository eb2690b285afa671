package waste

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	programs "github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/act"
)

// readActions reads the file of --actions. It may name the actions of the rules, besides the built-in ones.
func readActions(path string, rules *patterns.RuleSet) (*act.Commands, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--actions: %w", err))
	}
	all := append(patterns.Builtin().Actions(), rules.Actions()...)
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), patterns.Reconfigures)
	c, err := act.Read(text, path, func(action string) error {
		switch {
		case patterns.Reconfigures(action):
			return errors.New("is a change of the configuration, which rounds propose: remove it")
		case !slices.Contains(all, action):
			return fmt.Errorf("is the action of no rule: want one of %s", strings.Join(all, ", "))
		}
		return nil
	})
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--actions: %w", err))
	}
	return c, nil
}

// acted is the result of findings act.
type acted struct {
	Finding string   `json:"finding"`
	Action  string   `json:"action"`
	Command []string `json:"command"`
	DryRun  bool     `json:"dry_run"`
}

func (a *acted) print(w io.Writer) error {
	line := units.Command(a.Command)
	if !a.DryRun {
		line = "done, and acknowledged: " + line
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// actOptions are the flags of findings act.
type actOptions struct {
	actions    string
	rules      string
	dry, again bool
	within     time.Duration
}

func newFindingsActCmd(f *cli.ClientFlags) *cobra.Command {
	var o actOptions
	cmd := &cobra.Command{
		Use:   "act SCHEDULER/FINDING",
		Short: "Run the site's command for a finding, and acknowledge it",
		Long: `Act runs, on this machine and with the rights of who calls it, the command that a file of the
site's has for the finding's action; the service runs nothing. The finding is acknowledged with the
command before it runs, and with how it ended afterwards. A finding that is closed, that is a false
positive or that was acted on is refused. Commands that failed may be repeated.
docs/patterns.md describes the file; examples/actions/slurm.yaml has commands of Slurm.`,
		Example: `  autosched scheduler findings act prod/1f2e3d4c5b6a7988 --actions examples/actions/slurm.yaml --dry-run
  autosched scheduler findings act prod/1f2e3d4c5b6a7988 --actions examples/actions/slurm.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := findingArg(args)
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			got, err := o.run(cmd.Context(), f, name, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), f.JSON, "finding-action/v1", got, got.print)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.actions, "actions", "", "")
	fl.StringVar(&o.rules, "rules", "", "")
	fl.BoolVar(&o.dry, "dry-run", false, "")
	fl.BoolVar(&o.again, "again", false, "act on a finding that was acted on")
	fl.DurationVar(&o.within, "command-timeout", time.Minute, "how long the command may run")
	return cmd
}

func (o *actOptions) check() error {
	if o.actions == "" {
		return cli.Usage(errors.New("--actions is missing: name a file such as examples/actions/slurm.yaml"))
	}
	if o.within <= 0 {
		return cli.Usage(fmt.Errorf("--command-timeout: %v is not positive", o.within))
	}
	return nil
}

func (o *actOptions) run(ctx context.Context, f *cli.ClientFlags, name string, stdout, stderr io.Writer) (*acted,
	error) {
	rules, err := cli.ReadRules("--rules", o.rules, nil)
	if err != nil {
		return nil, err
	}
	commands, err := readActions(o.actions, rules)
	if err != nil {
		return nil, err
	}
	var finding *pb.Finding
	err = f.Call(ctx, false, func(ctx context.Context, c *cli.Client) (err error) {
		finding, err = c.Findings.GetFinding(ctx, &pb.GetFindingRequest{Name: name})
		return err
	})
	if err != nil {
		return nil, err
	}
	short := strings.Replace(strings.TrimPrefix(name, "schedulers/"), "/findings/", "/", 1)
	if err := o.refused(finding); err != nil {
		return nil, fmt.Errorf("%s %w", short, err)
	}
	scheduler, id, _ := strings.Cut(short, "/")
	values := act.Values(&patterns.Finding{Rule: finding.GetRule(), Action: finding.GetAction(),
		Job:            finding.GetJobId(),
		Entity:         patterns.Entity{Kind: finding.GetEntityKind(), Name: finding.GetEntity()},
		WastedGPUHours: finding.GetWastedGpuHours()}, rules.Groups(finding.GetRule()))
	values["scheduler"], values["finding"] = scheduler, id
	out := &acted{Finding: short, Action: finding.GetAction(), DryRun: o.dry}
	if out.Command, err = commands.Render(finding.GetAction(), values); err != nil {
		return nil, err
	}
	_, err = exec.LookPath(out.Command[0])
	if o.dry {
		if err != nil {
			fmt.Fprintf(stderr, "note: %v: the command cannot run here\n", err)
		}
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", o.actions, out.Action, err)
	}
	line := units.Command(out.Command)
	if err := acknowledgeFinding(ctx, f, name, actRuns+line); err != nil {
		return nil, fmt.Errorf("nothing was run: %w", err)
	}
	if f.JSON {
		stdout = stderr // its own output is the result
	}
	failed := programs.Run(ctx, o.within, out.Command, nil, stdout, stderr)
	reason := actDone + line
	if failed != nil {
		reason = actFailed + strings.TrimPrefix(failed.Error(), out.Command[0]+": ") + ": " + line
	}
	err = acknowledgeFinding(context.WithoutCancel(ctx), f, name, reason) // an interrupted command is noted, too
	if failed != nil {
		return nil, errors.Join(failed, err)
	} else if err != nil {
		return nil, fmt.Errorf("the command was run and succeeded, but the finding does not say so: %w", err)
	}
	return out, nil
}

// The reasons of acknowledgements begin so: a command was started, it succeeded, or it failed.
const (
	actRuns   = "act: runs "
	actDone   = "act: exit 0: "
	actFailed = "act: failed: "
)

// refused says why a finding is not acted on.
func (o *actOptions) refused(f *pb.Finding) error {
	ack := f.GetAcknowledged()
	switch reason := ack.GetReason(); {
	case f.GetState() == pb.Finding_CLOSED:
		return errors.New("is closed: its rule no longer holds")
	case f.GetFalsePositive() != nil:
		return errors.New("is a false positive: acknowledge it first if it is true")
	case !o.again && (strings.HasPrefix(reason, actRuns) || strings.HasPrefix(reason, actDone)):
		return fmt.Errorf("was acted on at %s (%s): give --again to repeat it", cli.Instant(ack.GetCreateTime()),
			reason)
	}
	return nil
}

// maxReason is the longest reason that the service takes, in bytes.
const maxReason = 128

func acknowledgeFinding(ctx context.Context, f *cli.ClientFlags, name, reason string) error {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason-3], "") + "..."
	}
	return f.Call(ctx, false, func(ctx context.Context, c *cli.Client) error {
		_, err := c.Findings.AcknowledgeFinding(ctx, &pb.AcknowledgeFindingRequest{Name: name, Reason: reason})
		return err
	})
}

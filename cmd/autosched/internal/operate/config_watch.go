package operate

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

func newConfigWatchCmd(f *cli.ClientFlags) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "watch SCHEDULER",
		Short:             "Follow the configuration a scheduler should run",
		Long: `Prints the current configuration and then every new one, a line each, until it
is interrupted. If the service goes away, the watch continues once it is back.
That tuning is paused or resumed is reported on the standard error output.
With --wait it may be started first: it waits until the service answers and the
scheduler is registered. With --json every line is an autosched.v1
Configuration.`,
		Example: "  autosched scheduler config watch tiresias\n  autosched scheduler config watch demo --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := cli.SchedulerArg(args)
			if err != nil {
				return err
			}
			return f.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				w := watch{
					Client: c, name: name, server: f.Server, wait: wait, json: f.JSON, out: cmd.OutOrStdout(),
					notes: cmd.ErrOrStderr(),
				}
				return w.run(ctx)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the scheduler is registered")
	return cmd
}

// watch follows one scheduler over any number of streams.
type watch struct {
	*cli.Client
	name, server string
	wait, json   bool
	out, notes   io.Writer
	token        string // of the last event; empty before the first
}

// run follows until the context ends, also if the service goes away and comes
// back.
func (w *watch) run(ctx context.Context) error {
	for waiting := false; ; {
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return nil // interrupted: that is how a watch ends
		}
		code := status.Code(err)
		switch {
		case w.token == "" && w.wait && !cli.TlsFailed(err) && (code == codes.NotFound || code == codes.Unavailable):
			if !waiting {
				fmt.Fprintf(w.notes, "waiting until %s is registered with the service at %s\n", cli.ShortName(w.name),
					w.server)
			}
			waiting = true
		case w.token != "" && code == codes.OutOfRange:
			fmt.Fprintln(w.notes, "the service's store was restored: reading the configuration again")
			w.token = ""
			continue
		case w.token == "" || code != codes.Unavailable:
			return err
		default:
			fmt.Fprintln(w.notes, "no connection to the service: trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// follow prints the events of one stream.
func (w *watch) follow(ctx context.Context) error {
	stream, err := w.Configurations.WatchConfigurations(ctx,
		&pb.WatchConfigurationsRequest{Parent: w.name, ResumeToken: w.token, SendInitialEvents: w.token == ""})
	if err != nil {
		return err
	}
	var s *pb.Scheduler // once there is something to print
	for {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		if s == nil && !w.json && got.GetConfiguration() != nil {
			if s, err = w.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: w.name}); err != nil {
				return err
			}
		}
		w.token = got.GetResumeToken()
		c := got.GetConfiguration()
		switch p := got.GetPaused(); {
		case p != nil:
			fmt.Fprintf(w.notes, "tuning of %s is paused%s\n", cli.ShortName(w.name), pauseText(p))
		case got.GetResumed() != nil:
			fmt.Fprintf(w.notes, "tuning of %s is resumed\n", cli.ShortName(w.name))
		case c == nil:
		case w.json:
			err = cli.PrintProto(w.out, c, true)
		default:
			_, err = fmt.Fprintf(w.out, "%s  revision %d  %s  %s  %s\n",
				cli.Instant(c.GetCreateTime()), c.GetRevision(), c.GetState(),
				valuesLine(c.GetParameters(), s), c.GetReason())
		}
		if err != nil {
			return err
		}
	}
}

// pauseText says since when, by whom and why tuning is paused, as far as that is known.
func pauseText(p *pb.WatchConfigurationsResponse_Paused) (text string) {
	if t := p.GetCreateTime(); t != nil {
		text += " since " + cli.Instant(t)
	}
	if p.GetActor() != "" {
		text += " by " + p.GetActor()
	}
	if p.GetReason() != "" {
		text += ": " + p.GetReason()
	}
	return text
}

// Package adapters has the commands beside a scheduler: adapters, Slurm, emulation, conformance.
package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/adapter"
	filedriver "github.com/autosched/autosched/adapter/file"
	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/schedulers"
)

func newAdapterCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adapter",
		Short: "Configure a scheduler that does not use the API itself",
		Long: `An adapter watches for the configuration that a scheduler should run, puts it in force in the scheduler's own
words, reads it back and acknowledges it. See docs/service.md.`,
	}
	cmd.AddCommand(newAdapterFileCmd())
	return cmd
}

// parameterForm is the --form of a file that has parameters by their ids.
const parameterForm = "parameters"

// adapterFileOptions are the flags of adapter file.
type adapterFileOptions struct {
	settings  cli.SettingsFlags
	connect   cli.ConnectFlags
	access    cli.ServeAccess
	scheduler string
	instance  string
	form      string
	listen    string
	interval  time.Duration
	driver    filedriver.Options
}

func newAdapterFileCmd() *cobra.Command {
	var o adapterFileOptions
	cmd := &cobra.Command{
		Use:   "file",
		Short: "Configure a scheduler by its configuration file",
		Long: `Writes the configuration file of a scheduler whenever it should run another configuration: the file is checked,
replaced by rename and reloaded, and what is in force is read back and acknowledged. If the check or the reload
fails, the configuration is refused, and the previous file is put back and reloaded. It runs until it is
interrupted, and waits for the service and for the registration of the scheduler.

A file that someone else changed is reported and not overwritten: put it back, or start once with --take-over. The
previous file and the adapter's notes are in --state-dir.

--check, --reload and --read-back are a program and its arguments: a list in the settings file, separated
by commas on the command line. {file} stands for the file. No shell is involved. --read-back prints what is
in force in the words of the file; without it that is what the file says.

With --listen the service calls the adapter, as 'autosched serve --agents' names it, and the adapter needs
neither --id nor a connection to the service, but --form. --tls-cert and --tls-key are then the adapter's own,
and --client-ca and --roles name the callers: role operator or admin. On an address other than loopback it starts
with these only, as serve does.

--settings FILE takes flags from a YAML file, which is checked whole before anything starts. A flag counts more
than the file.`,
		Example: `  autosched scheduler adapter file --settings adapter.yaml
  autosched scheduler adapter file --id prod --file tiresias.yaml --reload systemctl,reload,tiresias`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.settings.Run(cmd, o.check, o.access.Readable,
				func() error { return o.run(cmd.Context(), cmd.ErrOrStderr()) })
		},
	}
	o.connect.Add(cmd)
	o.access.AddCallers(cmd)
	fl := cmd.Flags()
	o.settings.Add(cmd)
	fl.StringVar(&o.scheduler, "id", "", "")
	fl.StringVar(&o.instance, "instance", "", "")
	fl.StringVar(&o.driver.Path, "file", "", "the scheduler's configuration file (required)")
	fl.StringVar(&o.driver.Dir, "state-dir", "", "")
	fl.StringVar(&o.form, "form", "", "words of the file: the name of a built-in scheduler, or parameters for their ids "+
		"(default: of the registered scheduler)")
	fl.StringVar(&o.listen, "listen", "", "")
	fl.StringSliceVar(&o.driver.Check, "check", nil, "command that fails if the scheduler would not take the file")
	fl.StringSliceVar(&o.driver.Reload, "reload", nil, "command that has the scheduler read the file")
	fl.StringSliceVar(&o.driver.ReadBack, "read-back", nil, "command that prints what is in force")
	fl.DurationVar(&o.driver.Timeout, "timeout", time.Minute, "")
	fl.DurationVar(&o.interval, "poll-interval", time.Minute, "")
	fl.BoolVar(&o.driver.TakeOver, "take-over", false, "")
	return cmd
}

// check checks all that needs neither service nor files.
func (o *adapterFileOptions) check() error {
	forms := append(schedulers.Names(), parameterForm)
	switch {
	case o.listen != "" && o.form == "":
		return cli.Usage(errors.New("--listen: needs --form"))
	case o.scheduler == "" && o.listen == "":
		return cli.Usage(errors.New("--id: is missing"))
	case o.driver.Path == "":
		return cli.Usage(errors.New("--file: is missing"))
	case o.form != "" && !slices.Contains(forms, o.form):
		return cli.Usage(fmt.Errorf("--form: %q is not one of %s", o.form, strings.Join(forms, ", ")))
	case o.driver.Timeout <= 0:
		return cli.Usage(fmt.Errorf("--timeout: %v is not positive", o.driver.Timeout))
	case o.interval <= 0:
		return cli.Usage(fmt.Errorf("--poll-interval: %v is not positive", o.interval))
	}
	for _, c := range []struct {
		flag    string
		command []string
	}{{"check", o.driver.Check}, {"reload", o.driver.Reload}, {"read-back", o.driver.ReadBack}} {
		if len(c.command) > 0 && c.command[0] == "" {
			return cli.Usage(fmt.Errorf("--%s: the program is missing", c.flag))
		}
	}
	if o.listen == "" {
		if o.access != (cli.ServeAccess{}) {
			return cli.Usage(errors.New("--client-ca, --roles, --allow-plaintext, --allow-anonymous: need --listen"))
		}
		return o.connect.Check()
	}
	if o.connect.CA != "" || o.connect.Token != "" {
		return cli.Usage(errors.New("--tls-ca, --token-file: do not go with --listen: the adapter calls no one; " +
			"--client-ca and --roles say who calls it"))
	}
	o.access.Files.Cert, o.access.Files.Key = o.connect.Cert, o.connect.Key
	if err := o.access.Check(); err != nil {
		return err
	}
	return o.access.PermitsAddress("--listen", o.listen)
}

// run adapts until the context ends.
func (o *adapterFileOptions) run(ctx context.Context, notes io.Writer) error {
	log := cli.NewLog(notes)
	form := o.form
	var conn *grpc.ClientConn // nil for an adapter that is called
	if o.listen == "" {
		var err error
		if conn, err = o.connect.Dial(); err != nil {
			return err
		}
		defer conn.Close()
	}
	if form == "" {
		s, err := cli.AwaitScheduler(ctx, pb.NewTuningServiceClient(conn), o.scheduler, log)
		if err != nil {
			return cli.PlainError(o.connect.Server, err)
		}
		form = s.GetSpec().GetSchedulerType()
	}
	o.driver.Form = schedulers.FormOf(form)
	driver, err := filedriver.Open(o.driver)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	defer driver.Close()
	applied := cli.LogApplied(log, "file", o.driver.Path)
	if conn == nil {
		return o.serve(ctx, &filedriver.Agent{Driver: driver, Applied: applied}, log)
	}
	session := adapter.Session{Conn: conn, Scheduler: o.scheduler, Instance: o.instance, Driver: driver,
		Interval: o.interval,
		Applied:  applied,
		Notify:   func(err error) { log.Warn(err.Error()) }}
	err = session.Run(ctx)
	if ctx.Err() != nil {
		return nil // interrupted: that is how it ends
	}
	return cli.PlainError(o.connect.Server, err)
}

// serve has the service call the adapter until the context ends.
func (o *adapterFileOptions) serve(ctx context.Context, agent *filedriver.Agent, log *slog.Logger) error {
	files, err := access.Open(o.access.Files, access.Options{Log: log})
	if err != nil {
		return err
	}
	go func() { _ = files.Run(ctx) }()
	l, err := o.access.Listen("--listen", o.listen)
	if err != nil {
		return err
	}
	s := grpc.NewServer(server.AgentOptions(files)...)
	pb.RegisterSchedulerAgentServer(s, agent)
	stop := context.AfterFunc(ctx, s.GracefulStop)
	defer stop()
	log.Info("listening", "address", l.Addr())
	return s.Serve(l)
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSlurmCmd()}
}

// OfScheduler returns the commands below scheduler.
func OfScheduler() []*cobra.Command {
	return []*cobra.Command{newAdapterCmd(), newEmulateCmd(), newConformanceCmd()}
}

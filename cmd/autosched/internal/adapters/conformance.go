package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/registration"
	apiclient "github.com/autosched/autosched/client"
	"github.com/autosched/autosched/conformance"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// conformanceOptions are the flags of conformance.
type conformanceOptions struct {
	listen     string
	agent      string
	id         string
	registered string
	refused    []string
	patience   time.Duration
	oneLife    bool
	only       []string
	json       bool
	command    []string
}

func newConformanceCmd() *cobra.Command {
	var o conformanceOptions
	cmd := &cobra.Command{
		Use:   "conformance [-- COMMAND [ARG]...]",
		Short: "Check a scheduler's client or an adapter, in any language, against the API",
		Long: `Serves the API from a script to the client under test and checks what it does: registration, watch or polls,
acknowledgements, lost connections, a restored store, refusals, and the events that it sends. Prints PASS, FAIL or
SKIPPED for each check, and fails if one failed.

COMMAND starts the client, {address} in its arguments stands for the address to connect to. It is killed
and started again to check crashes; without a COMMAND, start the client by hand, and these
checks are skipped. A client that registers no scheduler, such as an adapter, finds one of type --registered
under the name --id.

With --agent the client is one that is called: a SchedulerAgent at this address, which COMMAND starts, with configurations of
a scheduler of type --registered. See docs/clients.md.`,
		Example: `  autosched scheduler conformance -- python3 scheduler.py --server {address}
  autosched scheduler conformance --registered tiresias --id prod -- \
      autosched scheduler adapter file --server {address} --id prod --file options.yaml
  autosched scheduler conformance --listen 127.0.0.1:7443 --refuse queues=5
  autosched scheduler conformance --agent 127.0.0.1:7500 --registered tiresias -- \
      autosched scheduler adapter file --listen {address} --form tiresias --file options.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.listen, "listen", "127.0.0.1:0", "")
	fl.StringVar(&o.agent, "agent", "", "check a scheduler that is called at this loopback address, host:port")
	fl.StringVar(&o.registered, "registered", "", "type of a scheduler that is registered before the client connects")
	fl.StringVar(&o.id, "id", "conformance", "")
	fl.StringSliceVar(&o.refused, "refuse", nil, "values that the client refuses, as parameter=value")
	fl.DurationVar(&o.patience, "timeout", 30*time.Second, "")
	fl.BoolVar(&o.oneLife, "one-life", false, "do not kill the client: it cannot be started again")
	fl.StringSliceVar(&o.only, "only", nil, "run these checks, and those that all others need")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

func (o *conformanceOptions) check() error {
	if o.patience <= 0 {
		return cli.Usage(fmt.Errorf("--timeout: %v is not positive", o.patience))
	}
	for _, name := range o.only {
		if !slices.Contains(conformance.Names(o.agent != ""), name) {
			return cli.Usage(fmt.Errorf("--only: %q is not one of %s", name,
				strings.Join(conformance.Names(o.agent != ""), ", ")))
		}
	}
	if _, err := o.refusedValues(); err != nil {
		return cli.Usage(fmt.Errorf("--refuse: %w", err))
	}
	if o.agent != "" {
		host, _, err := net.SplitHostPort(o.agent)
		switch {
		case err != nil || !apiclient.Loopback(host):
			return cli.Usage(fmt.Errorf("--agent: %q is not host:port of this machine: it is called unencrypted",
				o.agent))
		case o.registered == "":
			return cli.Usage(errors.New("--agent: needs --registered, the type of which configurations are drawn"))
		}
	}
	if o.registered != "" {
		if _, err := registration.Check(cli.Builtins(), o.registration()); err != nil {
			return cli.Usage(fmt.Errorf("--registered, --id: %w", err))
		}
	}
	return nil
}

// refusedValues reads parameter=value as a file of options.
func (o *conformanceOptions) refusedValues() (space.Values, error) {
	if len(o.refused) == 0 {
		return nil, nil
	}
	var text strings.Builder
	for _, set := range o.refused {
		id, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want parameter=value", set)
		}
		fmt.Fprintf(&text, "%s: %s\n", id, value)
	}
	return (&native.Options{}).Parse([]byte(text.String()))
}

func (o *conformanceOptions) registration() *pb.CreateSchedulerRequest {
	return &pb.CreateSchedulerRequest{SchedulerId: o.id, Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{
		SchedulerType: o.registered, Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8}}}}
}

func (o *conformanceOptions) run(ctx context.Context, out, notes io.Writer) error {
	refused, _ := o.refusedValues() // checked
	options := conformance.Options{Refused: refused, OneLife: o.oneLife, Only: o.only,
		Patience: o.patience,
		Space: func(req *pb.CreateSchedulerRequest) (*space.Space, error) {
			return registration.Check(cli.Builtins(), req)
		},
		Report: func(r conformance.Result) {
			if !o.json {
				printCheck(out, r)
			}
		}}
	if o.registered != "" {
		options.Registered = o.registration()
	}
	address, how := o.agent, "start the agent; it has to listen on %s, unencrypted\n"
	if o.agent != "" {
		conn, err := apiclient.Endpoint{Address: o.agent}.Dial()
		if err != nil {
			return fmt.Errorf("--agent: %w", err)
		}
		defer conn.Close()
		options.Agent = conn
	} else {
		l, err := loopbackListener(o.listen)
		if err != nil {
			return err
		}
		options.Listener, address = l, l.Addr().String()
		how = "start the client; it has to connect to %s, unencrypted\n"
	}
	if len(o.command) > 0 {
		options.Start = func() (func(), error) { return o.start(address, notes) }
	} else {
		fmt.Fprintf(notes, how, address)
	}
	results, err := conformance.Run(ctx, options)
	if err != nil {
		return err
	}
	if o.json {
		if err := schema.Write(out, "conformance/v1", map[string]any{"checks": results}); err != nil {
			return err
		}
	}
	failed := 0
	for _, r := range results {
		if r.Outcome == conformance.Fail {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(results))
	}
	return nil
}

// loopbackListener listens where only callers of this machine connect, who are not identified.
func loopbackListener(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(l.Close(),
			cli.Usage(fmt.Errorf("--listen: %v is not a loopback address, and no caller is identified", l.Addr())))
	}
	return l, nil
}

func printCheck(out io.Writer, r conformance.Result) {
	fmt.Fprintf(out, "%-8s %s", r.Outcome, r.Check)
	if r.Reason != "" {
		fmt.Fprintf(out, ": %s", r.Reason)
	}
	fmt.Fprintln(out)
	if r.Outcome == conformance.Fail {
		fmt.Fprintf(out, "         expected: %s\n", r.Expected)
	}
}

// start starts the client under test in a process group of its own and returns a function that kills it.
func (o *conformanceOptions) start(address string, notes io.Writer) (func(), error) {
	args := make([]string, len(o.command))
	for i, arg := range o.command {
		args[i] = strings.ReplaceAll(arg, "{address}", address)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = table.Whole(notes), table.Whole(notes)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	}, nil
}

package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/slurm"
	"github.com/autosched/autosched/adapter/slurm/site"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload/trace"
)

func newSlurmCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm",
		Short: "Tune a Slurm cluster",
		Long: `Tunes a Slurm cluster beside its slurmctld: reads events from accounting, and puts configurations in force
through one file that slurm.conf includes. See docs/slurm.md.`,
	}
	cmd.AddCommand(newSlurmInitCmd(), newSlurmRunCmd(), newSlurmApplyCmd(), newSlurmRollbackCmd(), newSlurmInstallCmd(),
		newSlurmDoctorCmd())
	return cmd
}

// siteFlags say where a site has its Slurm.
type siteFlags struct{ slurm.Options }

func (f *siteFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.Conf, "slurm-conf", defaultSlurmConf(), "")
	fl.StringVar(&f.Include, "include", "", "")
	fl.StringVar(&f.Log, "log", "", "slurmctld's log: some bad values are named there alone")
}

func (f *siteFlags) addCommands(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.Reconfigure, "reconfigure", nil,
		"command that has slurmctld read its files, such as sudo,scontrol,reconfigure (default: scontrol reconfigure)")
	fl.StringSliceVar(&f.Install, "install", nil,
		"command that replaces the file by its input, such as sudo,autosched,slurm,install-file (default: the adapter does)")
	fl.StringVar(&f.Dir, "state-dir", "", "")
	fl.StringSliceVar(&f.Restart, "restart", nil,
		"command that starts slurmctld where it ended over a file, once that is taken back (default: none)")
	fl.StringVar(&f.AllowQOS, "allow-qos", "", "set priorities of QOS that are tuned, by sacctmgr: own, where no other cluster has "+
		"the slurmdbd, or shared, for all its clusters (default: none are set)")
	fl.DurationVar(&f.ReconfigureTimeout, "timeout", time.Minute, "")
}

func (f *siteFlags) check() error {
	switch {
	case f.ReconfigureTimeout <= 0:
		return cli.Usage(fmt.Errorf("--timeout: %v is not positive", f.ReconfigureTimeout))
	case !slices.Contains([]string{"", slurm.OwnQOS, slurm.SharedQOS}, f.AllowQOS):
		return cli.Usage(fmt.Errorf("--allow-qos: %q is not own or shared", f.AllowQOS))
	}
	return nil
}

func defaultSlurmConf() string {
	if path := os.Getenv("SLURM_CONF"); path != "" {
		return path
	}
	return "/etc/slurm/slurm.conf"
}

// slurmRunOptions are the flags of slurm run.
type slurmRunOptions struct {
	settings  cli.SettingsFlags
	connect   cli.ConnectFlags
	site      siteFlags
	scheduler string
	instance  string
	mode      string
	interval  time.Duration
	history   time.Duration
	resume    bool
	anonymous bool
}

func newSlurmRunCmd() *cobra.Command {
	var o slurmRunOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Send a Slurm cluster's events and put its configurations in force",
		Long: `Runs beside slurmctld until it is interrupted. Every --poll-interval it reads what happened from Slurm's accounting
(sacct, squeue, sacctmgr) and sends it as events. Configurations reach slurmctld through the file --include: checked
against Slurm's own parser, replaced by rename, reconfigured, watched until the backfill has woken, read back, and taken
back where anything is wrong. Jobs are left alone.

Priorities of QOS that are tuned are set by sacctmgr after the file, read back and taken back with it, where
--allow-qos says so.

--mode says how far it goes: observe sends events and what is in force, and changes nothing, recommend puts in force what an
operator approves, auto what rounds find. recommend and auto set the mode of the registered scheduler. The first start
leaves what is in force as it is. They need a service that asks who calls, as its callers set the cluster's priorities:
'autosched admin certs' makes the files.

A setting that someone else changed is reported and not overwritten, and nothing is changed from then on: put the file
back, or start once with --take-over. 'autosched slurm rollback' puts the previous file back. If the adapter ends, Slurm
goes on with the file that is in place; if slurmctld or slurmdbd are away, it waits for them.

--settings FILE takes flags from a YAML file, which is checked whole before anything starts.`,
		Example: `  autosched slurm run --id prod --mode observe
  autosched slurm run --settings slurm.yaml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.settings.Run(cmd, o.check, func() error { return nil },
				func() error { return o.run(cmd.Context(), cmd.ErrOrStderr()) })
		},
	}
	o.connect.Add(cmd)
	o.site.add(cmd)
	o.site.addCommands(cmd)
	fl := cmd.Flags()
	o.settings.Add(cmd)
	fl.StringVar(&o.scheduler, "id", "", "")
	fl.StringVar(&o.instance, "instance", "", "")
	fl.StringVar(&o.mode, "mode", "observe", "")
	fl.DurationVar(&o.interval, "poll-interval", 30*time.Second, "")
	fl.DurationVar(&o.history, "history", 7*24*time.Hour, "how far back the first poll reaches")
	fl.BoolVar(&o.resume, "requeue-resumes", false, "requeued jobs go on where they were, as they write checkpoints")
	fl.BoolVar(&o.anonymous, "allow-anonymous", false, "")
	fl.BoolVar(&o.site.TakeOver, "take-over", false, "")
	return cmd
}

func (o *slurmRunOptions) check() error {
	switch {
	case o.scheduler == "":
		return cli.Usage(errors.New("--id: is missing"))
	case !slices.Contains([]string{"observe", "recommend", "auto"}, o.mode):
		return cli.Usage(fmt.Errorf("--mode: %q is not observe, recommend or auto", o.mode))
	case o.interval < time.Second:
		return cli.Usage(fmt.Errorf("--poll-interval: %v is less than a second", o.interval))
	case o.history < 0:
		return cli.Usage(fmt.Errorf("--history: %v is negative", o.history))
	}
	if err := o.site.check(); err != nil {
		return err
	}
	return o.connect.Check()
}

func (o *slurmRunOptions) run(ctx context.Context, notes io.Writer) error {
	log := cli.NewLog(notes)
	warn := func(err error) { log.Warn(err.Error()) }
	site := o.site.Options.Filled()
	// An unfinished change of an earlier run must be completed before the service is asked for anything.
	if o.mode != "observe" {
		if err := slurm.Recover(ctx, site); err != nil {
			warn(err)
		}
	}
	conn, err := o.connect.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	tuning := pb.NewTuningServiceClient(conn)
	registered, err := cli.AwaitScheduler(ctx, tuning, o.scheduler, log)
	if err != nil {
		return cli.PlainError(o.connect.Server, err)
	}
	session := adapter.Session{Conn: conn, Scheduler: o.scheduler, Instance: o.instance, Interval: o.interval,
		Notify: warn}
	for _, p := range registered.GetSpec().GetParameters() {
		site.Tuned = append(site.Tuned, p.GetParameterId())
	}
	commands := slurm.Commands{Conf: site.Conf}
	if o.mode == "observe" {
		session.InForce = func(ctx context.Context) (space.Values, error) { return commands.InForce(ctx, site.Tuned) }
	} else {
		if !o.anonymous {
			if err := o.connect.RefuseOpen(ctx, o.scheduler); err != nil {
				return err
			}
		}
		if err := cli.SetMode(ctx, tuning, registered, o.mode); err != nil {
			return cli.PlainError(o.connect.Server, err)
		}
		driver, err := slurm.AwaitOpen(ctx, site, warn)
		if err != nil {
			return err
		}
		defer driver.Close()
		session.Driver, session.Applied = driver, cli.LogApplied(log)
	}
	poller := &slurm.Poller{Commands: commands, Dir: site.Dir, Interval: o.interval,
		History: o.history, KeepProgress: o.resume, Notify: warn}
	if err := poller.Open(); err != nil {
		return err
	}
	session.Events, session.Now = poller.Run, poller.Now
	session.Snapshot = func() *pb.Event { return poller.Snapshot(ctx) }
	err = session.Run(ctx)
	if ctx.Err() != nil {
		return nil // interrupted: that is how it ends
	}
	return cli.PlainError(o.connect.Server, err)
}

// applied is the result of slurm apply and slurm rollback.
type applied struct {
	Include string       `json:"include"`
	DryRun  bool         `json:"dry_run"`
	Values  space.Values `json:"values"` // checked, or in force
	// QOS are the commands that would set priorities of QOS.
	QOS []string `json:"qos,omitempty"`
}

func (r *applied) print(w io.Writer) error {
	text := "in force by " + r.Include + "\n"
	if r.DryRun {
		text = "correct, and not applied\n"
	}
	for _, id := range slices.Sorted(maps.Keys(r.Values)) {
		if r.Values[id].Equal(space.Bool(false)) && strings.HasPrefix(id, conf.SchedulerParameters) {
			continue // an option that is absent
		}
		text += fmt.Sprintf("  %s = %v\n", id, r.Values[id])
	}
	if len(r.QOS) > 0 {
		text += fmt.Sprintf("would run\n  %s\n", strings.Join(r.QOS, "\n  "))
	}
	_, err := io.WriteString(table.Whole(w), text)
	return err
}

func newSlurmApplyCmd() *cobra.Command {
	var site siteFlags
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Put a file of settings in force",
		Long: `Puts lines of slurm.conf in force, such as 'autosched tune' recommends: as the adapter does, with its checks, a
watch over slurmctld, and the file before taken back if anything is wrong. FILE replaces the include file whole; -
is standard input. --dry-run checks names, ranges and Slurm's own parser, and changes nothing. Priorities of QOS, lines
such as #QOS.high.Priority=5, are set by sacctmgr: give --allow-qos, and --dry-run prints the commands.

An adapter that runs reports the change and applies nothing from then on.`,
		Example: `  autosched slurm apply tuned.conf --dry-run
  autosched slurm apply tuned.conf --log /var/log/slurm/slurmctld.log`,
		Args: cli.Exactly(1, "needs a file of settings"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := site.check(); err != nil {
				return err
			}
			text, err := cli.ReadText(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			r := &applied{Include: site.Filled().Include, DryRun: dry}
			if dry {
				r.Values, r.QOS, err = site.Options.Examine(cmd.Context(), text)
			} else {
				r.Values, err = site.Options.Apply(cmd.Context(), text)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return cli.Show(cmd.OutOrStdout(), asJSON, "slurm-settings/v1", r, r.print)
		},
	}
	site.add(cmd)
	site.addCommands(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

func newSlurmRollbackCmd() *cobra.Command {
	var site siteFlags
	var original, asJSON bool
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Put the previous file of settings back in force",
		Long: `Puts the file back that was in force before the last configuration, or with --original the one before the first,
and has slurmctld read it. It needs neither the service nor the adapter. An adapter that runs reports the change and
applies nothing from then on, until it is started with --take-over.`,
		Example: `  autosched slurm rollback
  autosched slurm rollback --original`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := site.check(); err != nil {
				return err
			}
			text, err := site.Options.Rollback(cmd.Context(), original)
			if err != nil {
				return err
			}
			r := &rolledBack{Text: string(text)}
			return cli.Show(cmd.OutOrStdout(), asJSON, "slurm-rollback/v1", r, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "in force:\n%s", r.Text)
				return err
			})
		},
	}
	site.add(cmd)
	site.addCommands(cmd)
	cmd.Flags().BoolVar(&original, "original", false, "the file before the adapter's first")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

// rolledBack is the result of slurm rollback.
type rolledBack struct {
	Text string `json:"text"` // of the include file
}

func newSlurmInstallCmd() *cobra.Command {
	var site siteFlags
	cmd := &cobra.Command{
		Use:   "install-file",
		Short: "Replace the file of settings by what is read, for an adapter that may not",
		Long: `Reads a file of settings from its input and replaces the one that slurm.conf includes, as root by a rule of sudo for
exactly this command: the adapter then needs no right to write it. File and folder must be this account's alone. The
settings must be tunable and within their ranges, and other options set at the site already; or it is the previous or
the first file. The replaced file is kept as the previous one. slurmctld is not reconfigured.`,
		Example: `  autosched slurm install-file <tuned.conf
  autosched slurm run --id prod --mode auto --install sudo,autosched,slurm,install-file --state-dir /var/lib/autosched`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := cli.ReadText(cmd.InOrStdin(), "-")
			if err != nil {
				return err
			}
			return site.InstallFile(text)
		},
	}
	// Not from the environment, which may be another account's.
	cmd.Flags().StringVar(&site.Conf, "slurm-conf", "/etc/slurm/slurm.conf", "")
	cmd.Flags().StringVar(&site.Include, "include", "", "")
	return cmd
}

func newSlurmDoctorCmd() *cobra.Command {
	var site siteFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what keeps a Slurm cluster from being tuned",
		Long: `Looks at a site before it is tuned, and changes nothing: whether priorities count, whether fair share charges GPUs,
backfill's window against time limits, its cycles against its interval, QOS that clusters share, settings that are set
twice, and the rights of the account that it runs as. Run it as the account of the adapter. It fails if a check does.`,
		Example: `  autosched slurm doctor
  autosched slurm doctor --slurm-conf /etc/slurm/slurm.conf --log /var/log/slurm/slurmctld.log`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := slurm.Examine(cmd.Context(), site.Options)
			return errors.Join(cli.Show(cmd.OutOrStdout(), asJSON, "diagnosis/v1", d, d.Print), d.Err())
		},
	}
	site.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

// slurmInitOptions are the flags of slurm init.
type slurmInitOptions struct {
	site.Options
	out  string
	zone string
	json bool
}

func newSlurmInitCmd() *cobra.Command {
	var o slurmInitOptions
	var commands strings.Builder
	for _, c := range append(conf.Commands, conf.EventCommand) {
		fmt.Fprintf(&commands, "  %s >%s\n", strings.Join(c.Args, " "), c.File)
	}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Describe a Slurm cluster from what its commands print",
		Long: `Reads the settings, partitions, nodes, QOS and associations of a Slurm cluster, and writes into a folder

  cluster.json     the cluster, for --cluster
  node-events.csv  when nodes were down or drained, for --node-events
  current.yaml     the settings that run, for --config
  scheduler.json   the registration, for 'autosched scheduler register': what is tuned, in which ranges
  autosched.conf   the file that slurm.conf is to include: it changes nothing yet

Then it names the lines that have to move, and what is not simulated. It changes nothing of Slurm, and any
account that may run these commands may run it:

` + commands.String() + `
With --saved it reads their output from files of these names in a folder, and slurm.conf if it is there. Without
slurmdbd leave qos.txt and assoc.txt empty; events.txt may be missing. With --trace, or sacct.psv in that folder, notes
have the share of GPU-hours that they concern. --site of fidelity, tune, evaluate and compare
takes the folder. See docs/slurm.md.`,
		Example: `  autosched slurm init --out site
  autosched slurm init --saved listings --slurm-conf listings/slurm.conf --out site
  autosched fidelity --trace sacct.psv --site site`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "slurm-init/v1", r, r.print)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Saved, "saved", "", "folder with what the commands printed (default: run them)")
	fl.StringVar(&o.Conf, "slurm-conf", "", "(default: as scontrol show config says)")
	fl.StringVar(&o.Include, "include", "", "")
	fl.StringVarP(&o.out, "out", "o", ".", "folder for the files")
	fl.StringVar(&o.ID, "id", "", "(default: the name of the cluster)")
	fl.StringVar(&o.zone, "timezone", "", "")
	fl.StringVar(&o.Trace, "trace", "", "")
	fl.StringSliceVar(&o.TuneQOS, "tune-qos", nil,
		"QOS whose priorities may be tuned, or all; they count for all clusters of the slurmdbd (default: none)")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

// slurmInit is the result of slurm init.
type slurmInit struct {
	*site.Description
	out string
}

// siteOptions are the flags of slurm init by the options that they set.
var siteOptions = map[string]string{"Saved": "--saved", "Conf": "--slurm-conf", "TuneQOS": "--tune-qos", "Out": "--out",
	"Trace": "--trace"}

func (o *slurmInitOptions) run(ctx context.Context) (_ *slurmInit, err error) {
	defer func() {
		var option *site.OptionError
		if errors.As(err, &option) {
			if err = fmt.Errorf("%s: %w", siteOptions[option.Option], option.Err); option.Option == "TuneQOS" {
				err = cli.Usage(err)
			}
		}
	}()
	if err := cli.NeedsPath(o.out, "--out", "a folder"); err != nil {
		return nil, err
	}
	if o.zone != "" {
		if o.Zone, err = trace.ParseZone(o.zone); err != nil {
			return nil, cli.Usage(fmt.Errorf("--timezone: %w", err))
		}
	}
	d, err := site.Describe(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	return &slurmInit{d, o.out}, d.Write(o.out, cli.Registration("slurm"))
}

func (r *slurmInit) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\nWritten:\n", r.Cluster)
	for _, f := range r.Files {
		fmt.Fprintf(w, "  %s\n", f)
	}
	fmt.Fprintf(w, "\nNothing of Slurm is changed. To have AutoSched change settings:\n")
	fmt.Fprintf(table.Whole(w), "  copy %s to %s\n", r.Files[len(r.Files)-1], r.Path)
	if r.Link != "" && !r.Present {
		fmt.Fprintf(table.Whole(w), "  %s\n", r.Link)
	}
	switch {
	case !r.Read:
		fmt.Fprintf(w, "  add \"%s\" as the last line of slurm.conf\n", r.Include)
	case r.Present:
		fmt.Fprintf(w, "  %s includes it already\n", r.Conf)
	default:
		fmt.Fprintf(w, "  add \"%s\" as the last line of %s\n", r.Include, r.Conf)
	}
	for _, m := range r.Move {
		fmt.Fprintf(w, "  take out %s\n", m)
	}
	for i, n := range r.Notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "note: %s\n", n)
	}
	_, err := fmt.Fprintf(w, "\nNext:\n  autosched fidelity --trace sacct.psv --site %s\n", r.out)
	return err
}

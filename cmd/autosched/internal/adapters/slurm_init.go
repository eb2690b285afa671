package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/autosched/autosched/adapter/slurm/site"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload/trace"
)

// slurmInitOptions are the flags of slurm init.
type slurmInitOptions struct {
	saved   string
	conf    string
	include string
	out     string
	id      string
	zone    string
	tuneQOS []string
	json    bool
}

func newSlurmInitCmd() *cobra.Command {
	var o slurmInitOptions
	var commands strings.Builder
	for _, c := range conf.Commands {
		fmt.Fprintf(&commands, "  %s >%s\n", strings.Join(c.Args, " "), c.File)
	}
	fmt.Fprintf(&commands, "  %s >%s\n", strings.Join(conf.EventCommand.Args, " "), conf.EventCommand.File)
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
slurmdbd leave qos.txt and assoc.txt empty; events.txt may be missing. --site of fidelity, tune, evaluate and compare
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
	fl.StringVar(&o.saved, "saved", "", "folder with what the commands printed (default: run them)")
	fl.StringVar(&o.conf, "slurm-conf", "",
		"the site's slurm.conf, to find the lines that have to move (default: as scontrol show config says)")
	fl.StringVar(&o.include, "include", "",
		"where the file will lie that slurm.conf includes (default: autosched/autosched.conf beside slurm.conf)")
	fl.StringVarP(&o.out, "out", "o", ".", "folder for the files")
	fl.StringVar(&o.id, "id", "", "id of the scheduler in the service (default: the name of the cluster)")
	fl.StringVar(&o.zone, "timezone", "",
		"zone whose clock saved events show, such as Europe/Berlin, as for the jobs (default: their times are labelled UTC)")
	fl.StringSliceVar(&o.tuneQOS, "tune-qos", nil,
		"QOS whose priorities may be tuned, or all; they count for all clusters of the slurmdbd (default: none)")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

// slurmInit is the result of slurm init.
type slurmInit struct {
	*site.Description
	out string
}

// siteOptions are the flags of slurm init by the options that they set.
var siteOptions = map[string]string{"Saved": "--saved", "Conf": "--slurm-conf", "TuneQOS": "--tune-qos", "Out": "--out"}

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
	options := site.Options{Saved: o.saved, Conf: o.conf, Include: o.include, ID: o.id, TuneQOS: o.tuneQOS}
	if o.zone != "" {
		if options.Zone, err = trace.ParseZone(o.zone); err != nil {
			return nil, cli.Usage(fmt.Errorf("--timezone: %w", err))
		}
	}
	d, err := site.Describe(ctx, options)
	if err != nil {
		return nil, err
	}
	return &slurmInit{d, o.out}, d.Write(o.out, registrationText)
}

// registrationText is a registration as 'autosched scheduler register' reads it.
func registrationText(r site.Registration) ([]byte, error) {
	return protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(&pb.Scheduler{
		Name: "schedulers/" + r.ID,
		Spec: &pb.SchedulerSpec{SchedulerType: "slurm", Mode: pb.SchedulerSpec_RECOMMEND,
			Cluster: convert.ClusterToProto(r.Cluster),
			Parameters: slices.DeleteFunc(convert.Parameters(r.Parameters), func(p *pb.ParameterSpec) bool {
				return !slices.Contains(r.Tuned, p.GetParameterId())
			})},
	})
}

func (r *slurmInit) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\nWritten:\n", r.Cluster)
	for _, f := range r.Files {
		fmt.Fprintf(w, "  %s\n", f)
	}
	fmt.Fprintf(w, "\nNothing of Slurm is changed. To have AutoSched change settings:\n")
	fmt.Fprintf(w, "  copy %s to %s\n", r.Files[len(r.Files)-1], strings.TrimPrefix(r.Include, "include "))
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
	_, err := fmt.Fprintf(w, "\nNext: autosched fidelity --trace sacct.psv --site %s\n", r.out)
	return err
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/autosched/autosched/adapter/slurm"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), o.json, "slurm-init/v1", r, r.print)
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

// slurmInit is what slurm init found.
type slurmInit struct {
	Cluster string   `json:"cluster"`
	Files   []string `json:"files"`
	// Include is the line that slurm.conf needs last.
	Include string `json:"include"`
	Present bool   `json:"include_present"` // the line is there
	// Move are the lines that set what AutoSched will own, as file:line: key.
	Move  []string `json:"move"`
	Notes []string `json:"notes"`

	out, conf string
	read      bool // slurm.conf was
}

func (o *slurmInitOptions) run(ctx context.Context) (*slurmInit, error) {
	shown, notes, err := o.shown(ctx)
	if err != nil {
		return nil, err
	}
	if o.zone != "" {
		if shown.Zone, err = trace.ParseZone(o.zone); err != nil {
			return nil, usageError{fmt.Errorf("--timezone: %w", err)}
		}
	}
	site, err := shown.Site()
	if err != nil {
		return nil, err
	}
	if err := site.TuneQOS(o.tuneQOS); err != nil {
		return nil, usageError{fmt.Errorf("--tune-qos: %w", err)}
	}
	r := &slurmInit{Cluster: site.Cluster.String(), Move: []string{}, Notes: append(site.Notes, notes...), out: o.out}
	r.conf = o.conf
	if r.conf == "" {
		r.conf = site.Config.Get("SLURM_CONF")
		if saved := filepath.Join(o.saved, "slurm.conf"); o.saved != "" && exists(saved) {
			r.conf = saved
		}
	}
	include := o.include
	if include == "" {
		include = filepath.Join(filepath.Dir(site.Config.Get("SLURM_CONF")), "autosched", "autosched.conf")
	}
	r.Include = "include " + include
	if err := r.lines(include, o.conf != ""); err != nil {
		return nil, err
	}
	owned, err := site.Config.Owned()
	if err != nil {
		return nil, err
	}
	if found := conf.Check(owned, slices.Concat(site.Config.Site(conf.Tuned())[conf.SchedulerParameters],
		site.Config.Site(conf.Tuned())[conf.WeightTRES]), site.Config.Get("AccountingStorageTRES")); len(found) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the settings that run cannot go into the file: %v", found[0]))
	}
	return r, o.write(r, site, owned)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// shown reads what the commands print. Events may be missing.
func (o *slurmInitOptions) shown(ctx context.Context) (s conf.Shown, notes []string, err error) {
	run := slurm.Commands{Conf: o.conf}
	for i, to := range []*[]byte{&s.Config, &s.Partitions, &s.Nodes, &s.QOS, &s.Associations} {
		c := conf.Commands[i]
		if o.saved != "" {
			text, err := os.ReadFile(filepath.Join(o.saved, c.File))
			if errors.Is(err, fs.ErrNotExist) {
				return s, nil, fmt.Errorf("--saved: %w: write into it what %s prints", err, strings.Join(c.Args, " "))
			}
			if err != nil {
				return s, nil, fmt.Errorf("--saved: %w", err)
			}
			*to = text
			continue
		}
		text, err := run.Run(ctx, c.Args[0], c.Args[1:]...)
		if err != nil {
			return s, nil, fmt.Errorf("%w; run it where Slurm's commands work, or name their output with --saved", err)
		}
		*to = []byte(text)
	}
	c := conf.EventCommand
	if o.saved != "" {
		s.Events, err = os.ReadFile(filepath.Join(o.saved, c.File))
	} else {
		var text string
		text, err = run.Run(ctx, c.Args[0], c.Args[1:]...)
		s.Events = []byte(text)
	}
	if err != nil {
		notes = append(notes, fmt.Sprintf("when nodes were down or drained is not known, and they are taken to be up: %v",
			err))
	}
	return s, notes, nil
}

// lines looks at slurm.conf, which must be there only if it was named.
func (r *slurmInit) lines(include string, must bool) error {
	c, err := conf.Read(r.conf, func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && path != r.conf {
			if path != include {
				r.Notes = append(r.Notes, fmt.Sprintf("%s includes %s, which is not there: it was not read",
					r.conf, path))
			}
			return nil, nil
		}
		return text, err
	})
	switch {
	case err == nil:
	case must:
		return fmt.Errorf("--slurm-conf: %w", err)
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("slurm.conf was not read, and which lines have to move is not known: %v",
			err))
		return nil
	}
	r.read = true
	r.Present = slices.Contains(c.Files, include)
	for _, l := range c.Elsewhere(include) {
		r.Move = append(r.Move, l.String())
	}
	return nil
}

// write writes the files.
func (o *slurmInitOptions) write(r *slurmInit, site *conf.Site, owned []byte) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	cluster, err := json.MarshalIndent(site.Cluster, "", "  ")
	if err != nil {
		return err
	}
	var current, events bytes.Buffer
	if _, err := trace.WriteNodeEvents(&events, time.Unix(0, 0).UTC(), site.Cluster, site.Outages); err != nil {
		return err
	}
	for _, id := range site.Current.IDs() {
		fmt.Fprintf(&current, "%s: %s\n", id, yamlText(site.Current.Get(id)))
	}
	id := o.id
	if id == "" {
		id = strings.ToLower(site.Config.Get("ClusterName"))
	}
	narrowed, err := site.Narrowed()
	if err != nil {
		return err
	}
	registration, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(&pb.Scheduler{
		Name: "schedulers/" + id,
		Spec: &pb.SchedulerSpec{SchedulerType: "slurm", Mode: pb.SchedulerSpec_RECOMMEND,
			Cluster: server.ClusterToProto(site.Cluster),
			Parameters: slices.DeleteFunc(server.Parameters(narrowed), func(p *pb.ParameterSpec) bool {
				return !slices.Contains(site.Config.Tuned(), p.GetParameterId())
			})},
	})
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{siteCluster, cluster}, {siteCurrent, current.Bytes()}, {siteScheduler, registration},
		{siteNodeEvents, events.Bytes()}, {siteSettings, owned}} {
		path := filepath.Join(o.out, f.name)
		r.Files = append(r.Files, path)
		if err := writeFile(path, "--out", func(w io.Writer) error {
			_, err := w.Write(append(bytes.TrimRight(f.text, "\n"), '\n'))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// yamlText writes a value that YAML reads as the same.
func yamlText(v space.Value) string {
	text, err := json.Marshal(v)
	if err != nil {
		return v.String()
	}
	return string(text)
}

func (r *slurmInit) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\nWritten:\n", r.Cluster)
	for _, f := range r.Files {
		fmt.Fprintf(w, "  %s\n", f)
	}
	fmt.Fprintf(w, "\nNothing of Slurm is changed. To have AutoSched change settings:\n")
	fmt.Fprintf(w, "  copy %s to %s\n", r.Files[len(r.Files)-1], strings.TrimPrefix(r.Include, "include "))
	switch {
	case !r.read:
		fmt.Fprintf(w, "  add \"%s\" as the last line of slurm.conf\n", r.Include)
	case r.Present:
		fmt.Fprintf(w, "  %s includes it already\n", r.conf)
	default:
		fmt.Fprintf(w, "  add \"%s\" as the last line of %s\n", r.Include, r.conf)
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

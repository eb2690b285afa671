// Package site describes a Slurm cluster to the rest of the project. Describe reads Slurm's commands, or their saved
// output, and Description.Write keeps the result in a folder; a Folder is read by simulations. The package changes
// nothing of Slurm.
package site

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/adapter/slurm"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload/trace"
)

// Options are the sources of a description.
type Options struct {
	// Saved is a folder with the output of Slurm's commands, in files named as in [conf.Commands]; empty runs them.
	Saved string
	// Conf is the path of slurm.conf; if empty, that of the saved output or the one slurmctld reports.
	Conf string
	// Include is the path of the file that slurm.conf must include; if empty, autosched/autosched.conf beside it.
	Include string
	// ID is the id of the scheduler in the service; the name of the cluster if empty.
	ID string
	// Zone is the zone of saved times of events; nil is UTC.
	Zone *time.Location
	// Trace is a file of accounting, such as sacct.psv; if empty, that of the saved output if it is there. Notes have
	// the share of its GPU-hours that they concern.
	Trace string
	// TuneQOS names the QOS whose priorities are tuned, or all of them as "all".
	TuneQOS []string
}

// An OptionError is a fault of one of the options.
type OptionError struct {
	Option string // a field of Options, or Out for the folder of Write
	Err    error
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// A Description is a cluster as Slurm's commands report it.
type Description struct {
	Cluster string   `json:"cluster"`
	Files   []string `json:"files"` // written by Write, the settings last
	// Include is the last line that slurm.conf needs.
	Include string `json:"include"`
	// Path is where the settings have to lie, and Link the command that makes the link beside slurm.conf; empty if
	// none is needed.
	Path string `json:"path"`
	Link string `json:"link,omitempty"`
	// Present reports that slurm.conf has the line already.
	Present bool `json:"include_present"`
	// Move lists the lines of slurm.conf that set parameters which are tuned, as file:line: key.
	Move []string `json:"move"`
	// Notes list the parts that are not simulated, and other warnings for people.
	Notes []string `json:"notes"`

	// Conf is the path of slurm.conf, and Read reports that it was read.
	Conf string `json:"-"`
	Read bool   `json:"-"`

	id    string
	site  *conf.Site
	owned []byte
}

// Describe reads a cluster. The times of nodes that were down or drained may be missing; everything else is an error
// that names the file or the command.
func Describe(ctx context.Context, o Options) (*Description, error) {
	shown, notes, err := o.shown(ctx)
	if err != nil {
		return nil, err
	}
	shown.Zone = o.Zone
	site, err := shown.Site()
	if err != nil {
		return nil, err
	}
	if err := site.TuneQOS(o.TuneQOS); err != nil {
		return nil, &OptionError{"TuneQOS", err}
	}
	if err := o.weigh(ctx, site); err != nil {
		return nil, &OptionError{"Trace", err}
	}
	config := site.Config
	d := &Description{Cluster: site.Cluster.String(), Move: []string{}, Notes: append(site.Notes, notes...),
		Conf: o.Conf, id: cmp.Or(o.ID, strings.ToLower(config.Get("ClusterName"))), site: site}
	if d.Conf == "" {
		d.Conf = config.Get("SLURM_CONF")
		if saved := filepath.Join(o.Saved, "slurm.conf"); o.Saved != "" && exists(saved) {
			d.Conf = saved
		}
	}
	include := cmp.Or(o.Include, filepath.Join(filepath.Dir(config.Get("SLURM_CONF")), "autosched", Settings))
	d.Path = include
	d.Include, d.Link = conf.IncludeLine(config.Get("SLURM_CONF"), include)
	if err := d.readConf(include, o.Conf != ""); err != nil {
		return nil, err
	}
	if off, err := slurm.CloudNodes(d.Conf); err == nil {
		for _, r := range slurmtext.Records(string(shown.Nodes), "nodename") {
			delete(off, r["nodename"])
		}
		if names := slices.Sorted(maps.Keys(off)); len(names) > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("%d CLOUD nodes are off and not listed, and their GPUs are missing: %s: "+
				"run it with PrivateData=cloud, or as an operator", len(names), strings.Join(names, ",")))
		}
	}
	if d.owned, err = config.Owned(); err != nil {
		return nil, err
	}
	own := config.Site(conf.Tuned())
	if found := conf.Check(d.owned, slices.Concat(own[conf.SchedulerParameters], own[conf.WeightTRES]),
		config.Get("AccountingStorageTRES")); len(found) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("the settings that run cannot go into the file: %v", found[0]))
	}
	return d, nil
}

// weigh adds shares to the notes, where there is a history.
func (o Options) weigh(ctx context.Context, site *conf.Site) error {
	path := o.Trace
	if saved := filepath.Join(o.Saved, "sacct.psv"); path == "" && o.Saved != "" && exists(saved) {
		path = saved
	}
	if path == "" {
		return nil
	}
	w, _, err := trace.Open(ctx, path, trace.Options{Zone: o.Zone})
	if err != nil {
		return err
	}
	site.Weigh(w.Jobs())
	return nil
}

// shown runs Slurm's commands, or reads their saved output.
func (o Options) shown(ctx context.Context) (s conf.Shown, notes []string, err error) {
	run := slurm.Commands{Conf: o.Conf}
	printed := func(file string, args []string) ([]byte, error) {
		if o.Saved != "" {
			return os.ReadFile(filepath.Join(o.Saved, file))
		}
		text, err := run.Run(ctx, args[0], args[1:]...)
		return []byte(text), err
	}
	for i, to := range s.Files() {
		c := conf.Commands[i]
		*to, err = printed(c.File, c.Args)
		switch {
		case err == nil:
		case o.Saved == "":
			return s, nil, fmt.Errorf("%w; run it where Slurm's commands work, or read their saved output", err)
		case errors.Is(err, fs.ErrNotExist):
			return s, nil, &OptionError{"Saved", fmt.Errorf("%w: write into it what %s prints", err,
				strings.Join(c.Args, " "))}
		default:
			return s, nil, &OptionError{"Saved", err}
		}
	}
	for _, optional := range []struct {
		of      conf.Command
		to      *[]byte
		lacking string
	}{
		{conf.EventCommand, &s.Events, "when nodes were down or drained is not known, and they are taken to be up"},
		{conf.ReservationCommand, &s.Reservations, "reservations are not known, and none is simulated"},
		{conf.PastCommand, &s.Past, "reservations of the past are not known, and none of them is simulated"},
		{conf.TopologyCommand, &s.Topology, ""},
	} {
		if *optional.to, err = printed(optional.of.File, optional.of.Args); err != nil && optional.lacking != "" {
			notes = append(notes, fmt.Sprintf("%s: %v", optional.lacking, err))
		}
	}
	return s, notes, nil
}

// readConf reads slurm.conf, which must exist only if an option names it.
func (d *Description) readConf(include string, must bool) error {
	c, err := conf.Read(d.Conf, func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) || path == d.Conf {
			return text, err
		}
		if filepath.Base(path) != filepath.Base(include) {
			d.Notes = append(d.Notes, fmt.Sprintf("%s includes %s, which is not there: it was not read", d.Conf, path))
		}
		return nil, nil
	})
	switch {
	case err == nil:
	case must:
		return &OptionError{"Conf", err}
	case d.Conf == "":
		d.Notes = append(d.Notes, "scontrol show config names no slurm.conf: which lines have to move is not known")
		return nil
	default:
		d.Notes = append(d.Notes, fmt.Sprintf("slurm.conf was not read, and which lines have to move is not known: %v",
			err))
		return nil
	}
	d.Read, d.Present = true, c.Includes(include) == nil || c.HasLine(d.Include)
	for _, l := range c.Elsewhere(include) {
		d.Move = append(d.Move, l.String())
	}
	return nil
}

// Write writes the files of a folder and lists them in d.Files. encode renders the registration as JSON of the API.
func (d *Description) Write(dir string, encode func(site.Registration) ([]byte, error)) error {
	var events bytes.Buffer
	if _, err := trace.WriteNodeEvents(&events, time.Unix(0, 0).UTC(), d.site.Cluster, d.site.Outages); err != nil {
		return err
	}
	narrowed, err := d.site.Narrowed()
	if err != nil {
		return err
	}
	files, err := site.Describe(site.Registration{ID: d.id, Cluster: d.site.Cluster, Parameters: narrowed,
		Tuned: d.site.Config.Tuned()}, d.site.Current, encode)
	if err != nil {
		return err
	}
	if d.Files, err = site.Folder(dir).Write(append(files, site.File{Name: site.NodeEvents, Text: events.Bytes()},
		site.File{Name: Settings, Text: d.owned})...); err != nil {
		return &OptionError{"Out", err}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

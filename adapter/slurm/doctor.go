package slurm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// Examine finds the obstacles to tuning a site, and the conditions under which tuning is of no use. It changes nothing.
func Examine(ctx context.Context, o Options) *checkup.Report {
	o = o.Filled()
	e := &examination{Commands: Commands{Conf: o.Conf}, o: o}
	e.slurmctld(ctx)
	if e.config != nil {
		e.priorities(ctx)
		e.partitions(ctx)
		e.cycles(ctx)
		e.accounts(ctx)
		e.byHand(ctx)
	}
	if e.o.Tuned == nil {
		e.o.Tuned = cmp.Or(e.config, &conf.Config{}).Tuned()
	}
	e.files()
	return &e.Report
}

type examination struct {
	Commands
	o      Options
	config *conf.Config // in force; nil if slurmctld does not answer
	checkup.Report
}

func (e *examination) slurmctld(ctx context.Context) {
	config, err := e.Commands.config(ctx)
	if err != nil {
		e.Fail("slurmctld", "start slurmctld, or name its slurm.conf with --slurm-conf", "%v", err)
		return
	}
	e.config = config
	if version := config.Get("SLURM_VERSION"); triedWith(config) {
		e.OK("slurmctld", "%s, version %s", config.Get("ClusterName"), version)
	} else {
		e.Warn("slurmctld", "begin with --mode observe", "version %s: the adapter was tried with %s",
			version, strings.Join(tried, " and "))
	}
}

func (e *examination) priorities(ctx context.Context) {
	if got := e.config.Get("PriorityType"); got != "priority/multifactor" {
		e.Fail("priorities", "set PriorityType=priority/multifactor in slurm.conf and restart slurmctld", "PriorityType is %s", got)
	} else if _, err := e.Run(ctx, "sprio", "-h"); err != nil {
		e.Fail("priorities", "restart slurmctld: PriorityType counts from its start on",
			"sprio does not answer: %v", err)
	} else {
		e.OK("priorities", "multifactor, computed every %s", e.config.Get("PriorityCalcPeriod"))
	}
	if !slices.Contains(strings.Split(e.config.Get("AccountingStorageTRES"), ","), "gres/gpu") {
		e.Fail("GPUs", "add gres/gpu to AccountingStorageTRES in slurm.conf and restart slurmctld",
			"accounting does not count GPUs")
	}
}

// partitions looks at billing and time limits.
func (e *examination) partitions(ctx context.Context) {
	text, err := e.Run(ctx, "scontrol", "show", "partition", "-o")
	if err != nil {
		e.Fail("partitions", "", "%v", err)
		return
	}
	window := 1440
	if value, there := e.config.Option("bf_window", false); there {
		window, _ = strconv.Atoi(value)
	}
	for _, f := range slurmtext.Records(text, "partitionname") {
		if !strings.Contains(f["tres"], "gres/gpu") {
			continue
		}
		name := f["partitionname"]
		if !strings.Contains(strings.ToLower(f["tresbillingweights"]), "gres/gpu") {
			e.Warn("billing", "set TRESBillingWeights=GRES/gpu=1.0 for it in slurm.conf",
				"partition %s: fair share charges CPUs, not GPUs", name)
		} else {
			e.OK("billing", "partition %s: %s", name, f["tresbillingweights"])
		}
		limit, err := slurmtext.ParseLimit(f["maxtime"])
		switch {
		case err != nil || limit == 0:
			e.Warn("window", "set MaxTime", "partition %s has no time limit: backfill plans %d minutes ahead", name,
				window)
		case limit > time.Duration(window)*time.Minute:
			e.Warn("window", fmt.Sprintf("set bf_window to %d", int(limit.Minutes())),
				"partition %s: backfill plans %d minutes ahead and jobs may ask for %s: long ones may starve", name,
				window, f["maxtime"])
		default:
			e.OK("window", "partition %s: backfill plans %d minutes ahead, limits end at %s", name, window,
				f["maxtime"])
		}
	}
}

func (e *examination) cycles(ctx context.Context) {
	d, err := e.diagnostics(ctx)
	interval := wake(e.config)
	switch slowest := max(d.backfill, d.meanCycle); {
	case err != nil:
		e.Warn("cycles", "allow sdiag", "%v", err)
	case slowest > interval/2:
		e.Warn("cycles", "raise bf_interval or lower bf_max_job_test: nothing is applied meanwhile",
			"a backfill cycle takes %v of an interval of %v", slowest.Round(time.Millisecond), interval)
	default:
		e.OK("cycles", "a backfill cycle takes %v of an interval of %v", slowest, interval)
	}
}

// accounts looks at accounting and rights.
func (e *examination) accounts(ctx context.Context) {
	n, err := e.clusters(ctx)
	if err != nil {
		e.Fail("accounting", "start slurmdbd", "%v", err)
		return
	}
	if n > 1 {
		e.Warn("QOS", "leave QOS untuned, or give --allow-qos shared",
			"%d clusters share this slurmdbd: a change of a QOS is one for all of them", n)
	} else {
		e.OK("QOS", "no other cluster shares them")
	}
	e.qosState(ctx)
	me, level, any, err := e.level(ctx, e.config)
	if err != nil {
		e.Fail("rights", "", "%v", err)
		return
	}
	switch {
	case any:
		e.Warn("rights", "run the adapter as an account of its own", "%s may do anything to Slurm", me)
	case strings.EqualFold(level, "Administrator"):
		e.OK("rights", "%s may reconfigure slurmctld, and set QOS", me)
	default:
		e.Warn("rights", "sacctmgr modify user "+me+" set adminlevel=administrator, or --reconfigure with sudo, "+
			"which does not set QOS", "%s may read, and neither reconfigure nor set QOS: enough for --mode observe", me)
	}
	if private := e.config.Get("PrivateData"); strings.Contains(private, "jobs") && !strings.EqualFold(level, "Administrator") &&
		!strings.EqualFold(level, "Operator") && !any {
		e.Fail("PrivateData", "sacctmgr modify user "+me+" set adminlevel=operator",
			"PrivateData=%s hides the jobs of others", private)
	}
}

// qosState compares the priorities of QOS with the include file.
func (e *examination) qosState(ctx context.Context) {
	text, err := os.ReadFile(e.o.Include)
	if err != nil {
		return // files says so
	}
	said, err := conf.QOSPriorities(text)
	if err != nil {
		e.Fail("QOS", "correct the line", "%s: %v", e.o.Include, err)
		return
	}
	if len(said) == 0 {
		return
	}
	now, err := e.qos(ctx)
	if err != nil {
		e.Fail("QOS", "", "%v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if v := now[name]; v != said[name] {
			e.Fail("QOS", "set it back, or start the adapter once with --take-over",
				"the priority of %s is %d, and %s says %d", name, v, e.o.Include, said[name])
		} else {
			e.OK("QOS", "the priority of %s, %d, is tuned", name, v)
		}
	}
}

// byHand looks for changes that a reconfiguration takes back, and for controllers that are down.
func (e *examination) byHand(ctx context.Context) {
	changed, err := e.undone(ctx, e.o.Conf, e.config)
	switch {
	case err != nil:
		e.Fail("by hand", "", "%v", err)
	case len(changed) > 0:
		e.Fail("by hand", "put them into slurm.conf, or set ReconfigFlags=KeepPartInfo there", "%v: %s", errUndoes,
			strings.Join(changed, "; "))
	default:
		e.OK("by hand", "a reconfiguration undoes nothing of partitions and nodes")
	}
	switch up, err := e.up(ctx); {
	case err != nil:
		e.Fail("slurmctld", "", "%v", err)
	case !up:
		e.Fail("slurmctld", "start the primary", "a backup is in control: nothing is applied meanwhile")
	}
}

// files looks at the include file and its surroundings.
func (e *examination) files() {
	if _, err := os.Stat(e.o.Include); err != nil {
		e.Fail("include", "autosched slurm init writes it", "%v", err)
		return
	}
	t := Target{Options: e.o, Form: &conf.Form{Tuned: e.o.Tuned}}
	if err := t.layout(); err != nil {
		e.Fail("include", "", "%v", err)
	} else if err := t.onlyTuned(); err != nil {
		e.Fail("include", "", "%v", err)
	} else {
		e.OK("include", "slurm.conf includes the file, and no setting that is tuned is set elsewhere")
	}
	for _, path := range []string{filepath.Dir(e.o.Include), e.o.Include} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			e.Warn("include", "give it to the account of the adapter, or give --install", "%s cannot be written: enough for --mode observe", path)
			return
		}
	}
	e.OK("include", "%s can be written", e.o.Include)
	if e.o.Log == "" {
		e.Warn("log", "name slurmctld's log with --log", "slurmctld says of some bad values in its log only, which is not read")
	} else if f, err := os.Open(e.o.Log); err != nil {
		e.Warn("log", "give the account of the adapter the right to read it", "%v", err)
	} else {
		f.Close()
		e.OK("log", "%s can be read", e.o.Log)
	}
}

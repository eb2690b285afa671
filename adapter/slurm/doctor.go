package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// Finding is what Examine found about one thing.
type Finding struct {
	Check  string
	Status string // ok, warn or fail
	Detail string
	Action string // what to do about it
}

// Examine looks at what keeps a site from being tuned, or tuning from being of use. It changes nothing.
func Examine(ctx context.Context, o Options) []Finding {
	o = o.Filled()
	e := &examination{Commands: Commands{Conf: o.Conf}, o: o}
	e.slurmctld(ctx)
	if e.config != nil {
		e.priorities(ctx)
		e.partitions(ctx)
		e.cycles(ctx)
		e.accounts(ctx)
	}
	e.files()
	return e.found
}

type examination struct {
	Commands
	o      Options
	config *conf.Config // in force; nil if slurmctld does not answer
	found  []Finding
}

func (e *examination) ok(check, format string, args ...any) {
	e.found = append(e.found, Finding{check, "ok", fmt.Sprintf(format, args...), ""})
}

func (e *examination) warn(check, action, format string, args ...any) {
	e.found = append(e.found, Finding{check, "warn", fmt.Sprintf(format, args...), action})
}

func (e *examination) fail(check, action, format string, args ...any) {
	e.found = append(e.found, Finding{check, "fail", fmt.Sprintf(format, args...), action})
}

func (e *examination) slurmctld(ctx context.Context) {
	config, err := e.Commands.config(ctx)
	if err != nil {
		e.fail("slurmctld", "start slurmctld, or name its slurm.conf with --slurm-conf", "%v", err)
		return
	}
	e.config = config
	version := config.Get("SLURM_VERSION")
	if strings.HasPrefix(version, "22.05") {
		e.ok("slurmctld", "%s, version %s", config.Get("ClusterName"), version)
	} else {
		e.warn("slurmctld", "try --mode recommend first", "version %s: the adapter was tried with 22.05", version)
	}
}

func (e *examination) priorities(ctx context.Context) {
	if got := e.config.Get("PriorityType"); got != "priority/multifactor" {
		e.fail("priorities", "set PriorityType=priority/multifactor in slurm.conf and restart slurmctld", "PriorityType is %s", got)
	} else if _, err := e.Run(ctx, "sprio", "-h"); err != nil {
		e.fail("priorities", "restart slurmctld: PriorityType counts from its start on",
			"sprio does not answer: %v", err)
	} else {
		e.ok("priorities", "multifactor, computed every %s", e.config.Get("PriorityCalcPeriod"))
	}
	if !slices.Contains(strings.Split(e.config.Get("AccountingStorageTRES"), ","), "gres/gpu") {
		e.fail("GPUs", "add gres/gpu to AccountingStorageTRES in slurm.conf and restart slurmctld",
			"accounting does not count GPUs")
	}
}

// partitions looks at billing and time limits.
func (e *examination) partitions(ctx context.Context) {
	text, err := e.Run(ctx, "scontrol", "show", "partition", "-o")
	if err != nil {
		e.fail("partitions", "", "%v", err)
		return
	}
	window := 1440
	if value, there := e.config.Option("bf_window", false); there {
		window, _ = strconv.Atoi(value)
	}
	for l := range strings.Lines(text) {
		f := map[string]string{}
		for field := range strings.FieldsSeq(l) {
			key, value, _ := strings.Cut(field, "=")
			f[key] = value
		}
		if gpusOf(f["TRES"]) == 0 {
			continue
		}
		name := f["PartitionName"]
		if !strings.Contains(strings.ToLower(f["TRESBillingWeights"]), "gres/gpu") {
			e.warn("billing", "set TRESBillingWeights=GRES/gpu=1.0 for it in slurm.conf",
				"partition %s: fair share charges CPUs, not GPUs", name)
		} else {
			e.ok("billing", "partition %s: %s", name, f["TRESBillingWeights"])
		}
		limit, err := conf.ParseSpan(f["MaxTime"])
		switch {
		case err != nil: // UNLIMITED
			e.warn("window", "set MaxTime", "partition %s has no time limit: backfill plans %d minutes ahead", name,
				window)
		case limit > time.Duration(window)*time.Minute:
			e.warn("window", fmt.Sprintf("set bf_window to %d", int(limit.Minutes())),
				"partition %s: backfill plans %d minutes ahead and jobs may ask for %s: long ones may starve", name,
				window, f["MaxTime"])
		default:
			e.ok("window", "partition %s: backfill plans %d minutes ahead, limits end at %s", name, window,
				f["MaxTime"])
		}
	}
}

func (e *examination) cycles(ctx context.Context) {
	d, err := e.diagnostics(ctx)
	interval := wake(e.config)
	switch slowest := max(d.backfill, d.meanCycle); {
	case err != nil:
		e.warn("cycles", "allow sdiag", "%v", err)
	case slowest > interval/2:
		e.warn("cycles", "raise bf_interval or lower bf_max_job_test: nothing is applied meanwhile",
			"a backfill cycle takes %v of an interval of %v", slowest.Round(time.Millisecond), interval)
	default:
		e.ok("cycles", "a backfill cycle takes %v of an interval of %v", slowest, interval)
	}
}

// accounts looks at accounting and rights.
func (e *examination) accounts(ctx context.Context) {
	n, err := e.clusters(ctx)
	if err != nil {
		e.fail("accounting", "start slurmdbd", "%v", err)
		return
	}
	if n > 1 {
		e.warn("QOS", "leave QOS untuned, or give --allow-qos shared",
			"%d clusters share this slurmdbd: a change of a QOS is one for all of them", n)
	} else {
		e.ok("QOS", "no other cluster shares them")
	}
	e.qosState(ctx)
	me, level, any, err := e.level(ctx, e.config)
	if err != nil {
		e.fail("rights", "", "%v", err)
		return
	}
	switch {
	case any:
		e.warn("rights", "run the adapter as an account of its own", "%s may do anything to Slurm", me)
	case strings.EqualFold(level, "Administrator"):
		e.ok("rights", "%s may reconfigure slurmctld, and set QOS", me)
	default:
		e.warn("rights", "sacctmgr modify user "+me+" set adminlevel=administrator, or --reconfigure with sudo, "+
			"which does not set QOS", "%s may read, and neither reconfigure nor set QOS: enough for --mode observe", me)
	}
	if private := e.config.Get("PrivateData"); strings.Contains(private, "jobs") && !strings.EqualFold(level, "Administrator") &&
		!strings.EqualFold(level, "Operator") && !any {
		e.fail("PrivateData", "sacctmgr modify user "+me+" set adminlevel=operator",
			"PrivateData=%s hides the jobs of others", private)
	}
}

// qosState compares the priorities of QOS with what the include file says.
func (e *examination) qosState(ctx context.Context) {
	text, err := os.ReadFile(e.o.Include)
	if err != nil {
		return // files says so
	}
	said, err := conf.QOSPriorities(text)
	if err != nil {
		e.fail("QOS", "correct the line", "%s: %v", e.o.Include, err)
		return
	}
	if len(said) == 0 {
		return
	}
	now, err := e.qos(ctx)
	if err != nil {
		e.fail("QOS", "", "%v", err)
		return
	}
	for _, name := range sortedKeys(said) {
		if v := now[name]; v != said[name] {
			e.fail("QOS", "set it back, or start the adapter once with --take-over",
				"the priority of %s is %d, and %s says %d", name, v, e.o.Include, said[name])
		} else {
			e.ok("QOS", "the priority of %s, %d, is tuned", name, v)
		}
	}
}

// files looks at the include file and its surroundings.
func (e *examination) files() {
	if _, err := os.Stat(e.o.Include); err != nil {
		e.fail("include", "autosched slurm init writes it", "%v", err)
		return
	}
	places, err := elsewhere(e.o.Conf, e.o.Include, owned(e.o.Tuned))
	switch {
	case err != nil:
		e.fail("include", "", "%v", err)
	case len(places) > 0:
		e.fail("duplicates", "move these lines into "+e.o.Include, "settings that are tuned are set elsewhere, too: %s",
			strings.Join(places, ", "))
	default:
		e.ok("duplicates", "no setting that is tuned is set elsewhere")
	}
	for _, path := range []string{filepath.Dir(e.o.Include), e.o.Include} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			e.warn("include", "give it to the account of the adapter", "%s cannot be written: enough for --mode observe", path)
			return
		}
	}
	e.ok("include", "%s can be written", e.o.Include)
	if e.o.Log == "" {
		e.warn("log", "name slurmctld's log with --log", "slurmctld says of some bad values in its log only, which is not read")
	} else if f, err := os.Open(e.o.Log); err != nil {
		e.warn("log", "give the account of the adapter the right to read it", "%v", err)
	} else {
		f.Close()
		e.ok("log", "%s can be read", e.o.Log)
	}
}

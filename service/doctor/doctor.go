// Package doctor checks the directory of a service that is stopped.
package doctor

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
)

// MaxSkew is the difference of clocks above which a check warns.
const MaxSkew = 5 * time.Second

// Directory checks the directory of a service that is stopped: its files and every record in
// them, permissions, disk space and the clock. It writes nothing.
func Directory(r *checkup.Report, dir string, now time.Time) {
	directory{r, dir}.check(now)
}

type directory struct {
	*checkup.Report
	dir string
}

func (d directory) check(now time.Time) {
	dir := d.dir
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		d.Fail("directory", "name the --dir of 'autosched serve'", "%v", err)
		return
	case !info.IsDir():
		d.Fail("directory", "name the --dir of 'autosched serve'", "%s is not a directory", dir)
		return
	case info.Mode().Perm()&0o077 != 0:
		d.Warn("directory", "chmod 700 "+dir, "%s may be entered by other users: its mode is %04o", dir,
			info.Mode().Perm())
	default:
		d.OK("directory", "%s, mode %04o", dir, info.Mode().Perm())
	}
	r, err := store.Inspect(dir)
	switch {
	case errors.Is(err, store.ErrLocked):
		d.Fail("lock", "stop the service first, or use --server", "%v", err)
		return
	case errors.Is(err, store.ErrNewer):
		d.Fail("layout", "run the version of autosched that wrote it", "%v", err)
		return
	case err != nil:
		d.Fail("files", "see that this user may read the directory", "%v", err)
		return
	}
	if r.Layout > 0 {
		d.OK("layout", "layout %d, for readers of version %d or later", r.Layout, r.Reader)
	}
	if r.Replica {
		d.OK("replica", "of a cluster, with its log up to entry %d at least", r.Last)
	}
	d.files(r)
	d.records(r, now)
	if head, err := store.VerifyAudit(dir, ""); err != nil {
		d.Fail("audit", "see 'autosched admin audit verify --help'; what follows the record is not to be trusted",
			"%v", err)
	} else {
		d.OK("audit", "%s, unbroken", units.Plural(int(head.Sequence), "record"))
	}
	d.disk()
}

const restoreIt = "restore a backup ('autosched admin restore'), or see docs/operations.md#what-a-damaged-store-costs"

func (d directory) files(r *store.Report) {
	events := 0
	for _, f := range r.Files {
		events += f.Events
		switch {
		case f.Damage != nil && f.Name == store.ConfigFile:
			d.Fail("file", restoreIt, "%s: %v", f.Name, f.Damage)
		case f.Damage != nil:
			d.Warn("file", "its readable part counts; restore a backup to get the rest", "%s: %v", f.Name, f.Damage)
		}
		if info, err := os.Stat(filepath.Join(d.dir, f.Name)); err == nil && info.Mode().Perm()&0o077 != 0 {
			d.Warn("file", "chmod 600 "+filepath.Join(d.dir, f.Name), "%s may be read by other users: its mode is %04o",
				f.Name, info.Mode().Perm())
		}
	}
	d.OK("files", "%s, %s that can be read", units.Plural(len(r.Files), "file"), units.Plural(events, "event"))
	var others []string
	for _, name := range r.Others {
		switch name {
		case samples.Folder:
			d.telemetry()
		case store.FindingsFolder:
			d.findings()
		case store.EvaluationsFolder:
		default:
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		d.Warn("others", "move away what is not needed", "the service does not read %s", strings.Join(others, ", "))
	}
}

const restPasses = "nothing: the rest of it is read, and what cannot be read is left out"

func (d directory) telemetry() {
	files, damage, err := samples.Inspect(filepath.Join(d.dir, samples.Folder))
	if err != nil {
		d.Warn("telemetry", "see that this user may read it", "%v", err)
	}
	for _, one := range damage {
		if one.Err != nil {
			d.Warn("telemetry", "see that this user may read it", "%s: %v", one.File, one.Err)
		} else {
			d.Warn("telemetry", restPasses, "%s: %d bytes are damaged", one.File, one.Bytes)
		}
	}
	if err == nil {
		d.OK("telemetry", "%s", units.Plural(files, "file"))
	}
}

func (d directory) findings() {
	files, damage := findings.Inspect(filepath.Join(d.dir, store.FindingsFolder))
	for _, err := range damage {
		d.Warn("findings", "nothing: the service sets it aside and examines the stored records again", "%v", err)
	}
	d.OK("findings", "%s", units.Plural(files, "file"))
}

// records checks the records of config.db.
func (d directory) records(r *store.Report, now time.Time) {
	latest := time.Time{}
	for _, s := range r.Schedulers {
		lost := 0
		for _, c := range s.Configurations {
			if c.State == rollout.Lost {
				lost++
			}
			if c.Updated.After(latest) {
				latest = c.Updated
			}
		}
		switch {
		case s.Fault != nil:
			d.Fail("scheduler", restoreIt, "%s will be quarantined: %v", s.Scheduler.ID, s.Fault)
		case lost > 0:
			d.Warn("scheduler", restoreIt, "%s lost the values of %s", s.Scheduler.ID, units.Plural(lost, "revision"))
		}
	}
	d.OK("schedulers", "%s", units.Plural(len(r.Schedulers), "scheduler"))
	d.studies(r)
	if latest.After(now.Add(MaxSkew)) {
		d.Warn("clock", "set this machine's clock", "a record is of %s, and the clock shows %s",
			latest.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	} else {
		d.OK("clock", "no record is newer than the clock")
	}
}

// studies checks studies and their trials.
func (d directory) studies(r *store.Report) {
	read := map[string]bool{}
	trials := 0
	for _, s := range r.Studies {
		trials += len(s.State.Trials)
		read[s.Scheduler+"/"+s.State.ID] = true
	}
	for _, damage := range r.StudyDamage {
		var c *store.CorruptError
		if !errors.As(damage.Err, &c) {
			continue
		}
		name := path.Base(c.Bucket) + "/" + c.Key
		if read[name] {
			d.Warn("study", restoreIt, "%s lost %s: %v", name, units.Plural(damage.Records, "trial"), damage.Err)
			trials -= damage.Records
		} else {
			d.Fail("study", restoreIt, "%s cannot be read: %v", name, damage.Err)
		}
	}
	d.OK("studies", "%d, %s that can be read", len(r.Studies), units.Plural(trials, "trial"))
}

func (d directory) disk() {
	free, size, err := store.Space(d.dir)
	if err != nil {
		d.Warn("disk", "see the system's log", "%v", err)
		return
	}
	d.Add(checkup.Disk(free), "disk", "free space on the disk of "+d.dir, "%d of %d MiB are free", free>>20, size>>20)
}

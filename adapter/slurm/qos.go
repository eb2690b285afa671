package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// The slurmdbd whose priorities of QOS may be set: one with this cluster alone, or one that several share.
const (
	OwnQOS    = "own"
	SharedQOS = "shared"
)

// errSetByOthers is wrapped by errors about priorities that the adapter did not set, and leaves as they are.
var errSetByOthers = errors.New("someone else set a priority of a QOS")

// qosNote are the priorities that each QOS may have by the adapter's hand: one, and two while it is set.
type qosNote map[string][]int64

func (t *Target) qosNotePath() string {
	if len(t.Install) > 0 {
		return filepath.Join(t.Dir, "qos")
	}
	return t.Include + ".qos"
}

func (t *Target) readQOSNote() (qosNote, error) {
	note := qosNote{}
	text, err := os.ReadFile(t.qosNotePath())
	if errors.Is(err, fs.ErrNotExist) {
		return note, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &note)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, and start with --take-over", t.qosNotePath(), err)
	}
	return note, nil
}

func (t *Target) writeQOSNote(note qosNote) error {
	return atomicfile.WritePrivate(t.qosNotePath(), func(w io.Writer) error { return json.NewEncoder(w).Encode(note) })
}

// qos are the priorities in force.
func (c Commands) qos(ctx context.Context) (map[string]int64, error) {
	text, err := c.Run(ctx, "sacctmgr", "-nP", "show", "qos", "format=Name,Priority")
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for l := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(l), "|")
		if out[name], err = strconv.ParseInt(value, 10, 64); err != nil {
			return nil, fmt.Errorf("sacctmgr show qos: %q: %w", l, err)
		}
	}
	return out, nil
}

// clusters counts the clusters of the slurmdbd.
func (c Commands) clusters(ctx context.Context) (int, error) {
	text, err := c.Run(ctx, "sacctmgr", "-nP", "show", "cluster", "format=Cluster")
	return len(strings.Fields(text)), err
}

// level is the account that this runs as, and its AdminLevel in slurmdbd; may reports whether it may do anything.
func (c Commands) level(ctx context.Context, config *conf.Config) (name, level string, may bool, err error) {
	me, err := user.Current()
	if err != nil {
		return "", "", false, err
	}
	// An unknown user has no level.
	level, err = c.Run(ctx, "sacctmgr", "-nP", "show", "user", me.Username, "format=AdminLevel")
	level = strings.TrimSpace(level)
	slurmUser, _, _ := strings.Cut(config.Get("SlurmUser"), "(")
	return me.Username, level, me.Uid == "0" || me.Username == slurmUser, err
}

// mayReconfigure is an error if slurmctld would refuse to be reconfigured by the account that this runs as. It is none
// where slurmctld, without a configuration, or slurmdbd cannot say, or where another command reconfigures.
func (t *Target) mayReconfigure(ctx context.Context, config *conf.Config) error {
	if len(t.Reconfigure) > 0 || config == nil {
		return nil
	}
	name, level, any, err := t.level(ctx, config)
	if err == nil && !any && !strings.EqualFold(level, "Administrator") {
		return fmt.Errorf("%s may not reconfigure slurmctld, and nothing is changed: sacctmgr modify user %s set "+
			"adminlevel=administrator, or --reconfigure with sudo", name, name)
	}
	return nil
}

// mayQOS checks that the priorities of a file may be set, and returns the ones that would change. It changes nothing.
func (t *Target) mayQOS(ctx context.Context, config *conf.Config, text []byte) (changes map[string]int64, err error) {
	want, err := conf.QOSPriorities(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	if len(want) == 0 {
		return nil, nil
	}
	if n, err := t.clusters(ctx); err != nil || n > 1 && t.AllowQOS != SharedQOS {
		return nil, errors.Join(fmt.Errorf("%d clusters share the QOS of this slurmdbd, and nothing is changed: "+
			"--allow-qos shared sets them for all", n), err)
	}
	now, err := t.qos(ctx)
	if err != nil {
		return nil, err
	}
	for name, v := range want {
		if is, there := now[name]; !there {
			return nil, fmt.Errorf("%w: there is no QOS %s", client.ErrRefused, name)
		} else if is == v {
			delete(want, name)
		}
	}
	if len(want) == 0 {
		return nil, nil
	}
	name, level, any, err := t.level(ctx, config)
	if err == nil && !any && !strings.EqualFold(level, "Administrator") {
		err = fmt.Errorf("%s may not set QOS, and nothing is changed: sacctmgr modify user %s set adminlevel=administrator",
			name, name)
	}
	return want, err
}

// drifted is an error if someone else set a priority of a QOS that the adapter has set, or that a file says.
func (t *Target) drifted(ctx context.Context, text []byte) error {
	want, err := conf.QOSPriorities(text)
	if err != nil || len(want) == 0 {
		return err
	}
	note, err := t.readQOSNote()
	if err != nil {
		return err
	}
	now, err := t.qos(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if by := note[name]; !slices.Contains(by, now[name]) {
			return fmt.Errorf("%w: QOS %s has priority %d, and had %v: set it back, or start the adapter once with "+
				"--take-over", errSetByOthers, name, now[name], by)
		}
	}
	return nil
}

// setQOS sets the priorities of a file, one by one, and reads them back. Another program's changes meanwhile stay,
// and is returned.
func (t *Target) setQOS(ctx context.Context, path string) (others []string, err error) {
	note, err := t.readQOSNote()
	if err != nil || len(note) == 0 {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	want, err := conf.QOSPriorities(text)
	if err != nil {
		return nil, err
	}
	now, err := t.qos(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if slices.Contains(note[name], now[name]) {
			note[name] = append(note[name], want[name])
			continue
		}
		if note[name] != nil {
			others = append(others, fmt.Sprintf("QOS %s has priority %d", name, now[name]))
		}
		delete(want, name)
	}
	if err := t.writeQOSNote(note); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if command := conf.SetQOS(name, want[name]); now[name] != want[name] {
			if _, err := t.Run(ctx, command[0], command[1:]...); err != nil {
				return nil, err
			}
		}
	}
	if now, err = t.qos(ctx); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if now[name] != want[name] {
			return nil, fmt.Errorf("%w: the priority of QOS %s is %d after it was set to %d", client.ErrRefused, name,
				now[name], want[name])
		}
		note[name] = []int64{want[name]}
	}
	return others, t.writeQOSNote(note)
}

// adoptQOS writes the priorities in force into the include file, so that it says all that is in force before the
// adapter's first configuration.
func (t *Target) adoptQOS(ctx context.Context, tuned []string) error {
	tuned = slices.DeleteFunc(slices.Sorted(slices.Values(tuned)), func(id string) bool { return !isQOS(id) })
	if len(tuned) == 0 {
		return nil
	}
	now, err := t.qos(ctx)
	if err != nil {
		return err
	}
	note, err := t.readQOSNote()
	if err != nil {
		return err
	}
	var text []byte
	for _, id := range tuned {
		name, _ := slurm.QOSOf(id)
		v, there := now[name]
		if !there {
			return fmt.Errorf("%s: there is no such QOS: take it out of the scheduler's space", id)
		}
		note[name] = []int64{v}
		text = fmt.Appendf(text, "#%s=%d\n", id, v)
	}
	before, err := os.ReadFile(t.Include)
	if err != nil {
		return err
	}
	for l := range bytes.Lines(before) {
		key, _, _ := strings.Cut(string(l), "=")
		if !slices.Contains(tuned, strings.TrimPrefix(key, "#")) {
			text = append(text, l...)
		}
	}
	if !bytes.Equal(before, text) {
		if err := t.place(ctx, text); err != nil {
			return err
		}
	}
	return t.writeQOSNote(note)
}

// knowsQOS returns an error if the former priority of a QOS that is tuned is not known.
func (t *Target) knowsQOS(tuned []string) error {
	note, err := t.readQOSNote()
	if err != nil {
		return err
	}
	for _, id := range tuned {
		if name, is := slurm.QOSOf(id); is && note[name] == nil {
			return fmt.Errorf("%s: was not tuned so far: start once with --take-over", id)
		}
	}
	return nil
}

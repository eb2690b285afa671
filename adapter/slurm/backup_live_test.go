package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// TestSlurmBackup: with a backup controller that stands by, nothing is applied while the primary is down, and one that
// ends over a configuration is seen, though the backup answers.
func TestSlurmBackup(t *testing.T) {
	l := startWith(t, slurmtest.Options{Backup: true})
	apply := func(age int) error {
		d, err := Open(t.Context(), l.o)
		if err != nil {
			return err
		}
		defer d.Close()
		values := space.Values{weightAge: space.Int(age), interval: space.Num(2)}
		_, err = d.Apply(t.Context(), l.configuration(values))
		return err
	}
	both := func() error {
		at, err := Commands{Conf: l.Conf()}.ping(t.Context())
		if err == nil && (at["primary"] == "" || at["backup"] != "spare") {
			err = fmt.Errorf("%v answer", at)
		}
		return err
	}
	l.until("both stand", both)
	if err := apply(2000); err != nil {
		t.Fatal(err)
	}
	l.inForce(weightAge, "2000")
	l.until("both stand", both)

	l.KillController()
	if err := apply(3000); err == nil || errors.Is(err, client.ErrRefused) {
		t.Errorf("without the primary: %v", err)
	}
	if got := l.included(weightAge); got != "2000" {
		t.Errorf("without the primary the file says %s", got)
	}
	if err := l.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.until("both stand", both)

	// The primary ends after it was reconfigured, and is started again as by systemd.
	pid := filepath.Join(filepath.Dir(l.Conf()), "run", "slurmctld.pid")
	ends := filepath.Join(t.TempDir(), "ends")
	if err := os.WriteFile(ends, fmt.Appendf(nil, "#!/bin/sh\nscontrol reconfigure && sleep 2 && kill -9 $(cat %s)\n",
		pid), 0o755); err != nil {
		t.Fatal(err)
	}
	l.o.Reconfigure = []string{ends}
	err := apply(4000)
	if err == nil || !strings.Contains(err.Error(), "(primary)") && !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("the primary ends: %v", err)
	}
	l.o.Reconfigure = nil
	if err := l.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.until("both stand", both)
	if err := Recover(t.Context(), l.o); err != nil {
		t.Fatal(err)
	}
	l.inForce(weightAge, l.included(weightAge))
	if got := l.included(weightAge); got != "2000" {
		t.Errorf("after an end the file says %s", got)
	}
	if err := apply(5000); err != nil {
		t.Error(err)
	}
	l.inForce(weightAge, "5000")
	l.untouched()
}

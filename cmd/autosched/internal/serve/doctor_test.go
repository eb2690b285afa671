package serve

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// TestDoctorOfStudies: damaged trials are counted, and a study that cannot be read is a fault.
func TestDoctorOfStudies(t *testing.T) {
	dir := t.TempDir()
	r, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sp, err := space.New([]space.Param{{ID: "x", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Int(2)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	values := json.RawMessage(sp.Default().Canonical())
	for _, id := range []string{"first", "second"} {
		c := studies.Change{Scheduler: "mine", Study: study.Record{ID: id, UID: id, Version: 1, Phase: study.Active,
			LastTrial: 2, Spec: study.Spec{Metric: "wait", Params: sp.Params(), Start: values}}}
		for n := range int64(2) {
			c.Trials = append(c.Trials, &study.Trial{ID: n + 1, State: study.Failed, Values: values,
				Reason: strings.Repeat(id, int(n+1))})
		}
		if err := r.EnqueueStudy(c)(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := clitest.Run("admin", "doctor", "--dir", dir); code != 0 ||
		!strings.Contains(out, "ok    studies       2, 4 trials that can be read") {
		t.Errorf("exit %d, %s\n%s", code, errs, out)
	}
	path := filepath.Join(dir, "config.db")
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db = bytes.ReplaceAll(db, []byte("firstfirst"), []byte("firstFirst"))
	db = bytes.ReplaceAll(db, []byte(`"uid":"second"`), []byte(`"uid":"Second"`))
	if err := os.WriteFile(path, db, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run("admin", "doctor", "--dir", dir)
	for _, want := range []string{"warn  study         mine/first lost 1 trial: ", "fail  study         mine/second cannot be read: ",
		"ok    studies       1, 1 trial that can be read", "ok    schedulers    0 schedulers"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s\n%swant %q", code, errs, out, want)
		}
	}
}

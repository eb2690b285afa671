package store

import (
	"encoding/json"
	"errors"
	"runtime"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// storeTrials stores a study with two trials, beside changes that do not follow.
func storeTrials(t *testing.T, r Records) {
	t.Helper()
	sp, err := space.New([]space.Param{{ID: "x", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Int(2)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	record := study.Record{ID: "first", UID: "u", Version: 1, Phase: study.Active,
		Spec: study.Spec{Metric: "wait", Params: sp.Params(), Start: json.RawMessage(sp.Default().Canonical())}}
	if err := r.EnqueueStudy(studies.Change{Scheduler: "s", Study: record})(); err != nil {
		t.Fatal(err)
	}
	next := record
	next.Version, next.LastTrial = 2, 2
	var trials []*study.Trial
	for id := int64(1); id <= 2; id++ {
		c := sp.Default().With("x", space.Num(float64(id)))
		trials = append(trials, &study.Trial{ID: id, State: study.Succeeded, Values: []byte(c.Canonical()), Config: c,
			Origin: "sobol", Order: id, Final: &study.Measurement{Metrics: map[string]float64{"wait": float64(id)}}})
	}
	stale, other := next, next
	stale.Version, other.Resets = 5, 1
	waits := []func() error{
		r.EnqueueStudy(studies.Change{Scheduler: "s", Study: stale}),
		r.EnqueueStudy(studies.Change{Scheduler: "s", Study: next, Trials: trials}),
		r.EnqueueStudy(studies.Change{Scheduler: "s", Study: next}),
		r.EnqueueStudy(studies.Change{Scheduler: "s", Study: other, Follows: 1}),
	}
	for i, wait := range waits {
		if err := wait(); errors.Is(err, studies.ErrVersion) != (i != 1) {
			t.Errorf("change %d: %v", i, err)
		}
	}
}

// theStudy returns the study of storeTrials.
func theStudy(t *testing.T, r Records) (study.State, []controller.Damage) {
	t.Helper()
	saved, damage, err := r.LoadStudies()
	if err != nil || len(saved) != 1 || saved[0].Scheduler != "s" {
		t.Fatalf("%+v, %v", saved, err)
	}
	return saved[0].State, damage
}

// Studies are loaded as they were stored, changes that do not follow are refused alone, and a purged scheduler has
// none.
func TestStudies(t *testing.T) {
	r := openRecords(t, t.TempDir(), Options{})
	storeTrials(t, r)
	if s, damage := theStudy(t, r); s.Version != 2 || len(s.Trials) != 2 || s.Trials[1].Config.Canonical() !=
		string(s.Trials[1].Values) || s.Trials[1].Final.Metrics["wait"] != 2 || len(damage) != 0 {
		t.Errorf("%+v, %v", s, damage)
	}
	if err := r.Purge(t.Context(), controller.Expired{Scheduler: "s", UID: "u", Audit: &audit.Record{}}); err != nil {
		t.Fatal(err)
	}
	if saved, _, err := r.LoadStudies(); err != nil || len(saved) != 0 {
		t.Errorf("purged: %v, %v", saved, err)
	}
}

// A damaged trial costs itself.
func TestDamagedTrial(t *testing.T) {
	r := openOn(t, t.TempDir(), damageDay)
	storeTrials(t, r)
	err := r.config.Update(func(tx *bolt.Tx) error {
		b, err := bucket(tx, studiesBucket, "s", "first")
		if err != nil {
			return err
		}
		text := append([]byte(nil), b.Get(revisionKey(1))...)
		text[len(text)-3] ^= 4
		return b.Put(revisionKey(1), text)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, damage := theStudy(t, r)
	if len(damage) != 1 || s.Trials[0].State != study.Skipped || s.Trials[0].Reason == "" ||
		s.Trials[1].State != study.Succeeded {
		t.Errorf("damaged: %+v, %v", s.Trials, damage)
	}
	if _, err := study.NewEngine(&s); err != nil {
		t.Error(err)
	}
}

// A change that comes after its study is gone leaves nothing behind, and one of a study that cannot be
// read fails alone.
func TestRefusedChangesOfStudies(t *testing.T) {
	r := openOn(t, t.TempDir(), damageDay)
	record := func(id string, version int64) studies.Change {
		return studies.Change{Scheduler: "s", Study: study.Record{ID: id, UID: "u", Version: version,
			Spec: study.Spec{Start: json.RawMessage("{}")}}}
	}
	if err := r.EnqueueStudy(record("gone", 2))(); !errors.Is(err, studies.ErrVersion) {
		t.Errorf("of a study that is not there: %v", err)
	}
	if saved, damage, err := r.LoadStudies(); err != nil || len(saved) != 0 || len(damage) != 0 {
		t.Errorf("it left %+v, %v, %v", saved, damage, err)
	}
	err := r.config.Update(func(tx *bolt.Tx) error {
		b, err := bucket(tx, studiesBucket, "s", "damaged")
		if err != nil {
			return err
		}
		return b.Put(studyKey, []byte("no record"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for begun := false; !begun; runtime.Gosched() { // all share a commit, behind the ones before
		r.changeMu.Lock()
		begun = !r.changing
		r.changing = true
		r.changeMu.Unlock()
	}
	bad, good := r.EnqueueStudy(record("damaged", 1)), r.EnqueueStudy(record("good", 1))
	r.commitChanges()
	if err, other := bad(), good(); !errors.Is(err, ErrCorrupt) || other != nil {
		t.Errorf("a study that cannot be read: %v; another: %v", err, other)
	}
}

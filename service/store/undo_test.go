package store

import (
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestFailedCommitIsUndone: a commit whose last fsync fails has its meta page written. Its change was
// refused, and the next one of that revision has another uid.
func TestFailedCommitIsUndone(t *testing.T) {
	dir, sp := t.TempDir(), testSpace(t)
	r := open(t, dir)
	for revision := range int64(4) {
		if err := r.Commit(t.Context(), change(t, sp, revision+1)); err != nil {
			t.Fatal(err)
		}
		refused := change(t, sp, revision+2)
		refused.Configurations[0].UID = "refused"
		r.configMu.Lock()
		err := r.write(configFile, r.config, func(tx *bolt.Tx) error {
			r.failedCommit, r.pageSize = uint64(tx.ID()), int64(tx.DB().Info().PageSize)
			return r.putChange(tx, storedChangeOf(&refused))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.closeDB(configFile, r.config); err != nil {
			t.Fatal(err)
		}
		if err := r.reopenConfig(); err != nil {
			t.Fatal(err)
		}
		r.configMu.Unlock()
		saved, _, damage, err := r.Load()
		if err != nil || len(damage) > 0 || saved[0].Fault != nil {
			t.Fatal(err, damage, saved[0].Fault)
		}
		if n := saved[0].Scheduler.LastRevision; n != revision+1 {
			t.Fatalf("last revision %d after revision %d was refused", n, revision+2)
		}
	}
	if err := r.config.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	if saved, _, damage, err := r.Load(); err != nil || len(damage) > 0 || saved[0].Fault != nil ||
		len(saved[0].Configurations) != 4 {
		t.Fatal(err, damage, saved)
	}
}

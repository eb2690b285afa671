package store

import (
	"encoding/json"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
)

var epochKey = []byte("epoch")

// epochRecord is the current epoch in config.db.
type epochRecord struct {
	controller.Epoch
	Began time.Time `json:"began"`
	Why   string    `json:"why"`
	// File identifies config.db on its file system, so that a copy is recognised; empty if unknown.
	File string `json:"file,omitempty"`
	// Secret signs the tokens of pages. It outlives epochs.
	Secret string `json:"secret,omitempty"`
}

// Epoch returns the epoch of the store. It does not change while the store is open, but for that of a replica.
func (r *Store) Epoch() controller.Epoch { return r.presentEpoch().Epoch }

func (r *Store) presentEpoch() epochRecord {
	r.epochMu.Lock()
	defer r.epochMu.Unlock()
	return r.epoch
}

func (r *Store) setEpoch(e epochRecord) {
	r.epochMu.Lock()
	defer r.epochMu.Unlock()
	r.epoch = e
}

// NewEpoch returns why Open began a new epoch, "" if it did not.
func (r *Store) NewEpoch() string {
	if r.newEpoch {
		return r.epoch.Why
	}
	return ""
}

// Secret returns a secret of the store that outlives restarts.
func (r *Store) Secret() []byte { return []byte(r.presentEpoch().Secret) }

// initEpoch reads the epoch with its secret. It begins a new epoch if there is none, if config.db is a copy, and on
// request. An epoch that cannot be written is in force until the store is closed.
func (r *Store) initEpoch(o Options) {
	_ = guardPanics(configFile, func() error {
		return r.config.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(metaBucket))
			payload, err := openRecord(epochKey, b.Get(epochKey))
			if err != nil {
				return err
			}
			return json.Unmarshal(payload, &r.epoch)
		})
	})
	if r.replica != nil && !o.NewEpoch { // the log has it
		return
	}
	file, why := fileIdentity(filepath.Join(r.dir, configFile)), ""
	switch {
	case r.epoch.ID == "":
		why = "the store had none"
	case o.NewEpoch:
		why = "a new one was asked for"
	case file != "" && r.epoch.File != "" && file != r.epoch.File:
		why = "config.db is a copy"
	}
	if why == "" && r.epoch.Secret != "" {
		return
	}
	if r.epoch.Secret == "" { // older versions had none
		r.epoch.Secret = o.NewID()
	}
	if why != "" {
		now := r.now().UTC()
		r.newEpoch = true
		r.epoch = epochRecord{Epoch: controller.Epoch{ID: o.NewID(), Counter: max(now.UnixMilli(), r.epoch.Counter+1)},
			Began: now, Why: why, File: file, Secret: r.epoch.Secret}
	}
	_ = r.write(configFile, r.config, func(tx *bolt.Tx) error { return putJSON(tx, epochKey, r.epoch, metaBucket) })
}

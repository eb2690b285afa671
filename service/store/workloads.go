package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/workloads"
)

// workloadsBucket of config.db has a bucket for each scheduler with the records of its workloads by id. Their texts
// are in workloads.db, in parts.
const workloadsBucket = "workloads"

// textPart is the largest part of a text in a record, in bytes.
const textPart = 256 << 10

// partKey returns the key of a part of the text of the workload with a uid.
func partKey(uid string, part int) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(uid), 0), uint32(part))
}

// ChangeWorkloads adds or deletes a workload. The text is written before the record and removed after it, so that
// every record has its text.
func (r *Store) ChangeWorkloads(c workloads.Change) error {
	if !c.Delete {
		if err := r.putText(c.SchedulerUID, c.Record.UID, c.Text); err != nil {
			return err
		}
	}
	err := r.change(func(tx *bolt.Tx) error { return putWorkload(tx, &c) })
	if (err == nil) == c.Delete {
		r.dropText(c.SchedulerUID, c.Record.UID)
	}
	return err
}

// putWorkload writes the record of a workload, or removes it.
func putWorkload(tx *bolt.Tx, c *workloads.Change) error {
	b, err := bucket(tx, workloadsBucket, c.Scheduler)
	if err != nil {
		return err
	}
	if key := []byte(c.Record.ID); c.Delete {
		err = b.Delete(key)
	} else {
		err = putIn(b, key, &c.Record)
	}
	if err != nil {
		return err
	}
	if err := putAudit(tx, c.Audit); err != nil {
		return err
	}
	return putRequest(tx, c.Request)
}

// putText writes a text.
func (r *Store) putText(scheduler, uid string, text []byte) error {
	return r.writeAux(&r.workloads, func(tx *bolt.Tx) error { return putParts(tx, scheduler, uid, 0, text) })
}

// putParts writes a text, or a stretch of one that begins with a part.
func putParts(tx *bolt.Tx, scheduler, uid string, first int, text []byte) error {
	b, err := bucket(tx, scheduler)
	for part := first; err == nil && len(text) > 0; part++ {
		n := min(textPart, len(text))
		key := partKey(uid, part)
		err = b.Put(key, appendRecord(nil, key, func(dst []byte) []byte { return append(dst, text[:n]...) }))
		text = text[n:]
	}
	return err
}

// dropText removes the text of a workload, unless a backup is being made. KeepWorkloads removes texts that stay.
func (r *Store) dropText(scheduler, uid string) {
	if r.backupMu.TryLock() {
		defer r.backupMu.Unlock()
		_ = r.dropTexts(scheduler, func(one string) bool { return one == uid })
	}
}

// KeepWorkloads removes the texts of a scheduler's workloads with other uids.
func (r *Store) KeepWorkloads(scheduler string, uids map[string]bool) error {
	if _, err := os.Stat(filepath.Join(r.dir, workloadsFile)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return r.dropTexts(scheduler, func(uid string) bool { return !uids[uid] })
}

// dropTexts removes the texts for which drop returns true. It writes only if there are any.
func (r *Store) dropTexts(scheduler string, drop func(uid string) bool) error {
	return r.withAux(&r.workloads, func(db *bolt.DB) error {
		var keys [][]byte
		err := db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(scheduler))
			if b == nil {
				return nil
			}
			return ascend(b, scheduler, func(key, _ []byte) error {
				if uid, _, _ := bytes.Cut(key, []byte{0}); drop(string(uid)) {
					keys = append(keys, bytes.Clone(key))
				}
				return nil
			})
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		return r.write(workloadsFile, db, func(tx *bolt.Tx) error {
			for _, key := range keys {
				if err := tx.Bucket([]byte(scheduler)).Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// WorkloadText returns the text of a workload.
func (r *Store) WorkloadText(scheduler, uid string) (text []byte, err error) {
	err = r.withAux(&r.workloads, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(scheduler))
			for part := 0; b != nil; part++ {
				key := partKey(uid, part)
				record := b.Get(key)
				if record == nil {
					break
				}
				one, err := openRecord(key, record)
				if err != nil {
					return r.workloads.corrupt(scheduler, key, err)
				}
				text = append(text, one...)
			}
			return nil
		})
	})
	if err == nil && len(text) == 0 || r.readOnly && errors.Is(err, os.ErrNotExist) {
		err = &CorruptError{File: workloadsFile, Bucket: scheduler, Key: uid,
			Why: "the text is not there: delete the workload and make it again"}
	}
	return text, err
}

// LoadWorkloads returns the records of workloads that can be read, and the damage. Damaged records are not removed.
func (r *Store) LoadWorkloads() (saved []workloads.Saved, damage []controller.Damage, err error) {
	err = r.viewConfig(func(tx *bolt.Tx) error {
		all := tx.Bucket([]byte(workloadsBucket))
		if all == nil {
			return nil
		}
		return ascend(all, workloadsBucket, func(scheduler, _ []byte) error {
			of, inside := all.Bucket(scheduler), workloadsBucket+"/"+string(scheduler)
			if of == nil {
				return nil
			}
			return ascend(of, inside, func(key, record []byte) error {
				one := workloads.Saved{Scheduler: string(scheduler)}
				if err := getJSON(key, record, &one.Record); err != nil {
					damage = append(damage, controller.Damage{File: configFile, Records: 1,
						Err: corrupt(inside, string(key), err)})
					return nil
				}
				saved = append(saved, one)
				return nil
			})
		})
	})
	return saved, damage, err
}

// checkWorkloads returns the damage to the texts of the workloads of a scheduler with a uid.
func (r *Store) checkWorkloads(saved []workloads.Saved, scheduler, uid string) (damage error) {
	for _, one := range saved {
		if one.Scheduler == scheduler {
			if _, err := r.WorkloadText(uid, one.Record.UID); err != nil {
				damage = errors.Join(damage, fmt.Errorf("workload %s/%s: %w", scheduler, one.Record.ID, err))
			}
		}
	}
	return damage
}

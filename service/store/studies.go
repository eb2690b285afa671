package store

import (
	"cmp"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// studiesBucket of config.db has a bucket for each scheduler with one for each study: its record, and its
// trials by id.
const studiesBucket = "studies"

var studyKey = []byte("study")

// EnqueueStudy queues a change of a study. Changes that wait share a commit; a change that does not follow the stored
// state of its study, or whose study cannot be read, fails alone.
func (r *Store) EnqueueStudy(c studies.Change) (wait func() error) {
	return r.enqueue(func(tx *bolt.Tx) error { return putStudy(tx, &c) }, true)
}

// checkStudy checks that a change follows the stored state of its study.
func checkStudy(tx *bolt.Tx, c *studies.Change) error {
	var before study.Record
	b := tx.Bucket([]byte(studiesBucket))
	for _, name := range []string{c.Scheduler, c.Study.ID} {
		if b != nil {
			b = b.Bucket([]byte(name))
		}
	}
	if b != nil {
		if text := b.Get(studyKey); text != nil {
			err := getJSON(studyKey, text, &before)
			err = getCopy(tx, err, []byte(c.Study.ID), &before, studiesBucket, c.Scheduler)
			if err != nil {
				return corrupt(studiesBucket+"/"+c.Scheduler, c.Study.ID, err)
			}
		}
	}
	if before.Version+1 != c.Study.Version || before.Resets != c.Follows || before.Version > 0 &&
		before.UID != c.Study.UID {
		return fmt.Errorf("store: %w: study %q is at %d, the change makes it %d", studies.ErrVersion, c.Study.ID,
			before.Version, c.Study.Version)
	}
	return nil
}

// putStudy writes a change if it follows the stored state.
func putStudy(tx *bolt.Tx, c *studies.Change) error {
	if err := checkStudy(tx, c); err != nil {
		return err
	}
	of, err := bucket(tx, studiesBucket, c.Scheduler)
	if err != nil {
		return err
	}
	b, err := of.CreateBucketIfNotExists([]byte(c.Study.ID))
	if err != nil {
		return err
	}
	copied, err := bucket(tx, studiesBucket+copies, c.Scheduler)
	if err != nil {
		return err
	}
	if key := []byte(c.Study.ID); c.Delete {
		if err := errors.Join(of.DeleteBucket(key), copied.Delete(key)); err != nil {
			return err
		}
	} else {
		if err := errors.Join(putIn(b, studyKey, c.Study), putIn(copied, key, c.Study)); err != nil {
			return err
		}
		for _, t := range c.Trials {
			if err := putIn(b, revisionKey(t.ID), t); err != nil {
				return err
			}
		}
	}
	if c.Audit != nil {
		if err := putAudit(tx, c.Audit); err != nil {
			return err
		}
	}
	return putRequest(tx, c.Request)
}

// LoadStudies returns the studies that can be read, and the damage. Damaged records are not removed.
func (r *Store) LoadStudies() (saved []studies.Saved, damage []controller.Damage, err error) {
	err = guardPanics(configFile, func() error {
		return r.config.View(func(tx *bolt.Tx) error {
			all := tx.Bucket([]byte(studiesBucket))
			if all == nil {
				return nil
			}
			return ascend(all, studiesBucket, func(scheduler, _ []byte) error {
				of, inside := all.Bucket(scheduler), studiesBucket+"/"+string(scheduler)
				if of == nil {
					return nil
				}
				return ascend(of, inside, func(id, _ []byte) error {
					b := of.Bucket(id)
					if b == nil {
						return nil
					}
					one := studies.Saved{Scheduler: string(scheduler)}
					n, first, err := loadStudy(tx, b, one.Scheduler, string(id), &one.State)
					if n > 0 {
						first = corrupt(inside, string(id), first)
						damage = append(damage, controller.Damage{File: configFile, Records: n, Err: first})
					}
					if err == nil {
						saved = append(saved, one)
					}
					return nil
				})
			})
		})
	})
	return saved, damage, err
}

// loadStudy reads a study, and counts its damaged records. A trial that cannot be read becomes Skipped, with the
// reason; without the study's own record and its copy there is an error.
func loadStudy(tx *bolt.Tx, b *bolt.Bucket, scheduler, id string, s *study.State) (damaged int, first, err error) {
	if first = getJSON(studyKey, b.Get(studyKey), &s.Record); first != nil {
		damaged, first = 1, fmt.Errorf("its record: %w", first)
		err = getCopy(tx, first, []byte(id), &s.Record, studiesBucket, scheduler)
	}
	if err == nil {
		s.Space, err = space.New(s.Spec.Params, s.Spec.Rules)
	}
	if err != nil {
		return 1, err, err
	}
	for id := int64(1); id <= s.LastTrial; id++ {
		t := &study.Trial{}
		key := revisionKey(id)
		err := getJSON(key, b.Get(key), t)
		if err == nil {
			t.Config, err = s.Space.ParseJSON(t.Values)
		}
		if err != nil {
			err = fmt.Errorf("trial %d: %w", id, err)
			c := s.Space.Default()
			t = &study.Trial{ID: id, State: study.Skipped, Config: c, Values: []byte(c.Canonical()), Origin: study.Lost,
				Reason: err.Error(), Created: s.Created}
			damaged++
			first = cmp.Or(first, err)
		}
		s.Trials = append(s.Trials, t)
	}
	return damaged, first, nil
}

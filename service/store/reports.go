package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/service/reports"
)

// A report's key is its event time and instance.
func reportKey(k reports.Key) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(k.Time.UnixNano())), k.Instance...)
}

func parseReportKey(key []byte) (k reports.Key, ok bool) {
	if len(key) < 8 {
		return k, false
	}
	return reports.Key{Time: time.Unix(0, int64(binary.BigEndian.Uint64(key))).UTC(), Instance: string(key[8:])}, true
}

// AppendReports stores the reports with new keys of the scheduler with a uid. It drops whole intervals of the oldest
// reports: all before keep.From, and more until at most keep.Most are left. It returns which reports were new, and
// the keys of dropped ones.
func (r *Store) AppendReports(uid string, all []reports.Report, keep reports.Keep) (fresh []bool, dropped []reports.Key,
	err error) {
	err = r.writeAux(&r.reports, func(tx *bolt.Tx) error {
		fresh, dropped = make([]bool, len(all)), nil
		b, err := bucket(tx, uid)
		if err != nil {
			return err
		}
		b.FillPercent = ascending
		count := keep.Stored
		for i := range all {
			key := reportKey(all[i].Key)
			if b.Get(key) != nil {
				continue
			}
			if err := putPlain(b, key, &all[i]); err != nil {
				return err
			}
			fresh[i] = true
			count++
		}
		whole := time.Time{}
		return dropFirst(b, func(k []byte) bool {
			key, ok := parseReportKey(k)
			if ok && !key.Time.Before(keep.From) && count <= keep.Most && !key.Time.Before(whole) {
				return false
			}
			if ok {
				dropped = append(dropped, key)
				count--
				whole = key.Time.Truncate(reports.Interval).Add(reports.Interval)
			}
			return true
		})
	})
	return fresh, dropped, err
}

// reportsRead is how many reports are copied at a time, so that no reader holds the file.
const reportsRead = 256

// Reports calls visit with the stored reports of the scheduler with a uid after a key, in order of event time and
// instance, until it returns false. It skips damaged ones and returns the error of the first as damage.
func (r *Store) Reports(uid string, after reports.Key, visit func(*reports.Report) bool) (damage, err error) {
	var from []byte
	if !after.Time.IsZero() {
		from = reportKey(after)
	}
	for {
		batch, err := r.reportsAfter(uid, from)
		if r.readOnly && errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return damage, err
		}
		for _, e := range batch {
			one := reports.Report{}
			key, ok := parseReportKey(e.key)
			if err := getJSON(e.key, e.value, &one); !ok || err != nil {
				if damage == nil {
					damage = r.reports.corrupt(uid, e.key, errors.Join(err, errors.New("it is no report")))
				}
				continue
			}
			if one.Key = key; !visit(&one) {
				return damage, nil
			}
		}
		if len(batch) < reportsRead {
			return damage, nil
		}
		from = batch[len(batch)-1].key
	}
}

// storedReport is a report with its key as they are stored.
type storedReport struct{ key, value []byte }

// reportsAfter copies the next reports after a key, nil for the first ones.
func (r *Store) reportsAfter(uid string, from []byte) (out []storedReport, err error) {
	err = r.withAux(&r.reports, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(uid))
			if b == nil {
				return nil
			}
			c := b.Cursor()
			k, v := c.Seek(from)
			if from != nil && bytes.Equal(k, from) {
				k, v = c.Next()
			}
			for ; k != nil && len(out) < reportsRead; k, v = c.Next() {
				out = append(out, storedReport{bytes.Clone(k), bytes.Clone(v)})
			}
			return nil
		})
	})
	return out, err
}

package store

import (
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
		c, whole := b.Cursor(), time.Time{}
		for k, _ := c.First(); k != nil; k, _ = c.First() {
			key, ok := parseReportKey(k)
			if ok && !key.Time.Before(keep.From) && count <= keep.Most && !key.Time.Before(whole) {
				return nil
			}
			if err := c.Delete(); err != nil {
				return err
			}
			if ok {
				dropped = append(dropped, key)
				count--
				whole = key.Time.Truncate(reports.Interval).Add(reports.Interval)
			}
		}
		return nil
	})
	return fresh, dropped, err
}

// Reports calls visit with the stored reports of the scheduler with a uid after a key, in order of event time and
// instance, until it returns false. It skips damaged ones and returns the error of the first as damage.
func (r *Store) Reports(uid string, after reports.Key, visit func(*reports.Report) bool) (damage, err error) {
	err = r.withAux(&r.reports, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(uid))
			if b == nil {
				return nil
			}
			c := b.Cursor()
			k, v := c.First()
			if !after.Time.IsZero() {
				from := reportKey(after)
				if k, v = c.Seek(from); string(k) == string(from) {
					k, v = c.Next()
				}
			}
			for ; k != nil; k, v = c.Next() {
				one := reports.Report{}
				key, ok := parseReportKey(k)
				err := getJSON(k, v, &one)
				if !ok || err != nil {
					if damage == nil {
						damage = r.reports.corrupt(uid, k, errors.Join(err, errors.New("it is no report")))
					}
					continue
				}
				if one.Key = key; !visit(&one) {
					return nil
				}
			}
			return nil
		})
	})
	if r.readOnly && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return damage, err
}

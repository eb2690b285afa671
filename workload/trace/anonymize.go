package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// AnonymizeOptions say how names are hidden.
type AnonymizeOptions struct {
	// Key of the HMAC, at least MinKey bytes. The same key gives the same
	// pseudonyms, so that traces of one cluster can be joined; without it a
	// guessed name cannot be checked against a pseudonym.
	Key []byte
	// KeepTenants leaves tenants and accounts as they are, for quotas that name them.
	KeepTenants bool
}

// MinKey is the fewest bytes of a key.
const MinKey = 16

// Anonymize replaces the names of a workload by pseudonyms: job ids, users,
// tenants, accounts, nodes, and keys, which are hashes of names that could be guessed. A pseudonym
// is an HMAC-SHA-256 of the original, of 80 bits for job ids and 64 for the
// rest, so that equal names stay equal and recurrence is as it was. Model classes,
// partitions, qualities of service, times, sizes and status stay: they are the purpose of a trace, and a
// job can still be found by its exact times. Shift moves the times.
func Anonymize(w *workload.Workload, o AnonymizeOptions) (*workload.Workload, error) {
	if len(o.Key) < MinKey {
		return nil, fmt.Errorf("anonymize: a key of %d bytes is too short: at least %d", len(o.Key), MinKey)
	}
	mac := hmac.New(sha256.New, o.Key)
	var sum [sha256.Size]byte
	var digits [2 * sha256.Size]byte
	var texts arena
	pseudonym := func(kind byte, text string, size int) string {
		mac.Reset()
		mac.Write([]byte{kind, 0})
		mac.Write([]byte(text))
		hex.Encode(digits[1:], mac.Sum(sum[:0])[:size])
		digits[0] = kind // the kind of thing that a pseudonym replaces
		return texts.own(digits[:1+2*size])
	}
	type name struct {
		kind byte
		text string
	}
	known := map[name]string{}
	recurring := func(kind byte, text string) string {
		if text == "" {
			return ""
		}
		n := name{kind, text}
		if known[n] == "" {
			known[n] = pseudonym(kind, text, 8)
		}
		return known[n]
	}
	lists := map[string]string{}
	hide := func(hosts string) (string, error) {
		if s, ok := lists[hosts]; ok || hosts == "" {
			return s, nil
		}
		names, err := slurmtext.HostList(hosts)
		for i, n := range names {
			names[i] = recurring('n', n)
		}
		lists[hosts] = strings.Join(names, ",")
		return lists[hosts], err
	}
	var err error
	jobs := make([]workload.Job, w.Len())
	ids := make(map[string]struct{}, len(jobs))
	for i, j := range w.Jobs() {
		j.ID = pseudonym('j', j.ID, 10)
		if _, dup := ids[j.ID]; dup { // once in 2^80 / jobs^2
			return nil, fmt.Errorf("anonymize: two job ids have one pseudonym: use another key")
		}
		ids[j.ID] = struct{}{}
		j.User = recurring('u', j.User)
		j.Key = recurring('k', j.Key)
		if !o.KeepTenants {
			j.Tenant = recurring('t', j.Tenant)
			if q := j.Request(); q.Account != "" {
				q.Account = recurring('t', q.Account)
				j.Requested = q.Shared()
			}
		}
		if j.Nodes, err = hide(j.Nodes); err != nil {
			return nil, fmt.Errorf("anonymize: job %d: nodes: %w", i, err)
		}
		jobs[i] = j
	}
	return workload.NewSorted(w.Name(), w.Zero(), jobs, w.Synthetic()), nil
}

// Shift moves all times of a workload.
func Shift(w *workload.Workload, by time.Duration) (*workload.Workload, error) {
	if by > workload.MaxSubmit || by < -workload.MaxSubmit {
		return nil, fmt.Errorf("shift: %v is more than a hundred years", by)
	}
	zero := w.Zero().Add(by)
	if y := zero.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("shift: the zero would be in the year %d", y)
	}
	return workload.NewSorted(w.Name(), zero, w.Jobs(), w.Synthetic()), nil
}

// SecretShift draws from a key how far times are moved back: 53 to 572 whole
// weeks, one to eleven years, so that the hour of day and the day of the week
// stay.
func SecretShift(key []byte) time.Duration {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("shift"))
	const week = 7 * 24 * time.Hour
	return -week * time.Duration(53+binary.BigEndian.Uint64(mac.Sum(nil))%520)
}

package certs

import (
	"testing"
	"time"
)

// FuzzReadAuthority: an authority that is read can issue certificates.
func FuzzReadAuthority(f *testing.F) {
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := NewAuthority("test", from, from.AddDate(1, 0, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Pair.Cert, a.Pair.Key)
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		a, err := ReadAuthority(Pair{Cert: cert, Key: key})
		if err != nil {
			return
		}
		if _, err := a.Server([]string{"localhost"}, from, from.AddDate(1, 0, 0)); err != nil {
			t.Fatal(err)
		}
	})
}

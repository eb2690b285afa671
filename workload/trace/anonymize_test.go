package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

var testKey = []byte("0123456789abcdef")

// Names go, all else stays, equal names stay equal and others apart.
func TestAnonymize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorkload(t)
		keep := rapid.Bool().Draw(t, "keep tenants")
		a, err := Anonymize(w, AnonymizeOptions{Key: testKey, KeepTenants: keep})
		if err != nil {
			t.Fatal(err)
		}
		if a.Synthetic() != w.Synthetic() || !a.Zero().Equal(w.Zero()) || a.Len() != w.Len() {
			t.Fatal("another workload")
		}
		to, from := map[string]string{}, map[string]string{}
		same := func(kind, name, pseudonym string) {
			if (name == "") != (pseudonym == "") {
				t.Fatalf("%s %q became %q", kind, name, pseudonym)
			}
			name, pseudonym = kind+name, kind+pseudonym
			if p, ok := to[name]; ok && p != pseudonym {
				t.Fatalf("%q became %q and %q", name, p, pseudonym)
			}
			if n, ok := from[pseudonym]; ok && n != name {
				t.Fatalf("%q and %q became %q", n, name, pseudonym)
			}
			to[name], from[pseudonym] = pseudonym, name
		}
		for i, x := range w.Jobs() {
			y := a.Jobs()[i]
			same("id", x.ID, y.ID)
			same("user", x.User, y.User)
			same("key", x.Key, y.Key)
			if keep {
				if x.Tenant != y.Tenant {
					t.Fatalf("tenant %q became %q", x.Tenant, y.Tenant)
				}
			} else {
				same("tenant", x.Tenant, y.Tenant)
				q := y.Request()
				same("tenant", x.Request().Account, q.Account)
				q.Account = x.Request().Account
				y.Requested = q.Shared()
			}
			was, _ := slurmtext.HostList(x.Nodes)
			is, err := slurmtext.HostList(y.Nodes)
			if err != nil || len(was) != len(is) {
				t.Fatalf("nodes %q became %q: %v", x.Nodes, y.Nodes, err)
			}
			for k := range was {
				same("node", was[k], is[k])
			}
			y.ID, y.User, y.Tenant, y.Key, y.Nodes = x.ID, x.User, x.Tenant, x.Key, x.Nodes
			if x != y {
				t.Fatalf("%+v became %+v", x, y)
			}
		}
	})
}

func TestAnonymizeKeys(t *testing.T) {
	w := sample(t)
	csv := func(key string) string {
		a, err := Anonymize(w, AnonymizeOptions{Key: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := WriteCSV(&b, a); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one, again, other := csv("a key of some length"), csv("a key of some length"), csv("another key of some length")
	if one != again || one == other {
		t.Error("the pseudonyms are not those of the key")
	}
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		for _, name := range []string{j.ID, j.User, j.Tenant, j.Key} {
			if len(name) > 3 && strings.Contains(one, name) {
				t.Fatalf("%q is still there", name)
			}
		}
	}
	// A part of a trace has the pseudonyms it has in the whole.
	part, err := Anonymize(w.Window(24*time.Hour, 48*time.Hour), AnonymizeOptions{Key: []byte("a key of some length")})
	if err != nil || !strings.Contains(one, part.Jobs()[0].ID) || !strings.Contains(one, part.Jobs()[0].Tenant) {
		t.Errorf("part: %v", err)
	}
	if _, err := Anonymize(w, AnonymizeOptions{Key: []byte("short")}); err == nil {
		t.Error("a short key")
	}
}

func TestShift(t *testing.T) {
	w := sample(t)
	s, err := Shift(w, -36*time.Hour)
	if err != nil || !s.Zero().Equal(w.Zero().Add(-36*time.Hour)) || s.Jobs()[5] != w.Jobs()[5] ||
		s.Digest() == w.Digest() {
		t.Errorf("%v, zero %v", err, s.Zero())
	}
	for _, by := range []time.Duration{2 * workload.MaxSubmit, -2 * workload.MaxSubmit} {
		if _, err := Shift(w, by); err == nil {
			t.Errorf("%v", by)
		}
	}
	seen := map[time.Duration]bool{}
	for _, key := range []string{"a", "b", "c", "d"} {
		by := SecretShift([]byte(key))
		if by%(7*24*time.Hour) != 0 || by > -52*7*24*time.Hour || by < -573*7*24*time.Hour {
			t.Errorf("%v", by)
		}
		seen[by] = true
	}
	if len(seen) != 4 {
		t.Errorf("%v", seen)
	}
}

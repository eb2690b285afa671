package access_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/autosched/autosched/api/access"
)

const goodRoles = `callers:
  - name: alice
    role: operator
    uris: [spiffe://example.org/alice]
  - name: prod
    role: scheduler
    scheduler: prod
    uris: [spiffe://example.org/prod, "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]
    token_sha256: [2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae]
`

func TestParseRoles(t *testing.T) {
	if _, err := access.ParseRoles([]byte(goodRoles)); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("t")))
	for _, c := range []struct{ text, says string }{
		{"", "has no callers"},
		{"callers: []", "has no callers"},
		{"roles: []", "field roles not found"},
		{"callers: [{name: a, role: viewer, uri: x:y}]", "field uri not found"},
		{goodRoles + "---\ncallers: []\n", "more than one document"},
		{goodRoles + "  - name: alice\n    role: viewer\n    uris: [x:y]\n", `line 10: callers[2].name`},
		{goodRoles + "  - name: bob\n    role: root\n    uris: [x:y]\n", `callers[2].role: "root"`},
		{goodRoles + "  - name: bob\n    role: viewer\n    uris: [spiffe://example.org/alice]\n", "uris[0]"},
		{"callers: [{name: a b, role: viewer, uris: [x:y]}]", "callers[0].name"},
		{"callers: [{name: a, role: viewer}]", "no identity"},
		{"callers: [{name: a, role: viewer, uris: [alice]}]", "is not a URI"},
		{"callers: [{name: a, role: scheduler, uris: [x:y]}]", "callers[0].scheduler"},
		{"callers: [{name: a, role: scheduler, scheduler: schedulers/a, uris: [x:y]}]", "callers[0].scheduler"},
		{"callers: [{name: a, role: admin, scheduler: a, uris: [x:y]}]", "counts only for role scheduler"},
		{"callers: [{name: a, role: viewer, token_sha256: [secret]}]", "the SHA-256 of a token"},
		{"callers: [{name: a, role: viewer, token_sha256: [" + digest + ", " + strings.ToUpper(digest) +
			"]}]", "twice"},
		{"callers: [{name: a, role: viewer, role: admin, uris: [x:y]}]", "already defined"},
		{strings.Repeat("#", 1<<20+1), "larger than"},
	} {
		if _, err := access.ParseRoles([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80q: %v, want %q", c.text, err, c.says)
		}
	}
}

// FuzzParseRoles: no file makes it panic, and an accepted file has callers.
func FuzzParseRoles(f *testing.F) {
	f.Add([]byte(goodRoles))
	f.Add([]byte("callers: [{name: a, role: viewer, uris: [x:y]}]"))
	f.Add([]byte("a: &a [*a]\ncallers: *a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := access.ParseRoles(text); (r == nil) != (err != nil) {
			t.Errorf("%v, %v", r, err)
		}
	})
}

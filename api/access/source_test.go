package access_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/autosched/autosched/api/access"
)

// TestRevokedToken: a token that the roles file has no more is refused from the next look at it on, and a
// file that is not correct revokes none.
func TestRevokedToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roles.yaml")
	write := func(text string) {
		t.Helper()
		err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path))
		if err != nil {
			t.Fatal(err)
		}
	}
	roles := func(token string) string {
		return fmt.Sprintf("callers: [{name: a, role: viewer, token_sha256: [%x]}]", sha256.Sum256([]byte(token)))
	}
	write(roles("old"))
	s, err := access.Open(access.Files{Roles: path}, access.Options{Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	looked := make(chan bool)
	s.After(func() {
		select {
		case looked <- true:
		default:
		}
	})
	for _, c := range []struct {
		text     string
		old, now bool // whether the tokens are accepted
	}{
		{roles("old"), true, false},
		{"callers: [", true, false},
		{roles("new"), false, true},
	} {
		write(c.text)
		for range 2 { // the first look may have begun before
			<-looked
		}
		for token, accepted := range map[string]bool{"old": c.old, "new": c.now} {
			cred, err := access.NewCredential(nil, "Bearer "+token)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Identify(cred); (err == nil) != accepted {
				t.Errorf("after %s: token %s: %v", c.text, token, err)
			}
		}
	}
}

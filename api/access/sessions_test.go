package access_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/api/access"
)

// TestSessionEnds: a session ends idle, by age, by signing out, and with the row of its caller; the newest twenty of a
// caller stay.
func TestSessionEnds(t *testing.T) {
	from := netip.MustParseAddr("192.0.2.1")
	for _, of := range []struct {
		name string
		end  func(h *house, s *access.Sessions, id string)
		ends bool
	}{
		{"nothing", func(*house, *access.Sessions, string) {}, false},
		{"an hour without a request", func(h *house, _ *access.Sessions, _ string) {
			h.now = h.now.Add(access.SessionIdle)
		}, true},
		{"requests, and twelve hours", func(h *house, s *access.Sessions, id string) {
			for range 14 {
				_, _ = s.Find(id)
				h.now = h.now.Add(access.SessionLife / 13)
			}
		}, true},
		{"requests, and less than that", func(h *house, s *access.Sessions, id string) {
			for range 11 {
				h.now = h.now.Add(access.SessionLife/12 - time.Second)
				_, _ = s.Find(id)
			}
		}, false},
		{"signing out", func(_ *house, s *access.Sessions, id string) { s.SignOut(id) }, true},
		{"another role", func(h *house, _ *access.Sessions, _ string) {
			h.write(h.files.Roles, strings.Replace(rolesOf("t"), "role: admin", "role: viewer", 1))
			h.source.Look()
		}, true},
		{"another name", func(h *house, _ *access.Sessions, _ string) {
			h.write(h.files.Roles, strings.Replace(rolesOf("t"), "name: root", "name: boss", 1))
			h.source.Look()
		}, true},
		{"another token", func(h *house, _ *access.Sessions, _ string) {
			h.write(h.files.Roles, rolesOf("u"))
			h.source.Look()
		}, true},
		{"nineteen more sessions", func(_ *house, s *access.Sessions, _ string) {
			for range 19 {
				_, _, _ = s.SignIn("t", from)
			}
		}, false},
		{"twenty later sessions", func(h *house, s *access.Sessions, _ string) {
			h.now = h.now.Add(time.Minute)
			for range 20 {
				_, _, _ = s.SignIn("t", from)
			}
		}, true},
	} {
		h := newHouse(t)
		s := access.NewSessions(h.source)
		id, session, err := s.SignIn("t", from)
		if err != nil || session.Caller.Name != "root" {
			t.Fatalf("%+v, %v", session, err)
		}
		of.end(h, s, id)
		_, err = s.Find(id)
		ended := false
		select {
		case <-session.Ended():
			ended = true
		default:
		}
		if (err != nil) != of.ends || ended != of.ends || err != nil && !errors.Is(err, access.ErrIdentity) {
			t.Errorf("after %s: ended %v, %v", of.name, ended, err)
		}
	}
}

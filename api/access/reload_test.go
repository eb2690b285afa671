package access_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/api/access"
)

// A file that is not whole is named and keeps its former content, which Stale says; the other files still count.
func TestWrongFilesKeepTheFormer(t *testing.T) {
	for name, damage := range map[string]func(h *house){
		"server.pem": func(h *house) { h.write(h.files.Cert, "-----BEGIN CERTIFICATE-----\n") },
		"server.key": func(h *house) {
			key, _ := os.ReadFile(h.files.Key)
			h.rotate(began.AddDate(2, 0, 0))
			h.write(h.files.Key, string(key)) // of another certificate
		},
		"ca.pem": func(h *house) {
			key, _ := os.ReadFile(h.files.Key)
			h.write(h.files.ClientCA, string(h.ca.Cert)+string(key))
		},
		"roles.yaml":     func(h *house) { h.write(h.files.Roles, rolesOf("t")+"  - {name: eve, role: admin}\n") },
		"is larger than": func(h *house) { h.write(h.files.ClientCA, strings.Repeat("x", 1<<20+1)) },
		"no such file":   func(h *house) { _ = os.Remove(h.files.Roles) },
	} {
		h := newHouse(t)
		mine, until := chain(t, h.ca, began.AddDate(1, 0, 0), alice), h.source.Expires()
		if damage(h); h.source.Stale() {
			t.Errorf("%s: stale before a look", name)
		}
		h.source.Look()
		if !h.source.Stale() || !strings.Contains(h.log.String(), name) {
			t.Errorf("%s: stale %v, log %s", name, h.source.Stale(), &h.log)
		}
		if c, err := h.identify("", mine); err != nil || c.Name != "alice" {
			t.Errorf("%s: by certificate %+v, %v", name, c, err)
		}
		if c, err := h.identify("Bearer t"); err != nil || c.Name != "root" {
			t.Errorf("%s: by token %+v, %v", name, c, err)
		}
		if got := h.source.Expires(); !got.Equal(until) || h.source.TLS("h2") == nil {
			t.Errorf("%s: the certificate ends at %v, not %v", name, got, until)
		}
		lines := strings.Count(h.log.String(), "\n")
		if h.source.Look(); strings.Count(h.log.String(), "\n") != lines {
			t.Errorf("%s: the same content is logged again", name)
		}
		h.rotate(began.AddDate(1, 0, 0))
		h.write(h.files.ClientCA, string(h.ca.Cert))
		h.write(h.files.Roles, rolesOf("t"))
		if h.source.Look(); h.source.Stale() {
			t.Errorf("%s: stale after it is right again: %s", name, &h.log)
		}
	}
}

// A token is revoked also while the certificate beside the roles is wrong.
func TestRevokedBesideAWrongCertificate(t *testing.T) {
	h := newHouse(t)
	h.write(h.files.Cert, "none")
	h.write(h.files.Roles, rolesOf("other"))
	h.source.Look()
	if c, err := h.identify("Bearer t"); err == nil {
		t.Errorf("the revoked token is %+v", c)
	}
	if _, err := h.identify("Bearer other"); err != nil || !h.source.Stale() {
		t.Errorf("the new token: %v, stale %v", err, h.source.Stale())
	}
}

// A connection's certificate ends with its authority: that of a former one no longer counts.
func TestRotatedAuthority(t *testing.T) {
	h := newHouse(t)
	next := authority(t)
	former, later := chain(t, h.ca, began.AddDate(1, 0, 0), alice), chain(t, next, began.AddDate(1, 0, 0), alice)
	for _, c := range []struct {
		authorities      string
		former, accepted bool
	}{{string(h.ca.Cert), true, false}, {string(h.ca.Cert) + string(next.Cert), true, true}, {string(next.Cert),
		false, true}} {
		h.write(h.files.ClientCA, c.authorities)
		h.source.Look()
		if _, err := h.identify("", former); (err == nil) != c.former {
			t.Errorf("former: %v", err)
		}
		if _, err := h.identify("", later); (err == nil) != c.accepted {
			t.Errorf("later: %v", err)
		}
	}
}

// New connections use the certificate and the authorities of the files as they are then.
func TestServerConfiguration(t *testing.T) {
	h := newHouse(t)
	config := h.source.TLS("h2")
	of := func() *tls.Config {
		t.Helper()
		return must[*tls.Config](t)(config.GetConfigForClient(nil))
	}
	first := of()
	if first.MinVersion != tls.VersionTLS13 || !first.SessionTicketsDisabled || len(first.NextProtos) != 1 ||
		first.NextProtos[0] != "h2" || first.ClientAuth != tls.VerifyClientCertIfGiven || first.ClientCAs == nil {
		t.Errorf("%+v", first)
	}
	if !first.Time().Equal(h.now) {
		t.Error("connections have another clock")
	}
	h.rotate(began.AddDate(2, 0, 0))
	h.source.Look()
	if now := of().Certificates[0].Leaf; now.Equal(first.Certificates[0].Leaf) ||
		!now.NotAfter.Equal(began.AddDate(2, 0, 0)) {
		t.Errorf("the certificate ends at %v", now.NotAfter)
	}
	files := h.files
	files.ClientCA = ""
	plain := must[*access.Source](t)(access.Open(files, access.Options{})).TLS("http/1.1")
	if plain.ClientAuth != tls.NoClientCert || plain.ClientCAs != nil || plain.NextProtos[0] != "http/1.1" {
		t.Errorf("without authorities: %+v", plain)
	}
}

// A certificate is warned of two weeks before its end, at the start and when it is replaced.
func TestExpiryIsWarnedOf(t *testing.T) {
	h := newHouse(t)
	if strings.Contains(h.log.String(), "expires soon") {
		t.Errorf("long before: %s", &h.log)
	}
	h.rotate(h.now.Add(access.ExpiresSoon - time.Hour))
	h.source.Look()
	if !strings.Contains(h.log.String(), "expires soon") || !strings.Contains(h.log.String(), h.files.Cert) {
		t.Errorf("soon: %s", &h.log)
	}
}

// Files that need others are refused without them, and a source opens with correct files alone.
func TestFilesAreChecked(t *testing.T) {
	for _, c := range []struct {
		files access.Files
		says  string
	}{
		{access.Files{}, ""},
		{access.Files{Roles: "r"}, ""},
		{access.Files{Cert: "c", Key: "k", ClientCA: "a", Roles: "r"}, ""},
		{access.Files{Cert: "c"}, "one is missing"},
		{access.Files{Key: "k"}, "one is missing"},
		{access.Files{ClientCA: "a", Roles: "r"}, "needs --tls-cert"},
		{access.Files{Cert: "c", Key: "k", ClientCA: "a"}, "needs --roles"},
	} {
		if err := c.files.Check(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(),
			c.says) {
			t.Errorf("%+v: %v", c.files, err)
		}
	}
	h := newHouse(t)
	for _, path := range []string{h.files.Cert, h.files.Key, h.files.ClientCA, h.files.Roles} {
		text, _ := os.ReadFile(path)
		h.write(path, "")
		if _, err := access.Open(h.files, access.Options{}); err == nil || !strings.Contains(err.Error(),
			filepath.Base(path)) {
			t.Errorf("%s is empty: %v", path, err)
		}
		h.write(path, string(text))
	}
}

// Records of the log have the caller and the id of the request, within groups and beside attributes, too.
func TestLogHandler(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(access.LogHandler(slog.NewTextHandler(&text, nil)))
	ctx := access.WithRequestID(access.NewContext(context.Background(), access.Caller{Name: "alice"}), "r-1")
	log.With("a", 1).WithGroup("g").InfoContext(ctx, "done", "b", 2)
	log.InfoContext(access.NewContext(context.Background(), access.Caller{Role: access.Admin}), "nobody")
	lines := strings.Split(text.String(), "\n")
	for _, want := range []string{"caller=alice", "request_id=r-1", "a=1", "g.b=2"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%s lacks %s", lines[0], want)
		}
	}
	if strings.Contains(lines[1], "caller") || strings.Contains(lines[1], "request_id") {
		t.Error(lines[1])
	}
	if c := access.FromContext(context.Background()); c != (access.Caller{}) ||
		access.RequestID(context.Background()) != "" {
		t.Errorf("outside of a request: %+v", c)
	}
}

package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// startSecured runs "autosched serve" with the files of "autosched admin certs" and returns
// its addresses.
func startSecured(t *testing.T, pki string, more ...string) (address, operations string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var log clitest.LockedBuffer
	cmd := newServeCmd()
	cmd.SetArgs(append([]string{"--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0",
		"--tls-cert", filepath.Join(pki, "server.pem"), "--tls-key", filepath.Join(pki, "server.key"),
		"--client-ca", filepath.Join(pki, "ca.pem"), "--roles", filepath.Join(pki, "roles.yaml")}, more...))
	cmd.SetErr(&log)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return clitest.Eventually(t, log.String, `msg=serving address=(\S+)`), clitest.Eventually(t, log.String, `readyz" address=(\S+)`)
}

// TestCertsServeAndClients: the files of certs are enough for the service, its clients and an emulated scheduler.
func TestCertsServeAndClients(t *testing.T) {
	pki := filepath.Join(t.TempDir(), "pki")
	run := func(cmd *cobra.Command, args ...string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, args...)
		return out.String(), err
	}
	if out, err := run(newCertsCmd(), pki, "--id", "prod"); err != nil || !strings.Contains(out, "roles.yaml") {
		t.Fatal(out, err)
	}
	for _, name := range []string{"ca.key", "server.key", "viewer.token"} {
		if info, err := os.Stat(filepath.Join(pki, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	address, operations := startSecured(t, pki)
	as := func(name string) []string {
		return []string{"--server", address, "--tls-ca", filepath.Join(pki, "ca.pem"), "--tls-cert",
			filepath.Join(pki, name+".pem"), "--tls-key", filepath.Join(pki, name+".key")}
	}
	if _, err := run(clitest.Cmd("scheduler emulate"), append(as("scheduler-prod"), "--trace", "sample", "--to", "2017-10-09T06:00:00Z",
		"--nodes", "14", "--gpus-per-node", "8", "--interval", "12h", "--budget", "2", "--id", "prod", "--speedup",
		"1e6")...); err != nil {
		t.Fatal(err)
	}
	if _, err := run(clitest.Cmd("scheduler"), append(as("scheduler-prod"), "pause", "prod")...); err == nil ||
		!strings.Contains(err.Error(), "scheduler-prod has role scheduler, which may not call PauseTuning; operator or admin may") {
		t.Error(err)
	}
	if out, err := run(clitest.Cmd("scheduler"), append(as("operator"), "pause", "prod")...); err != nil {
		t.Error(out, err)
	}
	token := []string{"--server", address, "--tls-ca", filepath.Join(pki, "ca.pem"), "--token-file",
		filepath.Join(pki, "viewer.token")}
	if out, err := run(clitest.Cmd("scheduler config"), append(token, "list", "prod")...); err != nil {
		t.Error(out, err)
	}
	if _, err := run(clitest.Cmd("scheduler config"), "list", "prod", "--server", address); err == nil ||
		!strings.Contains(err.Error(), "--tls-ca") {
		t.Errorf("plain to TLS: %v", err)
	}
	// A watch that waits does not wait for certificates that are not accepted.
	other := filepath.Join(t.TempDir(), "other")
	if _, err := run(newCertsCmd(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := run(clitest.Cmd("scheduler config"), "watch", "later", "--wait", "--server", address, "--tls-ca",
		filepath.Join(other, "ca.pem")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of another authority: %v", err)
	}
	// The operations address: encrypted, too.
	var f cli.ConnectFlags
	f.CA = filepath.Join(pki, "ca.pem")
	config, err := f.Endpoint().TLS()
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	secret, err := os.ReadFile(filepath.Join(pki, "viewer.token"))
	if err != nil {
		t.Fatal(err)
	}
	for bearer, want := range map[string]int{"": http.StatusUnauthorized,
		"Bearer " + strings.TrimSpace(string(secret)): http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+operations+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", bearer)
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("metrics with %d bytes of token: %s", len(bearer), resp.Status)
		}
	}
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if conn, err := tls.Dial("tcp", operations, config); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 is served")
	}
}

// TestCertsAgain: a second call keeps existing files, and half a pair is an error.
func TestCertsAgain(t *testing.T) {
	dir := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), newCertsCmd(), "", &out, append(args, dir)...)
		return out.String(), err
	}
	if _, err := run(); err != nil {
		t.Fatal(err)
	}
	ca, server, roles := read("ca.pem"), read("server.pem"), read("roles.yaml")
	for _, name := range []string{"server.pem", "server.key"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run("--id", "late")
	if err != nil || !strings.Contains(out, "uris: [spiffe://autosched/scheduler/late]") {
		t.Error(out, err)
	}
	if read("ca.pem") != ca || read("roles.yaml") != roles || read("server.pem") == server {
		t.Error("the authority or the roles changed, or the server's certificate did not")
	}
	if err := os.Remove(filepath.Join(dir, "admin.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "admin.key") {
		t.Error(err)
	}
}

// TestAccessFlagsRefuse: flags that would leave the service or a token open are an error that names the way out.
func TestAccessFlagsRefuse(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"serve --dir D --listen 0.0.0.0:0", "give --tls-cert and --tls-key"},
		{"serve --dir D --listen 0.0.0.0:0 --allow-plaintext", "give --roles, or --allow-anonymous"},
		{"serve --dir D --listen 127.0.0.1:0 --operations 0.0.0.0:0", "--operations: "},
		{"serve --dir D --tls-cert x", "--tls-cert and --tls-key: one is missing"},
		{"serve --dir D --client-ca x", "--client-ca: needs --tls-cert"},
		{"serve --dir D --client-ca x --tls-cert x --tls-key x", "--client-ca: needs --roles"},
		{"scheduler list --server 10.0.0.1:1 --token-file x", "a token is not sent unencrypted to 10.0.0.1:1"},
		{"scheduler list --tls-cert x --tls-ca system", "--tls-cert and tls-key: one is missing"},
		{"scheduler emulate --trace sample --tls-cert x --tls-key x", "--tls-cert: needs tls-ca"},
		{"admin certs", "want one directory"},
		{"admin certs D --host example.org:443", "--host"},
		{"admin certs D --id A", "--id"},
		{"admin certs D --valid-days 0", "--valid-days"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		code, _, errs := clitest.Run(strings.Fields(strings.ReplaceAll(c.args, "D", dir))...)
		if code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: made the directory", c.args)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"serve --dir D --roles D/none", "D/none"},
		{"scheduler list --token-file D/none", "--token-file"},
		{"scheduler list --tls-ca D/none", "--tls-ca"},
	} {
		dir := t.TempDir()
		code, _, errs := clitest.Run(strings.Fields(strings.ReplaceAll(c.args, "D", dir))...)
		if code != 1 || !strings.Contains(errs, strings.ReplaceAll(c.says, "D", dir)) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
}

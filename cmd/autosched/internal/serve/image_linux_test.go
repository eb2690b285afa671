package serve

import (
	"crypto/tls"
	"debug/elf"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestImage: in a root with only the files that the Dockerfile copies and the manifests mount, with an empty
// environment and the pod's user, the container's command serves, answers the probes, and ends at SIGTERM. The program
// is the test's.
func TestImage(t *testing.T) {
	switch f, err := elf.Open(os.Args[0]); {
	case os.Geteuid() != 0:
		t.Skip("a bare root needs root")
	case err != nil:
		t.Fatal(err)
	default:
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Skip("this test is linked dynamically: CGO_ENABLED=0")
			}
		}
	}
	runImage(t, os.Args[0], "AUTOSCHED_TEST_MAIN=1")
}

func runImage(t *testing.T, program string, env ...string) {
	t.Helper()
	all, image := manifests(t), dockerfile(t)
	pod := all["StatefulSet"].Spec.Template.Spec
	c, user := pod.Containers[0], pod.SecurityContext.RunAsUser
	root := t.TempDir()
	at := func(path string) string { return filepath.Join(root, path) }
	owned := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chown(at(path), 0, user); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(path), mode); err != nil {
			t.Fatal(err)
		}
	}
	directory := func(path string) {
		t.Helper()
		if err := os.MkdirAll(at(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, target, _ := strings.Cut(image["COPY"], " ")
	copyFile(t, program, at(target))
	owned(target, 0o555)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.VolumeMounts {
		switch {
		case m.SubPath != "":
			directory(filepath.Dir(m.MountPath))
			if err := os.WriteFile(at(m.MountPath), []byte(all["ConfigMap"].Data[m.SubPath]), 0o600); err != nil {
				t.Fatal(err)
			}
			owned(m.MountPath, 0o644)
		case m.ReadOnly: // the Secret
			if code, _, errs := clitest.Run("admin", "certs", at(m.MountPath), "--host", "autosched"); code != 0 {
				t.Fatal(errs)
			}
			owned(m.MountPath, 0o755)
			for _, v := range pod.Volumes {
				if v.Name == m.Name {
					for _, name := range []string{"server.pem", "server.key", "ca.pem", "roles.yaml"} {
						owned(filepath.Join(m.MountPath, name), os.FileMode(v.Secret.DefaultMode))
					}
				}
			}
		default:
			directory(m.MountPath)
			owned(m.MountPath, 0o775)
		}
	}

	var log clitest.LockedBuffer
	serve := exec.Command(strings.Trim(image["ENTRYPOINT"], `[]"`),
		append(c.Args, "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0")...)
	serve.Env, serve.Stderr, serve.Dir = env, &log, "/"
	serve.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
		Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(pod.SecurityContext.RunAsGroup)}}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	defer func() { _ = serve.Process.Kill() }()
	serving := func() string {
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s", err, log.String())
		default:
		}
		return log.String()
	}
	operations := clitest.Eventually(t, serving, `/readyz","address":"([^"]+)"`)
	clitest.Eventually(t, serving, `"msg":"serving"`)
	// As a kubelet does, which does not look at certificates.
	kubelet := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer kubelet.CloseIdleConnections()
	for _, p := range []probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p.HTTPGet.Port != "operations" || p.PeriodSeconds == 0 {
			t.Errorf("probe %+v", p)
		}
		got, err := kubelet.Get(strings.ToLower(p.HTTPGet.Scheme) + "://" + operations + p.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if got.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", p.HTTPGet.Path, got.Status, text)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log.String())
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRelease: make release builds the same bytes twice, from different folders, with the version in it and checksums
// beside it, and a container needs no other files.
func TestRelease(t *testing.T) {
	testshared.Full(t)
	archs := map[string]elf.Machine{"amd64": elf.EM_X86_64}
	if os.Getenv("AUTOSCHED_LONG") == "1" { // another architecture compiles everything again
		archs["arm64"] = elf.EM_AARCH64
	}
	source, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(elsewhere, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, dir := range []string{source, elsewhere} {
		out := t.TempDir()
		build := exec.Command("make", "--no-print-directory", "release", "RELEASE_DIR="+out, "VERSION=v1.2.3",
			"RELEASE_ARCHS="+strings.Join(slices.Sorted(maps.Keys(archs)), " "))
		build.Dir = dir
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = out
		text, err := check.CombinedOutput()
		if err != nil || strings.Count(string(text), ": OK\n") != len(archs) {
			t.Errorf("%v\n%s", err, text)
		}
		sum, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(sum))
		for name, machine := range archs {
			f, err := elf.Open(filepath.Join(out, "autosched-linux-"+name))
			if err != nil {
				t.Fatal(err)
			}
			if f.Machine != machine {
				t.Errorf("%s is for %v", name, f.Machine)
			}
			_ = f.Close()
		}
		program := filepath.Join(out, "autosched-linux-amd64")
		version := exec.Command(program, "--version")
		version.Env = []string{}
		if text, err := version.Output(); err != nil || !strings.HasPrefix(string(text), "autosched v1.2.3\n") {
			t.Errorf("version: %v, %s", err, text)
		}
		if os.Geteuid() == 0 {
			runImage(t, program)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ:\n%s%s", sums[0], sums[1])
	}
}

// TestServeNotifies: systemd is notified when configurations are served, and when the service stops.
func TestServeNotifies(t *testing.T) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@autosched-test-" + filepath.Base(t.TempDir()) +
		t.Name(), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	_, stop := clitest.StartServe(t, t.TempDir())
	got := func() string {
		t.Helper()
		_ = socket.SetReadDeadline(time.Now().Add(2 * time.Minute))
		text := make([]byte, 100)
		n, _, err := socket.ReadFrom(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
	if s := got(); s != "READY=1" {
		t.Errorf("sent %q", s)
	}
	stop()
	if s := got(); s != "STOPPING=1" {
		t.Errorf("sent %q", s)
	}
	t.Setenv("NOTIFY_SOCKET", "/no/such/socket")
	if err := notify("READY=1"); err == nil {
		t.Error("no socket, and no error")
	}
}

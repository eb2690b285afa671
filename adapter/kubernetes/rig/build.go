package rig

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Pins are the go.mod and go.sum of the modules that the programs are built in, so that every machine builds the same.
//
//go:embed pins
var pins embed.FS

// A component is a program and how it is built from the module proxy.
type component struct {
	name, version, pins, main string
	ld                        string // flags of the linker beside those for size
	crds                      string // module and folder of the objects' definitions
	patched                   string // module and version to which patchText is added
}

var components = []component{
	{name: "etcd", version: "3.6.5", pins: "kubernetes", main: "go.etcd.io/etcd/server/v3"},
	{name: "kube-apiserver", version: "1.35.4", pins: "kubernetes", main: "k8s.io/kubernetes/cmd/kube-apiserver",
		ld: "-X k8s.io/component-base/version.gitVersion=v1.35.4 -X k8s.io/component-base/version.gitMajor=1" +
			" -X k8s.io/component-base/version.gitMinor=35"},
	{name: "minimalkueue", version: "0.19.2", pins: "kueue",
		main: "sigs.k8s.io/kueue/test/performance/scheduler/minimalkueue",
		crds: "sigs.k8s.io/kueue config/components/crd/bases"},
	{name: "vc-scheduler", version: "1.15.1", pins: "kubernetes", main: "volcano.sh/volcano/cmd/scheduler",
		crds:    "volcano.sh/volcano config/crd/volcano/bases",
		patched: "volcano.sh/apis v1.14.0"},
}

// Volcano's API of its own version is not released as a module, and the last one that is lacks a constant.
const (
	patchFile = "pkg/apis/scheduling/v1beta1/autosched.go"
	patchText = `package v1beta1

const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
`
)

// Bin returns the folder of the programs: in the user's cache, one for each content of the pins.
func Bin() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	sum := sha256.New()
	for _, c := range components {
		fmt.Fprintf(sum, "%+v %s\n", c, patchText)
		for _, ext := range []string{".mod", ".sum"} {
			text, err := pins.ReadFile("pins/" + c.pins + ext)
			if err != nil {
				return "", fmt.Errorf("rig: %w", err)
			}
			sum.Write(text)
		}
	}
	return filepath.Join(cache, "autosched", "kubernetes", fmt.Sprintf("%x", sum.Sum(nil)[:6])), nil
}

// Missing names the programs of a rig that are not built; empty if none.
func Missing(o Options) string {
	dir, err := Bin()
	if err != nil {
		return err.Error()
	}
	var missing []string
	for _, c := range components {
		if c.name == "minimalkueue" && !o.Kueue || c.name == "vc-scheduler" && !o.Volcano {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, c.name)); err != nil {
			missing = append(missing, c.name+" "+c.version)
		}
	}
	if missing == nil {
		return ""
	}
	return strings.Join(missing, ", ") + " not built: make kubernetes-build builds them"
}

// Build builds the programs that are missing, one at a time, and reports each. It needs Go and the module proxy; all
// take 10 minutes of CPU.
func Build(ctx context.Context, progress io.Writer) error {
	dir, err := Bin()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	defer lock.Close() // releases it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	for i, c := range components {
		if _, err := os.Stat(filepath.Join(dir, c.name)); err == nil {
			continue
		}
		began := time.Now()
		fmt.Fprintf(progress, "kubernetes: %d of %d, %s %s ...\n", i+1, len(components), c.name, c.version)
		used, err := c.build(ctx, dir)
		if err != nil {
			return fmt.Errorf("rig: %s %s cannot be built: %w", c.name, c.version, err)
		}
		fmt.Fprintf(progress, "kubernetes: %s in %.0f s, on the processor %.0f s\n", c.name,
			time.Since(began).Seconds(), used.Seconds())
	}
	return nil
}

func (c component) build(ctx context.Context, dir string) (time.Duration, error) {
	module := filepath.Join(dir, "src", c.pins)
	if err := os.MkdirAll(module, 0o755); err != nil {
		return 0, err
	}
	text := map[string]string{}
	for _, ext := range []string{".mod", ".sum"} {
		pin, err := pins.ReadFile("pins/" + c.pins + ext)
		if err != nil {
			return 0, err
		}
		text[ext] = string(pin)
		if err := os.WriteFile(filepath.Join(module, "go"+ext), pin, 0o644); err != nil {
			return 0, err
		}
	}
	args := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-ldflags", strings.TrimSpace("-s -w " + c.ld)}
	if c.patched != "" {
		name, version, _ := strings.Cut(c.patched, " ")
		from, err := moduleDir(ctx, module, name)
		if err != nil {
			return 0, err
		}
		to := filepath.Join(module, c.name)
		if err := os.RemoveAll(to); err != nil {
			return 0, err
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return 0, err
		}
		// A go.mod of its own puts the copy into the module's place.
		gomod := strings.Replace(text[".mod"], "=> "+name+" "+version, "=> ./"+c.name, 1)
		if err := errors.Join(os.WriteFile(filepath.Join(to, patchFile), []byte(patchText), 0o644),
			os.WriteFile(filepath.Join(module, c.name+".mod"), []byte(gomod), 0o644),
			os.WriteFile(filepath.Join(module, c.name+".sum"), []byte(text[".sum"]), 0o644)); err != nil {
			return 0, err
		}
		args = append(args, "-modfile", c.name+".mod")
	}
	if c.crds != "" {
		name, folder, _ := strings.Cut(c.crds, " ")
		from, err := moduleDir(ctx, module, name)
		if err != nil {
			return 0, err
		}
		to := filepath.Join(dir, "crds", c.name)
		if err := os.RemoveAll(to); err != nil {
			return 0, err
		}
		if err := os.CopyFS(to, os.DirFS(filepath.Join(from, folder))); err != nil {
			return 0, err
		}
	}
	part := filepath.Join(dir, c.name+".part")
	cmd := goCommand(ctx, module, append(args, "-o", part, c.main)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return used, os.Rename(part, filepath.Join(dir, c.name))
}

// moduleDir returns the folder of a module in the module cache.
func moduleDir(ctx context.Context, module, name string) (string, error) {
	if out, err := goCommand(ctx, module, "mod", "download", name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	out, err := goCommand(ctx, module, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", name).Output()
	if err != nil {
		return "", fmt.Errorf("where module %s is: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	return cmd
}

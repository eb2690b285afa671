package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/autosched/autosched/simulator"
)

// release is the version of a release, which `make release` sets.
var release string

// build is the source of this program.
type build struct {
	Version string
	// Commit is empty, and the rest with it, in a build without a repository.
	Commit   string
	Time     string
	Modified bool
	// Simulator is the version of the simulations' meaning: results of different ones
	// cannot be compared.
	Simulator string
	Go        string
	Platform  string
}

// Built returns the version of the program from its build information.
func Built() build {
	b := build{Version: "unknown", Simulator: simulator.Version, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Labels are the labels of the metric autosched_build_info.
func (b build) Labels() map[string]string {
	return map[string]string{"version": b.Version, "commit": b.Commit, "simulator": b.Simulator, "go_version": b.Go}
}

// Text is the version for people.
func (b build) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "autosched %s\n", b.Version)
	if b.Commit != "" {
		modified := ""
		if b.Modified {
			modified = ", with uncommitted changes"
		}
		fmt.Fprintf(&out, "commit    %s (%s%s)\n", b.Commit, b.Time, modified)
	}
	fmt.Fprintf(&out, "simulator %s\ngo        %s %s\n", b.Simulator, strings.TrimPrefix(b.Go, "go"), b.Platform)
	return out.String()
}

//go:build nvml && cgo

package collect

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The collector on a loaded library, in a process of its own: a mistake ends it.
func TestLibrary(t *testing.T) {
	if os.Getenv("AUTOSCHED_NVML_ROUNDS") != "" {
		libraryRounds(t)
		return
	}
	for _, x := range []struct{ build, want string }{
		{"NEW", "utilization_percent, memory_used_mib, memory_total_mib, power_w, energy_j, temperature_c, sm_clock_mhz, " +
			"throttle, xid, processes; 512 MiB, 1234.5 J, 1001 MHz, 3 processes"},
		{"OLD", "utilization_percent, memory_used_mib, memory_total_mib, power_w, temperature_c, sm_clock_mhz, throttle, " +
			"xid; 1024 MiB, 0 J, 1001 MHz, 0 processes"},
	} {
		dir := t.TempDir()
		lib := filepath.Join(dir, "libnvidia-ml.so.1")
		if out, err := exec.Command("gcc", "-shared", "-fPIC", "-D"+x.build, "-o", lib, "testdata/nvml.c").
			CombinedOutput(); err != nil {
			t.Skipf("gcc: %v: %s", err, out)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run", "^TestLibrary$")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "AUTOSCHED_NVML_ROUNDS=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		round := func(change func() error, want string) {
			t.Helper()
			if change != nil {
				if err := change(); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintln(in)
			if !lines.Scan() || lines.Text() != want {
				t.Errorf("%s: %q, want %q", x.build, lines.Text(), want)
			}
		}
		set := func(name string) func() error {
			return func() error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }
		}
		remove := func(name string) func() error {
			return func() error { return os.Remove(filepath.Join(dir, name)) }
		}
		const fine = "n:0 300.001W n:1 300.002W"
		round(nil, fine+" "+x.want)
		round(set("xid"), "n:0 300.001W xid31 n:1 300.002W "+x.want)
		round(set("lost"), "n:0 300.001W n:1 lost "+x.want)
		round(remove("lost"), fine+" "+x.want)
		round(set("hang"), "n:0 300.001W n:1 lost "+x.want)
		round(nil, "n:0 300.001W n:1 lost "+x.want)
		if err := remove("hang")(); err != nil {
			t.Fatal(err)
		}
		for range 100 { // until the call has returned
			if fmt.Fprintln(in); !lines.Scan() || strings.HasPrefix(lines.Text(), fine) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		round(nil, fine+" "+x.want)
		round(set("gone"), "n:0 lost n:1 lost")
		round(nil, "n:0 lost n:1 lost")
		round(remove("gone"), fine+" "+x.want)
		in.Close()
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", x.build, err, rest)
		}
	}
}

// libraryRounds makes a round for each line of its input.
func libraryRounds(t *testing.T) {
	d, err := NewDriver()
	if err != nil {
		t.Fatal(err)
	}
	c := New(d, Options{Node: "n", Deadline: time.Second})
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		all := c.Round(t.Context(), at)
		text := brief(all)
		if s := &all[0]; !s.Lost {
			text += fmt.Sprintf(" %v; %g MiB, %g J, %g MHz, %d processes", s.Known, s.MemoryUsed, s.Energy, s.SMClock,
				s.Processes)
		}
		fmt.Println(strings.TrimSpace(text))
	}
	c.Close(t.Context())
}

package decide

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/report"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// A configuration is read back from every form in which commands print it: as text and as
// JSON, by --set and by --config.
func TestConfigurationsAreReadBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	for _, s := range schedulers.All {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 10 {
			x := make([]float64, s.Space.Dims())
			for i := range x {
				x[i] = rng.Float64()
			}
			c := s.Space.Decode(x)
			text, object := c.String(), c.Canonical()
			check := func(form, given string, f cli.ConfigFlags) {
				t.Helper()
				got, err := f.Config(s)
				if err != nil || !got.Equal(c) || got.String() != text || got.Canonical() != object {
					t.Fatalf("%s: %s:\n%s\nis read as %s, %v", s.Name, form, given, got, err)
				}
			}
			if text != "" {
				check("--set with the text", text, cli.ConfigFlags{Set: []string{text}})
			}
			check("--set with the object", object, cli.ConfigFlags{Set: []string{object}})
			var sets []string
			for _, id := range c.IDs() {
				p, _ := s.Space.Param(id)
				sets = append(sets, id+"="+p.Format(c.Get(id)))
			}
			check("--set for each", text, cli.ConfigFlags{Set: sets})
			if len(s.Presets) > 0 {
				check("--preset and --set", text, cli.ConfigFlags{Preset: s.Presets[len(s.Presets)-1].Name, Set: sets})
			}
			for form, document := range map[string]any{
				"the values":                  c,
				"simulate --json":             &simulateReport{Scheduler: s.Name, Configuration: c},
				"tune --json":                 &tuneReport{Scheduler: s.Name, Incumbent: s.Space.Default(), Best: c},
				"scheduler config get --json": map[string]any{"schema": "autosched.configuration/v1", "parameters": c},
				"the text, as a value":        text,
			} {
				b, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				if len(c.IDs()) == 0 {
					continue
				}
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
				check("--config with "+form, string(b), cli.ConfigFlags{File: file})
			}
			if len(c.IDs()) == 0 {
				continue
			}
			for form, document := range map[string]any{
				"evaluate --json": report.JSON(&replay.Report{Methods: []replay.Method{{Method: "default"},
					{Method: "a:b", Outcome: replay.Outcome{Configuration: text}}}}),
				"compare --json": &replay.Comparison{Rows: []replay.ComparedRow{{Name: "default"},
					{Name: "a:b", Scheduler: s.Name, Configuration: c}}},
			} {
				b, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
				check("--config with "+form, string(b), cli.ConfigFlags{File: file + ":a:b"})
				for name, want := range map[string]string{"": "choose one as FILE:NAME, of default, a:b",
					":c": `has no configuration "c"; there are default, a:b`} {
					if _, err := (&cli.ConfigFlags{File: file + name}).Config(s); err == nil ||
						!strings.Contains(err.Error(), want) {
						t.Errorf("%s: %q: %v, want %s", form, name, err, want)
					}
				}
			}
		}
	}
}

// A configuration of sjf, whose only parameter fifo has, too, is not one of fifo.
func TestConfigurationOfAnotherScheduler(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(`{"schema":"autosched.tuning/v1","scheduler":"sjf","best":{"backfill":true}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	rows := file + ".rows"
	if err := os.WriteFile(rows, []byte(`{"rows":[{"name":"x","scheduler":"sjf","configuration":{"backfill":true}}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"sjf": "", "fifo": "configuration of sjf, and the scheduler is fifo"} {
		s, err := schedulers.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, given := range []string{file, rows + ":x"} {
			_, err = (&cli.ConfigFlags{File: given}).Config(s)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Parts of a configuration complete the base, and mistakes are violations.
func TestPastedConfigurations(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	base := s.Space.Default()
	for _, c := range []struct {
		sets []string
		want string // "" for an error
	}{
		{[]string{"queues=4 queue_thresholds=1000, 2000,3000"}, "queues=4 queue_thresholds=1000,2000,3000"},
		{[]string{`{"queues": 4, "queue_thresholds": [1000, 2000, 3000]}`}, "queues=4 queue_thresholds=1000,2000,3000"},
		{[]string{"queues=4 queues=3"}, ""},
		{[]string{"queues=4 nonsense=3"}, ""},
		{[]string{`{"queues": {"a": 1}}`}, ""},
		{[]string{`{"queues": 4`}, ""},
	} {
		got, err := s.Space.Parse(base, c.sets)
		if c.want == "" {
			if _, ok := err.(space.Violations); !ok {
				t.Errorf("%q: %v, %v, want violations", c.sets, got, err)
			}
			continue
		}
		want, err2 := s.Space.Parse(base, []string{c.want})
		if err != nil || err2 != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v, %v", c.sets, got, err, want, err2)
		}
	}
}

// Configurations that the service prints are read back too.
func TestConfigurationsOfTheServiceAreReadBack(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	call := func(args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append(args, "--server", address)...)
		if code != 0 {
			t.Fatalf("%s: %s", args, errs)
		}
		return out
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range []string{"queues=2 queue_thresholds=7200 starve_limit=2h30m", "queues=1 starve_limit=off"} {
		want, err := s.Space.Parse(s.Space.Default(), []string{set})
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("s", i)
		call("scheduler", "register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8", "--id", id, "--set",
			set)
		if out := call("scheduler", "config", "list", id); !strings.Contains(out, want.String()) {
			t.Errorf("scheduler config list has no %s:\n%s", want, out)
		}
		file := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(file, []byte(call("scheduler", "config", "get", id, "--json")),
			0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := (&cli.ConfigFlags{File: file}).Config(s); err != nil || !got.Equal(want) {
			t.Errorf("scheduler config get --json is read as %s, %v, want %s", got, err, want)
		}
	}
}
